"""A small made-up table in a database of its own, for running statements as they were written.

Its public columns hold values of the real ones and what is added to them; its private columns are made up from row
numbers. The database is in memory, closed to everything else, and limited in memory and time. Nothing private is in it.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from typing import Any, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.engines.base import AsWritten, Filling, MadeUp
from keyhole.engines.duckdb.connections import copy_rows, lock_down, plain_value, types_of, with_timeout
from keyhole.engines.duckdb.template_truths import template_truths
from keyhole.errors import pass_on_interruption
from keyhole.model.predicate import Has, Leaf, Scalar, format_literal, format_predicate, name_held_table, quote_name
from keyhole.model.schema import Column, Kind, Role, Schema

SAMPLE = 300  # records of the real table whose public columns are taken; all if there are no more
SECONDS = 10.0
SECONDS_TO_COMPARE = 20.0
BATCH = 10  # statements that are run as one
SHORT = 40  # rows that are spelled out
ALIKE = 40  # the same, if their columns have the same types
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
MOST_PUBLIC_ROWS = 50_000  # of another table that are taken
_UNITS = {Kind.INTEGER: 1, Kind.DECIMAL: 100, Kind.DOUBLE: 4}
_OWN = "keyhole_probe"
_PUBLIC = f"memory.{_OWN}.public"
_PLACE = "(hash(rowid) % 12)"  # by this, rows are in one filling and not in the other, or special in one of them
# (rows that are in it, rows whose values may be special) for each filling; the latter of the rows with `_PLACE` beside
_CLASSES = {
    Filling.FIRST: ("TRUE", f"{_OWN} < 6"),
    Filling.SECOND: (f"{_PLACE} < 9", f"{_OWN} >= 6"),
    Filling.FEW: ("FALSE", "TRUE"),  # but for `_three_unlike_rows`
    Filling.NOBODY: ("FALSE", "TRUE"),
    Filling.EVEN_NULL: ("TRUE", "FALSE"),
    Filling.ODD_NULL: ("TRUE", "FALSE"),
}

_DRAWN = {  # for `give_the_same_rows`: a value from a number of the row
    Kind.INTEGER: "({0} % 2001 - 1000)::BIGINT",
    Kind.DECIMAL: "(({0} % 2001 - 1000) / 4)::DECIMAL(18, 2)",
    Kind.DOUBLE: "(({0} % 2001 - 1000) / 4)::DOUBLE",
    Kind.BOOLEAN: "({0} % 2 = 0)",
    Kind.DATE: "(DATE '2001-01-01' + ({0} % 9000)::INTEGER)",
    Kind.TIMESTAMP: "(DATE '2001-01-01' + ({0} % 9000)::INTEGER)::TIMESTAMP",
}
_DRAWN_TEXT = "('made up ' || ({0} % 3))"

Row: TypeAlias = Mapping[str, Scalar | None]
TextTable: TypeAlias = Callable[[Sequence[Sequence[str | None]]], AbstractContextManager[str]]


class DuckDBProbe:
    """The made-up table: placed, filled, asked, filled again."""

    def __init__(self, people: duckdb.DuckDBPyConnection, n: int, schema: Schema) -> None:
        self.schema = schema
        self._public = [c for c in schema.columns if not c.secret]
        con = duckdb.connect(":memory:")
        try:
            con.execute("SET TimeZone = 'UTC'; SET threads = 1; SET memory_limit = '512MB'; SET temp_directory = ''")
            # plans are made for a few hundred rows: what improves them costs more than it saves, and changes no answer
            every = con.execute("SELECT string_agg(name, ',') FROM duckdb_optimizers()").fetchall()[0][0]
            con.execute(f"SET disabled_optimizers = '{every}'")
            listed = ", ".join(quote_name(c.name) for c in self._public) or "1 AS one"
            some = f" WHERE rowid % {-(-n // SAMPLE)} = 0" if n > SAMPLE else ""
            copy_rows(people, f"SELECT {listed} FROM people{some}", con, "sample")
            con.execute(f"CREATE SCHEMA {_OWN}")
            con.execute(f"CREATE TABLE {_OWN}.taken AS SELECT * FROM temp.sample")
            con.execute("DROP TABLE temp.sample")
            self._others = OtherTables(people, con, schema)
            self._types = types_of(con, f"{_OWN}.taken")
            self._con = lock_down(con)
        except BaseException:
            con.close()
            raise
        self._at = ""
        self._places: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self._sample: list[dict[str, Scalar | None]] | None = None
        self._columns: dict[str, tuple[NDArray[Any], NDArray[np.bool_]] | None] = {}
        self._parsed: dict[str, duckdb.Statement] = {}

    def close(self) -> None:
        """Let go of the database."""
        self._con.close()

    def sample(self) -> list[dict[str, Scalar | None]]:
        """Public columns of some records."""
        if self._sample is None:
            names = [c.name for c in self._public]
            rows = self._con.execute(f"SELECT * FROM {_OWN}.taken").fetchall()
            self._sample = [dict(zip(names, map(plain_value, row), strict=False)) for row in rows]
        return self._sample

    def place(self, extra: Sequence[Mapping[str, Scalar | None]]) -> int:
        """Public rows from now on: the sample, and these. What a column cannot hold is NULL, or its row is left out."""
        self._parsed.clear()
        text = f"CREATE OR REPLACE TABLE {_PUBLIC} AS SELECT * FROM memory.{_OWN}.taken"
        if not extra or not self._public:
            self._con.execute(text)
        else:
            names = [c.name for c in self._public]
            columns = [_texts([row.get(name) for row in extra]) for name in names]
            made = [f"TRY_CAST(c{i} AS {self._types[name]})" for i, name in enumerate(names)]
            kept = [f"{m} IS NOT NULL" for m, c in zip(made, self._public, strict=True) if not c.nullable] or ["TRUE"]
            with self._table(columns) as placed:
                where = " AND ".join(kept)
                self._con.execute(f"{text} UNION ALL SELECT {', '.join(made)} FROM {placed} WHERE {where}")
        self._others.look_up(_PUBLIC)
        return self._fetch_public_columns()

    @contextmanager
    def _table(self, columns: Sequence[Sequence[str | None]]) -> Iterator[str]:
        """Columns of text as a table c0, c1, ... in SQL: spelled out if it is short, which is quicker then."""
        if len(columns[0]) <= SHORT:
            rows = ", ".join(f"({', '.join(map(format_literal, row))})" for row in zip(*columns, strict=True))
            yield f"(VALUES {rows}) AS q({', '.join(f'c{i}' for i in range(len(columns)))})"
            return
        self._con.register("keyhole_extra", {f"c{i}": np.array(c, dtype=object) for i, c in enumerate(columns)})
        try:
            yield "keyhole_extra"
        finally:
            self._con.unregister("keyhole_extra")

    def _fetch_public_columns(self) -> int:
        """Fetch what is looked at again and again: where rows are in the fillings, and columns that are arrays."""
        plain = [c for c in self._public if c.kind in (Kind.INTEGER, Kind.DATE, Kind.TEXT)]
        listed = [f"{_PLACE}::TINYINT AS place", *(f"{quote_name(c.name)} AS c{i}" for i, c in enumerate(plain))]
        self._columns = {}
        try:
            columns = self._con.execute(f"SELECT {', '.join(listed)} FROM {_PUBLIC}").fetchnumpy()
            self._columns = {c.name: _as_exact_array(columns[f"c{i}"], c.kind) for i, c in enumerate(plain)}
        except (duckdb.Error, ValueError, OverflowError):  # days that Python has not: the engine looks at them then
            columns = self._con.execute(f"SELECT {listed[0]} FROM {_PUBLIC}").fetchnumpy()
        self._places = np.asarray(columns["place"], dtype=np.int8)
        return len(self._places)

    def fill(
        self,
        filling: Filling,
        constants: Mapping[str, Sequence[Scalar]],
        names: Sequence[tuple[str, ...]],
        others: Sequence[tuple[tuple[str, ...], str]] = (),
        rows: Mapping[str, Sequence[Mapping[str, Scalar | None]]] | None = None,
    ) -> NDArray[np.bool_]:
        """Make the private columns up: numbers at random, 0, negative ones, and values about the constants.

        The table stands under each of the names: a view would cost every statement a third more. A name that cannot
        be had is left out; then the statement fails, and is not judged.
        """
        self._others.fill(rows or {}, self._table)
        for written, name in others:
            self._put_under_name(written, f"SELECT * FROM {name_held_table(name)}")
        kept, special = _CLASSES[filling]
        if filling is Filling.FEW:
            kept = f"rowid IN ({', '.join(map(str, self._three_unlike_rows()))})"
        listed = []
        without = filling.without(self.schema)
        for c in self.schema.columns:
            name = quote_name(c.name)
            made = _made_up_value(c, filling, constants.get(c.name, ()), special) if c.secret else name
            listed.append(
                f"{made} AS {name}" if c.name not in without else f"CAST(NULL AS {_made_up_type(c)}) AS {name}"
            )
        drawn = [
            f"hash(rowid, {filling:d}, {format_literal(c.name)}) AS {quote_name(f'{_OWN} {c.name}')}"
            for c in self.schema.columns
            if c.secret
        ]
        chosen = f"SELECT {', '.join(['*', f'{_PLACE} AS {_OWN}', *drawn])} FROM {_PUBLIC} WHERE {kept}"
        made = f"SELECT {', '.join(listed)} FROM ({chosen})"
        stands = [place for table in dict.fromkeys(names) if (place := self._put_under_name(table, made))]
        self._at = stands[0] if stands else self._put_under_name(("memory", _OWN, "made_up"), made)
        if filling is Filling.FEW:
            return np.isin(np.arange(len(self._places)), self._three_unlike_rows())
        return self._places < {Filling.SECOND: 9, Filling.NOBODY: 0}.get(filling, 12)

    def _three_unlike_rows(self) -> list[int]:
        """Three records of the sample, each as unlike those before it as there are: so few groups have two of them."""
        rows = [list(row.values()) for row in self.sample()]
        chosen = [0]
        while len(chosen) < min(3, len(rows)):
            unlike = [min(sum(v != w for v, w in zip(row, rows[i], strict=True)) for i in chosen) for row in rows]
            chosen.append(max(set(range(len(rows))) - set(chosen), key=lambda i: (unlike[i], -i)))
        return chosen

    def _put_under_name(self, table: tuple[str, ...], made: str) -> str:
        """Let the made-up table stand under a name; empty if it cannot."""
        place = ".".join(map(quote_name, table))
        ours = len(table) > 1 and table[-2].casefold() == _OWN
        if not table or (ours and table != ("memory", _OWN, "made_up")):
            return ""
        try:
            if len(table) == 3 and table[0].casefold() not in ("memory", "temp", "system"):
                self._con.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote_name(table[0])}")
            if len(table) > 1 and not ours:
                self._con.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(map(quote_name, table[:-1]))}")
            self._con.execute(f"CREATE OR REPLACE TABLE {place} AS {made}")
        except duckdb.Error:
            return ""
        return place

    def column(self, column: Column) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """A public column as an array; None where that may not be exact."""
        return self._columns.get(column.name)

    def truths(self, leaves: Sequence[Leaf], *, public: bool) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each condition on each row: 1 true, 0 false, -1 NULL."""
        rows = [leaf for leaf in leaves if isinstance(leaf, Has)]
        made = self._others.truths(rows, self._at) if rows else {}
        leaves = [leaf for leaf in leaves if leaf not in made]
        if not leaves:
            return made
        if public:
            texts = [format_predicate(leaf) for leaf in leaves]
            shared = template_truths(self._con, _PUBLIC, texts, len(self._places))
            made = made | {
                leaves[i]: np.where(yes, 1, np.where(no, 0, -1)).astype(np.int8) for i, (yes, no) in shared.items()
            }
            leaves = [leaf for i, leaf in enumerate(leaves) if i not in shared]
            if not leaves:
                return made
        listed = ", ".join(
            f"coalesce(({format_predicate(leaf)})::INT, -1)::TINYINT AS c{i}" for i, leaf in enumerate(leaves)
        )
        columns = self._con.execute(f"SELECT {listed} FROM {_PUBLIC if public else self._as_read()}").fetchnumpy()
        return made | {leaf: np.asarray(columns[f"c{i}"], dtype=np.int8) for i, leaf in enumerate(leaves)}

    def _as_read(self) -> str:
        """The made-up table with texts where values are read as such: so a condition means what it was read as."""
        texts = [quote_name(c.name) for c in self.schema.columns if c.listed is not None and c.listed.type]
        made = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in texts)
        return f"(SELECT * REPLACE ({made}) FROM {self._at})" if made else self._at

    def rows_as_arrow(self, *, public: bool) -> Any:
        """The public rows, or those filled, as an Arrow table with their numbers (`keyhole_row`)."""
        table = _PUBLIC if public else self._at
        return self._con.sql(f"SELECT *, rowid AS keyhole_row FROM {table}").to_arrow_table()

    def values(self, column: Column) -> MadeUp:
        """A private numeric column as units of a part of one, 0 where it is NULL."""
        over = _UNITS[column.kind]
        name = quote_name(column.name)
        text = f"SELECT coalesce({name} * {over}, 0)::BIGINT AS v, {name} IS NOT NULL AS p FROM {self._at}"
        columns = self._con.execute(text).fetchnumpy()
        return MadeUp(np.asarray(columns["v"], dtype=np.int64), np.asarray(columns["p"], dtype=np.bool_), over)

    def evaluate_rows(self, expressions: Sequence[str], *, public: bool) -> list[tuple[Any, ...]]:
        """Expressions over the columns, row by row."""
        return self._con.execute(f"SELECT {', '.join(expressions)} FROM {_PUBLIC if public else self._at}").fetchall()

    def figures(self, keys: Sequence[str], item: str) -> list[tuple[Any, ...]]:
        """One aggregate for each value of the keys, behind them."""
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return self._con.execute(f"SELECT {', '.join([*keys, item])} FROM {self._at}{grouped}").fetchall()

    def run(self, texts: Sequence[AsWritten]) -> list[list[tuple[Any, ...]] | None]:
        """The rows of each statement; None: it fails.

        Several are run as one where that works: those of one head one below the other, others side by side, since
        their types differ. A result with another number of columns is found one by one.
        """
        alike: dict[tuple[str, int], list[int]] = {}
        for i, text in enumerate(texts):
            alike.setdefault((text.head, text.columns if text.head else 0), []).append(i)
        results: list[list[tuple[Any, ...]] | None] = [None] * len(texts)
        left: list[int] = []
        with with_timeout(self._con, SECONDS):
            for (head, _), numbers in alike.items():
                size = ALIKE if head else BATCH
                for some in (numbers[start : start + size] for start in range(0, len(numbers), size)):
                    together = self._run_together([texts[i] for i in some], by_name=not head) if len(some) > 1 else None
                    if together is None:
                        left += some
                    else:
                        for i, rows in zip(some, together, strict=True):
                            results[i] = rows
        for i in left:
            results[i] = self._run_one(texts[i].text)
        return results

    def can_run(self, texts: Sequence[str]) -> list[bool]:
        """Is each statement executed without an error? Several are run as one where that works."""
        runnable: list[bool] = []
        for some in (texts[start : start + BATCH] for start in range(0, len(texts), BATCH)):
            together = len(some) > 1 and self._all_run([f"SELECT COUNT(*) FROM ({text}\n)" for text in some])
            runnable += [True] * len(some) if together else [self._all_run([text]) for text in some]
        return runnable

    def _all_run(self, parts: Sequence[str]) -> bool:
        try:
            with with_timeout(self._con, SECONDS):
                self._con.execute(self._statement(" UNION ALL ", parts)).fetchall()
        except (duckdb.Error, RuntimeError) as error:
            pass_on_interruption(error)
            return False
        return True

    def _run_together(self, batch: Sequence[AsWritten], *, by_name: bool) -> list[list[tuple[Any, ...]]] | None:
        parts, starts = [], [1]
        for at, one in enumerate(batch):
            heads = ", ".join(f"c{at}_{i}" for i in range(one.columns))
            named = f" AS q({heads})" if by_name else ""
            parts.append(f"SELECT {at} AS s, * FROM ({one.text}\n){named}")
            starts.append(starts[-1] + one.columns)
        try:
            done = self._con.execute(self._statement(" UNION ALL BY NAME " if by_name else " UNION ALL ", parts))
            rows = done.fetchall()
        except (duckdb.Error, RuntimeError) as error:
            pass_on_interruption(error)
            return None
        if len(done.description or ()) != (starts[-1] if by_name else starts[1]):
            return None
        results: list[list[tuple[Any, ...]]] = [[] for _ in batch]
        for row in rows:
            results[row[0]].append(row[starts[row[0]] : starts[row[0] + 1]] if by_name else row[1:])
        return results

    def _statement(self, joint: str, parts: Sequence[str]) -> duckdb.Statement:
        """Parsed once for all fillings: that is a third of what a run costs."""
        text = joint.join(parts)
        if text not in self._parsed:
            several = self._con.extract_statements(text)
            if len(several) != 1:
                raise RuntimeError("a text that ends the statement around it")
            self._parsed[text] = several[0]
        return self._parsed[text]

    def _run_one(self, text: str) -> list[tuple[Any, ...]] | None:
        try:
            with with_timeout(self._con, SECONDS):
                return self._con.execute(text).fetchall()
        except (duckdb.Error, RuntimeError) as error:
            pass_on_interruption(error)
            return None


