"""Loading a table into DuckDB: read, cast to its kinds, check, and split into `people` and `secrets`.

Data faults (two rows with one id, NaN, a value that is not of its kind or outside its declared range) are found here,
by the custodian, and never at query time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from keyhole.errors import ConfigError, DataError
from keyhole.knowledge import Columns, FileLayout, TableRoles
from keyhole.predicate import literal, quote_name
from keyhole.schema import Column, Kind, Role, Schema, folded
from keyhole.tables.duckdb.copy import copied
from keyhole.tables.duckdb.dialect import Separation, no_header, uneven
from keyhole.tables.duckdb.frames import as_dates, origin_with
from keyhole.tables.duckdb.kinds import cast_to, finer_than_micro, kind_of_type
from keyhole.tables.duckdb.prepare import cannot_attach, prepared
from keyhole.tables.duckdb.related import Origin, chosen, folder, hand_over, joined, read_related, reader_of
from keyhole.tables.duckdb.roster import DuckDBRoster, closed, first, scalar
from keyhole.tables.duckdb.source import DuckDBSource

Connection: TypeAlias = duckdb.DuckDBPyConnection

MAX_DIGITS = 9  # a DOUBLE column whose values have at most this many decimals is held as exact decimals
TEXT_FILES = (".csv", ".tsv", ".json", ".jsonl")  # their kinds are not written down: they are declared, or read off
_READERS = {
    ".csv": "",  # how its fields are separated is found first: `reader_of`
    ".tsv": "",
    ".parquet": "read_parquet({})",
    ".json": "read_json({})",
    ".jsonl": "read_json({})",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """How a table is read: `keyhole.tables.open.Use` says which use is read how."""

    may_lack: bool = False  # private columns that the data has not are taken as declared
    leave_out: bool = False  # private columns are left out by name, as if the data had none
    declared: bool = False  # kinds of private columns of text files are declared or implied, never read off values
    guarded: bool = False  # every column may be a secret: no kind of a text file is read off, ranges are not checked
    text: frozenset[str] = frozenset()  # private columns that the data may lack and that hold text
    records: bool = False  # rows with one id are records of one person, and other tables have rows of his


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A table in two databases: `people` in the first, `secrets` (the columns `held`) in the second, in equal order."""

    people: Connection
    secrets: Connection
    schema: Schema
    held: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    assumed: tuple[tuple[str, Kind], ...] = ()  # private columns whose kind was read off their values

    def roster(self) -> DuckDBRoster:
        """The public half; the other database is not needed for it."""
        return DuckDBRoster(self.people, self.schema)

    def source(self) -> DuckDBSource:
        """The whole."""
        return DuckDBSource(self.people, self.secrets, self.schema, self.held)


def load(data: object, roles: Columns, *, table: str | None = None, view: str | None = None) -> DuckDBSource:
    """Load a table with its secret and check it: one row a person, no NaN, private values inside their declaration.

    `data` is a path or a frame (pandas, polars, Arrow).
    """
    return read(data, roles, Reading(records=True), table=table, view=view).source()


def load_roster(
    data: object,
    roles: Columns,
    *,
    table: str | None = None,
    view: str | None = None,
    text: frozenset[str] = frozenset(),
) -> DuckDBRoster:
    """Load the public half only: private columns of the file are dropped, read but to be checked.

    Private columns that the file has not are taken to be numbers without NULL; text, if their values were declared or
    they are named in `text`.
    """
    return read(data, roles, Reading(may_lack=True, text=text, records=True), table=table, view=view).roster()


def read(
    data: object,
    roles: Columns,
    how: Reading,
    *,
    table: str | None = None,
    view: str | None = None,
    layout: FileLayout | None = None,
    others: Mapping[str, TableRoles] | None = None,
) -> Loaded:
    """Load and check a table. Its two databases share nothing; the first is closed to everything else.

    `others` are further tables of the data, by their names.
    """
    private = {name for name, column in roles.private.items() if column.kind == "text" or column.values is not None}
    texts = private | {name for name, column in roles.public.items() if column.kind == "text"}
    with ExitStack() as life:
        return _read(prepared(data, layout or FileLayout(), texts, life), roles, how, table, view, others or {})


