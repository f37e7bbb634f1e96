"""Charts of what attacks, oracles and defences do, one file per family. Need the `plot` extra."""
