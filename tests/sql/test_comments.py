"""Where a comment ends, and what is none: what stands there may have been asked. Held against the engines here."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import pytest

import keyhole
from keyhole.sql import split_statements
from keyhole.sql.statements.split import explain_doubtful_comment
from keyhole.sql.statements.table_names import reads_nothing_of_people

ROWS = [("Ann", 51), ("Bob", 64), ("Cyd", 70)]
SIGNS = ["\r", "\n", "\r\n", "\u2028", "\x0b", "\x0c", "\x85"]


@pytest.fixture
def staff(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("name,pay\n" + "".join(f"{name},{pay}\n" for name, pay in ROWS), encoding="utf-8")
    return path


def asked(sql: str, dialect: str, staff: Path) -> keyhole.Verdict:
    log = staff.with_name("log.sql")
    log.write_text(sql + ";\n", encoding="utf-8", newline="")
    return keyhole.audit(log, data=staff, private="pay", id="name", dialect=dialect)


@pytest.mark.parametrize("sign", SIGNS, ids=map(repr, SIGNS))
@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_comment_ends_where_the_engine_ends_it(sign: str, dialect: str, staff: Path) -> None:
    """DuckDB answered of Ann alone behind a carriage return, and the audit took her condition for a comment."""
    sql = f"SELECT SUM(pay) FROM t -- all{sign}WHERE name = 'Ann'"
    con = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
    con.execute("CREATE TABLE t (name VARCHAR, pay INTEGER)")
    con.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    alone = con.execute(sql).fetchall() == [(51,)]
    con.close()
    assert [f.who for f in asked(sql, dialect, staff).exposed] == (["Ann"] if alone else [])


def test_a_statement_behind_a_comment_and_a_carriage_return_is_one(staff: Path) -> None:
    sql = "SELECT SUM(pay) FROM t; -- all\rSELECT SUM(pay) FROM t WHERE name = 'Ann'"
    assert [f.who for f in asked(sql, "duckdb", staff).exposed] == ["Ann"]
    assert len(split_statements(sql, "postgres")) == 2
    assert len(split_statements(sql, "sqlite")) == 1  # there the comment goes on


@pytest.mark.parametrize("dialect", ["sqlite", "mysql", "tsql"])
def test_a_carriage_return_within_is_not_judged_elsewhere(dialect: str, staff: Path) -> None:
    found = asked("SELECT SUM(pay) FROM t WHERE name = 'Bob' -- or\r OR name = 'Cyd'\n OR name = 'Ann'", dialect, staff)
    assert "a carriage return ends a comment" in found.unjudged[0].reason


def test_two_dashes_are_a_comment_in_mysql_only_before_a_blank() -> None:
    text = "SELECT SUM(pay) FROM t WHERE age > 30 --1 AND name = 'Ann'"
    assert [f.sql for f in split_statements(f"{text}; SELECT 2 -- c; d\n;SELECT 3 --", "mysql")] == [
        text,
        "SELECT 2",
        "SELECT 3",
    ]
    assert [f.sql for f in split_statements(text)] == ["SELECT SUM(pay) FROM t WHERE age > 30"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(pay) FROM t WHERE pay > 28--22",  # in MySQL: more than 50
        "SELECT SUM(pay) FROM t WHERE pay > 28--22\n OR pay > 1",
        "SELECT SUM(pay) FROM t--all; SELECT SUM(pay) FROM t WHERE name = 'Ann'",
        "SELECT SUM(pay) FROM t;--1; SELECT SUM(pay) FROM t WHERE name = 'Ann'",
    ],
)
def test_two_dashes_without_a_blank_are_in_doubt_where_the_engine_is_not_known(sql: str, staff: Path) -> None:
    """MySQL computes with them, and the audit took the rest of the line for a comment."""
    found = asked(sql, "unknown", staff)
    assert found.exit_code == 3
    assert "-- without a blank behind it" in found.unjudged[0].reason
    assert "-- without a blank behind it" in explain_doubtful_comment(sql, "unknown")


def test_two_dashes_that_every_engine_passes_over_are_in_no_doubt() -> None:
    text = "--All people\nSELECT 1 -- it's;\n WHERE a = '--b' /* --c */ --\n; --d\n"
    assert [(f.sql[:8], f.unclosed) for f in split_statements(text, "unknown")] == [("SELECT 1", "")]
    assert explain_doubtful_comment("SELECT 1 --all", "postgres") == ""


@pytest.mark.parametrize("dialect", ["mysql", "unknown"])
@pytest.mark.parametrize("start", ["/*!", "/*!50000", "/*M!"])
def test_what_mysql_runs_is_no_comment(start: str, dialect: str, staff: Path) -> None:
    for sql in (
        f"SELECT SUM(pay) FROM t {start} WHERE name = 'Ann' */",
        f"SELECT SUM(pay) FROM t {start} WHERE name = 'Ann' */ ORDER BY 1",
        f"{start} SELECT SUM(pay) FROM t WHERE name = 'Ann' */",
    ):
        found = asked(sql, dialect, staff)
        assert (found.exit_code, len(found.unjudged)) == (3, 1)
        assert "is run by MySQL" in found.unjudged[0].reason
    assert not reads_nothing_of_people(f"SELECT 1 {start} FROM t */", dialect)
    assert not split_statements("/*!40101 SET NAMES utf8 */; /* plain */", dialect)  # dumps begin so
