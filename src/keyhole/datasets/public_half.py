"""The public half of a table that stays in its database: read once by the role that decides, which cannot read more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import duckdb

from keyhole.config import Columns, PrivateColumn, SourceTable
from keyhole.datasets.column_kinds import Reading
from keyhole.datasets.copy_tables import copy_relation
from keyhole.datasets.faults import check_ids
from keyhole.datasets.load import Loaded, separate_secrets
from keyhole.engines.duckdb.connections import fetch_value, types_of
from keyhole.engines.engine import DataUrl, Relation, is_url
from keyhole.engines.open_files import Lifetime
from keyhole.engines.postgres.engine import PostgresEngine
from keyhole.engines.postgres.setup import (
    ROW,
    SCHEMA,
    check_barred,
    list_private,
    run_statements,
    write_setup,
    write_teardown,
)
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
Connection: TypeAlias = duckdb.DuckDBPyConnection


def read_staying(data: object, roles: Columns, how: Reading, layout: SourceTable, others: Collection[str]) -> Loaded:
    """The public half of a table whose private half stays in its database: it is connected to when it is needed."""
    if layout.view is not None or others:
        raise ConfigError(
            "stay = true is for one table: leave view and [tables] out, or read the table once (stay = false)"
        )
    url = address_of_half(data, "data")
    life = Lifetime()
    try:
        con = life.closes(duckdb.connect(":memory:"))
        con.execute("SET preserve_insertion_order = true; SET TimeZone = 'UTC'")
        schema = read_public_half(con, url, roles, how, layout)
        people, at_hand = separate_secrets(con, schema, ())
        life.closes(people)
    except BaseException:
        life.close()
        raise
    there = layout.secrets
    half = None if there is None else partial(open_private_half, address_of_half(there, "secrets"), roles, schema)
    return Loaded(people, con, schema, at_hand if half is not None else (), life, (), half)


def read_public_half(con: Connection, url: DataUrl, roles: Columns, how: Reading, layout: SourceTable) -> Schema:
    """Make the table `loaded` of the public half, in the order of its row numbers, and its schema.

    A private column of `loaded` holds TRUE or NULL: its values were never asked for. The deciding role is refused if
    it could read them (`check_barred`).
    """
    con.execute("ATTACH ':memory:' AS file")
    engine = PostgresEngine(url, snapshot=False)
    try:
        there = _read_columns(engine, url)
        private = [c.name for c in there if c.role is Role.PRIVATE]
        check_barred(engine, private)
        engine.begin_snapshot()
        copy_relation(con, engine, Relation(SCHEMA, "people", key=(ROW,)))
    finally:
        engine.close()
    _check_roles(there, roles, url)
    listed = ", ".join(quote_name(c.name) for c in there)
    con.execute(f"CREATE TEMP TABLE loaded AS SELECT {listed} FROM file.people ORDER BY {ROW}")
    gaps = fetch_value(con, f"SELECT count(*) <> coalesce(max({ROW}) + 1, 0) FROM file.people")
    con.execute("DETACH file")
    if gaps or not fetch_value(con, "SELECT count(*) FROM loaded"):
        raise DataError.of_file(f"{SCHEMA}.people of {url.name} has no rows, or gaps: run keyhole engine setup again")
    types = types_of(con, "loaded")
    columns = []
    for c in there:
        null = bool(fetch_value(con, f"SELECT count(*) - count({quote_name(c.name)}) > 0 FROM loaded"))
        digits = c.digits
        if c.role is not Role.PRIVATE and types[c.name].startswith("DECIMAL"):
            digits = int(types[c.name].rstrip(")").split(",")[1])
        columns.append(replace(c, nullable=null, digits=digits))
    strict = how.declared or layout.table is not None
    schema = Schema(layout.table.rpartition(".")[2] if layout.table else url.name, tuple(columns), strict, layout.names)
    unreviewed = {fold_name(name) for name in roles.unreviewed} if how.reviewed else set()
    schema = replace(schema, unreviewed=tuple(c.name for c in columns if fold_name(c.name) in unreviewed))
    return replace(schema, repeated=check_ids(con, schema, records=how.records))


def open_private_half(url: DataUrl, roles: Columns, schema: Schema) -> PostgresEngine:
    """The connection of the role that may read secrets, after a look whether they are inside what was declared."""
    engine = PostgresEngine(url, snapshot=False)
    try:
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


def _read_columns(engine: PostgresEngine, url: DataUrl) -> list[Column]:
    if engine.state_of(f"SELECT digits FROM {SCHEMA}.people, {SCHEMA}.columns LIMIT 1"):
        raise ConfigError(
            f"{url.shown} has no {SCHEMA}.people that this role may read, which stay = true asks for: run keyhole "
            "engine setup as the owner, and let its role keyhole_roster decide"
        )
    rows = engine.rows(f"SELECT name, role, kind, digits FROM {SCHEMA}.columns")
    return [Column(str(n), Kind(str(kind)), Role(str(role)), digits=digits) for n, role, kind, digits in rows]


def _check_roles(there: list[Column], roles: Columns, url: DataUrl) -> None:
    """The settings must say what the database was split by."""
    wanted: Mapping[Role, set[str]] = {Role.ID: set(roles.id), Role.PRIVATE: set(roles.private)}
    for role, names in wanted.items():
        mine = {c.name for c in there if c.role is role}
        if names and names != mine:
            raise ConfigError(
                f"{url.shown} was set up with {', '.join(sorted(mine))} as {role}, and the settings say "
                f"{', '.join(sorted(names))}: run keyhole engine setup again, or mend the settings"
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
        check_barred(engine, private)
    finally:
        engine.close()
    return private


def address_of_half(data: object, setting: str) -> DataUrl:
    """The address of a role, where the data stay."""
    if not is_url(data) or DataUrl.parse(str(data)).dialect != "postgres":
        raise ConfigError(f'stay = true is for data in PostgreSQL: write {setting} = "postgresql://ROLE@HOST/DB"')
    return DataUrl.parse(str(data))
