"""The mechanisms, one a file: what each releases, and what it costs."""
