"""A statement of another SQL dialect in the words that Keyhole reads."""

from __future__ import annotations

import sqlglot
from sqlglot.errors import SqlglotError


def translated(sql: str, dialect: str) -> str:
    """The same statement in DuckDB's words, by sqlglot; the text itself where that fails (it is then refused later).

    What is judged is the translation, and it is what the verdict shows.

    >>> translated('SELECT SUM(`pay`) FROM `p.d.staff` WHERE dept = "legal"', "bigquery")
    'SELECT SUM("pay") FROM "p"."d"."staff" WHERE dept = \\'legal\\''
    """
    try:
        made = sqlglot.transpile(sql, read=dialect, write="duckdb")
    except (SqlglotError, RecursionError, ValueError):
        return sql
    return made[0] if len(made) == 1 and made[0] else sql
