"""Attacks on a database that only says "above" or "below" a threshold, under noise."""
