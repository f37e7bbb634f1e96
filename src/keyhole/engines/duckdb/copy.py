"""From one database to another, as a stream of columns: nothing but the rows of one query goes over."""

from __future__ import annotations

from typing import Any

import duckdb

from keyhole.model.predicate import quote_name

_CHANGED = ("HUGEINT", "UHUGEINT", "BIGNUM", "VARINT", "BIT", "TIME WITH TIME ZONE", "UUID")


def copied(origin: duckdb.DuckDBPyConnection, query: str, target: duckdb.DuckDBPyConnection, name: str) -> None:
    """Make the rows of `query` in `origin` a table of `target`: same order, same types.

    Arrow has no name for some types (numbers of 128 bits, ...): those go over as text and are cast back.

    >>> one, two = duckdb.connect(":memory:"), duckdb.connect(":memory:")
    >>> copied(one, "SELECT i::HUGEINT AS big, i::VARCHAR AS word FROM range(3) AS t(i)", two, "rows")
    >>> two.execute("SELECT typeof(big), big, word FROM rows").fetchall()
    [('HUGEINT', 0, '0'), ('HUGEINT', 1, '1'), ('HUGEINT', 2, '2')]
    """
    described = origin.execute(f"SELECT column_name, column_type FROM (DESCRIBE {query})").fetchall()
    columns = [(quote_name(str(column)), str(kind)) for column, kind in described]
    there = ", ".join(f"{c}::VARCHAR AS {c}" if kind in _CHANGED else c for c, kind in columns)
    here = ", ".join(f"CAST({c} AS {kind}) AS {c}" for c, kind in columns)
    target.register("keyhole_stream", _Stream(origin.sql(f"SELECT {there} FROM ({query})")))
    target.execute(f"CREATE TEMP TABLE {quote_name(name)} AS SELECT {here} FROM keyhole_stream")
    target.unregister("keyhole_stream")


class _Stream:
    """A result of one database that another can read: Arrow's C stream, without pyarrow."""

    def __init__(self, rows: duckdb.DuckDBPyRelation) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)
