"""Published cross-tabulations: files to cells, cells to the lines that must add up, hidden cells to a log."""
