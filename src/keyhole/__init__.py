"""What aggregate statistics give away about people, and how to answer safely."""
