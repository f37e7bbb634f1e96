"""DuckDB as roster and source: CSV, Parquet, .duckdb files, and pandas, polars or Arrow frames."""
