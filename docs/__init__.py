"""The docs, and the program that prints their outputs again."""
