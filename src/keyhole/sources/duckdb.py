"""DuckDB as roster and source: CSV, Parquet, .duckdb files, and pandas, polars or Arrow frames.

The table is split when it is loaded. `people` holds id and public columns, and for each private column only whether it
is NULL; `secrets` holds the private columns. A roster reads `people`, so it cannot read a secret; hidden columns are
in neither.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.errors import ConfigError, DataError, UnsupportedQuery
from keyhole.evidence import Atoms
from keyhole.knowledge import Columns
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
    literal,
    quote_name,
    to_sql,
)
from keyhole.query import Query, Statement
from keyhole.schema import Column, Kind, Role, Schema
from keyhole.sources.base import GroupKey, PrivateValues, Rows
from keyhole.sources.patterns import group

MAX_DIGITS = 9  # a DOUBLE column whose values have at most this many decimals is held as exact decimals
_READERS = {
    ".csv": "read_csv({}, sample_size=-1)",
    ".tsv": "read_csv({}, sample_size=-1, delim='\\t')",
    ".parquet": "read_parquet({})",
    ".json": "read_json({})",
    ".jsonl": "read_json({})",
}
_KINDS = {
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
    "VARCHAR": Kind.TEXT,
    "UUID": Kind.TEXT,
    "FLOAT": Kind.DOUBLE,
    "DOUBLE": Kind.DOUBLE,
}


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
        found = self._con.execute(f"SELECT rowid FROM people WHERE {text} ORDER BY rowid").fetchnumpy()
        return np.asarray(found["rowid"], dtype=np.int64)

    def atoms(self, predicates: Sequence[Predicate], weights: Sequence[str]) -> Atoms:
        """Records grouped by (which predicates hold, values of the weights), inside the engine."""
        return group(self._con, "people", self.schema, predicates, weights)

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
    def roster(self) -> DuckDBRoster:
        """The public half alone."""
        return DuckDBRoster(self._con, self.schema)

    def evaluate(self, query: Query) -> Decimal | bool | None:
        """The true answer of one query, straight from the engine."""
        value = _scalar(self._con, f"SELECT {query.canonical()} FROM everything")
        if value is None or isinstance(value, bool):
            return value
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)

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
        if kind.startswith("DECIMAL") or _KINDS.get(kind) is not Kind.DOUBLE:
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


def load(data: object, roles: Columns, *, table: str | None = None, view: str | None = None) -> DuckDBSource:
    """Load a table with its secret and check it: one row a person, no NaN, private values inside their declaration.

    `data` is a path or a frame (pandas, polars, Arrow).
    """
    return DuckDBSource(*_load(data, roles, table, view, absent=()))


def load_roster(data: object, roles: Columns, *, table: str | None = None, view: str | None = None) -> DuckDBRoster:
    """Load the public half only: private columns of the file are dropped, unread but for being NULL.

    Private columns that the file has not are taken to be numbers without NULL (text, if their values were declared).
    """
    con = duckdb.connect(":memory:")
    _open(con, data, table, view)
    names = {str(row[0]) for row in con.execute("SELECT column_name FROM (DESCRIBE loaded)").fetchall()}
    con.close()
    absent = tuple(name for name in roles.private if name not in names)
    con, schema = _load(data, roles, table, view, absent)
    con.execute("DROP TABLE secrets")
    return DuckDBRoster(con, schema)


def _load(
    data: object, roles: Columns, table: str | None, view: str | None, absent: tuple[str, ...]
) -> tuple[duckdb.DuckDBPyConnection, Schema]:
    con = duckdb.connect(":memory:")
    con.execute("SET preserve_insertion_order = true")
    stem = _open(con, data, table, view)
    found = _describe(con, roles, absent)
    for name in absent:
        kind = Kind.DOUBLE if roles.private[name].values is None else Kind.TEXT
        found.append(Column(name, kind, Role.PRIVATE, nullable=False))
    schema = Schema(table or stem, tuple(found), strict_table=table is not None)
    if int(_scalar(con, "SELECT count(*) FROM loaded")) == 0:
        raise DataError(f"{_name(data)} has no rows: there is nobody to ask about")
    _check_ids(con, schema)
    _check_values(con, schema, roles, absent)
    _split(con, schema, absent)
    return con, schema


def _open(con: duckdb.DuckDBPyConnection, data: object, table: str | None, view: str | None) -> str:
    """Load the data, or the view over it, as table `loaded`; returns its natural name."""
    if not isinstance(data, str | Path):
        con.register("frame", data)
        stem = table or "people"
        if view is None:
            con.execute("CREATE TEMP TABLE loaded AS SELECT * FROM frame")
        else:
            _load_view(con, view, {stem: "frame"})
        con.unregister("frame")
        return stem
    path = Path(data)
    if not path.exists():
        near = [p.name for p in path.parent.glob("*") if p.suffix.lower() in (*_READERS, ".duckdb")][:5]
        hint = f" In that folder: {', '.join(sorted(near))}." if path.parent.is_dir() and near else ""
        raise DataError(f"there is no file {path}.{hint}")
    suffix = path.suffix.lower()
    try:
        if suffix in (".duckdb", ".db"):
            return _attach(con, path, table, view)
        if suffix not in _READERS:
            raise DataError(f"cannot read {path.name}: write a .csv, .tsv, .parquet, .json or .duckdb file")
        reader = _READERS[suffix].format(literal(str(path)))
        if view is not None:
            _load_view(con, view, {path.stem: reader})
        else:
            con.execute(f"CREATE TEMP TABLE loaded AS SELECT * FROM {reader}")
    except duckdb.Error as error:
        raise DataError(f"cannot read {path.name}: {str(error).splitlines()[0]}") from None
    return path.stem


def _attach(con: duckdb.DuckDBPyConnection, path: Path, table: str | None, view: str | None) -> str:
    con.execute(f"ATTACH {literal(str(path))} AS file (READ_ONLY)")
    found = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'file' UNION ALL "
        "SELECT view_name FROM duckdb_views() WHERE database_name = 'file' AND NOT internal"
    ).fetchall()
    names = [str(row[0]) for row in found]
    if view is not None:
        _load_view(con, view, {name: f"file.{quote_name(name)}" for name in names})
        return table or path.stem
    if table is None and len(names) != 1:
        raise ConfigError(f"{path.name} holds {len(names)} tables ({', '.join(names)}): choose one with --table")
    chosen = table if table is not None else names[0]
    if chosen not in names:
        raise ConfigError(f"{path.name} has no table {chosen!r}; it has {', '.join(names)}")
    con.execute(f"CREATE TEMP TABLE loaded AS SELECT * FROM file.{quote_name(chosen)}")
    return chosen


def _load_view(con: duckdb.DuckDBPyConnection, view: str, tables: Mapping[str, str]) -> None:
    """Run the custodian's own SELECT over the tables of the data; one row a person is checked afterwards."""
    for name, origin in tables.items():
        con.execute(f"CREATE TEMP VIEW {quote_name(name)} AS SELECT * FROM {origin}")
    try:
        con.execute(f"CREATE TEMP TABLE loaded AS SELECT * FROM ({view.strip().rstrip(';')})")
    except duckdb.Error as error:
        listed = ", ".join(tables)
        raise ConfigError(f"--view does not run: {str(error).splitlines()[0]}. It may read from: {listed}.") from None
    for name in tables:
        con.execute(f"DROP VIEW {quote_name(name)}")


