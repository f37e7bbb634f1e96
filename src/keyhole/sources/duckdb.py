"""DuckDB as roster and source: CSV, Parquet, .duckdb files, and pandas, polars or Arrow frames.

The table is split when it is loaded. `people` holds id and public columns, and for each private column only whether it
is NULL; `secrets` holds the private columns. A roster reads `people`, so it cannot read a secret; hidden columns are
in neither.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import sqlglot
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.errors import UnsupportedQuery
from keyhole.predicate import (
    TRUE,
    And,
    IsNull,
    Leaf,
    Opaque,
    Predicate,
    Scalar,
    conjunction,
    leaves,
    quote_name,
    to_sql,
)
from keyhole.query import Query, Statement
from keyhole.schema import Role, Schema
from keyhole.sources.base import GroupKey, PrivateValues, Rows
from keyhole.sources.patterns import group


class DuckDBRoster:
    """The public half of a table in an in-memory DuckDB."""

    def __init__(self, con: duckdb.DuckDBPyConnection, schema: Schema) -> None:
        self._con = con
        self._schema = schema
        self._n = int(_scalar(con, "SELECT count(*) FROM people"))

    @property
    def n(self) -> int:
        """How many records."""
        return self._n

    @property
    def schema(self) -> Schema:
        """The columns, with kinds and roles."""
        return self._schema

    def has(self, column: str) -> bool:
        """Was the column in the file? (A roster may do without its private columns.)"""
        found = self._con.execute("SELECT count(*) FROM (DESCRIBE people) WHERE column_name = ?", [column]).fetchone()
        return bool(found and found[0])

    def support(self, query: Query) -> Rows:
        """The records that some term of the query looks at; its conditions must be public."""
        wheres = [t.where for t in (*query.terms, *query.per)]
        for where in wheres:
            private = [c.name for c in self.schema.columns if c.secret and c.name in _read(where)]
            if private:
                raise UnsupportedQuery(f"the support of a condition on the private column {private[0]!r} is secret")
        text = " OR ".join(f"({to_sql(w)})" for w in wheres) or "FALSE"
        found = np.asarray(self._con.execute(f"SELECT rowid FROM people WHERE {text}").fetchnumpy()["rowid"], np.int64)
        return found if (np.diff(found) > 0).all() else np.sort(found)

    def atoms(self, predicates: Sequence[Predicate], weights: Sequence[str]) -> Atoms:
        """Records grouped by (which predicates hold, values of the weights), inside the engine."""
        return group(self._con, "people", self.schema, predicates, weights).named(predicates, weights)

    def fault(self, predicate: Predicate, weight: str | None) -> str | None:
        """The engine's objection, or None."""
        try:
            self._con.execute(f"SELECT count(*), max({weight or '0'}) FROM people WHERE {to_sql(predicate)}").fetchone()
        except duckdb.Error as error:
            return str(error).splitlines()[0]
        return None

    def keys(self, statement: Statement) -> list[GroupKey]:
        """The public key values that occur, for each grouping set."""
        public = [p for p in _conjuncts(statement.where) if not self._private(p)]
        return self._keys("people", statement, conjunction(*public), private=False)

    def labels(self, rows: Rows) -> list[dict[str, Scalar | None]]:
        """The id of each record, or its row number from 1 where no id is declared."""
        names = [c.name for c in self.schema.of_role(Role.ID)]
        if not names:
            return [{"row": int(r) + 1} for r in rows]
        listed = ", ".join(quote_name(name) for name in names)
        return [dict(zip(names, values, strict=True)) for values in self._rows(listed, rows)]

    def singled_out(self, rows: Rows) -> list[bool]:
        """Do the public columns alone (without id) point to the record?"""
        names = [quote_name(c.name) for c in self.schema.of_role(Role.PUBLIC)]
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
        _register_rows(self._con, rows)
        text = f"SELECT {listed} FROM wanted JOIN people ON people.rowid = wanted.r ORDER BY wanted.i"
        return self._con.execute(text).fetchall()

    def _private(self, predicate: Predicate) -> bool:
        read = _read(predicate)
        return any(c.secret and c.name in read for c in self.schema.columns)

    def _keys(self, table: str, statement: Statement, where: Predicate, *, private: bool) -> list[GroupKey]:
        found: list[GroupKey] = []
        for chosen in statement.sets:
            keys = [statement.keys[i] for i in chosen]
            if not private:
                keys = [k for k in keys if k.column is None or not self._secret(k.column)]
            if not keys:
                found.append({})
                continue
            listed = ", ".join(k.sql for k in keys)
            text = f"SELECT DISTINCT {listed} FROM {table} WHERE {to_sql(where)} ORDER BY ALL"
            names = [k.name for k in keys]
            rows = self._con.execute(text).fetchall()
            found.extend({k: _plain(v) for k, v in zip(names, row, strict=True)} for row in rows)
        return found

    def _secret(self, name: str) -> bool:
        column = self.schema.find(name)
        return column is not None and column.secret


