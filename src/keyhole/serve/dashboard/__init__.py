"""The dashboard: what the owner of the data sees in a browser."""