def _describe(con: duckdb.DuckDBPyConnection, roles: Columns, absent: tuple[str, ...]) -> list[Column]:
    rows = con.execute("SELECT column_name, column_type FROM (DESCRIBE loaded)").fetchall()
    names = {str(name) for name, _ in rows}
    blank = Schema("", tuple(Column(str(name), Kind.OTHER) for name, _ in rows))
    asked = [("id", n) for n in roles.id] + [("hidden", n) for n in roles.hidden]
    asked += [("private", n) for n in roles.private if n not in absent]
    for role, name in asked:
        if name not in names:
            near = blank.nearest(name)
            hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(sorted(names))}"
            raise ConfigError(f"the table has no column {name!r} to be {role}{hint}")
    found = []
    for raw_name, raw_type in rows:
        name, kind = str(raw_name), _kind(str(raw_type))
        role = (
            Role.ID
            if name in roles.id
            else Role.HIDDEN
            if name in roles.hidden
            else Role.PRIVATE
            if name in roles.private
            else Role.PUBLIC
        )
        has_null = bool(_scalar(con, f"SELECT count(*) - count({quote_name(name)}) > 0 FROM loaded"))
        found.append(Column(name, kind, role, has_null))
    return found


def _kind(text: str) -> Kind:
    if text.startswith("DECIMAL"):
        return Kind.DECIMAL
    if text.endswith("INT") or text in ("INTEGER", "UINTEGER"):
        return Kind.INTEGER
    if text.startswith("TIMESTAMP"):
        return Kind.TIMESTAMP
    return Kind.TEXT if text.startswith("ENUM") else _KINDS.get(text, Kind.OTHER)


