"""Rows from statistics alone: nothing is known but what was published, and what values there are."""
