"""The public half of a table in a database of its own, in which there is no secret to be reached.

`people` holds id and public columns, and for each private column only whether it is NULL. The database is in memory,
was filled once, and is closed: it opens no file, attaches nothing, sees no Python object and takes no new setting.
Whatever SQL a condition brings along, the worst it can read is `people`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.engines.base import GroupKey, ProbeTable, Roster, Rows
from keyhole.engines.duckdb.connections import (
    fetch_first,
    fetch_value,
    kind_of_type,
    plain_value,
    types_of,
    with_timeout,
)
from keyhole.engines.duckdb.patterns import group_records
from keyhole.engines.duckdb.template_truths import template_truths
from keyhole.engines.open_files import Lifetime, in_turn
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import (
    TRUE,
    And,
    Has,
    IsNull,
    Opaque,
    Predicate,
    Scalar,
    find_leaves,
    format_predicate,
    make_and,
    quote_name,
)
from keyhole.model.query import COUNTED, OrderTerm, Query, Statement
from keyhole.model.schema import Column, Kind, Role, Schema, WholeTableColumn

if TYPE_CHECKING:
    from keyhole.engines.duckdb.probe import DuckDBProbe


SECONDS_TO_COMPUTE = 20.0
CHANGES = "several people share a place in the order, so it changes from run to run: add the id to its ORDER BY"
FAILS = "the engine cannot compute what it asks of the whole table"


class DuckDBRoster:
    """The public half of a table in an in-memory DuckDB; several threads may use it."""

    def __init__(self, con: duckdb.DuckDBPyConnection, schema: Schema, life: Lifetime) -> None:
        self._con, self.life = con, life
        self._schema = schema
        self._n = int(fetch_value(con, "SELECT count(*) FROM people"))
        self._probe: DuckDBProbe | None = None

    def close(self) -> None:
        """Let go of the table, of both halves."""
        self.life.close()

    @property
    def n(self) -> int:
        """How many records."""
        return self._n

    @property
    def people(self) -> int:
        """How many people: as many as there are ids, or records where no id repeats."""
        if not self.schema.repeated:
            return self.n
        return int(self.classes([quote_name(c.name) for c in self.schema.of_role(Role.ID)]).max()) + 1

    def as_separate_people(self) -> Roster:
        """The same records, each taken as somebody of his own, without rows of other tables."""
        dimensions = tuple(r for r in self.schema.related if r.dimension)
        return DuckDBRoster(self._con, replace(self.schema, repeated=False, related=dimensions), self.life)

    @property
    def schema(self) -> Schema:
        """The columns, with kinds and roles."""
        return self._schema

    @in_turn
    def support(self, query: Query) -> Rows:
        """The records that some term of the query looks at; its conditions must be public."""
        wheres = [t.where for t in (*query.terms, *query.per)]
        for where in wheres:
            if self._private(where):
                raise UnsupportedQuery("the support of a condition on a private column or on rows of people is secret")
        text = " OR ".join(f"({format_predicate(w)})" for w in wheres) or "FALSE"
        rows = np.asarray(self._con.execute(f"SELECT rowid FROM people WHERE {text}").fetchnumpy()["rowid"], np.int64)
        return rows if (np.diff(rows) > 0).all() else np.sort(rows)

    @in_turn
    def atoms(self, predicates: Sequence[Predicate], weights: Sequence[str]) -> Atoms:
        """Records grouped by (which predicates hold, values of the weights), inside the engine."""
        return group_records(self._con, "people", self.schema, predicates, weights).named(predicates, weights)

    @in_turn
    def classes(self, expressions: Sequence[str]) -> Rows:
        """Records by the value of public expressions: a number from 0 for each value, -1 where one is NULL."""
        null = " OR ".join(f"({sql}) IS NULL" for sql in expressions)
        listed = f"ROW({', '.join(expressions)})"
        text = (
            "SELECT CASE WHEN void THEN -1 ELSE dense_rank() OVER (PARTITION BY void ORDER BY value) - 1 END AS c "
            f"FROM (SELECT rowid AS r, {listed} AS value, ({null}) AS void FROM people) ORDER BY r"
        )
        return np.asarray(self._con.execute(text).fetchnumpy()["c"], dtype=np.int64)

    @in_turn
    def fault(self, predicate: Predicate, weight: str | None) -> str | None:
        """The engine's objection, or None."""
        try:
            fetch_first(
                self._con, f"SELECT count(*), max({weight or '0'}) FROM people WHERE {format_predicate(predicate)}"
            )
        except duckdb.Error as error:
            return str(error).splitlines()[0]
        return None

    @in_turn
    def faults(self, parts: Sequence[tuple[Predicate, str | None]]) -> list[str | None]:
        """The engine's objections, or None, to many conditions and weights; those of one template at once."""
        plain = [(i, format_predicate(where)) for i, (where, weight) in enumerate(parts) if weight is None]
        ran = template_truths(self._con, "people", [text for _, text in plain], self.n)
        fine = {plain[at][0] for at in ran}
        return [None if i in fine else self.fault(*part) for i, part in enumerate(parts)]

    @in_turn
    def probe(self) -> ProbeTable:
        """A made-up table with the public values of this one (all, or those of some records); always the same one."""
        if self._probe is None:
            from keyhole.engines.duckdb.probe import DuckDBProbe

            self._probe = self.life.closes(DuckDBProbe(self._con, self.n, self.schema))
        return self._probe

    @in_turn
    def compute(self, columns: Sequence[WholeTableColumn]) -> str:
        """Add public columns that the engine computes over the whole table; why that cannot be, else empty.

        There is no secret in this database. What is there already stays, and so do order and number of the records.
        Cost: one copy of the table.
        """
        con, new = self._con, [column for column in columns if self.schema.find(column.name) is None]
        try:
            with with_timeout(con, SECONDS_TO_COMPUTE):
                if any(column.ties and con.execute(column.ties).fetchall() for column in new):
                    return CHANGES
                for at, column in enumerate(new):
                    con.execute(f"CREATE OR REPLACE TEMP TABLE keyhole_{at} AS {column.sql}")
                added = "".join(f", keyhole_{at}.v AS {quote_name(c.name)}" for at, c in enumerate(new))
                joins = "".join(f" LEFT JOIN keyhole_{at} ON p.rowid = keyhole_{at}.r" for at in range(len(new)))
                con.execute(
                    f"CREATE OR REPLACE TEMP TABLE keyhole_next AS SELECT p.*{added} FROM people p{joins} "
                    "ORDER BY p.rowid"
                )
                con.execute("DROP TABLE people; ALTER TABLE keyhole_next RENAME TO people")
                for at in range(len(new)):
                    con.execute(f"DROP TABLE keyhole_{at}")
        except duckdb.Error:
            return FAILS
        types = types_of(con, "people")
        computed = [Column(column.name, kind_of_type(types[column.name]), computed=True) for column in new]
        self.adopt(replace(self.schema, columns=(*self.schema.columns, *computed)))
        return ""

    def adopt(self, schema: Schema) -> None:
        """Take over the columns that another view of the same table has computed."""
        if schema != self._schema:
            self._schema, self._probe = schema, None

    @in_turn
    def give_the_same_rows(self, table: tuple[str, ...], one: str, other: str) -> bool:
        """Do two statements give the same rows over all public rows with made-up private values?"""
        from keyhole.engines.duckdb.probe import give_the_same_rows

        return give_the_same_rows(self._con, self.schema, table, one, other)

    @in_turn
    def keys(self, statement: Statement) -> list[GroupKey]:
        """The public key values that occur, for each grouping set."""
        public = [p for p in split_conjunction(statement.where) if not self._private(p)]
        return self._keys(self._con, "people", statement, make_and(*public), private=False)

    @in_turn
    def ranked(self, statement: Statement, order: Sequence[OrderTerm]) -> list[tuple[GroupKey, int]]:
        """The groups of a statement under its public conditions with their rank in a public order, the first first."""
        public = [p for p in split_conjunction(statement.where) if not self._private(p)]
        named = {k.sql: quote_name(f"keyhole {i}") for i, k in enumerate(statement.keys)}
        columns = [f"{k.sql} AS {quote_name(k.column)}" for k in statement.keys if k.column is not None]
        listed = [*(f"{sql} AS {name}" for sql, name in named.items()), *columns, f'{COUNTED} AS "keyhole count"']
        where = format_predicate(make_and(*public))
        groups = f"(SELECT {', '.join(listed)} FROM people WHERE {where} GROUP BY {', '.join(named)})"
        places = {**named, COUNTED: '"keyhole count"'}
        ways = {False: "ASC", True: "DESC"}
        ends = {False: "NULLS LAST", True: "NULLS FIRST"}
        terms = [f"{places.get(s.sql, s.sql)} {ways[s.descending]} {ends[s.nulls_first]}" for s in order]
        over = f"ORDER BY {', '.join(terms)}" if terms else ""
        keys = ", ".join(_fetched_keys(self._con, groups, list(named.values())))
        text = f'SELECT {keys}, RANK() OVER ({over}) AS "keyhole rank" FROM {groups} ORDER BY "keyhole rank"'
        rows = self._con.execute(text).fetchall()
        names = [k.name for k in statement.keys]
        return [({k: plain_value(v) for k, v in zip(names, row[:-1], strict=True)}, int(row[-1])) for row in rows]

    @in_turn
    def figure(self, query: Query) -> Decimal | bool | None:
        """The answer of a query that looks at public things only: its rendering, run over `people`."""
        return evaluate_query(self._con, query, "people")

    @in_turn
    def figures(
        self, statement: Statement, queries: Sequence[Query]
    ) -> list[tuple[GroupKey, list[Decimal | bool | None]]]:
        """Public questions for each group of a statement, by one look at the table for each of its grouping sets."""
        public = format_predicate(make_and(*(p for p in split_conjunction(statement.where) if not self._private(p))))
        items = [query.canonical() for query in queries]
        figures: list[tuple[GroupKey, list[Decimal | bool | None]]] = []
        for chosen in statement.sets:
            keys = [statement.keys[i] for i in chosen]
            listed = _fetched_keys(self._con, "people", [k.sql for k in keys]) if keys else []
            places = ", ".join(str(i + 1) for i in range(len(keys)))
            text = f"SELECT {', '.join((*listed, *items))} FROM people WHERE {public}"
            rows = self._con.execute(f"{text} GROUP BY {places}" if keys else text).fetchall()
            names = [k.name for k in keys]
            figures.extend(
                (
                    {k: plain_value(v) for k, v in zip(names, row, strict=False)},
                    [finite_number(v) for v in row[len(keys) :]],
                )
                for row in rows
            )
        return figures

    @in_turn
    def sign_ids(self, key: bytes) -> list[bytes] | None:
        """HMAC-SHA256 of each record's id: two hashes in the engine, nothing for each record here. The key has at most
        64 bytes.
        """
        ids = self.schema.of_role(Role.ID)
        if not ids or any(c.kind not in (Kind.TEXT, Kind.INTEGER) for c in ids):
            return None
        inner, outer = (bytes(b ^ pad for b in key.ljust(64, b"\0")) for pad in (0x36, 0x5C))
        parts = [f"{quote_name(c.name)}::VARCHAR" for c in ids]
        text = " || ".join(f"length({part}) || ':' || {part}" for part in parts)
        signed = f"unhex(sha256(?::BLOB || unhex(sha256(?::BLOB || encode({text})))))"
        rows = self._con.execute(f"SELECT {signed} FROM people ORDER BY rowid", [outer, inner]).fetchall()
        made = [mac for (mac,) in rows]
        return None if None in made else made

    @in_turn
    def labels(self, rows: Rows) -> list[dict[str, Scalar | None]]:
        """The id of each record, or its row number from 1 where no id is declared."""
        names = [c.name for c in self.schema.of_role(Role.ID)]
        if not names:
            return [{"row": int(r) + 1} for r in rows]
        listed = ", ".join(quote_name(name) for name in names)
        return [dict(zip(names, values, strict=True)) for values in self._rows(listed, rows)]

    @in_turn
    def singled_out(self, rows: Rows) -> list[bool]:
        """Do the public columns alone (without id) point to the record?"""
        names = [quote_name(c.name) for c in self.schema.of_role(Role.PUBLIC) if not c.computed]
        if not names:
            return [self.n == 1] * len(rows)
        listed = ", ".join(names)
        _register_rows(self._con, rows)
        same = " AND ".join(f"p.{name} IS NOT DISTINCT FROM q.{name}" for name in names)
        text = (
            f"WITH q AS (SELECT DISTINCT {listed} FROM people WHERE rowid IN (SELECT r FROM wanted)), "
            f"c AS (SELECT count(*) AS c, any_value(p.rowid) AS r FROM people p JOIN q ON {same} "
            f"GROUP BY {', '.join('q.' + name for name in names)}) SELECT r FROM c WHERE c = 1"
        )
        alone = {int(r[0]) for r in self._con.execute(text).fetchall()}
        return [int(r) in alone for r in rows]

    def _rows(self, listed: str, rows: Rows) -> list[tuple[Any, ...]]:
        if len(rows) == self.n and np.array_equal(rows, np.arange(self.n)):  # all: nobody needs to be looked up
            return self._con.execute(f"SELECT {listed} FROM people ORDER BY rowid").fetchall()
        _register_rows(self._con, rows)
        text = f"SELECT {listed} FROM wanted JOIN people ON people.rowid = wanted.r ORDER BY wanted.i"
        return self._con.execute(text).fetchall()

    def _private(self, predicate: Predicate) -> bool:
        if any(isinstance(leaf, Has) for leaf in find_leaves(predicate)):
            return True
        read = list_columns_read(predicate)
        return any(c.secret and c.name in read for c in self.schema.columns)

    def _keys(
        self,
        con: duckdb.DuckDBPyConnection,
        table: str,
        statement: Statement,
        where: Predicate,
        *,
        private: bool,
    ) -> list[GroupKey]:
        groups: list[GroupKey] = []
        for chosen in statement.sets:
            keys = [statement.keys[i] for i in chosen]
            if not private:
                keys = [k for k in keys if not k.hidden(self._secrets_named)]
            if not keys:
                groups.append({})
                continue
            listed = ", ".join(_fetched_keys(con, table, [k.sql for k in keys]))
            text = f"SELECT DISTINCT {listed} FROM {table} WHERE {format_predicate(where)} ORDER BY ALL"
            names = [k.name for k in keys]
            rows = con.execute(text).fetchall()
            groups.extend({k: plain_value(v) for k, v in zip(names, row, strict=True)} for row in rows)
        return groups

    @in_turn
    def spellings(self, column: str) -> frozenset[str]:
        """The values of a public column of text."""
        name = quote_name(column)
        rows = self._con.execute(f"SELECT DISTINCT {name} FROM people WHERE {name} IS NOT NULL").fetchall()
        return frozenset(str(row[0]) for row in rows)

    @in_turn
    def code_column(self, column: str) -> tuple[tuple[Scalar, ...], NDArray[np.int64]]:
        """The values of a public column in their order, and the number of each record's value (NULL: the last)."""
        name = quote_name(column)
        rows = self._con.execute(f"SELECT DISTINCT {name} AS v FROM people WHERE v IS NOT NULL ORDER BY v").fetchall()
        text = f"SELECT dense_rank() OVER (ORDER BY {name} NULLS LAST) - 1 AS code FROM people ORDER BY rowid"
        codes = np.asarray(self._con.execute(text).fetchnumpy()["code"], dtype=np.int64)
        plain = tuple(value for value in (plain_value(row[0]) for row in rows) if value is not None)
        return plain, codes

    @in_turn
    def has_value(self, column: str) -> NDArray[np.bool_]:
        """Who has a value in a private column; everybody, where the file has no such column."""
        text = f"SELECT {quote_name(column)} IS NOT NULL AS v FROM people ORDER BY rowid"
        return np.asarray(self._con.execute(text).fetchnumpy()["v"], dtype=np.bool_)

    @in_turn
    def fingerprint(self) -> str:
        """A digest of the public half, independent of the order of its rows."""
        from keyhole.engines.duckdb.digests import digest_public_half

        return digest_public_half(self._con, self.schema, self.n)

    @property
    def _secrets_named(self) -> frozenset[str]:
        return frozenset(c.name for c in self.schema.columns if c.secret)