def _read(
    data: object,
    roles: Columns,
    how: Reading,
    table: str | None,
    view: str | None,
    others: Mapping[str, TableRoles],
) -> Loaded:
    con = duckdb.connect(":memory:")
    con.execute("SET preserve_insertion_order = true")
    con.execute("SET TimeZone = 'UTC'")  # what a time with zone is does not depend on where keyhole runs
    stem, origin, typed, asked, origins = _open(con, data, table, view)
    names = _names(con, origin, data, asked)
    left_out = tuple(name for name in roles.private if how.leave_out and name in names)
    there = [name for name in names if name not in left_out]
    absent = tuple(name for name in roles.private if name not in there) if how.may_lack else ()
    _check_names(there, roles, absent)
    kinds = {name: kind for name in there if (kind := _wanted(roles, how, name, typed)) is not None}
    told = {} if how.guarded else others
    related = read_related(con, origins, told, table or stem, public_only=not how.records)
    dates = {}
    if origin == "frame":  # a kind of a private column is never read off where others can look
        dates = as_dates(con, data, there, {*kinds, *(roles.private if how.declared or how.guarded else ())})
        origin = origin_with(dates)
    _create(con, _origin_as(con, data, origin, asked, kinds), left_out, data, asked)
    written = {} if typed or asked is not None else _as_written(con, roles, kinds)
    if written:
        con.execute("DROP TABLE loaded")
        _create(con, _origin_as(con, data, origin, asked, kinds | written), left_out, data, asked)
    related = joined(con, related, tuple(roles.private))
    found = _describe(con, roles, kinds | written, how)
    for name in absent:
        found.append(Column(name, _kind_of_absent(roles, how, name), Role.PRIVATE, nullable=False))
    schema = Schema(table or stem, tuple(found), strict_table=table is not None, related=tuple(related))
    schema = replace(schema, unread=tuple(name for name in others if schema.table_named(name) is None))
    if not how.guarded and int(scalar(con, "SELECT count(*) FROM loaded")) == 0:
        raise DataError.of_file(f"{_name(data)} has no rows: there is nobody to ask about")
    schema = replace(schema, repeated=_check_ids(con, schema, records=how.records))
    if how.guarded:
        _make_finite(con, schema)
    else:
        _check_values(con, schema, roles, absent)
    people, held = _split(con, schema, absent)
    schema = _as_held(con, schema, held, how)
    guessed = [c for c in schema.columns if c.name in held and c.name not in kinds and (not typed or c.name in dates)]
    return Loaded(people, con, schema, held, left_out, tuple((c.name, c.kind) for c in guessed))