class DuckDBSource(DuckDBRoster):
    """The whole table: `people` and `secrets` side by side."""

    def __init__(self, con: duckdb.DuckDBPyConnection, schema: Schema) -> None:
        super().__init__(con, schema)
        names = [c.name for c in schema.of_role(Role.PRIVATE)]
        kept = ", ".join(quote_name(c.name) for c in schema.columns if not c.secret)
        secret = ", ".join(f"secrets.{quote_name(name)}" for name in names)
        listed = ", ".join(part for part in (kept, secret) if part)
        con.execute(f"CREATE OR REPLACE TEMP VIEW everything AS SELECT {listed} FROM people POSITIONAL JOIN secrets")

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The engine itself, with the view `everything`: for what is counted in it as a whole, such as a histogram."""
        return self._con

    @property
    def roster(self) -> DuckDBRoster:
        """The public half alone."""
        return DuckDBRoster(self._con, self.schema)

    def evaluate(self, query: Query) -> Decimal | bool | None:
        """The true answer of one query, straight from the engine."""
        value = _scalar(self._con, f"SELECT {query.canonical()} FROM everything")
        if value is None or isinstance(value, bool):
            return value
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)

    def asked(self, text: str) -> tuple[object, ...]:
        """The first row that DuckDB returns for a statement as it was written, whatever it calls the table."""
        tree = sqlglot.parse_one(text, read="duckdb")
        named = {cte.alias for cte in tree.find_all(sqlglot.exp.CTE)}
        for table in tree.find_all(sqlglot.exp.Table):
            if table.name not in named:
                alias = table.alias or table.name
                table.replace(sqlglot.exp.to_table("everything", alias=sqlglot.exp.to_identifier(alias, quoted=True)))
        return tuple(self._con.execute(tree.sql(dialect="duckdb")).fetchall()[0])

    def shown(self, statement: Statement) -> list[GroupKey]:
        """The groups that the statement really returns (before HAVING)."""
        return self._keys("everything", statement, statement.where, private=True)

    def values(self, column: str) -> PrivateValues:
        """A private numeric column in row order, as exact decimals where it has them."""
        name = quote_name(column)
        raw = self._con.execute(f"SELECT typeof(any_value({name})) FROM secrets").fetchone()
        kind = str(raw[0]) if raw else "DOUBLE"
        present = self._con.execute(f"SELECT ({name} IS NOT NULL) AS p FROM secrets").fetchnumpy()["p"]
        floats = self._con.execute(f"SELECT coalesce({name}, 0)::DOUBLE AS v FROM secrets").fetchnumpy()["v"]
        digits = int(kind.rstrip(")").split(",")[1]) if kind.startswith("DECIMAL") else 0
        units = None
        if kind not in ("DOUBLE", "FLOAT"):
            try:
                text = f"SELECT coalesce({name} * {10**digits}, 0)::BIGINT AS v FROM secrets"
                units = np.asarray(self._con.execute(text).fetchnumpy()["v"], dtype=np.int64)
            except duckdb.Error:  # beyond 64 bits: fall back on floating point with its radius
                units = None
        return PrivateValues(np.asarray(present, dtype=np.bool_), units, digits, np.asarray(floats, dtype=np.float64))

    def truths(self, leaves: Sequence[Leaf]) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each private condition on each record, by the engine: 1 true, 0 false, -1 NULL."""
        found: dict[Leaf, NDArray[np.int8]] = {}
        for leaf in leaves:
            text = f"SELECT coalesce(({to_sql(leaf)})::INT, -1)::TINYINT AS v FROM everything"
            found[leaf] = np.asarray(self._con.execute(text).fetchnumpy()["v"], dtype=np.int8)
        return found


def _register_rows(con: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    con.execute("CREATE OR REPLACE TEMP TABLE wanted (i BIGINT, r BIGINT)")
    for start in range(0, len(rows), 10_000):
        part = ", ".join(f"({start + i}, {int(r)})" for i, r in enumerate(rows[start : start + 10_000]))
        con.execute(f"INSERT INTO wanted VALUES {part}")


def _conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, And) else () if predicate == TRUE else (predicate,)


def _read(predicate: Predicate) -> frozenset[str]:
    """Columns whose values (not merely their being NULL) a predicate looks at."""
    found: set[str] = set()
    for leaf in leaves(predicate):
        if isinstance(leaf, Opaque):
            found |= leaf.columns
        elif not isinstance(leaf, IsNull):
            found.add(leaf.column)
    return frozenset(found)


def _plain(value: Any) -> Scalar | None:
    if isinstance(value, float):
        return Decimal(repr(value))
    if value is None or isinstance(value, bool | int | str | Decimal | dt.date | dt.datetime):
        return value
    return str(value)


def _scalar(con: duckdb.DuckDBPyConnection, text: str) -> Any:
    row = con.execute(text).fetchone()
    assert row is not None
    return row[0]