def _fetched_keys(con: duckdb.DuckDBPyConnection, table: str, keys: Sequence[str]) -> list[str]:
    """Keys to be fetched; times in nanoseconds as text, since Python's have microseconds, which would merge groups."""
    kinds = con.execute(f"SELECT column_type FROM (DESCRIBE SELECT {', '.join(keys)} FROM {table})").fetchall()
    fine = (kind == ("TIMESTAMP_NS",) for kind in kinds)
    return [f"({key})::VARCHAR" if exact else key for key, exact in zip(keys, fine, strict=True)]


def _register_rows(con: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    con.execute("CREATE OR REPLACE TEMP TABLE wanted (i BIGINT, r BIGINT)")
    for start in range(0, len(rows), 10_000):
        part = ", ".join(f"({start + i}, {int(r)})" for i, r in enumerate(rows[start : start + 10_000]))
        con.execute(f"INSERT INTO wanted VALUES {part}")


def split_conjunction(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, And) else () if predicate == TRUE else (predicate,)


def list_columns_read(predicate: Predicate) -> frozenset[str]:
    """Columns whose values (not merely their being NULL) a predicate looks at."""
    names: set[str] = set()
    for leaf in find_leaves(predicate):
        if isinstance(leaf, Has):
            names |= {mine for mine, _ in leaf.on}
        elif isinstance(leaf, Opaque):
            names |= leaf.columns
        elif not isinstance(leaf, IsNull):
            names.add(leaf.column)
    return frozenset(names)


def evaluate_query(con: duckdb.DuckDBPyConnection, query: Query, table: str) -> Decimal | bool | None:
    """What the engine answers to the rendering of a query; what is not finite is None."""
    return finite_number(fetch_value(con, f"SELECT {query.canonical()} FROM {table}"))


def finite_number(value: Any) -> Decimal | bool | None:
    if value is None or isinstance(value, bool):
        return value
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() else None
