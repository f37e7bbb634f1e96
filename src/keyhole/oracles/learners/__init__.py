"""Learners of a hidden vector from yes and no, one a file."""
