"""Loading a table into DuckDB: read, cast to its kinds, check, and split into `people` and `secrets`.

Data faults (two rows with one id, NaN, a value that is not of its kind or outside its declared range) are found here,
by the owner of the data, and never at query time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from keyhole.config import Columns, FileLayout, TableRoles
from keyhole.datasets.column_kinds import (
    Reading,
    columns_with_ambiguous_spellings,
    dates_of_frame,
    declared_values,
    describe_columns,
    frame_with_dates,
    has_nanoseconds,
    kind_of_absent_column,
    numbers_as_written,
    wanted_kind,
)
from keyhole.datasets.faults import check_ids, check_names, check_unbounded, check_values, column_type, make_finite
from keyhole.datasets.files.growing import require_unchanged
from keyhole.datasets.files.prepare import make_plain
from keyhole.datasets.origins import cast_origin, create_loaded, name_data, names_of, open_origin
from keyhole.datasets.related_tables import copy_public_rows, join_related, read_related
from keyhole.engines.base import Roster, Source
from keyhole.engines.duckdb.connections import copy_rows, fetch_first, fetch_value, lock_down
from keyhole.engines.duckdb.roster import DuckDBRoster
from keyhole.engines.duckdb.source import DuckDBSource
from keyhole.engines.engine import is_url
from keyhole.engines.open_files import Lifetime
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Column, Kind, Role, Schema, fold_name

Connection: TypeAlias = duckdb.DuckDBPyConnection

MAX_DIGITS = 9  # a DOUBLE column whose values have at most this many decimals is held as exact decimals


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A table in two databases, in equal order: `people` in the first, `secrets` (columns `at_hand`) in the second."""

    people: Connection
    secrets: Connection
    schema: Schema
    at_hand: tuple[str, ...]
    life: Lifetime  # of both databases, and of what is made of them
    left_out: tuple[str, ...] = ()
    assumed: tuple[tuple[str, Kind], ...] = ()  # private columns whose kind was read off their values

    def roster(self) -> DuckDBRoster:
        """The public half; the other database is not needed for it."""
        return DuckDBRoster(self.people, self.schema, self.life)

    def source(self) -> Source:
        """The whole."""
        return DuckDBSource(self.people, self.secrets, self.schema, self.at_hand, self.life)


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
    with require_unchanged(data), ExitStack() as life:
        plain = make_plain(data, layout or FileLayout(), texts, life)
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
    if is_url(data):
        return error
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
    stem, origin, typed, asked, origins = open_origin(con, data, table, view, () if how.guarded else others)
    if is_url(data):  # the schema of a database is no part of a table's name in FROM
        table = None if table is None else stem
        if how.records and not roles.id:
            raise ConfigError(
                f"rows of {name_data(data)} have no number: say with --id (id under [columns]) which column names the "
                "person of a row"
            )
    columns = names_of(con, origin, data, asked)
    left_out = tuple(name for name in roles.private if how.leave_out and name in columns)
    there = [name for name in columns if name not in left_out]
    absent = tuple(name for name in roles.private if name not in there) if how.may_lack else ()
    check_names(there, roles, absent)
    if is_url(data) and roles.id:  # a database has no order of its own
        origin = f"(SELECT * FROM {origin} ORDER BY {', '.join(map(quote_name, roles.id))})"
    kinds = {name: kind for name in there if (kind := wanted_kind(roles, how, name, typed)) is not None}
    tables = {} if how.guarded else others
    named, only = table or stem, not how.records
    related = read_related(con, origins, tables, named, public_only=only, quiet=how.declared, may_lack=how.leave_out)
    dates = {}
    if origin == "frame":  # a kind of a private column is never read off where others can look
        dates = dates_of_frame(con, data, there, {*kinds, *(roles.private if how.declared or how.guarded else ())})
        origin = frame_with_dates(dates)
    create_loaded(con, cast_origin(con, data, origin, asked, kinds), left_out, data, asked)
    written = {} if typed or asked is not None else numbers_as_written(con, roles, kinds)
    if origin.startswith("read_csv(") and asked is None:
        written |= columns_with_ambiguous_spellings(con, origin, roles, kinds)
    if written:
        con.execute("DROP TABLE loaded")
        create_loaded(con, cast_origin(con, data, origin, asked, kinds | written), left_out, data, asked)
    related = join_related(con, related, tuple(roles.private), quiet=how.declared)
    columns_read = describe_columns(con, roles, kinds | written, how, typed=typed)
    for name in absent:
        kind, listed = kind_of_absent_column(roles, how, name), declared_values(roles.private[name].values, None)
        columns_read.append(Column(name, kind, Role.PRIVATE, nullable=False, listed=listed))
    unnamed = table is None and not isinstance(data, str | Path)
    strict = table is not None or (how.declared and not unnamed)
    schema = Schema(table or stem, tuple(columns_read), strict, names, unnamed, related=tuple(related))
    unread = tuple(name for name in others if schema.table_named(name) is None)
    names_unreviewed = {fold_name(name) for name in roles.unreviewed} if how.reviewed else set()
    unreviewed = tuple(column.name for column in columns_read if fold_name(column.name) in names_unreviewed)
    schema = replace(schema, unread=unread, unreviewed=unreviewed)
    if not how.guarded and int(fetch_value(con, "SELECT count(*) FROM loaded")) == 0:
        raise DataError.of_file(f"{name_data(data)} has no rows: there is nobody to ask about")
    schema = replace(schema, repeated=check_ids(con, schema, records=how.records))
    if how.guarded:
        make_finite(con, schema)
    else:
        check_values(con, schema, roles, absent)
    if how.decides:
        check_unbounded(con, roles, absent)
    people, at_hand = separate_secrets(con, schema, absent)
    life.closes(people)
    if not (how.declared or how.guarded):  # where answers are computed
        schema = schema_as_held(con, schema, at_hand)
    guessed = [
        c for c in schema.columns if c.name in at_hand and c.name not in kinds and (not typed or c.name in dates)
    ]
    return Loaded(people, con, schema, at_hand, life, left_out, tuple((c.name, c.kind) for c in guessed))


