"""One small table in PostgreSQL, SQLite and DuckDB, and an expression evaluated on each of its rows in each of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import duckdb
from tests.support.postgres import Postgres

from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import translate_to_duckdb

SCHEMA = Schema(
    "t",
    (
        Column("id", Kind.INTEGER, Role.ID, nullable=False),
        Column("n", Kind.INTEGER),
        Column("m", Kind.INTEGER),
        Column("d", Kind.DECIMAL),
        Column("x", Kind.DOUBLE),
        Column("s", Kind.TEXT),
        Column("u", Kind.TEXT),
        Column("day", Kind.DATE),
        Column("other", Kind.DATE),
        Column("ts", Kind.TIMESTAMP),
        Column("b", Kind.BOOLEAN),
        Column("pay", Kind.INTEGER, Role.PRIVATE, nullable=False),
    ),
)
WHOLE = (
    0,
    1,
    -1,
    2,
    -2,
    7,
    -7,
    10,
    21,
    -21,
    25,
    -25,
    35,
    45,
    -45,
    99,
    100,
    1990,
    2147483647,
    -2147483648,
    10**12,
    None,
)
SMALL = (3, -3, 0, 5, None, 1, 2, 10, -10)
DECIMALS = ("0", "0.5", "-0.5", "1.5", "-1.5", "2.5", "-2.5", "2.449", "2.451", "-2.45", "2.25", "2.35")
DECIMALS = (*DECIMALS, "1.005", "99.995", "-0.001", "123456789.125")
DOUBLES = (0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 0.3, 1e15, -1e-9, 3.0)
TEXTS = (
    "",
    "a",
    "A",
    "ab",
    "aB",
    "Abc",
    "a%b",
    "a_b",
    " a ",
    "ä",
    "Äb",
    "ß",
    "ſ",
    "K",
    "日本語",
    "e\u0301",
    "👍a",
    "it's",
)
DAYS = ("2024-01-07", "2024-02-29", "2023-12-31", "2024-12-30", "2021-01-03", "1970-01-01", "1969-12-31", "1900-03-01")
DAYS = (*DAYS, "2000-02-29", "1582-10-15", "2026-11-15", "1999-12-31", "9999-12-31")
TIMES = ("00:00:00", "23:59:59", "12:30:00", "00:00:01")


def _turn(values: Sequence[Any], row: int, every: int = 0) -> Any:
    """The next of these values; NULL in every so many rows."""
    return None if every and row % every == every - 1 else values[row % len(values)]


def rows() -> list[tuple[Any, ...]]:
    """Each list in turn, in steps that share no factor, with NULL in every column."""
    found = []
    for i in range(66):
        day = _turn(DAYS, i, 9)
        found.append(
            (
                *(i, _turn(WHOLE, i), _turn(SMALL, i), _turn(DECIMALS, i, 17), _turn(DOUBLES, i, 12)),
                *(_turn(TEXTS, i, 19), _turn(TEXTS, 3 * i + 1, 10), day, _turn(DAYS, 5 * i + 2, 16)),
                *(None if day is None else f"{day} {_turn(TIMES, i)}", (True, False, None)[i % 3], i),
            )
        )
    return found


ROWS = rows()
TYPES = "id INTEGER, n BIGINT, m INTEGER, d DECIMAL(12, 3), x DOUBLE PRECISION, s TEXT, u TEXT, day DATE, other DATE"
TYPES += ", ts TIMESTAMP, b BOOLEAN, pay INTEGER"


def literal(value: Any, name: str = "") -> str:
    """A value as SQL that all three read."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str) and name != "d":
        return "'" + value.replace("'", "''") + "'"
    return str(value)


NAMES = [c.name for c in SCHEMA.columns]
INSERT = "INSERT INTO t VALUES " + ", ".join(
    "(" + ", ".join(literal(v, n) for n, v in zip(NAMES, row, strict=True)) + ")" for row in ROWS
)


class Engine(Protocol):
    """Who ran the original."""

    dialect: str

    def values(self, expressions: Sequence[str]) -> list[list[Any] | None]:
        """Each expression on every row, in order; None where the engine refuses."""


def question(expression: str) -> str:
    return f"SELECT id, ({expression}) AS v FROM t"


