"""A small world for SQL: one schema, tables with NULLs in DuckDB, and the meaning of a text against its lowering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import duckdb
import sqlglot
from sqlglot import exp

from keyhole.model.meaning import evaluate_test
from keyhole.model.predicate import TRUE, Scalar, format_predicate
from keyhole.model.query import Query, Statement
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import lower_statement

SCHEMA = Schema(
    "people",
    (
        Column("Name", Kind.TEXT, Role.ID, nullable=False),
        Column("zip", Kind.INTEGER),
        Column("age", Kind.INTEGER, nullable=False),
        Column("sex", Kind.TEXT),
        Column("born", Kind.DATE),
        Column("seen", Kind.TIMESTAMP),
        Column("height", Kind.DECIMAL),
        Column("ratio", Kind.DOUBLE),
        Column("member", Kind.BOOLEAN),
        Column("pay", Kind.INTEGER, Role.PRIVATE),
        Column("Blood sugar", Kind.DECIMAL, Role.PRIVATE, nullable=False),
        Column("score", Kind.DOUBLE, Role.PRIVATE),
        Column("ill", Kind.TEXT, Role.PRIVATE),
        Column("smokes", Kind.BOOLEAN, Role.PRIVATE),
        Column("Größe 身高", Kind.INTEGER, Role.PRIVATE),
        Column("ssn", Kind.TEXT, Role.HIDDEN),
    ),
)
DDL = """CREATE OR REPLACE TABLE people (
"Name" VARCHAR, zip INTEGER, age INTEGER, sex VARCHAR, born DATE, seen TIMESTAMP, height DECIMAL(8, 2), ratio DOUBLE,
member BOOLEAN, pay INTEGER, "Blood sugar" DECIMAL(8, 1), score DOUBLE, ill VARCHAR, smokes BOOLEAN,
"Größe 身高" INTEGER, ssn VARCHAR)"""

Row = tuple[object, ...]
ROWS: tuple[Row, ...] = (
    ("Ann", 32453, 31, "F", "1990-02-03", "2020-01-01 10:00", "1.75", 0.5, True, 5, "4.3", 1.25, "flu", True, 175, "1"),
    (
        "Bob",
        43813,
        45,
        "M",
        "1975-07-30",
        "2021-05-06 23:59",
        "1.80",
        -2.0,
        False,
        12,
        "5.2",
        2.5,
        "cold",
        False,
        180,
        "2",
    ),
    ("O'Neil", None, 45, None, None, None, None, None, None, None, "6.1", None, None, None, None, "3"),
    ("Dee", 32187, 0, "F", "2001-12-31", "2020-01-01 00:00", "0.00", 0.0, True, -3, "3.2", -0.5, "flu", None, 150, "4"),
    ("Eve", 33745, 67, "m", "1953-01-01", None, "1.60", 3.25, None, 7, "7.1", 4.0, "", False, None, "5"),
    ("Zoë 李", 22983, 31, "F", None, "2022-02-28 12:30", None, 1.0, False, None, "6.2", None, "flu", True, 160, "6"),
)


def connect(rows: Sequence[Row] = ROWS) -> duckdb.DuckDBPyConnection:
    """A fresh table with these rows."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    fill(con, rows)
    con.execute("CREATE VIEW hospital AS SELECT * FROM people")  # any FROM name means the one table
    return con


def fill(con: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    """The table again, with other rows."""
    con.execute(DDL)
    if rows:
        con.executemany(f"INSERT INTO people VALUES ({', '.join('?' * 16)})", [list(r) for r in rows])


def meant(statement: Statement, con: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """The rows the lowered statement claims: group by group, each number from `Query.canonical` over all records."""
    rows = []
    for chosen in statement.sets:
        keys = [statement.keys[i] for i in chosen]
        if keys:
            listed = ", ".join(k.sql for k in keys)
            groups = con.execute(
                f"SELECT {listed} FROM people WHERE {format_predicate(statement.where)} GROUP BY {listed}"
            ).fetchall()
        else:
            groups = [()]
        for values in groups:
            key: dict[str, Scalar | None] = {k.name: v for k, v in zip(keys, values, strict=True)}
            if not all(evaluate_test(test, lambda q: evaluate((q,), con)[0] is True) for test in statement.tests(key)):
                continue
            rows.append((*values, *evaluate(statement.group(key), con)))
    return rows


def evaluate(queries: Sequence[Query], con: duckdb.DuckDBPyConnection) -> tuple[object, ...]:
    """Each query on its own, over the whole table."""
    found = con.execute(f"SELECT {', '.join(q.canonical() for q in queries)}, COUNT(*) FROM people").fetchone()
    assert found is not None
    return found[:-1]


def check(sql: str, con: duckdb.DuckDBPyConnection) -> Statement:
    """Asserts that the text and its lowering give the same answers on the table of `con`."""
    statement = lower_statement(sql, SCHEMA)
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    assert isinstance(tree, exp.Select)
    numbers = [i for i, item in enumerate(tree.expressions) if item.find(exp.AggFunc)]
    assert len(numbers) == len(statement.queries)
    original = [tuple(row[i] for i in numbers) for row in con.execute(sql).fetchall()]
    width = len(numbers)
    claimed = [row[len(row) - width :] for row in meant(statement, con)]
    assert len(original) == len(claimed), f"{sql}\n{original}\n{claimed}"
    fits = [[i for i, c in enumerate(claimed) if all(map(agrees, statement.queries, row, c))] for row in original]
    assert matched(fits), f"{sql}\n{original}\nis not\n{claimed}"
    return statement


def matched(fits: list[list[int]]) -> bool:
    """True if every row can be given one of the rows that fit it, each used once (augmenting paths)."""
    taken: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for other in fits[row]:
            if other not in seen:
                seen.add(other)
                if other not in taken or place(taken[other], seen):
                    taken[other] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(fits)))


def agrees(query: Query, said: object, claimed: object) -> bool:
    """Equal, up to rounding of floats; x/0 is no number."""
    if isinstance(said, float) and not math.isfinite(said):
        return claimed is None or not query.per or (isinstance(claimed, float) and not math.isfinite(claimed))
    if said is None or claimed is None or isinstance(said, bool) or isinstance(claimed, bool):
        return said is claimed
    if isinstance(said, int | float | Decimal) and isinstance(claimed, int | float | Decimal):
        unit = 0.0 if query.digits is None else 10.0**-query.digits  # a tie may round either way
        return math.isclose(float(said), float(claimed), rel_tol=1e-9, abs_tol=1e-9 + unit)
    return said == claimed


__all__ = ["DDL", "ROWS", "SCHEMA", "TRUE", "agrees", "check", "connect", "fill", "meant"]
