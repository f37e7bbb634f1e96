"""Ways to answer a list of questions with a mechanism: each alone, all at once, or from a prepaid run."""
