"""The verbs, one file each: what the commands do and what `import keyhole` offers, apart from any output."""
