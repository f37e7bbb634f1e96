"""PostgreSQL: rows come by ADBC as Arrow, set-up goes through psycopg."""
