"""Where data are: what an engine must do, and DuckDB."""