class OtherTables:
    """Tables `keyhole NAME` in a made-up database. Nothing private is in them: there is none to be had here."""

    def __init__(self, people: duckdb.DuckDBPyConnection, con: duckdb.DuckDBPyConnection, schema: Schema) -> None:
        self._con, self._schema = con, schema
        for each in schema.related:
            if not each.secret:  # a dimension as it is, of other public rows what is public of them
                name = f"keyhole {each.name}" if each.dimension else f"public {each.name}"
                copy_rows(people, f"SELECT * FROM {name_held_table(each.name)} LIMIT {MOST_PUBLIC_ROWS}", con, name)

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
            made = (
                f"SELECT p.* EXCLUDE ({but}), {more} FROM {table} p LEFT JOIN {name_held_table(each.name)} r ON {same}"
            )
            listed = ", ".join(quote_name(c.name) for c in self._schema.columns if not c.secret)
            self._con.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT {listed} FROM ({made})")

    def truths(self, wanted: Sequence[Has], table: str) -> dict[Leaf, NDArray[np.int8]]:
        """Which records of a table have such rows: each condition on each row by the engine, then by the keys.

        No EXISTS is run for it, so it is a second opinion on the statements that have one.
        """
        truths: dict[Leaf, NDArray[np.int8]] = {}
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Has]] = {}
        for leaf in wanted:
            groups.setdefault((leaf.table, leaf.on), []).append(leaf)
        for (name, on), leaves in groups.items():
            mine = ", ".join(quote_name(a) for a, _ in on)
            theirs = [quote_name(b) for _, b in on]
            conditions = [f"coalesce(({format_predicate(leaf.where)})::INT, -1)::TINYINT" for leaf in leaves]
            keys = self._con.execute(f"SELECT {mine} FROM {table}").fetchall()
            rows = self._con.execute(
                f"SELECT {', '.join([*theirs, *conditions])} FROM {name_held_table(name)}"
            ).fetchall()
            owners: list[set[tuple[object, ...]]] = [set() for _ in leaves]
            for row in rows:
                key = row[: len(on)]
                if None not in key:
                    for i, truth in enumerate(row[len(on) :]):
                        if truth == 1:
                            owners[i].add(key)
            for leaf, have in zip(leaves, owners, strict=True):
                truths[leaf] = np.array([key in have for key in keys], dtype=np.int8)
        return truths

    def fill(self, rows: Mapping[str, Sequence[Row]], as_table: TextTable) -> None:
        """Rows of people: these, and no others."""
        for each in self._schema.related:
            if each.dimension:
                continue
            types = [f"{quote_name(c.name)} {_TYPES[c.kind]}" for c in each.columns]
            self._con.execute(f"CREATE OR REPLACE TEMP TABLE {name_held_table(each.name)} ({', '.join(types)})")
            if not each.secret:
                public = ", ".join(quote_name(c.name) for c in each.columns if not c.secret)
                known = quote_name(f"public {each.name}")
                self._con.execute(f"INSERT INTO {name_held_table(each.name)} ({public}) SELECT {public} FROM {known}")
            mine = rows.get(each.name, ())
            if not mine:
                continue
            columns = [_texts([row.get(c.name) for row in mine]) for c in each.columns]
            cast = [f"TRY_CAST(c{i} AS {_TYPES[c.kind]})" for i, c in enumerate(each.columns)]
            with as_table(columns) as table:
                self._con.execute(f"INSERT INTO {name_held_table(each.name)} SELECT {', '.join(cast)} FROM {table}")


