"""What to withhold, or to ask instead."""
