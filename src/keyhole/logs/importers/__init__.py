"""Query histories of other systems as statements: one small file a system.

An importer is a function `read(text, name)` that yields `Found` statements in the order of the export. What it cannot
turn into a statement comes with the reason in `fault`, so that it is listed and not dropped.
"""