def read_columns(data: object, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Some columns of a file or frame, row by row, numbers as decimals where it has decimals."""
    with ExitStack() as life:
        return _columns(prepared(data, FileLayout(), (), life), names)


def _columns(data: object, names: Sequence[str]) -> list[tuple[Any, ...]]:
    con = duckdb.connect(":memory:")
    _, origin, _, _, _ = _open(con, data, None, None)
    there = _names(con, origin, data, None)
    for name in names:
        if name not in there:
            raise DataError(f"{_name(data)} has no column {name!r}; it has {', '.join(there)}")
    listed = ", ".join(quote_name(name) for name in names)
    return con.execute(f"SELECT {listed} FROM {origin}").fetchall()


def _wanted(roles: Columns, how: Reading, name: str, typed: bool) -> str | None:
    """The kind that a column is cast to; None: the one it has, or (in a text file) seems to have."""
    private = roles.private.get(name)
    public = roles.public.get(name) or next((c for n, c in roles.public.items() if folded(n) == folded(name)), None)
    declared = private or public
    if declared is not None and (declared.kind is not None or not typed):
        implied = declared.implied()
        sure = how.guarded or (how.declared and private is not None)
        listed = declared.values is not None and implied == "text"
        return implied if declared.kind is not None or sure or listed else None
    # Where every column may be a secret, one without a declaration is text: nothing can be asked about it anyway.
    return "text" if how.guarded and not typed and name not in roles.hidden else None


def _as_written(con: Connection, roles: Columns, kinds: Mapping[str, str]) -> dict[str, str]:
    """Private numbers of a text file that the reader takes for DOUBLE: their decimals are read as they are written."""
    rough = [name for name in roles.private if name not in kinds and _type(con, name) == "DOUBLE"]
    return dict.fromkeys(rough, "decimal")


def _kind_of_absent(roles: Columns, how: Reading, name: str) -> Kind:
    declared = roles.private[name]
    if declared.kind is not None or how.declared:
        return Kind(declared.implied())
    return Kind.TEXT if name in how.text or declared.values is not None else Kind.DOUBLE


Opened: TypeAlias = tuple[str, str, bool, str | None, Mapping[str, Origin]]


def _open(con: Connection, data: object, table: str | None, view: str | None) -> Opened:
    """(natural name, what to select from, are its types written down, what a view may read from, all its tables)."""
    if not isinstance(data, str | Path):
        try:
            con.register("frame", data)
        except duckdb.Error:
            what = f"{type(data).__name__} is no table" if not hasattr(data, "columns") else "the table has no columns"
            raise DataError.of_file(f"{what}: give a path, or a pandas, polars or Arrow table") from None
        stem = table or "people"
        seen = ("frame", True, None) if view is None else _view(con, view, {stem: "frame"}, True)
        return (stem, *seen, {})
    path = Path(data)
    if not path.exists():
        near = [p.name for p in path.parent.glob("*") if p.suffix.lower() in (*_READERS, ".duckdb")][:5]
        hint = f" In that folder: {', '.join(sorted(near))}." if path.parent.is_dir() and near else ""
        raise DataError.of_file(f"there is no file {path}.{hint}")
    if path.is_dir():
        tables = folder(path, _READERS, TEXT_FILES)
        if view is not None:
            typed = all(each.typed for each in tables.values())
            return (table or path.name, *_view(con, view, {n: o.sql for n, o in tables.items()}, typed), tables)
        name = chosen(list(tables), table, str(path))
        return name, tables[name].sql, tables[name].typed, None, tables
    if path.stat().st_size == 0:
        raise DataError.of_file(f"{path.name} is empty: it needs a header and one row per person")
    suffix = path.suffix.lower()
    if suffix in (".duckdb", ".db"):
        return _attach(con, path, table, view)
    if suffix not in _READERS:
        raise DataError.of_file(f"cannot read {path.name}: write a .csv, .tsv, .parquet, .json or .duckdb file")
    reader, typed = reader_of(path, _READERS), suffix not in TEXT_FILES
    if view is None:
        return path.stem, reader, typed, None, {}
    return (path.stem, *_view(con, view, {path.stem: reader}, typed), {})


def _attach(con: Connection, path: Path, table: str | None, view: str | None) -> Opened:
    try:
        con.execute(f"ATTACH {literal(str(path))} AS file (READ_ONLY)")
    except duckdb.Error as error:
        raise cannot_attach(path, error) from None
    found = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'file' UNION ALL "
        "SELECT view_name FROM duckdb_views() WHERE database_name = 'file' AND NOT internal"
    ).fetchall()
    names = [str(row[0]) for row in found]
    tables = {name: Origin(f"file.{quote_name(name)}", True) for name in names}
    if view is not None:
        return (table or path.stem, *_view(con, view, {n: o.sql for n, o in tables.items()}, True), tables)
    name = chosen(names, table, path.name)
    return name, tables[name].sql, True, None, tables


def _view(con: Connection, view: str, tables: Mapping[str, str], typed: bool) -> tuple[str, bool, str | None]:
    """The custodian's own SELECT over the tables of the data; one row a person is checked afterwards."""
    for name, origin in tables.items():
        try:
            con.execute(f"CREATE TEMP VIEW {quote_name(name)} AS SELECT * FROM {origin}")
        except duckdb.Error as error:
            raise DataError(f"cannot read {name}: {str(error).splitlines()[0]}") from None
    return f"({view.strip().rstrip(';')})", typed, ", ".join(tables)


def _names(con: Connection, origin: str, data: object, asked: str | None) -> list[str]:
    """The columns, in order; of a text file from its header alone."""
    bare = origin.replace(", sample_size=-1", ", all_varchar=true") if origin.startswith("read_csv(") else origin
    try:
        return [
            str(row[0]) for row in con.execute(f"SELECT column_name FROM (DESCRIBE SELECT * FROM {bare})").fetchall()
        ]
    except duckdb.Error as error:
        raise _failed(error, data, asked) from None


def _origin_as(con: Connection, data: object, origin: str, asked: str | None, kinds: Mapping[str, str]) -> str:
    """A text file whose columns in `kinds` are read as they are written; nothing is guessed from their values."""
    if not kinds:
        return origin
    if origin.startswith("read_csv("):
        forced = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in kinds)
        return f"{origin[:-1]}, types={{{forced}}})"
    if origin.startswith("read_json("):
        try:
            rows = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {origin})").fetchall()
        except duckdb.Error as error:
            raise _failed(error, data, asked) from None
        typed = ", ".join(f"{literal(str(n))}: {literal('VARCHAR' if n in kinds else str(t))}" for n, t in rows)
        return f"{origin[:-1]}, columns={{{typed}}})"
    return origin


