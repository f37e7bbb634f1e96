"""Parts of days in engines that do not run here: the examples of their manuals, and what is left out on purpose."""

from __future__ import annotations

import datetime as dt

import duckdb
import pytest

from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql.dialects.to_duckdb import translate_to_duckdb

SCHEMA = Schema(
    "t",
    (
        Column("pay", Kind.INTEGER, Role.PRIVATE),
        Column("d", Kind.DATE),
        Column("moment", Kind.TIMESTAMP),
        Column("n", Kind.INTEGER),
        Column("k", Kind.INTEGER),
    ),
)
# as the manuals show them: MySQL "Date and Time Functions", Transact-SQL "Date and time functions", BigQuery "Date
# functions", Snowflake YEAR and DATE_TRUNC, Trino "Date and time functions", Spark SQL "Built-in functions"
MANUALS = [
    ("mysql", "YEAR(d)", "1987-01-01", 1987),
    ("mysql", "MONTH(d)", "2008-02-03", 2),
    ("mysql", "QUARTER(d)", "2008-04-01", 2),
    ("mysql", "DAYOFMONTH(d)", "2007-02-03", 3),
    ("mysql", "EXTRACT(YEAR FROM d)", "2019-07-02", 2019),
    ("mysql", "DATE_FORMAT(d, '%d/%m/%Y')", "2009-10-04", "04/10/2009"),
    ("tsql", "YEAR(d)", "2010-04-30", 2010),
    ("tsql", "MONTH(d)", "2007-04-30", 4),
    ("tsql", "DAY(d)", "2015-04-30", 30),
    ("tsql", "DATEPART(year, d)", "2007-10-30", 2007),
    ("tsql", "FORMAT(d, 'yyyy-MM')", "2007-10-30", "2007-10"),
    ("tsql", "DATETRUNC(month, d)", "2021-12-08", "2021-12-01"),
    ("bigquery", "EXTRACT(DAY FROM d)", "2013-12-25", 25),
    ("bigquery", "DATE_TRUNC(d, MONTH)", "2008-12-25", "2008-12-01"),
    ("bigquery", "FORMAT_DATE('%Y-%m', d)", "2008-12-25", "2008-12"),
    ("snowflake", "YEAR(d)", "2013-05-08", 2013),
    ("snowflake", "DATE_TRUNC('month', d)", "2015-05-08", "2015-05-01"),
    ("snowflake", "DATE_TRUNC('quarter', d)", "2015-05-08", "2015-04-01"),
    ("trino", "DATE_TRUNC('year', d)", "2001-08-22", "2001-01-01"),
    ("trino", "YEAR(d)", "2001-08-22", 2001),
    ("spark", "YEAR(d)", "2016-07-30", 2016),
    ("spark", "QUARTER(d)", "2016-08-31", 3),
    ("redshift", "DATE_TRUNC('month', d)", "2008-09-13", "2008-09-01"),
]


@pytest.mark.parametrize(("dialect", "part", "day", "shown"), MANUALS)
def test_what_the_manuals_show_is_what_duckdb_answers(dialect: str, part: str, day: str, shown: object) -> None:
    carry = translate_to_duckdb(f"SELECT {part} AS v, COUNT(*) FROM t GROUP BY {part}", dialect, SCHEMA)
    assert carry.reason == ""
    con = duckdb.connect(":memory:")
    con.execute(f"CREATE TABLE t AS SELECT DATE '{day}' AS d")
    ((value, _),) = con.execute(carry.sql).fetchall()
    assert (str(value)[:10] if isinstance(value, dt.date) else value) == shown


@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        ("mysql", "WEEK(d)"),
        ("mysql", "DAYOFWEEK(d)"),
        ("mysql", "DATE_FORMAT(d, '%W %M')"),
        ("mysql", "YEAR(moment)"),  # of a zone, perhaps
        ("mysql", "YEAR(n)"),
        ("mysql", "HOUR(d)"),
        ("tsql", "DATEPART(week, d)"),
        ("tsql", "FORMAT(d, 'MMM yyyy')"),
        ("tsql", "FORMAT(d, 'yyyy/MM')"),
        ("bigquery", "EXTRACT(DAYOFWEEK FROM d)"),
        ("bigquery", "DATE_TRUNC(d, WEEK)"),
        ("snowflake", "DATE_TRUNC('week', d)"),
        ("unknown", "EXTRACT(YEAR FROM d)"),
    ],
)
def test_weeks_names_and_times_are_not_judged(dialect: str, part: str) -> None:
    assert translate_to_duckdb(f"SELECT {part} AS v, COUNT(*) FROM t GROUP BY {part}", dialect, SCHEMA).reason


@pytest.mark.parametrize("dialect", ["mysql", "tsql"])
def test_with_rollup_is_a_rollup(dialect: str) -> None:
    made = translate_to_duckdb("SELECT n, k, SUM(pay) FROM t GROUP BY n, k WITH ROLLUP", dialect, SCHEMA)
    assert made.reason == ""
    assert made.sql.endswith("GROUP BY ROLLUP (n, k)")
