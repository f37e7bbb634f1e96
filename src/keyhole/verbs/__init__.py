"""The verbs of the package, as `import keyhole` offers them: one file each."""