def _create(con: Connection, origin: str, left_out: tuple[str, ...], data: object, asked: str | None) -> None:
    """Fill the table `loaded`, and let go of where it came from."""
    but = f" EXCLUDE ({', '.join(quote_name(name) for name in left_out)})" if left_out else ""
    try:
        con.execute(f"CREATE TEMP TABLE loaded AS SELECT *{but} FROM {origin}")
    except duckdb.Error as error:
        raise _failed(error, data, asked) from None
    for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal").fetchall():
        if name != "frame":
            con.execute(f"DROP VIEW {quote_name(str(name))}")
    if not isinstance(data, str | Path):
        con.unregister("frame")
    elif Path(data).suffix.lower() in (".duckdb", ".db"):
        con.execute("DETACH file")


def _failed(error: duckdb.Error, data: object, asked: str | None) -> ConfigError | DataError:
    """The engine cannot read the file or run the view: its words are told, unless they may quote a value."""
    said = str(error).splitlines()[0]
    if asked is None:
        text = isinstance(data, str | Path) and Path(data).suffix in (".csv", ".tsv")
        why = uneven(Path(str(data)), Separation.of(Path(str(data)))) if text else None
        return DataError(f"cannot read {_name(data)}: {why or said}")
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return ConfigError(f"--view does not run: {said}. It may read from: {asked}.")
    told = "--view does not run: the engine fails on some row; no value is shown here"
    return DataError(f"--view does not run: {said}. It may read from: {asked}.", told=told)


def _check_names(there: Sequence[str], roles: Columns, absent: tuple[str, ...]) -> None:
    blank = Schema("", tuple(Column(name, Kind.OTHER) for name in there))
    asked = [("id", n) for n in roles.id] + [("hidden", n) for n in roles.hidden]
    asked += [("private", n) for n in roles.private if n not in absent]
    for role, name in asked:
        if name not in there:
            near = blank.nearest(name)
            hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(sorted(there))}"
            if no_header(there):  # what stands there are values, and not ours to tell
                hint = f"; its first line looks like data, not names: name its {len(there)} columns with --columns"
            raise ConfigError(f"the table has no column {name!r} to be {role}{hint}")


def _describe(con: Connection, roles: Columns, kinds: Mapping[str, str], how: Reading) -> list[Column]:
    """The columns as they are held, after those in `kinds` were cast; what does not fit its kind is a fault."""
    found = []
    for raw_name, _ in con.execute("SELECT column_name, column_type FROM (DESCRIBE loaded)").fetchall():
        name = str(raw_name)
        if name in kinds:
            secret = name not in roles.public
            cast_to(con, name, kinds[name], _where_declared(roles, name), secret=secret, total=how.guarded)
    for raw_name, raw_type in con.execute("SELECT column_name, column_type FROM (DESCRIBE loaded)").fetchall():
        name = str(raw_name)
        kind = Kind(kinds[name]) if name in kinds else kind_of_type(str(raw_type))
        if str(raw_type) == "TIMESTAMP_NS" and (
            finer_than_micro(con, name) or (how.declared and name in roles.private)
        ):
            kind = Kind.OTHER  # Python has no such times: only the engine itself may compare them
        role = (
            Role.ID
            if name in roles.id
            else Role.HIDDEN
            if name in roles.hidden
            else Role.PRIVATE
            if name in roles.private
            else Role.PUBLIC
        )
        has_null = bool(scalar(con, f"SELECT count(*) - count({quote_name(name)}) > 0 FROM loaded"))
        digits = None if name in kinds or kind is not Kind.DECIMAL else int(str(raw_type).rstrip(")").split(",")[1])
        found.append(Column(name, kind, role, has_null, digits))
    return found


