"""Whole numbers under linear rows: read from .lp files, made smaller, searched for all that every solution shares."""
