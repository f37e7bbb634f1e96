"""Statements as others that say the same, or at least as much."""
