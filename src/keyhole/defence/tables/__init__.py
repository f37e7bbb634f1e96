"""Known-variance tables: noisy counts and sums bought once, and everything that follows from them."""
