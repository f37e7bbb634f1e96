"""What logs of other engines hold beside plain questions: their own words for them, names, talk with the server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import keyhole
from keyhole.logs.open import open_log

STAFF = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay"],
        "dept": list("aabbbc"),
        "age": [30, 41, 52, 38, 38, 60],
        "pay": [51, 64, 70, 80, 33, 90],
    }
)


def audit(*log: str, dialect: str) -> keyhole.Verdict:
    return keyhole.audit(list(log), data=STAFF, private="pay", id="name", dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        # DuckDB reads IIF as it reads IF, and has no such function
        ("tsql", "SELECT IIF(dept = 'c', 'x', 'y'), SUM(pay) FROM staff GROUP BY IIF(dept = 'c', 'x', 'y')"),
        ("snowflake", "SELECT IFF(dept = 'c', 'x', 'y'), SUM(pay) FROM staff GROUP BY 1"),
        ("tsql", "SELECT dept, SUM(pay) FROM staff GROUP BY dept WITH ROLLUP"),
        # DuckDB has the name main for itself, and it is the first catalog of Databricks
        ("databricks", "SELECT dept, SUM(pay) FROM main.hr.staff GROUP BY dept"),
        ("trino", "SELECT dept, SUM(pay) FROM system.hr.staff GROUP BY dept"),
    ],
)
def test_words_of_other_engines_are_judged(dialect: str, sql: str) -> None:
    assert [(f.who, f.value) for f in audit(sql, dialect=dialect).exposed] == [("Fay", 90)]


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("tsql", "SELECT TOP (2) WITH TIES dept, SUM(pay) FROM staff WHERE dept <> 'c' GROUP BY dept ORDER BY 2"),
        ("tsql", "SELECT dept, ROUND(SUM(pay), 2) FROM staff WHERE dept <> 'c' GROUP BY dept WITH ROLLUP"),
        ("tsql", "SELECT dept, FORMAT(SUM(pay), 'N2') FROM staff WHERE dept <> 'c' GROUP BY dept"),
        ("mysql", "SELECT dept, FORMAT(SUM(pay), 0) FROM staff WHERE dept <> 'c' GROUP BY dept"),
        ("snowflake", "SELECT dept, TO_VARCHAR(SUM(pay), '999.00') FROM staff WHERE dept <> 'c' GROUP BY dept"),
        ("databricks", "SELECT dept, SUM(pay) / COUNT(*) FROM main.hr.staff WHERE dept <> 'c' GROUP BY dept"),
    ],
)
def test_what_is_made_of_aggregates_is_judged_in_the_words_of_its_engine(dialect: str, sql: str) -> None:
    verdict = audit(sql, dialect=dialect)
    assert (verdict.exit_code, verdict.unjudged) == (0, ())


def test_ties_show_rows_beyond_the_cut() -> None:
    sql = "SELECT TOP (1) WITH TIES dept, SUM(pay) FROM staff GROUP BY dept ORDER BY SUM(pay) DESC"
    found = audit(sql, dialect="tsql").exposure.findings
    assert [(f.who, str(f.status), f.if_shown) for f in found] == [("Fay", "inferred", True)]


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("mysql", "select @@version_comment limit 1"),
        ("mysql", "SELECT USER(), DATABASE()"),
        ("postgres", "SELECT 1 AS alive"),
        ("postgres", "SELECT version()"),
        ("tsql", "SELECT @@VERSION, SERVERPROPERTY('EngineEdition')"),
    ],
)
def test_talk_with_the_server_tells_nothing(dialect: str, sql: str) -> None:
    verdict = audit(sql, "SELECT SUM(pay) FROM staff", dialect=dialect)
    assert (verdict.exit_code, verdict.to_json()["statements"]["judged"]) == (0, 2)
    alone = audit(sql, dialect=dialect)
    assert (alone.exit_code, alone.promise) == (3, "none: nothing was judged")


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("mysql", "SELECT @total"),
        ("mysql", "SELECT @@warning_count"),
        ("tsql", "SELECT @@ROWCOUNT"),
        ("snowflake", "SELECT $total"),
        ("postgres", "SELECT richest()"),
        ("duckdb", "SELECT getvariable('total')"),
    ],
)
def test_what_may_hold_an_answer_is_never_passed_over(dialect: str, sql: str) -> None:
    verdict = audit(sql, "SELECT SUM(pay) FROM staff", dialect=dialect)
    assert (verdict.exit_code, verdict.to_json()["statements"]["judged"]) == (3, 1)


def test_a_broken_parameter_of_the_csvlog_is_no_value(tmp_path: Path) -> None:
    row = ["2026-11-15 10:00:00 UTC"] + [""] * 25
    row[13] = "execute <unnamed>: SELECT SUM(pay) FROM staff WHERE name <> $1"
    for detail, read in (("''Ann''", ""), ("'Ann'", "'Ann'"), ("'O''Neil'", "'O''Neil'")):
        row[14] = f"parameters: $1 = {detail}"
        log = tmp_path / "log.csv"
        log.write_text(",".join(f'"{cell}"' for cell in row) + "\n")
        entries = [line.sql for line in open_log(log).lines]
        assert entries == ([f"SELECT SUM(pay) FROM staff WHERE name <> {read}"] if read else [])
