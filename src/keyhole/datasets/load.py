"""Loading a table into DuckDB: read, cast to its kinds, check, and split into `people` and `secrets`.

Data faults (two rows with one id, NaN, a value that is not of its kind or outside its declared range) are found here,
by the custodian, and never at query time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from keyhole.config import Columns, FileLayout, TableRoles
from keyhole.datasets.faults import check_ids, check_names, check_unbounded, check_values, make_finite, type_of
from keyhole.datasets.files.growing import unchanged
from keyhole.datasets.files.prepare import prepared
from keyhole.datasets.files.written import written_alike
from keyhole.datasets.frames import as_dates, origin_with
from keyhole.datasets.halves import as_held, split
from keyhole.datasets.listed import listed_values
from keyhole.datasets.opening import called, create_loaded, names_of, opened, origin_as
from keyhole.datasets.related import joined, read_related
from keyhole.engines.base import Roster, Source
from keyhole.engines.duckdb.kinds import cast_to, finer_than_micro, kind_of_type
from keyhole.engines.duckdb.roster import DuckDBRoster, scalar
from keyhole.engines.duckdb.source import DuckDBSource
from keyhole.engines.open_files import Lifetime
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Column, Kind, Role, Schema, folded

Connection: TypeAlias = duckdb.DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Reading:
    """How a table is read: `keyhole.datasets.open.Use` says which use is read how."""

    may_lack: bool = False  # private columns that the data has not are taken as declared
    leave_out: bool = False  # private columns are left out by name, as if the data had none
    declared: bool = False  # kinds of private columns of text files are declared or implied, never read off values
    guarded: bool = False  # every column may be a secret: no kind of a text file is read off, ranges are not checked
    text: frozenset[str] = frozenset()  # private columns that the data may lack and that hold text
    decides: bool = False  # before each answer: a column without bounds must hold more than a few values
    records: bool = False  # rows with one id are records of one person, and other tables have rows of his
    reviewed: bool = False  # nobody may ask about columns whose role is a guess


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A table in two databases: `people` in the first, `secrets` (the columns `held`) in the second, in equal order."""

    people: Connection
    secrets: Connection
    schema: Schema
    held: tuple[str, ...]
    life: Lifetime  # of both databases, and of what is made of them
    left_out: tuple[str, ...] = ()
    assumed: tuple[tuple[str, Kind], ...] = ()  # private columns whose kind was read off their values

    def roster(self) -> DuckDBRoster:
        """The public half; the other database is not needed for it."""
        return DuckDBRoster(self.people, self.schema, self.life)

    def source(self) -> DuckDBSource:
        """The whole."""
        return DuckDBSource(self.people, self.secrets, self.schema, self.held, self.life)


def load(data: object, roles: Columns, *, table: str | None = None, view: str | None = None) -> Source:
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
) -> Roster:
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
    names: tuple[str, ...] = (),
) -> Loaded:
    """Load and check a table. Its two databases share nothing; the first is closed to everything else.

    `others` are further tables of the data, by their names; `names` other names of this one in FROM.
    """
    private = {name for name, column in roles.private.items() if column.kind == "text" or column.values is not None}
    texts = private | {name for name, column in roles.public.items() if column.kind == "text"}
    with unchanged(data), ExitStack() as life:
        plain = prepared(data, layout or FileLayout(), texts, life)
        loading = Lifetime()
        try:
            return _read(plain, roles, how, table, view, others or {}, names, loading)
        except BaseException as error:
            loading.close()
            if isinstance(error, DataError):
                raise _of_the_file(error, plain, data) from None
            raise


def _of_the_file(error: DataError, plain: object, data: object) -> DataError:
    """The fault with the name that the file has where it came from."""
    copy, name = (Path(str(each)).name if isinstance(each, str | Path) else "" for each in (plain, data))
    told = None if error.told is None else error.told.replace(copy, name)
    return error if copy == name else DataError(str(error).replace(copy, name), told=told)


