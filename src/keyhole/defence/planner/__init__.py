"""The cheapest safe way to an answer: recall, inference, a table, a number of its own, or not at all."""
