"""What each SQL engine does differently, in DuckDB's words."""
