"""SQL as data: pairs of a text and its canonical form, or of a text and the error it must give."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sql_world import ROWS, SCHEMA, check, connect, fill

from keyhole import errors
from keyhole.model.query import Aggregate
from keyhole.model.schema import Schema
from keyhole.sql import lower_statement


def cases(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parent / "fixtures" / name).read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["case"]
    return found


JUDGED, REFUSED = cases("judged.toml"), cases("refused.toml")


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connect()
    yield connection
    connection.close()


@pytest.mark.parametrize("case", JUDGED, ids=lambda c: c["sql"])
def test_the_canonical_form_is_the_one_on_file(case: dict[str, Any]) -> None:
    statement = lower_statement(case["sql"], SCHEMA)
    assert [q.canonical() for q in statement.queries] == case["queries"]
    assert [f"{k.name}: {k.sql}" for k in statement.keys] == case.get("keys", [])
    whole = [list(range(len(statement.keys)))]
    assert [list(s) for s in statement.sets] == case.get("sets", whole)
    assert [q.canonical() for q in statement.tested] == case.get("having", [])


@pytest.mark.parametrize("case", JUDGED, ids=lambda c: c["sql"])
def test_the_engine_gives_the_same_answers_before_and_after_lowering(
    case: dict[str, Any], con: duckdb.DuckDBPyConnection
) -> None:
    sql = case["sql"].strip("()") if case["sql"].startswith("(") else case["sql"]
    for rows in (ROWS, ROWS[:1], ROWS[2:3], ()):
        fill(con, rows)
        check(sql, con)


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c["sql"])
def test_a_refusal_says_what_and_where(case: dict[str, Any]) -> None:
    with pytest.raises(errors.QueryError) as caught:
        lower_statement(case["sql"], SCHEMA)
    error = caught.value
    assert type(error).__name__ == case["error"]
    assert error.message == case["says"]
    assert error.text == case["sql"]
    assert error.position is not None
    assert case["sql"][error.position :].startswith(case["at"])


def test_refusals_cost_no_engine_and_leave_no_trace_of_the_hidden_column() -> None:
    for case in REFUSED:
        with pytest.raises(errors.QueryError) as caught:
            lower_statement(case["sql"], SCHEMA)
        if "ssn" not in case["sql"]:
            assert "ssn" not in str(caught.value)


def test_a_strict_table_is_the_only_name_that_from_takes() -> None:
    strict = Schema(SCHEMA.table, SCHEMA.columns, strict_table=True)
    assert lower_statement("SELECT SUM(pay) FROM PEOPLE", strict).queries
    assert lower_statement("SELECT SUM(pay) FROM main.people AS p WHERE p.age > 1", strict).queries
    with pytest.raises(errors.UnsupportedQuery, match="the table here is people"):
        lower_statement("SELECT SUM(pay) FROM staff", strict)


def test_labels_are_the_items_as_written() -> None:
    statement = lower_statement(
        "SELECT sex, SUM( pay )  AS total, COUNT(*) n, AVG(pay) FROM people GROUP BY sex", SCHEMA
    )
    assert [q.label for q in statement.queries] == ["SUM( pay )", "COUNT(*)", "AVG(pay)"]
    assert lower_statement("SELECT ROUND(VAR_POP(pay), 1) FROM people", SCHEMA).queries[0].label == 'VAR_POP("pay")'


def test_figures_about_public_columns_are_marked_as_public() -> None:
    queries = lower_statement("SELECT COUNT(DISTINCT sex), MAX(age), MAX(pay) FROM people", SCHEMA).queries
    assert [q.aggregate for q in queries] == [Aggregate.PUBLIC, Aggregate.PUBLIC, Aggregate.MAX]


def test_nothing_depends_on_how_often_it_is_asked() -> None:
    for case in JUDGED:
        assert lower_statement(case["sql"], SCHEMA) == lower_statement(case["sql"], SCHEMA)
