"""Answers as a decoding problem: unknowns, rows, noise."""