def _check_ids(con: duckdb.DuckDBPyConnection, schema: Schema) -> None:
    names = [c.name for c in schema.of_role(Role.ID)]
    if not names:
        return
    listed = ", ".join(quote_name(name) for name in names)
    for name in names:
        at = con.execute(f"SELECT rowid FROM loaded WHERE {quote_name(name)} IS NULL LIMIT 1").fetchone()
        if at:
            raise DataError(f"row {int(at[0]) + 1} has no {name!r}: every person needs an id")
    twice = con.execute(f"SELECT {listed}, count(*) AS c FROM loaded GROUP BY ALL HAVING c > 1 LIMIT 1").fetchone()
    if twice:
        who = ", ".join(f"{n} = {v}" for n, v in zip(names, twice, strict=False))
        raise DataError(
            f"{who} stands in {twice[-1]} rows, but one row is one person: aggregate first, for example "
            f"--view 'SELECT {listed}, SUM(...) FROM {schema.table} GROUP BY {listed}'"
        )


def _check_values(con: duckdb.DuckDBPyConnection, schema: Schema, roles: Columns, absent: tuple[str, ...]) -> None:
    """Refuse NaN and infinite numbers, and private values outside their declared domain."""
    for column in schema.columns:
        name = quote_name(column.name)
        if column.name in absent:
            continue
        if column.kind is Kind.DOUBLE and column.role is not Role.HIDDEN:
            at = con.execute(f"SELECT rowid FROM loaded WHERE NOT isfinite({name}) LIMIT 1").fetchone()
            if at:
                raise DataError(
                    f"column {column.name!r} holds NaN or infinity (first in row {int(at[0]) + 1}): write NULL instead"
                )
        declared = roles.private.get(column.name)
        if column.role is not Role.PRIVATE or declared is None:
            continue
        wrong = []
        if declared.min is not None:
            wrong.append(f"{name} < {literal(declared.min)}")
        if declared.max is not None:
            wrong.append(f"{name} > {literal(declared.max)}")
        if declared.values is not None:
            wrong.append(f"{name}::VARCHAR NOT IN ({', '.join(literal(v) for v in declared.values)})")
        if (declared.min is not None or declared.max is not None) and not column.kind.numeric:
            raise ConfigError(f"{column.name!r} holds {column.kind}, so it takes values = [...], not a range")
        if wrong:
            at = con.execute(f"SELECT rowid, {name} FROM loaded WHERE {' OR '.join(wrong)} LIMIT 1").fetchone()
            if at:
                raise DataError(
                    f"column {column.name!r}, row {int(at[0]) + 1}: {at[1]} lies outside what was declared "
                    f"for it; widen the declaration or mend the data"
                )


def _split(con: duckdb.DuckDBPyConnection, schema: Schema, absent: tuple[str, ...]) -> None:
    """Make `people` (no secret) and `secrets`, and forget the rest."""
    public, secret = [], []
    for column in schema.columns:
        name = quote_name(column.name)
        if column.role is Role.HIDDEN or column.name in absent:
            continue
        if column.role is Role.PRIVATE:
            public.append(f"CASE WHEN {name} IS NULL THEN NULL ELSE TRUE END AS {name}")
            exact = _decimals(con, column) if column.kind is Kind.DOUBLE else None
            secret.append(f"CAST({name} AS DECIMAL(38, {exact})) AS {name}" if exact is not None else name)
        else:
            public.append(name)
    con.execute(f"CREATE TEMP TABLE people AS SELECT {', '.join(public) or '1 AS one'} FROM loaded")
    con.execute(f"CREATE TEMP TABLE secrets AS SELECT {', '.join(secret) or '1 AS none'} FROM loaded")
    con.execute("DROP TABLE loaded")


def _decimals(con: duckdb.DuckDBPyConnection, column: Column) -> int | None:
    """The fewest decimals that hold every value of a DOUBLE column, if nine suffice: its sums are then exact."""
    name = quote_name(column.name)
    tests = ", ".join(f"bool_and(round({name}, {d}) = {name})" for d in range(MAX_DIGITS + 1))
    row = con.execute(f"SELECT max(abs({name})), {tests} FROM loaded").fetchone()
    if row is None or row[0] is None or float(row[0]) >= 1e15:
        return 0 if row is not None and row[0] is None else None
    for digits in range(MAX_DIGITS + 1):
        if row[digits + 1] and float(row[0]) * 10**digits < 2**53:
            return digits
    return None


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


def _name(data: object) -> str:
    return Path(data).name if isinstance(data, str | Path) else "the table"
