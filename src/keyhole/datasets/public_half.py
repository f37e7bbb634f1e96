"""A table that stays in its database: the public half is asked by the role that decides, which cannot read more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

import duckdb

from keyhole.config import Columns, PrivateColumn, SourceTable
from keyhole.datasets.column_kinds import Reading
from keyhole.datasets.copy_tables import copy_relation
from keyhole.datasets.split_tables import (
    SCHEMA,
    check_barred,
    check_probe,
    find_origin,
    list_private,
    run_statements,
    write_setup,
    write_teardown,
)
from keyhole.engines.base import Roster
from keyhole.engines.duckdb.probe import SAMPLE
from keyhole.engines.engine import DataUrl, Engine, Relation, is_called, is_url
from keyhole.engines.open_files import Lifetime
from keyhole.engines.postgres.engine import PostgresEngine
from keyhole.engines.roster import LANES, ROW, EngineRoster, MadeUpFrom
from keyhole.engines.source import EngineSource
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import format_literal, quote_name
from keyhole.model.schema import Column, Kind, Role, Schema, fold_name

__all__ = [
    "address_of_half",
    "check_role",
    "read_staying",
    "run_statements",
    "write_setup",
    "write_teardown",
]


@dataclass(frozen=True, slots=True, eq=False)
class Staying:
    """A table whose rows stay in their engine: what `Loaded` is for one that was read."""

    public: EngineRoster
    private_half: Callable[[], Engine] | None
    left_out: tuple[str, ...] = ()
    assumed: tuple[tuple[str, Kind], ...] = ()
    secrets: str = f"{SCHEMA}.secrets"

    @property
    def schema(self) -> Schema:
        """The columns, with kinds and roles."""
        return self.public.schema

    @property
    def life(self) -> Lifetime:
        """Of its connections."""
        return self.public.life

    @property
    def at_hand(self) -> tuple[str, ...]:
        """The private columns that a role is named for."""
        return () if self.private_half is None else tuple(c.name for c in self.schema.of_role(Role.PRIVATE))

    def roster(self) -> Roster:
        """The public half."""
        return self.public

    def source(self) -> EngineSource | None:
        """The whole, if a role is named that may read it."""
        if self.private_half is None:
            return None
        return EngineSource(self.public, self.secrets, self.private_half)


def read_staying(data: object, roles: Columns, how: Reading, layout: SourceTable, others: Collection[str]) -> Staying:
    """A table that stays in its engine. The private half is connected to when it is needed."""
    if layout.view is not None or others:
        raise ConfigError(
            "stay = true is for one table: leave view and [tables] out, or read the table once (stay = false)"
        )
    url, life = address_of_half(data, "data"), Lifetime()
    try:
        engine = life.closes(PostgresEngine(url, snapshot=False))
        public = open_public_half(engine, url, roles, how, layout, life)
    except BaseException:
        life.close()
        raise
    there = layout.secrets
    half = None
    if there is not None:
        state = str(engine.rows("SELECT pg_export_snapshot() AS s")[0][0])
        half = partial(open_private_half, address_of_half(there, "secrets"), roles, public.schema, state)
    return Staying(public, half)


def open_public_half(
    engine: PostgresEngine, url: DataUrl, roles: Columns, how: Reading, layout: SourceTable, life: Lifetime
) -> EngineRoster:
    """The public half, where it is, in one state of the database: of private columns it has whether they are NULL.

    The deciding role is refused if it could read more (`check_barred`).
    """
    there, types = _read_columns(engine, url)
    check_barred(engine)
    engine.begin_snapshot()
    name = _check_origin(engine, url, layout.table)
    _check_roles(there, roles, url)
    names = [quote_name(c.name) for c in there]
    listed = ", ".join(f"count(*) - count({name}) AS n{i}" for i, name in enumerate(names))
    n, least, greatest, *nulls = engine.rows(
        f"SELECT count(*) AS n, min({ROW}) AS a, max({ROW}) AS b, {listed} FROM {SCHEMA}.people"
    )[0]
    if not n or (least, greatest) != (0, n - 1):
        raise DataError.of_file(f"{SCHEMA}.people of {url.name} has no rows, or gaps: run keyhole init engine again")
    columns = tuple(replace(c, nullable=bool(null)) for c, null in zip(there, nulls, strict=True))
    strict = how.declared or layout.table is not None
    schema = Schema(name, columns, strict, layout.names)
    unreviewed = {fold_name(name) for name in roles.unreviewed} if how.reviewed else set()
    schema = replace(schema, unreviewed=tuple(c.name for c in columns if fold_name(c.name) in unreviewed))
    schema = replace(schema, repeated=_check_ids(engine, schema, n, url, records=how.records))

    def sample() -> duckdb.DuckDBPyConnection:
        con = duckdb.connect(":memory:")
        con.execute("SET preserve_insertion_order = true; SET TimeZone = 'UTC'; ATTACH ':memory:' AS file")
        some = f"{ROW} % {-(-n // SAMPLE)} = 0"
        copy_relation(con, engine, Relation(SCHEMA, "people", key=(ROW,)), some, without=LANES)
        con.execute(f"CREATE TEMP TABLE people AS SELECT * FROM file.people ORDER BY {ROW}")
        return con

    runner = None if layout.probe is None else partial(open_probe, address_of_half(layout.probe, "probe"))
    return EngineRoster(engine, f"{SCHEMA}.people", schema, life, MadeUpFrom(sample, types, runner), n)


def open_probe(url: DataUrl) -> PostgresEngine:
    """The connection to the empty database where statements run on made-up rows; refused if there is more."""
    engine = PostgresEngine(url, snapshot=False)
    try:
        check_probe(engine)
    except BaseException:
        engine.close()
        raise
    return engine


def _check_origin(engine: PostgresEngine, url: DataUrl, table: str | None) -> str:
    """The name of the table that was split; refused if the settings mean another one."""
    origin = find_origin(engine)
    if origin is None:
        raise ConfigError(f"{url.shown} does not say of which table its halves are: run keyhole init engine again")
    if table is not None and not is_called(origin, table):
        raise ConfigError(
            f"{url.shown} holds the two halves of {origin.qualified}, and the settings name {table}: mend table under "
            "[source], or run keyhole init engine for that table"
        )
    return origin.name


def _check_ids(engine: PostgresEngine, schema: Schema, n: int, url: DataUrl, *, records: bool) -> bool:
    """Do several rows have one id? Where rows are not taken as records of people, that is a fault."""
    ids = schema.of_role(Role.ID)
    if any(column.nullable for column in ids):
        raise DataError.of_file(f"some row of {url.name} has no id: every person needs one")
    listed = ", ".join(quote_name(column.name) for column in ids)
    different = engine.rows(f"SELECT count(*) AS c FROM (SELECT DISTINCT {listed} FROM {SCHEMA}.people) q")[0][0]
    if different != n and not records:
        raise DataError.of_file(
            f"two rows of {url.name} have one id, but here one row is one person. Every row needs an id of its own "
            "(or, for private answers, rows_per_person = K with a delta under [budget])"
        )
    return bool(different != n)


def open_private_half(url: DataUrl, roles: Columns, schema: Schema, state: str) -> PostgresEngine:
    """The connection of the role that may read secrets, in the same state of the database as the public half.

    They are looked at first: are they inside what was declared?
    """
    engine = PostgresEngine(url, snapshot=False)
    try:
        engine.begin_snapshot(state)
        for column in schema.of_role(Role.PRIVATE):
            tests = _outside(column, roles.private[column.name])
            if tests and engine.rows(f"SELECT 1 AS one FROM {SCHEMA}.secrets WHERE {' OR '.join(tests)} LIMIT 1"):
                message = f"column {column.name!r} holds a value outside what was declared for it"
                raise DataError.of_file(f"{url.shown}: {message}; widen the declaration or mend the data")
    except BaseException:
        engine.close()
        raise
    return engine


def _outside(column: Column, declared: PrivateColumn) -> list[str]:
    """Conditions of a value that was not declared."""
    name = quote_name(column.name)
    tests = []
    if declared.values is not None:
        tests.append(f"{name} NOT IN ({', '.join(map(format_literal, declared.values))})")
    if declared.min is not None:
        tests.append(f"{name} < {format_literal(declared.min)}")
    if declared.max is not None:
        tests.append(f"{name} > {format_literal(declared.max)}")
    if declared.step is not None:
        start = format_literal(declared.min if declared.min is not None else 0)
        tests.append(f"mod(CAST({name} AS NUMERIC) - {start}, {format_literal(declared.step)}) <> 0")
    return tests


def _read_columns(engine: PostgresEngine, url: DataUrl) -> tuple[list[Column], dict[str, str]]:
    """The columns as the table was split by them, and their types as the database writes them."""
    if engine.state_of(f"SELECT type FROM {SCHEMA}.people, {SCHEMA}.columns LIMIT 1"):
        raise ConfigError(
            f"{url.shown} has no {SCHEMA}.people that this role may read, which stay = true asks for: run keyhole "
            "init engine as the owner, and let its role keyhole_roster decide"
        )
    rows = engine.rows(f"SELECT name, role, kind, digits, type FROM {SCHEMA}.columns")
    columns = [Column(str(n), Kind(str(kind)), Role(str(role)), digits=digits) for n, role, kind, digits, _ in rows]
    return columns, {str(row[0]): str(row[4]) for row in rows if row[4]}


def _check_roles(there: list[Column], roles: Columns, url: DataUrl) -> None:
    """The settings must say what the database was split by."""
    wanted: Mapping[Role, set[str]] = {Role.ID: set(roles.id), Role.PRIVATE: set(roles.private)}
    for role, names in wanted.items():
        mine = {c.name for c in there if c.role is role}
        if names and names != mine:
            raise ConfigError(
                f"{url.shown} was set up with {', '.join(sorted(mine))} as {role}, and the settings say "
                f"{', '.join(sorted(names))}: run keyhole init engine again, or mend the settings"
            )
    for c in there:
        declared = roles.private.get(c.name)
        if (
            declared is not None
            and (declared.values is not None) != (c.kind is Kind.TEXT)
            and (declared.values is not None or declared.min is not None)
        ):
            raise ConfigError(
                f"private column {c.name!r} holds {c.kind} in {url.shown}: it takes "
                f"{'values = [...]' if c.kind is Kind.TEXT else 'min, max and step'}"
            )


def check_role(url: DataUrl, private: list[str]) -> list[str]:
    """Prove that a role cannot read these columns, or those by which the database was split; refuse otherwise."""
    engine = PostgresEngine(url, snapshot=False)
    try:
        private = private or list_private(engine)
        check_barred(engine)
    finally:
        engine.close()
    return private


def address_of_half(data: object, setting: str) -> DataUrl:
    """The address of a role, where the data stay."""
    if not is_url(data) or DataUrl.parse(str(data)).dialect != "postgres":
        raise ConfigError(f'stay = true is for data in PostgreSQL: write {setting} = "postgresql://ROLE@HOST/DB"')
    return DataUrl.parse(str(data))