def _read(
    data: object,
    roles: Columns,
    how: Reading,
    table: str | None,
    view: str | None,
    others: Mapping[str, TableRoles],
    names: tuple[str, ...],
    life: Lifetime,
) -> Loaded:
    con = life.closes(duckdb.connect(":memory:"))
    con.execute("SET preserve_insertion_order = true")
    con.execute("SET TimeZone = 'UTC'")  # what a time with zone is does not depend on where keyhole runs
    stem, origin, typed, asked, origins = opened(con, data, table, view)
    columns = names_of(con, origin, data, asked)
    left_out = tuple(name for name in roles.private if how.leave_out and name in columns)
    there = [name for name in columns if name not in left_out]
    absent = tuple(name for name in roles.private if name not in there) if how.may_lack else ()
    check_names(there, roles, absent)
    kinds = {name: kind for name in there if (kind := _wanted(roles, how, name, typed)) is not None}
    told = {} if how.guarded else others
    named, only = table or stem, not how.records
    related = read_related(con, origins, told, named, public_only=only, quiet=how.declared, may_lack=how.leave_out)
    dates = {}
    if origin == "frame":  # a kind of a private column is never read off where others can look
        dates = as_dates(con, data, there, {*kinds, *(roles.private if how.declared or how.guarded else ())})
        origin = origin_with(dates)
    create_loaded(con, origin_as(con, data, origin, asked, kinds), left_out, data, asked)
    written = {} if typed or asked is not None else _as_written(con, roles, kinds)
    if origin.startswith("read_csv(") and asked is None:
        written |= written_alike(con, origin, roles, kinds)
    if written:
        con.execute("DROP TABLE loaded")
        create_loaded(con, origin_as(con, data, origin, asked, kinds | written), left_out, data, asked)
    related = joined(con, related, tuple(roles.private), quiet=how.declared)
    found = _describe(con, roles, kinds | written, how, typed=typed)
    for name in absent:
        kind, listed = _kind_of_absent(roles, how, name), listed_values(roles.private[name].values, None)
        found.append(Column(name, kind, Role.PRIVATE, nullable=False, listed=listed))
    unnamed = table is None and not isinstance(data, str | Path)
    strict = table is not None or (how.declared and not unnamed)
    schema = Schema(table or stem, tuple(found), strict, names, unnamed, related=tuple(related))
    unread = tuple(name for name in others if schema.table_named(name) is None)
    names_unreviewed = {folded(name) for name in roles.unreviewed} if how.reviewed else set()
    unreviewed = tuple(column.name for column in found if folded(column.name) in names_unreviewed)
    schema = replace(schema, unread=unread, unreviewed=unreviewed)
    if not how.guarded and int(scalar(con, "SELECT count(*) FROM loaded")) == 0:
        raise DataError.of_file(f"{called(data)} has no rows: there is nobody to ask about")
    schema = replace(schema, repeated=check_ids(con, schema, records=how.records))
    if how.guarded:
        make_finite(con, schema)
    else:
        check_values(con, schema, roles, absent)
    if how.decides:
        check_unbounded(con, roles, absent)
    people, held = split(con, schema, absent)
    life.closes(people)
    if not (how.declared or how.guarded):  # where answers are computed
        schema = as_held(con, schema, held)
    guessed = [c for c in schema.columns if c.name in held and c.name not in kinds and (not typed or c.name in dates)]
    return Loaded(people, con, schema, held, life, left_out, tuple((c.name, c.kind) for c in guessed))


def read_columns(data: object, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Some columns of a file or frame, row by row, numbers as decimals where it has decimals."""
    with unchanged(data), ExitStack() as life:
        return _columns(prepared(data, FileLayout(), (), life), names)


def _columns(data: object, names: Sequence[str]) -> list[tuple[Any, ...]]:
    with duckdb.connect(":memory:") as con:
        _, origin, _, _, _ = opened(con, data, None, None)
        there = names_of(con, origin, data, None)
        for name in names:
            if name not in there:
                raise DataError(f"{called(data)} has no column {name!r}; it has {', '.join(there)}")
        listed = ", ".join(quote_name(name) for name in names)
        return con.execute(f"SELECT {listed} FROM {origin}").fetchall()


def _wanted(roles: Columns, how: Reading, name: str, typed: bool) -> str | None:
    """The kind that a column is cast to; None: the one it has, or (in a text file) seems to have."""
    private = roles.private.get(name)
    public = roles.public.get(name) or next((c for n, c in roles.public.items() if folded(n) == folded(name)), None)
    declared = private or (public if public is not None and public.has_kind else None)
    if private is not None and private.values is not None and not how.guarded:
        if private.kind not in (None, "text"):
            raise ConfigError(
                f"{_where_declared(roles, name)}: values lists texts, and kind is {private.kind}: write min, max and "
                "step for numbers, or leave kind out"
            )
        return "text"  # of a file with types, too: a number is none of the values that are listed
    if declared is not None and (declared.kind is not None or not typed):
        implied = declared.implied()
        sure = how.guarded or (how.declared and private is not None)
        listed = declared.values is not None and implied == "text"
        return implied if declared.kind is not None or sure or listed else None
    # Where every column may be a secret, one without a declaration is text: nothing can be asked about it anyway.
    return "text" if how.guarded and not typed and name not in roles.hidden else None


def _as_written(con: Connection, roles: Columns, kinds: Mapping[str, str]) -> dict[str, str]:
    """Private numbers of a text file that the reader takes for DOUBLE: their decimals are read as they are written."""
    rough = [name for name in roles.private if name not in kinds and type_of(con, name) == "DOUBLE"]
    return dict.fromkeys(rough, "decimal")


def _kind_of_absent(roles: Columns, how: Reading, name: str) -> Kind:
    declared = roles.private[name]
    if declared.kind is not None or how.declared:
        return Kind(declared.implied())
    return Kind.TEXT if name in how.text or declared.values is not None else Kind.DOUBLE


def _describe(con: Connection, roles: Columns, kinds: Mapping[str, str], how: Reading, *, typed: bool) -> list[Column]:
    """The columns as they are held, after those in `kinds` were cast; what does not fit its kind is a fault."""
    found, listed = [], {}
    for raw_name, was in con.execute("SELECT column_name, column_type FROM (DESCRIBE loaded)").fetchall():
        name = str(raw_name)
        if name in roles.private and not how.guarded:
            listed[name] = listed_values(roles.private[name].values, str(was) if typed else None)
        if name in kinds:
            secret = name not in roles.public or name in roles.unreviewed
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
        found.append(Column(name, kind, role, has_null, digits, listed=listed.get(name)))
    return found


def _where_declared(roles: Columns, name: str) -> str:
    return f"[columns.{'private' if name in roles.private else 'public'}.{name!r}]"
