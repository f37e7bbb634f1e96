"""Comments that are none, or end elsewhere, in some engines: what stands there may have been asked."""

from __future__ import annotations

import re

from keyhole.sql.engines import SPELLED, Dialect, named
from keyhole.sql.split import NESTED, split

_CARRIAGE_RETURN = re.compile(r"(?:--|#)[^\n]*\r(?!\n)")
_EXECUTED = re.compile(r"/\*M?!")


def comment_in_doubt(sql: str, dialect: str) -> str:
    r"""Why it is not known what is a comment; empty if it is. DuckDB and PostgreSQL end one at a carriage return.

    >>> comment_in_doubt("SELECT 1 -- all\r WHERE 2 > 1", "postgres")
    ''
    >>> comment_in_doubt("SELECT 1 -- all\r WHERE 2 > 1", "sqlite")[:45]
    'written for SQLite: a carriage return ends a '
    >>> comment_in_doubt("SELECT 1 /* all /* of */ them */", "snowflake")[:58]
    'written for Snowflake: a comment stands inside a comment, '
    >>> comment_in_doubt("SELECT 1 /*! WHERE 2 > 1 */", "mysql")[:43]
    'written for MySQL: what stands in /*! ... *'
    """
    if dialect == Dialect.DUCKDB or not ("\r" in sql or "!" in sql or "/*" in sql):
        return ""
    kind, why = named(dialect), ""
    if kind in (Dialect.MYSQL, Dialect.UNKNOWN) and _EXECUTED.search(sql):
        why = "what stands in /*! ... */ is run by MySQL: write it without"
    elif kind not in (Dialect.POSTGRES, Dialect.REDSHIFT) and _CARRIAGE_RETURN.search(sql):
        why = "a carriage return ends a comment in some engines and not in others: write the statement without it"
    elif any(part.unclosed == NESTED for part in split(sql, kind)):
        why = "a comment stands inside a comment, and engines differ in where it ends: write it without"
    return why and f"written for {SPELLED[kind]}: {why}"
