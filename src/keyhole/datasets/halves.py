"""The two halves of a table: `people`, without a secret, out of the other's reach, and `secrets`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import duckdb

from keyhole.datasets.faults import type_of
from keyhole.datasets.related import hand_over
from keyhole.engines.duckdb.copy import copied
from keyhole.engines.duckdb.roster import closed, first, scalar
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Column, Kind, Role, Schema

Connection: TypeAlias = duckdb.DuckDBPyConnection

MAX_DIGITS = 9  # a DOUBLE column whose values have at most this many decimals is held as exact decimals


def split(con: Connection, schema: Schema, absent: tuple[str, ...]) -> tuple[Connection, tuple[str, ...]]:
    """Move `people` (no secret) out of this database, keep `secrets` alone in it; which columns are in it."""
    public, secret, held = [], [], []
    for column in schema.columns:
        name = quote_name(column.name)
        if column.role is Role.HIDDEN:
            continue
        if column.name in absent:  # nobody is NULL in it, and conditions may ask
            public.append(f"TRUE AS {name}")
        elif column.role is Role.PRIVATE:
            public.append(f"CASE WHEN {name} IS NULL THEN NULL ELSE TRUE END AS {name}")
            exact = _decimals(con, column) if type_of(con, column.name) in ("DOUBLE", "FLOAT") else None
            held_as = (
                "TIMESTAMP" if column.kind is Kind.TIMESTAMP else None if exact is None else f"DECIMAL(38, {exact})"
            )
            secret.append(name if held_as is None else f"CAST({name} AS {held_as}) AS {name}")
            held.append(column.name)
        elif column.kind is Kind.TIMESTAMP and not _in_nanoseconds(con, column):
            public.append(f"CAST({name} AS TIMESTAMP) AS {name}")  # without a time zone: fetching one needs pytz
        else:
            public.append(name)
    people = _without_secrets().cursor()
    try:
        copied(con, f"SELECT {', '.join(public) or '1 AS one'} FROM loaded", people, "people")
        hand_over(con, people, schema.related)
    except BaseException:
        people.close()
        raise
    con.execute(f"CREATE TEMP TABLE secrets AS SELECT {', '.join(secret) or '1 AS none'} FROM loaded")
    con.execute("DROP TABLE loaded")
    return people, tuple(held)


@cache
def _without_secrets() -> Connection:
    """The engine of every `people` of this process: to open one takes 20 ms.

    Each has its own connection and is a TEMP table there, which no other connection sees; no secret enters this engine.
    """
    con = duckdb.connect(":memory:")
    con.execute("SET preserve_insertion_order = true")
    con.execute("SET TimeZone = 'UTC'")
    return closed(con)


def _in_nanoseconds(con: Connection, column: Column) -> bool:
    """Would some time be cut, held in microseconds? Then people who differ would look alike."""
    name = quote_name(column.name)
    if type_of(con, column.name) != "TIMESTAMP_NS":
        return False
    return bool(scalar(con, f"SELECT count(*) > 0 FROM loaded WHERE epoch_ns({name}) % 1000 <> 0"))


def as_held(con: Connection, schema: Schema, held: Sequence[str]) -> Schema:
    """A column with more digits than decimals hold is a DOUBLE, and is called so."""
    rough = {n for n in held if type_of(con, n, "secrets") in ("DOUBLE", "FLOAT")}
    columns = (replace(c, kind=Kind.DOUBLE) if c.name in rough else c for c in schema.columns)
    return replace(schema, columns=tuple(columns))


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
