"""Random statements from a grammar, on random tables with NULLs: the text and its lowering give the same answers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql_world import check, connect, fill
from tests.support.effort import effort

from keyhole.errors import QueryError

# the ways in which the grammar can leave what is judged
BEYOND = (
    "different denominators",
    "constant beside an aggregate",
    "constant divided by",
    "quotient of quotients",
    "division by zero",
    "without rounding",
    "may be NaN",
)
DEPTH = 6


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connect()
    yield connection
    connection.close()


def maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), values)


ROW = st.tuples(
    maybe(st.integers(0, 4)),  # zip
    st.integers(0, 4),  # age
    maybe(st.sampled_from(["F", "M", "f", "", "Fä"])),
    maybe(st.dates(dt.date(2019, 12, 30), dt.date(2020, 3, 2))),
    maybe(st.integers(0, 3 * 86400).map(lambda s: dt.datetime(2020, 1, 1) + dt.timedelta(seconds=s))),
    maybe(st.integers(-20, 20).map(lambda i: Decimal(i) / 10)),  # height
    maybe(st.integers(-8, 8).map(lambda i: i / 4)),  # ratio
    maybe(st.booleans()),
    maybe(st.integers(-3, 6)),  # pay
    st.integers(0, 60).map(lambda i: Decimal(i) / 10),  # Blood sugar
    maybe(st.integers(-8, 8).map(lambda i: i / 4)),  # score
    maybe(st.sampled_from(["flu", "cold", "", "Flu"])),
    maybe(st.booleans()),
    maybe(st.integers(150, 155)),
)
TABLES = st.lists(ROW, max_size=6).map(lambda rows: [(f"p{i}", *row, "secret") for i, row in enumerate(rows)])


def grammar() -> dict[str, list[str]]:
    text = (Path(__file__).parent / "fixtures" / "grammar.txt").read_text(encoding="utf-8")
    blocks = [b.split("\n") for b in text.strip().split("\n\n") if not b.startswith("#")]
    return {lines[0]: lines[1:] for lines in blocks}


RULES = grammar()
HOLE = re.compile(r"<([a-z]+)>|\[([a-z]+)\]")


@st.composite
def statements(draw: st.DrawFn) -> str:
    def grow(rule: str, depth: int) -> str:
        alternatives = RULES[rule]
        if depth >= DEPTH:
            alternatives = [a for a in alternatives if f"<{rule}>" not in a]
        chosen = draw(st.sampled_from(alternatives))

        def fill_in(hole: re.Match[str]) -> str:
            if hole[2] is not None and (depth >= DEPTH or draw(st.booleans())):
                return ""
            return grow(hole[1] or hole[2], depth + 1)

        return HOLE.sub(fill_in, chosen)

    return grow("statement", 0)


@settings(max_examples=effort(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(statements(), TABLES)
def test_a_text_and_its_lowering_give_the_same_answers(
    con: duckdb.DuckDBPyConnection, sql: str, rows: list[tuple[object, ...]]
) -> None:
    fill(con, rows)
    try:
        check(sql, con)
    except QueryError as error:
        if not any(reason in error.message for reason in BEYOND):
            raise


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(statements(), TABLES)
def test_a_text_and_its_lowering_give_the_same_answers_for_long(
    con: duckdb.DuckDBPyConnection, sql: str, rows: list[tuple[object, ...]]
) -> None:
    test_a_text_and_its_lowering_give_the_same_answers.hypothesis.inner_test(con, sql, rows)  # type: ignore[attr-defined]
