"""From a decoding problem to a value for each record, with its error."""
