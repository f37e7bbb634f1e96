"""The other tables of a made-up database: dimensions as they are, rows of people made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import duckdb

from keyhole.predicate import Scalar, held_as, quote_name
from keyhole.schema import Kind, Schema
from keyhole.tables.duckdb.copy import copied

MOST = 50_000  # rows of a public table that are taken
_TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.DECIMAL: "DECIMAL(18,2)",
    Kind.DOUBLE: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}

Row = Mapping[str, Scalar | None]
Listed = Callable[[Sequence[Sequence[str | None]]], AbstractContextManager[str]]


class OtherTables:
    """Tables `keyhole NAME` in a made-up database. Nothing private is in them: there is none to be had here."""

    def __init__(self, people: duckdb.DuckDBPyConnection, con: duckdb.DuckDBPyConnection, schema: Schema) -> None:
        self._con, self._schema = con, schema
        for each in schema.related:
            if not each.secret:  # a dimension as it is, of other public rows what is public of them
                name = f"keyhole {each.name}" if each.dimension else f"public {each.name}"
                copied(people, f"SELECT * FROM {held_as(each.name)} LIMIT {MOST}", con, name)

    def look_up(self, table: str) -> None:
        """Columns of dimensions, for the keys that the records of a table have now."""
        for each in self._schema.related:
            if not each.dimension:
                continue
            names = [f"{each.name}.{c.name}" for c in each.columns]
            but = ", ".join(map(quote_name, names))
            more = ", ".join(f"r.{quote_name(c.name)} AS {quote_name(n)}" for c, n in zip(each.columns, names, strict=True))
            same = " AND ".join(f"p.{quote_name(other)} = r.{quote_name(own)}" for own, other in each.keys)
            made = f"SELECT p.* EXCLUDE ({but}), {more} FROM {table} p LEFT JOIN {held_as(each.name)} r ON {same}"
            listed = ", ".join(quote_name(c.name) for c in self._schema.columns if not c.secret)
            self._con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT {listed} FROM ({made})")

    def fill(self, rows: Mapping[str, Sequence[Row]], listed: Listed) -> None:
        """Rows of people: these, and no others."""
        for each in self._schema.related:
            if each.dimension:
                continue
            types = [f"{quote_name(c.name)} {_TYPES.get(c.kind, 'VARCHAR')}" for c in each.columns]
            self._con.execute(f"CREATE OR REPLACE TEMP TABLE {held_as(each.name)} ({', '.join(types)})")
            if not each.secret:
                public = ", ".join(quote_name(c.name) for c in each.columns if not c.secret)
                known = quote_name(f"public {each.name}")
                self._con.execute(f"INSERT INTO {held_as(each.name)} ({public}) SELECT {public} FROM {known}")
            mine = rows.get(each.name, ())
            if not mine:
                continue
            columns = [[None if row.get(c.name) is None else _text(row[c.name]) for row in mine] for c in each.columns]
            cast = [f"TRY_CAST(c{i} AS {_TYPES.get(c.kind, 'VARCHAR')})" for i, c in enumerate(each.columns)]
            with listed(columns) as table:
                self._con.execute(f"INSERT INTO {held_as(each.name)} SELECT {', '.join(cast)} FROM {table}")


def _text(value: Scalar | None) -> str:
    return str(value)
