"""Whatever the text, `lower_statement` answers with a Statement or a QueryError."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_world import SCHEMA
from tests.support.effort import effort

from keyhole.errors import QueryError
from keyhole.model.predicate import Membership, Or
from keyhole.sql import lower_statement

HERE = Path(__file__).parent / "fixtures"
KNOWN = re.findall(r"\w+|'[^']*'|\S", (HERE / "judged.toml").read_text(encoding="utf-8"))
WORDS = sorted({*KNOWN, *(HERE / "words.txt").read_text(encoding="utf-8").split("\n"), "\x00", "\ufeff"})
SOUP = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
PLACES = [
    "{}",
    "SELECT {} FROM people",
    "SELECT SUM({}) FROM people",
    "SELECT SUM(pay) FROM {}",
    "SELECT SUM(pay) FROM people WHERE {}",
    "SELECT sex, SUM(pay) FROM people GROUP BY {}",
    "SELECT sex, SUM(pay) FROM people GROUP BY sex HAVING {}",
    "SELECT sex, SUM(pay) FROM people GROUP BY sex ORDER BY {}",
]


def attempt(sql: str) -> None:
    try:
        lower_statement(sql, SCHEMA)
    except QueryError as error:
        assert error.message  # noqa: PT017 - what is raised is the matter here
        assert error.position is not None  # noqa: PT017
        assert 0 <= error.position <= len(sql)  # noqa: PT017
        assert str(error)  # noqa: PT017


@settings(max_examples=effort(1000), deadline=None)
@given(st.sampled_from(PLACES), SOUP)
def test_token_soup(place: str, soup: str) -> None:
    attempt(place.replace("{}", soup))


@settings(max_examples=effort(400), deadline=None)
@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    attempt(text)
    attempt(f"SELECT SUM(pay) FROM people WHERE Name = {text}")


STATEMENTS = re.findall(r"^sql = '+(.*?)'+$", (HERE / "judged.toml").read_text(encoding="utf-8"), re.MULTILINE)


@settings(max_examples=effort(600), deadline=None)
@given(st.sampled_from(STATEMENTS), st.data())
def test_damaged_statements(sql: str, data: st.DataObject) -> None:
    words = re.findall(r"\s+|\w+|'[^']*'|\S", sql)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(st.sampled_from(WORDS), max_size=1))
        words = words or [" "]
    attempt(" ".join(words))


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 1000 + "age" + ")" * 1000,
        "(" * 1000,
        "NOT " * 5000 + "member",
        "age > " + "- " * 5000 + "1",
        "age > " + "1 + " * 5000 + "1",
        "age > " + "zip + " * 5000 + "1",
        "CASE WHEN member THEN " * 500 + "TRUE" + " END" * 500,
        "UPPER(" * 2000 + "sex" + ")" * 2000 + " = 'F'",
        "age IN (" + "[" * 3000 + "1" + "]" * 3000 + ")",
        "age = 1 AND (" * 200 + "age = 1" + ")" * 200,
    ],
    ids=["parentheses", "open", "not", "minus", "sum", "columns", "case", "calls", "brackets", "and"],
)
def test_deep_nesting_is_a_clear_error(condition: str) -> None:
    with pytest.raises(QueryError):
        lower_statement(f"SELECT SUM(pay) FROM people WHERE {condition}", SCHEMA)


def test_a_statement_of_a_megabyte_is_a_clear_error() -> None:
    with pytest.raises(QueryError, match="characters and the limit is"):
        lower_statement(f"SELECT SUM(pay) FROM people WHERE Name = '{'x' * 1_000_000}'", SCHEMA)


def test_long_lists_and_long_chains_are_fine() -> None:
    listed = lower_statement(f"SELECT SUM(pay) FROM people WHERE zip IN ({', '.join(map(str, range(5000)))})", SCHEMA)
    assert isinstance(listed.where, Membership)
    assert len(listed.where.values) == 5000
    chain = lower_statement(
        f"SELECT SUM(pay) FROM people WHERE {' OR '.join(f'zip = {i}' for i in range(3000))}", SCHEMA
    )
    assert isinstance(chain.where, Or)
    assert len(chain.where.parts) == 3000
