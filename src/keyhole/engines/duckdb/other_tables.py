"""The other tables of a made-up database: dimensions as they are, rows of people made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.engines.duckdb.copy import copied
from keyhole.model.predicate import Has, Leaf, Scalar, held_as, quote_name, to_sql
from keyhole.model.schema import Kind, Schema

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
            more = ", ".join(
                f"r.{quote_name(c.name)} AS {quote_name(n)}" for c, n in zip(each.columns, names, strict=True)
            )
            same = " AND ".join(f"p.{quote_name(other)} = r.{quote_name(own)}" for own, other in each.keys)
            made = f"SELECT p.* EXCLUDE ({but}), {more} FROM {table} p LEFT JOIN {held_as(each.name)} r ON {same}"
            listed = ", ".join(quote_name(c.name) for c in self._schema.columns if not c.secret)
            self._con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT {listed} FROM ({made})")

    def truths(self, wanted: Sequence[Has], table: str) -> dict[Leaf, NDArray[np.int8]]:
        """Which records of a table have such rows: each condition on each row by the engine, then by the keys.

        No EXISTS is run for it, so it is a second opinion on the statements that have one.
        """
        found: dict[Leaf, NDArray[np.int8]] = {}
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Has]] = {}
        for leaf in wanted:
            groups.setdefault((leaf.table, leaf.on), []).append(leaf)
        for (name, on), leaves in groups.items():
            mine = ", ".join(quote_name(a) for a, _ in on)
            theirs = [quote_name(b) for _, b in on]
            asked = [f"coalesce(({to_sql(leaf.where)})::INT, -1)::TINYINT" for leaf in leaves]
            keys = self._con.execute(f"SELECT {mine} FROM {table}").fetchall()
            rows = self._con.execute(f"SELECT {', '.join([*theirs, *asked])} FROM {held_as(name)}").fetchall()
            owners: list[set[tuple[object, ...]]] = [set() for _ in leaves]
            for row in rows:
                key = row[: len(on)]
                if None not in key:
                    for i, truth in enumerate(row[len(on) :]):
                        if truth == 1:
                            owners[i].add(key)
            for leaf, have in zip(leaves, owners, strict=True):
                found[leaf] = np.array([key in have for key in keys], dtype=np.int8)
        return found

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
