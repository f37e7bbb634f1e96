"""PostgreSQL: rows come by ADBC as Arrow."""
