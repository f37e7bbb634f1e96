"""Functions that all engines compute alike: what they become in DuckDB gives what the manuals say, and no others do."""

from __future__ import annotations

import duckdb
import pytest

from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import translate_to_duckdb

ROWS = [("law", "Bern", 39, 1.5, "é"), ("IT", "Ulm am See", -7, 2.5, "b"), ("law", None, 40, 3.5, None)]
SCHEMA = Schema(
    "t",
    (
        Column("dept", Kind.TEXT, nullable=False),
        Column("city", Kind.TEXT),
        Column("age", Kind.INTEGER, nullable=False),
        Column("rate", Kind.DOUBLE, nullable=False),
        Column("mark", Kind.TEXT),
        Column("ill", Kind.TEXT, Role.PRIVATE),
    ),
    spelt={
        "dept": frozenset({"law", "IT"}),
        "city": frozenset({"Bern", "Ulm am See"}),
        "mark": frozenset({"é", "b"}),
    },
)


def answers(expression: str, dialect: str) -> list[object]:
    """What the expression gives on each row, in DuckDB, as it was carried over."""
    carry = translate_to_duckdb(f"SELECT {expression} AS v, COUNT(*) FROM t GROUP BY {expression}", dialect, SCHEMA)
    assert not carry.reason, carry.reason
    con = duckdb.connect()
    con.execute("CREATE TABLE t (dept TEXT, city TEXT, age INTEGER, rate DOUBLE, mark TEXT)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ROWS)
    found = con.execute(carry.sql).fetchall()
    return sorted((value for value, count in found for _ in range(count)), key=lambda v: (v is None, v))


@pytest.mark.parametrize(
    ("dialects", "expression", "expected"),
    [
        (
            "snowflake bigquery trino spark databricks redshift mysql tsql",
            "SUBSTRING(city, 2, 3)",
            ["ern", "lm ", None],
        ),
        ("snowflake bigquery spark databricks redshift mysql tsql", "LEFT(dept, 2)", ["IT", "la", "la"]),
        ("snowflake databricks mysql tsql", "RIGHT(dept, 1)", ["T", "w", "w"]),
        ("snowflake bigquery mysql databricks", "CONCAT(dept, ' / ', city)", ["IT / Ulm am See", "law / Bern", None]),
        ("tsql", "dept + '-' + city", ["IT-Ulm am See", "law-Bern", None]),
        ("tsql", "CONCAT(dept, '-', LEFT(dept, 1))", ["IT-I", "law-l", "law-l"]),
        ("snowflake trino redshift", "dept || '-' || city", ["IT-Ulm am See", "law-Bern", None]),
        ("snowflake bigquery trino databricks", "UPPER(city)", ["BERN", "ULM AM SEE", None]),
        ("mysql redshift snowflake", "COALESCE(city, 'none')", ["Bern", "Ulm am See", "none"]),
        ("snowflake", "DECODE(dept, 'law', 'one', 'two')", ["one", "one", "two"]),
        ("snowflake databricks", "dept ILIKE 'L%'", [False, True, True]),
        ("snowflake", "STARTSWITH(dept, 'l')", [False, True, True]),
        ("mysql", "age DIV 10", [0, 3, 4]),
        ("tsql trino redshift", "age / 10", [0, 3, 4]),
        ("tsql trino", "FLOOR(age / 10) * 10", [0, 30, 40]),
        ("mysql snowflake bigquery spark", "FLOOR(age / 10) * 10", [-10, 30, 40]),
        ("bigquery", "FLOOR(age / 7)", [-1, 5, 5]),
    ],
)
def test_they_give_what_the_manuals_say(dialects: str, expression: str, expected: list[object]) -> None:
    for dialect in dialects.split():
        assert answers(expression, dialect) == expected, dialect


@pytest.mark.parametrize(
    ("dialects", "expression"),
    [
        ("snowflake mysql", "LEFT(mark, 1)"),  # letters or bytes
        ("snowflake tsql", "LEFT(ill, 1)"),  # a private column: its values are not looked at
        ("snowflake bigquery", "SUBSTR(dept, 0, 2)"),
        ("snowflake mysql", "SUBSTR(dept, -2)"),
        ("tsql mysql redshift", "UPPER(city)"),  # by the collation, the locale
        ("tsql", "CONCAT(dept, city)"),  # NULL is no text there, and a NULL here
        ("tsql", "COALESCE(city, 'none')"),  # or ISNULL, which cuts
        ("snowflake mysql unknown", "dept + 'x'"),
        ("unknown", "LEFT(dept, 2)"),
        ("mysql snowflake", "FLOOR(age / 7)"),  # 6.9999 may be rounded up
        ("mysql bigquery tsql", "FLOOR(rate / 10)"),
        ("tsql", "age / 2.5"),
        ("tsql", "10 / age"),
    ],
)
def test_what_may_differ_is_not_carried_over(dialects: str, expression: str) -> None:
    for dialect in dialects.split():
        assert translate_to_duckdb(
            f"SELECT {expression}, COUNT(*) FROM t GROUP BY {expression}", dialect, SCHEMA
        ).reason, dialect


def test_parts_that_differ_by_case_alone_are_not_told_apart_there() -> None:
    columns = (Column("code", Kind.TEXT),)
    apart = Schema("t", columns, spelt={"code": frozenset({"ab1", "cd2"})})
    alike = Schema("t", columns, spelt={"code": frozenset({"ab1", "AB2"})})  # told apart whole, not by two letters
    sql = "SELECT LEFT(code, 2), COUNT(*) FROM t GROUP BY LEFT(code, 2)"
    for dialect in ("mysql", "tsql"):
        assert not translate_to_duckdb(sql, dialect, apart).reason
        assert "without regard to case" in translate_to_duckdb(sql, dialect, alike).reason
    assert not translate_to_duckdb(sql, "snowflake", alike).reason
