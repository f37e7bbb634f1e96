"""Statements as dashboards have them, by table and dialect, and seeded tables for them."""