def _as_exact_array(found: Any, kind: Kind) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """(values, where there is one), if the values came over as they are."""
    present = ~np.ma.getmaskarray(found)
    values = np.ma.getdata(found)
    if kind is Kind.INTEGER and values.dtype.kind in "iu" and values.dtype != np.uint64:
        return values.astype(np.int64), present
    if kind is Kind.DATE and values.dtype.kind == "M":
        return values, present
    if kind is Kind.TEXT and values.dtype == object and all(isinstance(v, str) for v in values[present]):
        return values, present
    return None


def _made_up_type(column: Column) -> str:
    """The type of a made-up column: that of the data, where values are read as text that are none."""
    return (column.listed.type if column.listed is not None else "") or _TYPES[column.kind]


def _made_up_value(column: Column, seed: Filling, constants: Sequence[Scalar], special: str) -> str:
    """A value for each row, from its number: SQL. Where it is not `special`, a number is neither 0 nor NULL."""
    number = quote_name(f"{_OWN} {column.name}")
    kind, type_ = column.kind, _made_up_type(column)
    chosen: list[Scalar] = []
    if column.listed is not None and column.listed.type:
        values = column.listed.values
        cases = " ".join(f"WHEN {i} THEN {format_literal(v)}" for i, v in enumerate(values))
        random = f"(CASE {number} // 3 % {len(values)} {cases} END)"
    elif kind.numeric:
        random = f"(({number} % 10007 + 1)::BIGINT * (1 - 2 * ({number} // 10007 % 2)::BIGINT))"
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
    chosen = list(dict.fromkeys(chosen))  # a log of one template asks for the same again and again
    made = f"TRY_CAST({random} AS {type_})"
    if chosen:
        cases = " ".join(f"WHEN {i} THEN {format_literal(_text(v))}" for i, v in enumerate(chosen))
        pick = f"CASE {number} // 7 % {len(chosen)} {cases} END"
        often = f"{special} AND {number} // 5 % 6 <> 0" if kind.numeric else f"{number} // 5 % 2 = 0"
        made = f"CASE WHEN {often} THEN coalesce(TRY_CAST({pick} AS {type_}), {made}) ELSE {made} END"
    if kind is Kind.DOUBLE:  # sums of quarters are exact, in whatever order
        made = f"round(({made}) * 4) / 4"
    if not column.nullable:
        return f"CAST({made} AS {type_})"
    # where there are few rows, most are NULL
    null = f"{number} // 11 % 3 <> 0" if seed is Filling.FEW else f"{special} AND {number} // 11 % 2 = 0"
    return f"CAST(CASE WHEN {null} THEN NULL ELSE {made} END AS {type_})"