def separate_secrets(con: Connection, schema: Schema, absent: tuple[str, ...]) -> tuple[Connection, tuple[str, ...]]:
    """Move `people` (no secret) out of this database, keep `secrets` alone in it; which columns are in it."""
    public, secret, at_hand = [], [], []
    for column in schema.columns:
        name = quote_name(column.name)
        if column.role is Role.HIDDEN:
            continue
        if column.name in absent:  # nobody is NULL in it, and conditions may ask
            public.append(f"TRUE AS {name}")
        elif column.role is Role.PRIVATE:
            public.append(f"CASE WHEN {name} IS NULL THEN NULL ELSE TRUE END AS {name}")
            exact = _fewest_decimals(con, column) if column_type(con, column.name) in ("DOUBLE", "FLOAT") else None
            held_as = (
                "TIMESTAMP" if column.kind is Kind.TIMESTAMP else None if exact is None else f"DECIMAL(38, {exact})"
            )
            secret.append(name if held_as is None else f"CAST({name} AS {held_as}) AS {name}")
            at_hand.append(column.name)
        elif column.kind is Kind.TIMESTAMP and not (
            column_type(con, column.name) == "TIMESTAMP_NS" and has_nanoseconds(con, column.name)
        ):
            public.append(f"CAST({name} AS TIMESTAMP) AS {name}")  # without a time zone: fetching one needs pytz
        else:
            public.append(name)
    people = _without_secrets().cursor()
    try:
        copy_rows(con, f"SELECT {', '.join(public) or '1 AS one'} FROM loaded", people, "people")
        copy_public_rows(con, people, schema.related)
    except BaseException:
        people.close()
        raise
    con.execute(f"CREATE TEMP TABLE secrets AS SELECT {', '.join(secret) or '1 AS none'} FROM loaded")
    con.execute("DROP TABLE loaded")
    return people, tuple(at_hand)


@cache
def _without_secrets() -> Connection:
    """The engine of every `people` of this process: to open one takes 20 ms.

    Each has its own connection and is a TEMP table there, which no other connection sees; no secret enters this engine.
    """
    con = duckdb.connect(":memory:")
    con.execute("SET preserve_insertion_order = true")
    con.execute("SET TimeZone = 'UTC'")
    return lock_down(con)


def schema_as_held(con: Connection, schema: Schema, held: Sequence[str]) -> Schema:
    """A column with more digits than decimals hold is a DOUBLE, and is called so."""
    rough = {n for n in held if column_type(con, n, "secrets") in ("DOUBLE", "FLOAT")}
    columns = (replace(c, kind=Kind.DOUBLE) if c.name in rough else c for c in schema.columns)
    return replace(schema, columns=tuple(columns))


def _fewest_decimals(con: Connection, column: Column) -> int | None:
    """The fewest decimals that hold every value of a DOUBLE column, if nine suffice: its sums are then exact."""
    name = quote_name(column.name)
    tests = ", ".join(f"bool_and(round({name}, {d}) = {name})" for d in range(MAX_DIGITS + 1))
    row = fetch_first(con, f"SELECT max(abs({name})), {tests} FROM loaded")
    if row is None or row[0] is None or float(row[0]) >= 1e15:
        return 0 if row is not None and row[0] is None else None
    for digits in range(MAX_DIGITS + 1):
        if row[digits + 1] and float(row[0]) * 10**digits < 2**53:
            return digits
    return None


def read_columns(data: object, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Some columns of a file or frame, row by row, numbers as decimals where it has decimals."""
    with require_unchanged(data), ExitStack() as life:
        return _columns(make_plain(data, FileLayout(), (), life), names)


def _columns(data: object, names: Sequence[str]) -> list[tuple[Any, ...]]:
    with duckdb.connect(":memory:") as con:
        _, origin, _, _, _ = open_origin(con, data, None, None)
        there = names_of(con, origin, data, None)
        for name in names:
            if name not in there:
                raise DataError(f"{name_data(data)} has no column {name!r}; it has {', '.join(there)}")
        listed = ", ".join(quote_name(name) for name in names)
        return con.execute(f"SELECT {listed} FROM {origin}").fetchall()