class RealSqlite:
    """The standard library's."""

    dialect = "sqlite"

    def values(self, expressions: Sequence[str]) -> list[list[Any] | None]:
        found: list[list[Any] | None] = []
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(f"CREATE TABLE t ({TYPES})")
            connection.execute(INSERT)
            for expression in expressions:
                try:
                    found.append([v for _, v in sorted(connection.execute(question(expression)).fetchall())])
                except sqlite3.Error:
                    found.append(None)
                except TypeError:  # ids sort before values, so equal ids never meet
                    raise AssertionError(expression) from None
        return found


ATTEMPT = """CREATE FUNCTION attempt(q text) RETURNS text LANGUAGE plpgsql AS $body$
DECLARE r text;
BEGIN
  EXECUTE 'SELECT json_agg(json_build_array(pg_typeof(v)::text, v::text) ORDER BY id)::text FROM (' || q || ') AS w'
    INTO r;
  RETURN replace(r, chr(10), ' ');
EXCEPTION WHEN OTHERS THEN RETURN 'null';
END $body$;"""


class RealPostgres:
    """A server of one's own, asked through psql."""

    dialect = "postgres"

    def __init__(self, server: Postgres) -> None:
        self.server = server
        server.run(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({TYPES}); {INSERT}; DROP FUNCTION IF EXISTS attempt;")
        server.run(ATTEMPT)

    def values(self, expressions: Sequence[str]) -> list[list[Any] | None]:
        asked = "\n".join(f"SELECT attempt($q_q${question(e)}$q_q$);" for e in expressions)
        told = self.server.run("SET timezone = 'UTC';\n" + asked)
        assert len(told) == len(expressions)
        said = [json.loads(line) for line in told]
        return [None if rows is None else [_read(kind, text) for kind, text in rows] for rows in said]


def _read(kind: str, text: str | None) -> Any:
    if text is None:
        return None
    if kind in ("integer", "bigint", "numeric", "smallint"):
        return Decimal(text)
    if kind == "double precision":
        return float(text)
    return text == "true" if kind == "boolean" else text.removesuffix("+00")


class Translated:
    """DuckDB with the same rows, asked in Keyhole's translation."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        self.connection.execute(f"CREATE TABLE t ({TYPES})")
        self.connection.execute(INSERT)

    def values(self, expression: str, dialect: str) -> tuple[list[Any] | None, str]:
        """The values, or why it is not judged."""
        made = translate_to_duckdb(question(expression), dialect, SCHEMA)
        return (None, made.reason) if made.reason else (self.run(made.sql), "")

    def run(self, sql: str) -> list[Any] | None:
        """The second column by the first; None where DuckDB refuses."""
        try:
            found = self.connection.execute(sql).fetchall()
        except duckdb.Error:
            return None
        return [row[1] for row in sorted(found, key=lambda row: row[0])]


def same(said: Any, ours: Any, exact: bool = True) -> bool:
    """One value of another engine, and what DuckDB gives: numbers by value, dates by their text.

    A number that decides nothing may be off in its last digits: decimals of SQLite are doubles.
    """
    if said is None or ours is None:
        return said is ours
    if isinstance(ours, bool):
        return bool(said) is ours and said in (0, 1, True, False)
    if isinstance(ours, Decimal | float) and isinstance(said, float | Decimal) and not exact:
        return math.isclose(said, ours, rel_tol=1e-12, abs_tol=1e-9)
    if isinstance(ours, Decimal) and isinstance(said, float):  # the nearest double
        return float(ours) == said
    if isinstance(ours, int | float | Decimal):
        return isinstance(said, int | float | Decimal) and Fraction(said) == Fraction(ours)
    if isinstance(ours, dt.datetime):
        return str(said) in (str(ours), str(ours).removesuffix(" 00:00:00"))
    return str(said) == str(ours)


def exactly(expression: str, dialect: str) -> bool:
    """May it decide who is meant?"""
    return not translate_to_duckdb(f"SELECT COUNT(*) FROM t WHERE ({expression}) IN (0, 1)", dialect, SCHEMA).reason


def differences(said: Sequence[Any], ours: Sequence[Any], exact: bool = True) -> list[tuple[Any, Any, Any]]:
    """The rows on which they differ: the id, what was said, what DuckDB gives."""
    assert len(said) == len(ours) == len(ROWS)
    return [(i, a, b) for i, (a, b) in enumerate(zip(said, ours, strict=True)) if not same(a, b, exact)]
