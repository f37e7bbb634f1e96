"""Numerics of decoding: from answers to guesses, one algorithm a file."""
