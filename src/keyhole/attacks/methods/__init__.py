"""The attacks, one algorithm a file."""
