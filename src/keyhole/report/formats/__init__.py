"""A verdict as files for machines and for others."""
