"""A log of SQL to its statements: split, opened, and told apart by what they do."""