def _where_declared(roles: Columns, name: str) -> str:
    return f"[columns.{'private' if name in roles.private else 'public'}.{name!r}]"


def _check_ids(con: Connection, schema: Schema, *, records: bool) -> bool:
    """Do several rows have one id? Where rows are not taken as records of people, that is a fault."""
    names = [c.name for c in schema.of_role(Role.ID)]
    if not names:
        return False
    listed = ", ".join(quote_name(name) for name in names)
    for name in names:
        at = first(con, f"SELECT rowid FROM loaded WHERE {quote_name(name)} IS NULL LIMIT 1")
        if at:
            told = "some row has no id: every person needs one"
            raise DataError(f"row {int(at[0]) + 1} has no {name!r}: every person needs an id", told=told)
    twice = first(con, f"SELECT {listed}, count(*) AS c FROM loaded GROUP BY ALL HAVING c > 1 LIMIT 1")
    if twice and not records:
        who = ", ".join(f"{n} = {v}" for n, v in zip(names, twice, strict=False))
        raise DataError(
            f"{who} stands in {twice[-1]} rows, but here one row is one person (`keyhole audit` takes them as records "
            f"of one): aggregate first, for example --view 'SELECT {listed}, SUM(...) FROM {schema.table} GROUP BY "
            f"{listed}'",
            told="two rows have one id, but here one row is one person. Every row needs an id of its own (or, for "
            "private answers, rows_per_person = K under [budget])",
        )
    return twice is not None


def _make_finite(con: Connection, schema: Schema) -> None:
    """Where answers are private, loading is total: NaN and infinite numbers are NULL, and nothing is told of them."""
    for column in schema.columns:
        if column.role is not Role.HIDDEN and _type(con, column.name) in ("DOUBLE", "FLOAT"):
            name = quote_name(column.name)
            con.execute(f"UPDATE loaded SET {name} = NULL WHERE NOT isfinite({name})")


def _check_values(con: Connection, schema: Schema, roles: Columns, absent: tuple[str, ...]) -> None:
    """Refuse NaN and infinite numbers, and private values outside their declared domain."""
    for column in schema.columns:
        name = quote_name(column.name)
        if column.name in absent:
            continue
        if _type(con, column.name) in ("DOUBLE", "FLOAT") and column.role is not Role.HIDDEN:
            at = first(con, f"SELECT rowid FROM loaded WHERE NOT isfinite({name}) LIMIT 1")
            if at:
                raise _not_finite(column, int(at[0]))
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
            at = first(con, f"SELECT rowid FROM loaded WHERE {' OR '.join(wrong)} LIMIT 1")
            if at:
                raise DataError(
                    f"column {column.name!r}, row {int(at[0]) + 1}: its value lies outside what was declared "
                    f"for it; widen the declaration or mend the data",
                    told=f"column {column.name!r} holds a value outside what was declared for it",
                )
        if declared.step is not None and column.kind is Kind.DOUBLE:
            _put_on_grid(con, column.name)


def _put_on_grid(con: Connection, name: str) -> None:
    """Values of DOUBLE that lie on a declared grid up to dust are the numbers of the grid: 0.1 * 3 is 0.3 then."""
    column = quote_name(name)
    near = f"CAST(CAST({column} AS DECIMAL(38, 9)) AS {_type(con, name)})"
    con.execute(f"UPDATE loaded SET {column} = {near} WHERE {column} <> {near}")


