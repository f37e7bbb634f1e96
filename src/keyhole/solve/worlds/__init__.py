"""Possible worlds: how many people of each class lie above each threshold, what they add up to, and what rows say."""
