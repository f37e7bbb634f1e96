"""A small made-up table in a database of its own, for running statements as they were written.

Its public columns hold values of the real ones and what is added to them; its private columns are made up from row
numbers. The database is in memory, closed to everything else, and limited in memory and time. Nothing private is in it.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.predicate import Leaf, Scalar, literal, quote_name, to_sql
from keyhole.schema import Column, Kind, Schema
from keyhole.tables.base import MadeUp
from keyhole.tables.duckdb.copy import copied
from keyhole.tables.duckdb.roster import closed

SAMPLE = 300  # records of the real table whose public columns are taken; all if there are no more
SECONDS = 10.0
BATCH = 10  # statements that are run as one
_TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.DECIMAL: "DECIMAL(18,2)",
    Kind.DOUBLE: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.OTHER: "VARCHAR",
}
# plans are made for a few hundred rows: what improves them costs more than it saves, and changes no answer
_PLAIN = (
    "expression_rewriter,filter_pullup,filter_pushdown,join_order,unused_columns,statistics_propagation,"
    "common_subexpressions,common_aggregate,column_lifetime,compressed_materialization,duplicate_groups,"
    "reorder_filter,join_filter_pushdown,build_side_probe_side,late_materialization"
)
_UNITS = {Kind.INTEGER: 1, Kind.DECIMAL: 100, Kind.DOUBLE: 4}
_PROBE = "keyhole_probe.made_up"


class DuckDBProbe:
    """The made-up table: filled, asked, filled again."""

    def __init__(self, people: duckdb.DuckDBPyConnection, n: int, schema: Schema) -> None:
        self.schema = schema
        self._public = [c for c in schema.columns if not c.secret]
        con = duckdb.connect(":memory:")
        con.execute("SET TimeZone = 'UTC'; SET threads = 1; SET memory_limit = '512MB'; SET temp_directory = ''")
        con.execute(f"SET disabled_optimizers = '{_PLAIN}'")
        listed = ", ".join(quote_name(c.name) for c in self._public) or "1 AS one"
        some = f" WHERE rowid % {-(-n // SAMPLE)} = 0" if n > SAMPLE else ""
        copied(people, f"SELECT {listed} FROM people{some}", con, "sample")
        con.execute("CREATE SCHEMA keyhole_probe")
        con.execute("CREATE TABLE keyhole_probe.taken AS SELECT * FROM temp.sample")
        con.execute("DROP TABLE temp.sample")
        described = con.execute("SELECT column_name, column_type FROM (DESCRIBE keyhole_probe.taken)").fetchall()
        self._types = {str(name): str(kind) for name, kind in described}
        self._con = closed(con)
        self._known: set[tuple[str, ...]] = set()
        self._sample: list[dict[str, Scalar | None]] | None = None

    def sample(self) -> list[dict[str, Scalar | None]]:
        """Public columns of some records."""
        if self._sample is None:
            names = [c.name for c in self._public]
            rows = self._con.execute("SELECT * FROM keyhole_probe.taken").fetchall()
            self._sample = [dict(zip(names, map(_plain, row), strict=False)) for row in rows]
        return self._sample

    def place(self, extra: Sequence[Mapping[str, Scalar | None]]) -> None:
        """Public rows from now on: the sample, and these. What a column cannot hold is NULL, or its row is left out."""
        self._con.execute("CREATE OR REPLACE TABLE keyhole_probe.public AS SELECT * FROM keyhole_probe.taken")
        columns = ", ".join(
            f"{quote_name(c.name)} {_TYPES[c.kind] if c.secret else self._types[c.name]}" for c in self.schema.columns
        )
        self._con.execute(f"CREATE OR REPLACE TABLE {_PROBE} ({columns})")
        if not extra or not self._public:
            return
        names = [c.name for c in self._public]
        words = {f"c{i}": np.array([_text(row.get(n)) for row in extra], dtype=object) for i, n in enumerate(names)}
        made = ", ".join(f"TRY_CAST(c{i} AS {self._types[name]})" for i, name in enumerate(names))
        whole = [f"TRY_CAST(c{i} AS {self._types[c.name]}) IS NOT NULL" for i, c in enumerate(self._public)]
        kept = " AND ".join(test for test, c in zip(whole, self._public, strict=True) if not c.nullable) or "TRUE"
        self._con.register("keyhole_extra", words)
        self._con.execute(f"INSERT INTO keyhole_probe.public SELECT {made} FROM keyhole_extra WHERE {kept}")
        self._con.unregister("keyhole_extra")

    def fill(self, seed: int, constants: Mapping[str, Sequence[Scalar]], share: float) -> None:
        """Make the private columns up: numbers at random, 0, negative ones, and values about the constants.

        About that share of the rows is kept: with few of them, many conditions hold for nobody.
        """
        listed = []
        for c in self.schema.columns:
            name = quote_name(c.name)
            listed.append(f"{_made_up(c, seed, constants.get(c.name, ()))} AS {name}" if c.secret else name)
        some = f" WHERE hash(rowid, {seed}) % 10000 < {round(share * 10000)}" if share < 1 else ""
        self._con.execute(f"DELETE FROM {_PROBE}")
        self._con.execute(f"INSERT INTO {_PROBE} SELECT {', '.join(listed)} FROM keyhole_probe.public{some}")

    def truths(self, leaves: Sequence[Leaf]) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each condition on each row: 1 true, 0 false, -1 NULL."""
        if not leaves:
            return {}
        listed = ", ".join(f"coalesce(({to_sql(leaf)})::INT, -1)::TINYINT AS c{i}" for i, leaf in enumerate(leaves))
        found = self._con.execute(f"SELECT {listed} FROM {_PROBE}").fetchnumpy()
        return {leaf: np.asarray(found[f"c{i}"], dtype=np.int8) for i, leaf in enumerate(leaves)}

    def values(self, column: Column) -> MadeUp:
        """A private numeric column as units of a part of one, 0 where it is NULL."""
        over = _UNITS[column.kind]
        name = quote_name(column.name)
        text = f"SELECT coalesce({name} * {over}, 0)::BIGINT AS v, {name} IS NOT NULL AS p FROM {_PROBE}"
        found = self._con.execute(text).fetchnumpy()
        return MadeUp(np.asarray(found["v"], dtype=np.int64), np.asarray(found["p"], dtype=np.bool_), over)

    def listed(self, expressions: Sequence[str]) -> list[tuple[Any, ...]]:
        """Expressions over the columns, row by row."""
        return self._con.execute(f"SELECT {', '.join(expressions)} FROM {_PROBE}").fetchall()

    def figures(self, keys: Sequence[str], item: str) -> list[tuple[Any, ...]]:
        """One aggregate for each value of the keys, behind them."""
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return self._con.execute(f"SELECT {', '.join([*keys, item])} FROM {_PROBE}{grouped}").fetchall()

    def run(self, texts: Sequence[tuple[str, tuple[str, ...], int]]) -> list[list[tuple[Any, ...]] | None]:
        """The rows of each statement (text, name of the table in it, columns it should have); None: it fails.

        Several are run as one where that works; a result with another number of columns is found one by one.
        """
        for _, table, _ in texts:
            self._name(table)
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        with self._limited():
            found = [self._together(batch) if len(batch) > 1 else None for batch in batches]
        return [
            rows
            for batch, together in zip(batches, found, strict=True)
            for rows in (together if together is not None else [self._alone(text) for text, _, _ in batch])
        ]

    def _together(self, batch: Sequence[tuple[str, tuple[str, ...], int]]) -> list[list[tuple[Any, ...]] | None] | None:
        parts, starts = [], [1]
        for at, (text, _, columns) in enumerate(batch):
            heads = ", ".join(f"c{at}_{i}" for i in range(columns))
            parts.append(f"SELECT {at} AS s, q.* FROM ({text}\n) AS q({heads})")
            starts.append(starts[-1] + columns)
        try:
            done = self._con.execute(" UNION ALL BY NAME ".join(parts))
            rows = done.fetchall()
        except (duckdb.Error, RuntimeError):
            return None
        if len(done.description or ()) != starts[-1]:
            return None
        found: list[list[tuple[Any, ...]]] = [[] for _ in batch]
        for row in rows:
            found[row[0]].append(row[starts[row[0]] : starts[row[0] + 1]])
        return list(found)

    def _alone(self, text: str) -> list[tuple[Any, ...]] | None:
        try:
            with self._limited():
                return self._con.execute(text).fetchall()
        except (duckdb.Error, RuntimeError):
            return None

    def _name(self, table: tuple[str, ...]) -> None:
        """Let the made-up table be known under the name that a statement uses."""
        if not table or table in self._known:
            return
        with suppress(duckdb.Error):  # then the statement fails, and is not judged
            if len(table) == 3:
                self._con.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote_name(table[0])}")
            if len(table) > 1:
                self._con.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(map(quote_name, table[:-1]))}")
            self._con.execute(f"CREATE VIEW {'.'.join(map(quote_name, table))} AS SELECT * FROM memory.{_PROBE}")
        self._known.add(table)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Interrupts what runs longer than SECONDS."""
        timer = threading.Timer(SECONDS, self._con.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _made_up(column: Column, seed: int, constants: Sequence[Scalar]) -> str:
    """A value for each row, from its number: SQL."""
    number = f"hash(rowid, {seed}, {literal(column.name)})"
    kind, type_ = column.kind, _TYPES[column.kind]
    chosen: list[Scalar] = []
    if kind.numeric:
        random = f"(({number} % 20011)::BIGINT - 10005)"
        random = {Kind.DECIMAL: f"({random} / 100)", Kind.DOUBLE: f"({random} / 4)"}.get(kind, random)
        step = {Kind.DECIMAL: Decimal("0.01"), Kind.DOUBLE: Decimal("0.25")}.get(kind, Decimal(1))
        cuts = [Decimal(c) for c in constants if isinstance(c, int | Decimal) and not isinstance(c, bool)]
        chosen = [Decimal(0), step, -step, *(v for c in cuts for v in (c - step, c, c + step))]
    elif kind is Kind.DATE or kind is Kind.TIMESTAMP:
        random = f"(DATE '2001-01-01' + ({number} % 9000)::INT)"
        days = [c for c in constants if isinstance(c, dt.date)]
        chosen = [v for c in days for v in (c - dt.timedelta(days=1), c, c + dt.timedelta(days=1))]
    elif kind is Kind.BOOLEAN:
        random = f"({number} % 2 = 0)"
    else:
        random = f"('made up ' || ({number} % 3))"
        chosen = [v for c in constants for v in (str(c), str(c) + "x")]
    made = f"TRY_CAST({random} AS {type_})"
    if chosen:
        words = ", ".join(literal(_text(v)) for v in chosen)
        pick = f"list_extract([{words}], 1 + ({number} // 7 % {len(chosen)})::INT)"
        made = f"CASE WHEN {number} // 5 % 2 = 0 THEN coalesce(TRY_CAST({pick} AS {type_}), {made}) ELSE {made} END"
    if kind is Kind.DOUBLE:  # sums of quarters are exact, in whatever order
        made = f"round(({made}) * 4) / 4"
    if not column.nullable:
        return f"CAST({made} AS {type_})"
    null = "<> 0" if seed > 1 else "= 0"  # where there are few rows, most are NULL
    return f"CAST(CASE WHEN {number} // 11 % 3 {null} THEN NULL ELSE {made} END AS {type_})"


def _text(value: Scalar | None) -> str | None:
    """A value as text that an engine casts back."""
    return None if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _plain(value: Any) -> Scalar | None:
    if isinstance(value, float):
        return Decimal(repr(value))
    if value is None or isinstance(value, bool | int | str | Decimal | dt.date | dt.datetime):
        return value
    return str(value)