def _check_words(con: Connection, column: Column) -> None:
    """A column of numbers becomes text if some of them are written inf or nan."""
    name = quote_name(column.name)
    words = f"lower({name}::VARCHAR) IN ('inf', '-inf', '+inf', 'infinity', '-infinity', '+infinity', 'nan')"
    row = con.execute(
        f"SELECT min(rowid) FILTER (WHERE {words}), count({name}), count(TRY_CAST({name} AS DOUBLE)) FROM loaded"
    ).fetchall()[0]
    if row[0] is not None and row[1] == row[2]:
        raise _not_finite(column, int(row[0]))


def _not_finite(column: Column, row: int) -> DataError:
    told = f"column {column.name!r} holds NaN or infinity"
    return DataError(f"{told} (first in row {row + 1}): write NULL instead", told=f"{told}: write NULL instead")


def _split(con: Connection, schema: Schema, absent: tuple[str, ...]) -> tuple[Connection, tuple[str, ...]]:
    """Move `people` (no secret) to a database of its own, keep `secrets` alone in this one; which columns are in it."""
    public, secret, held = [], [], []
    for column in schema.columns:
        name = quote_name(column.name)
        if column.role is Role.HIDDEN or column.name in absent:
            continue
        if column.role is Role.PRIVATE:
            public.append(f"CASE WHEN {name} IS NULL THEN NULL ELSE TRUE END AS {name}")
            exact = _decimals(con, column) if _type(con, column.name) in ("DOUBLE", "FLOAT") else None
            held_as = (
                "TIMESTAMP" if column.kind is Kind.TIMESTAMP else None if exact is None else f"DECIMAL(38, {exact})"
            )
            secret.append(name if held_as is None else f"CAST({name} AS {held_as}) AS {name}")
            held.append(column.name)
        elif column.kind is Kind.TIMESTAMP and not _in_nanoseconds(con, column):
            public.append(f"CAST({name} AS TIMESTAMP) AS {name}")  # without a time zone: fetching one needs pytz
        else:
            public.append(name)
    people = duckdb.connect(":memory:")
    people.execute("SET preserve_insertion_order = true")
    people.execute("SET TimeZone = 'UTC'")
    copied(con, f"SELECT {', '.join(public) or '1 AS one'} FROM loaded", people, "people")
    hand_over(con, people, schema.related)
    con.execute(f"CREATE TEMP TABLE secrets AS SELECT {', '.join(secret) or '1 AS none'} FROM loaded")
    con.execute("DROP TABLE loaded")
    return closed(people), tuple(held)


def _in_nanoseconds(con: Connection, column: Column) -> bool:
    """Would some time be cut, held in microseconds? Then people who differ would look alike."""
    name = quote_name(column.name)
    if _type(con, column.name) != "TIMESTAMP_NS":
        return False
    return bool(scalar(con, f"SELECT count(*) > 0 FROM loaded WHERE epoch_ns({name}) % 1000 <> 0"))


def _as_held(con: Connection, schema: Schema, held: Sequence[str], how: Reading) -> Schema:
    """Where answers are computed, a column with more digits than decimals hold is a DOUBLE, and is called so."""
    if how.declared or how.guarded:
        return schema
    rough = {n for n in held if _type(con, n, "secrets") in ("DOUBLE", "FLOAT")}
    columns = (replace(c, kind=Kind.DOUBLE) if c.name in rough else c for c in schema.columns)
    return replace(schema, columns=tuple(columns))


def _type(con: Connection, name: str, table: str = "loaded") -> str:
    found = first(con, f"SELECT column_type FROM (DESCRIBE {table}) WHERE column_name = ?", [name])
    return str(found[0]) if found else ""


def _decimals(con: Connection, column: Column) -> int | None:
    """The fewest decimals that hold every value of a DOUBLE column, if nine suffice: its sums are then exact."""
    name = quote_name(column.name)
    tests = ", ".join(f"bool_and(round({name}, {d}) = {name})" for d in range(MAX_DIGITS + 1))
    row = first(con, f"SELECT max(abs({name})), {tests} FROM loaded")
    if row is None or row[0] is None or float(row[0]) >= 1e15:
        return 0 if row is not None and row[0] is None else None
    for digits in range(MAX_DIGITS + 1):
        if row[digits + 1] and float(row[0]) * 10**digits < 2**53:
            return digits
    return None


def _name(data: object) -> str:
    return Path(data).name if isinstance(data, str | Path) else "the table"
