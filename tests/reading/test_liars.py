"""Planted misreadings: the reader is made to err as it once did, and the check by execution must notice."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Columns
from keyhole.datasets import Roster, load_roster
from keyhole.errors import DIFFERS
from keyhole.model.query import Statement
from keyhole.model.schema import Schema
from keyhole.reading import Validator
from keyhole.sql import lower_statement

D = pa.table(
    {
        "name": ["Ann", "Bob", "Cyd", "Dan"],
        "dept": ["a", "a", "b", "b"],
        "zip": [32453, 43999, 43813, 33000],
        "age": [30, 41, 52, 38],
        "pay": [51, 64, 70, 80],
        "bonus": pa.array([None, None, 3, 4], pa.int64()),
    }
)
Misreading = Callable[[str, Schema], Statement]


def as_if(other: str) -> Misreading:
    """Reads another text instead."""
    return lambda text, schema: replace(lower_statement(other, schema), text=text)


def zero_for_null(text: str, schema: Schema) -> Statement:
    """A sum over nobody is 0."""
    made = lower_statement(text, schema)
    return replace(made, queries=tuple(replace(q, needs=()) for q in made.queries))


def dropped_totals(text: str, schema: Schema) -> Statement:
    """ROLLUP without its last row."""
    made = lower_statement(text, schema)
    return replace(made, sets=tuple(s for s in made.sets if s))


def shifted(text: str, schema: Schema) -> Statement:
    """The first item is not counted."""
    made = lower_statement(text, schema)
    return replace(made, shown=made.shown[1:])


def swapped(text: str, schema: Schema) -> Statement:
    """The items in another order."""
    made = lower_statement(text, schema)
    return replace(made, shown=made.shown[::-1])


LIARS = [
    (
        "SELECT SUM(pay) FROM (SELECT t.*, 'x' AS name FROM t) WHERE name = 'Ann'",
        as_if("SELECT SUM(pay) FROM t WHERE 'x' = 'Ann'"),
    ),
    ("SELECT SUM(pay) FROM t WHERE zip // 1000.0 = 32.453", as_if("SELECT SUM(pay) FROM t WHERE zip // 1000 = 32.453")),
    ("SELECT NULL AS note, SUM(pay - 1) FROM t WHERE name = 'Ann'", shifted),
    ("SELECT NULL AS note, SUM(pay - 1) FROM t WHERE name = 'Ann'", swapped),
    ("SELECT COUNT(*), SUM(pay) FROM t GROUP BY dept", swapped),
    ("SELECT dept, SUM(pay) - COUNT(*) FROM t GROUP BY ROLLUP (dept)", dropped_totals),
    ("SELECT dept, SUM(pay) FROM t GROUP BY GROUPING SETS ((), (dept)) HAVING COUNT(*) > 1", dropped_totals),
    ("SELECT SUM(pay) FROM t WHERE pay > 1000", zero_for_null),
    ("SELECT SUM(pay) + COUNT(*) FROM t WHERE pay > 1000", zero_for_null),
    ("SELECT SUM(bonus) - SUM(pay) FROM t WHERE dept = 'a'", zero_for_null),
    ("SELECT (SUM(bonus) - SUM(pay)) / COUNT(*) FROM t GROUP BY dept", zero_for_null),
    ("SELECT SUM(pay) FILTER (WHERE age > 40) - SUM(pay) FILTER (WHERE age < 40) FROM t GROUP BY zip", zero_for_null),
    ("SELECT COALESCE(SUM(pay), 0) FROM t WHERE age > 40", as_if("SELECT SUM(pay) FROM t WHERE age > 40")),
    ("SELECT SUM(pay) FROM t WHERE age > 40", as_if("SELECT SUM(pay) FROM t WHERE age >= 40")),
    (
        "SELECT SUM(pay) FROM t WHERE age > 40 OR dept = 'a' AND zip < 40000",
        as_if("SELECT SUM(pay) FROM t WHERE (age > 40 OR dept = 'a') AND zip < 40000"),
    ),
    (
        "SELECT dept, SUM(pay) FROM t GROUP BY dept HAVING COUNT(*) > 1",
        as_if("SELECT dept, SUM(pay) FROM t GROUP BY dept HAVING COUNT(*) >= 1"),
    ),
    ("SELECT MAX(pay) FROM t", as_if("SELECT MIN(pay) FROM t")),
    ("SELECT STDDEV(pay) FROM t", as_if("SELECT STDDEV_POP(pay) FROM t")),
    ("SELECT MEDIAN(pay) FROM t WHERE pay > 3", as_if("SELECT MEDIAN(pay) FROM t WHERE pay >= 3")),
    ("SELECT COUNT(bonus) FROM t", as_if("SELECT COUNT(*) FROM t")),
]  # fmt: skip


@pytest.fixture(scope="module")
def roster() -> Roster:
    return load_roster(D, Columns.checked({"id": ["name"], "private": {"pay": {}, "bonus": {}}}))


@pytest.mark.parametrize(("text", "misread"), LIARS)
def test_a_planted_misreading_is_noticed_and_the_honest_one_passes(
    text: str, misread: Misreading, roster: Roster
) -> None:
    assert Validator(roster).reasons([lower_statement(text, roster.schema)]) == [""]
    assert Validator(roster).reasons([misread(text, roster.schema)]) == [DIFFERS]


@pytest.mark.parametrize(("text", "misread"), LIARS[:9:2])
def test_an_audit_with_a_lying_reader_is_no_all_clear(
    text: str, misread: Misreading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("keyhole.sql.read"), "lower_statement", misread)
    verdict = keyhole.audit([text], data=D, private=["pay", "bonus"], id="name")
    assert (verdict.exit_code, [u.reason for u in verdict.unjudged]) == (3, [DIFFERS])
    assert not verdict.findings


def test_what_is_offered_for_a_report_has_no_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT SUM(pay) FROM t WHERE name = 'Ann' AND zip > 32453 /* Ann */ AND dept = $$a$$ AND age = 30 -- 51"
    lie = as_if("SELECT SUM(pay) FROM t WHERE name = 'Bob'")
    monkeypatch.setattr(importlib.import_module("keyhole.sql.read"), "lower_statement", lie)
    verdict = keyhole.audit([text], data=D, private=["pay", "bonus"], id="name")
    offered = verdict.to_json()["unjudged"][0]["report"]
    assert offered == "SELECT SUM(pay) FROM t WHERE name = 'x' AND zip > 0  AND dept = 'x' AND age = 0"
    assert offered in verdict.text()


def test_a_misreading_among_many_is_noticed_alone(roster: Roster) -> None:
    honest = [lower_statement(f"SELECT SUM(pay) FROM t WHERE age > {i}", roster.schema) for i in range(60)]
    lie = zero_for_null("SELECT SUM(pay) FROM t WHERE pay > 1000 AND dept = 'a'", roster.schema)
    said = Validator(roster).reasons([*honest[:30], lie, *honest[30:], honest[0]])
    assert [i for i, reason in enumerate(said) if reason] == [30]


def test_a_statement_that_fails_fails_alone(roster: Roster) -> None:
    texts = ["SELECT SUM(pay) FROM t WHERE CAST(dept AS INTEGER) = 1", "SELECT SUM(pay) FROM t WHERE dept = 'a'"]
    said = Validator(roster).reasons([lower_statement(text, roster.schema) for text in texts])
    assert [bool(reason) for reason in said] == [True, False]


def test_the_reason_names_no_data(roster: Roster) -> None:
    said = Validator(roster).reasons(
        [lower_statement("SELECT SUM(pay) FROM t WHERE CAST(dept AS INTEGER) = 1", roster.schema)]
    )
    assert not any(word in said[0] for word in ("'a'", "'b'", "Ann", "51"))
