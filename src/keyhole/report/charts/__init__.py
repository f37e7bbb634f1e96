"""Charts of what attacks, oracles and defences do, one file per family: drawn as in the pages, or written to a file."""
