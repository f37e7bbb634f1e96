"""Comments that are none, or end elsewhere, in some engines: what stands there may have been asked."""

from __future__ import annotations

import re

from keyhole.sql.engines import SPELLED, Dialect, named

_CARRIAGE_RETURN = re.compile(r"(?:--|#)[^\n]*\r(?!\n)")
_EXECUTED = re.compile(r"/\*M?!")


def comment_in_doubt(sql: str, dialect: str) -> str:
    r"""Why it is not known what is a comment; empty if it is. DuckDB and PostgreSQL end one at a carriage return.

    >>> comment_in_doubt("SELECT 1 -- all\r WHERE 2 > 1", "postgres")
    ''
    >>> comment_in_doubt("SELECT 1 -- all\r WHERE 2 > 1", "sqlite")[:45]
    'written for SQLite: a carriage return ends a '
    >>> comment_in_doubt("SELECT 1 /*! WHERE 2 > 1 */", "mysql")[:43]
    'written for MySQL: what stands in /*! ... *'
    """
    if dialect == Dialect.DUCKDB or ("\r" not in sql and "!" not in sql):
        return ""
    kind, why = named(dialect), ""
    if kind in (Dialect.MYSQL, Dialect.UNKNOWN) and _EXECUTED.search(sql):
        why = "what stands in /*! ... */ is run by MySQL: write it without"
    elif kind not in (Dialect.POSTGRES, Dialect.REDSHIFT) and _CARRIAGE_RETURN.search(sql):
        why = "a carriage return ends a comment in some engines and not in others: write the statement without it"
    return why and f"written for {SPELLED[kind]}: {why}"