def _text(value: Scalar | None) -> str | None:
    """A value as text that an engine casts back."""
    return None if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _texts(values: Sequence[Scalar | None]) -> list[str | None]:
    """The same for many."""
    return [v if v is None or type(v) is str else str(v) if type(v) is int else _text(v) for v in values]


def give_the_same_rows(
    people: duckdb.DuckDBPyConnection, schema: Schema, table: tuple[str, ...], one: str, other: str
) -> bool:
    """Do two statements give the same rows, over all public rows and two sets of made-up private values?

    Private columns are NULL where they are in `people`. Cost: a copy of the table, and each text twice.
    """
    if not 1 <= len(table) <= 2:
        return False
    con = duckdb.connect(":memory:")
    place = ".".join(map(quote_name, table))
    try:
        con.execute("SET TimeZone = 'UTC'")
        copy_rows(people, "SELECT * FROM people", con, "keyhole_public")
        if len(table) == 2:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_name(table[0])}")
        for seed in (1, 2):
            listed = ", ".join(_fill_column(column, seed) for column in schema.columns)
            con.execute(f"CREATE OR REPLACE TABLE {place} AS SELECT {listed} FROM keyhole_public")
            if seed == 1:
                con.execute("SET enable_external_access = false; SET lock_configuration = true")
            with with_timeout(con, SECONDS_TO_COMPARE):
                first, second = (_count_rows(con, text) for text in (one, other))
            if first != second:
                return False
    except (duckdb.Error, RuntimeError) as error:
        pass_on_interruption(error)
        return False
    finally:
        con.close()
    return True


def _fill_column(column: Column, seed: int) -> str:
    """A value for each row, from a number of it; NULL where the row has none."""
    name = quote_name(column.name)
    if not column.secret:
        return name
    number = f"(hash(rowid, {seed}, {format_literal(column.name)}) % 1000003)::BIGINT"
    made = _DRAWN.get(column.kind, _DRAWN_TEXT).format(number)
    return (
        f"CASE WHEN {name} IS NOT NULL THEN {made} END AS {name}"
        if column.role is Role.PRIVATE
        else f"{made} AS {name}"
    )


def _count_rows(con: duckdb.DuckDBPyConnection, text: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(_in_twelve_digits, row)) for row in con.execute(text).fetchall())


def _in_twelve_digits(value: Any) -> Any:
    """Numbers to twelve digits, since the order of a sum of DOUBLE is the engine's."""
    if isinstance(value, float | int | Decimal) and not isinstance(value, bool):
        return f"{value:.12g}"
    return str(value) if isinstance(value, dict | list) else value
