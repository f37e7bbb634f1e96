"""One SELECT to what it asks: conditions, keys, aggregates."""
