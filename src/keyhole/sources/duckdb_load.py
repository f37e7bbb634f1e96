"""Loading a table into DuckDB: read, check, and split into `people` and `secrets`.

Data faults (two rows with one id, NaN, a value outside its declared range) are found here, by the custodian, and never
at query time.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from keyhole.errors import ConfigError, DataError
from keyhole.knowledge import Columns
from keyhole.predicate import literal, quote_name
from keyhole.schema import Column, Kind, Role, Schema
from keyhole.sources.duckdb import DuckDBRoster, DuckDBSource

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


def load(data: object, roles: Columns, *, table: str | None = None, view: str | None = None) -> DuckDBSource:
    """Load a table with its secret and check it: one row a person, no NaN, private values inside their declaration.

    `data` is a path or a frame (pandas, polars, Arrow).
    """
    return DuckDBSource(*_load(data, roles, table, view, absent=()))


def load_roster(
    data: object,
    roles: Columns,
    *,
    table: str | None = None,
    view: str | None = None,
    text: frozenset[str] = frozenset(),
) -> DuckDBRoster:
    """Load the public half only: private columns of the file are dropped, unread but for being NULL.

    Private columns that the file has not are taken to be numbers without NULL; text, if their values were declared or
    they are named in `text`.
    """
    con = duckdb.connect(":memory:")
    _open(con, data, table, view)
    names = {str(row[0]) for row in con.execute("SELECT column_name FROM (DESCRIBE loaded)").fetchall()}
    con.close()
    absent = tuple(name for name in roles.private if name not in names)
    con, schema = _load(data, roles, table, view, absent, text)
    con.execute("DROP TABLE secrets")
    return DuckDBRoster(con, schema)


def _load(
    data: object,
    roles: Columns,
    table: str | None,
    view: str | None,
    absent: tuple[str, ...],
    text: frozenset[str] = frozenset(),
) -> tuple[duckdb.DuckDBPyConnection, Schema]:
    con = duckdb.connect(":memory:")
    con.execute("SET preserve_insertion_order = true")
    stem = _open(con, data, table, view)
    found = _describe(con, roles, absent)
    for name in absent:
        kind = Kind.TEXT if name in text or roles.private[name].values is not None else Kind.DOUBLE
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
    if path.is_dir():
        raise DataError(f"{path} is a folder: name the file in it")
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty: it needs a header and one row per person")
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
        if column.kind is Kind.TEXT and column.role is Role.PRIVATE:
            _check_words(con, column)
        declared = roles.private.get(column.name)
        if column.role is not Role.PRIVATE or declared is None:
            continue
        wrong = []
        if declared.min is not None:
            wrong.append(f"{name} < {literal(declared.min)}")
        if declared.max is not None:
            wrong.append(f"{name} > {literal(declared.max)}")
        if declared.step is not None and column.kind.numeric:
            base = literal(declared.min if declared.min is not None else Decimal(0))
            wrong.append(f"(CAST({name} AS DECIMAL(38, 9)) - {base}) % {literal(declared.step)} <> 0")
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


def _check_words(con: duckdb.DuckDBPyConnection, column: Column) -> None:
    """A column of numbers becomes text if some of them are written inf or nan."""
    name = quote_name(column.name)
    words = f"lower({name}) IN ('inf', '-inf', '+inf', 'infinity', '-infinity', '+infinity', 'nan')"
    row = con.execute(
        f"SELECT min(rowid) FILTER (WHERE {words}), count({name}), count(TRY_CAST({name} AS DOUBLE)) FROM loaded"
    ).fetchall()[0]
    if row[0] is not None and row[1] == row[2]:
        raise DataError(
            f"column {column.name!r} holds NaN or infinity (first in row {int(row[0]) + 1}): write NULL instead"
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
        elif column.kind is Kind.TIMESTAMP:
            public.append(f"CAST({name} AS TIMESTAMP) AS {name}")  # without a time zone: fetching one needs pytz
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


def _scalar(con: duckdb.DuckDBPyConnection, text: str) -> Any:
    row = con.execute(text).fetchone()
    assert row is not None
    return row[0]


def _name(data: object) -> str:
    return Path(data).name if isinstance(data, str | Path) else "the table"
