"""What is declared wrongly, or cannot be met, is named in words that say what to write; and a few known answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.config import Config
from keyhole.errors import ConfigError
from keyhole.report.verdict import Verdict

STAFF = pa.table({"name": list("abcd"), "dept": ["x", "y", "y", "y"], "pay": [10, 20, 30, 41]})
NAMES = STAFF.drop(["pay"])
SUM = "SELECT SUM(pay) FROM t"


def told(log: list[Any], private: str, data: pa.Table = STAFF, facts: str = "") -> Verdict:
    config = Config.parse(facts) if facts else None
    return keyhole.audit(log, data=data, private=private, id="name", config=config)


def test_categories_are_declared_on_the_command_line() -> None:
    ward = pa.table({"name": ["a", "b"], "ill": ["flu", "cold"]})
    count = "SELECT COUNT(*) FROM t WHERE ill = 'flu'"
    none = told([(count, 0)], "ill=flu,cold", ward.drop(["ill"]))
    assert {f.who: f.value for f in none.exposed} == {"a": "cold", "b": "cold"}
    with pytest.raises(ConfigError, match="a value is empty"):
        told([count], "ill=flu,,cold", ward)
    with pytest.raises(ConfigError, match="repeated"):
        told([count], "ill=flu,flu", ward)


@pytest.mark.parametrize(
    ("private", "meant"),
    [
        ("pay:0-100", "pay:0..100"),
        ("pay=0..100", "pay:0..100"),
        ("pay=0..:5", "pay:0..:5"),
        ("pay:-5-5", "pay:-5..5"),
        ("pay:0,100:5", "pay:0..100:5"),
        ("pay:0:100", "pay:0..100"),
        ("pay:0 to 100", "pay:0..100"),
        ("ill:flu,cold", "ill=flu,cold"),
    ],
)
def test_a_dash_for_a_range_gets_a_hint(private: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"write {meant.replace('.', '[.]')} "):
        told([SUM], private)


def test_crossed_bounds_are_named() -> None:
    with pytest.raises(ConfigError, match="min = 100 is above max = 0: swap them"):
        told([SUM], "pay:100..0")


def test_a_fact_about_nobody_is_warned_of() -> None:
    verdict = told([SUM], "pay:0..100", facts='[[facts]]\ncolumn = "pay"\nwhere = "name = \'zoe\'"\nmax = 5\n')
    assert "Warning: nobody matches fact 1" in verdict.text()
    assert [w["query"] for w in verdict.to_json()["warnings"]] == ["fact 1"]


@pytest.mark.parametrize(
    ("private", "answer", "possible"),
    [
        ("pay:0..100:1", "100.5", False),
        ("pay:0..100:0.5", "100.5", True),
        ("pay:0..100:5", "101", False),
        ("pay:1..100:5", "104", True),  # four times 1, and steps of 5
        ("pay:1..100:5", "105", False),
    ],
)
def test_a_sum_that_the_steps_cannot_meet_is_a_contradiction(private: str, answer: str, possible: bool) -> None:
    verdict = told([(SUM, Decimal(answer))], private, NAMES)
    assert (not verdict.contradictions) is possible
    if not possible:
        assert [c.queries for c in verdict.contradictions] == [("1",)]
        assert verdict.exit_code == 3


def test_knowledge_that_contradicts_the_log_is_named_and_nothing_else() -> None:
    log = [(SUM, 101), ("SELECT SUM(pay) FROM t WHERE dept = 'x'", 10), ("SELECT MAX(pay) FROM t WHERE dept = 'y'", 20)]
    verdict = told(log, "pay:0..", NAMES)
    assert [c.queries for c in verdict.contradictions] == [("1", "2", "3")]  # three people with 20 at most are not 91


def test_a_rounded_average_of_one_person_is_his_value() -> None:
    verdict = told(["SELECT dept, ROUND(AVG(pay), 2) FROM t GROUP BY dept"], "pay")
    assert {f.who: f.value for f in verdict.exposed} == {"a": 10}


def test_the_median_of_two_decimals_is_cut() -> None:
    pay = pa.array([Decimal("1.00"), Decimal("1.03")], pa.decimal128(9, 2))
    two = pa.table({"name": ["a", "b"], "pay": pay})
    verdict = told(["SELECT MEDIAN(pay) FROM t"], "pay", two)
    assert verdict.evidence.transcript.entries[0].answer is not None
    assert verdict.evidence.transcript.entries[0].answer.value == Decimal("1.01")
    assert not verdict.contradictions
    both = told(["SELECT MEDIAN(pay) FROM t", "SELECT MIN(pay) FROM t WHERE name = 'a'"], "pay", two)
    assert not both.contradictions
    assert all(f.lo is None or f.lo <= Decimal("1.03") <= (f.hi or f.lo) for f in both if f.who == "b")


def test_people_alone_cannot_be_asked_for_answers() -> None:
    with pytest.raises(ConfigError, match=r"'pay' to be private; it has name.*needs a log with answers"):
        keyhole.audit(["SELECT SUM(pay) FROM t"], data=pa.table({"name": ["ann", "bob"]}), private="pay", id="name")


def test_facts_are_counted_from_one_and_named_with_what_they_cross() -> None:
    fact = "[[facts]]\nwhere = \"name = 'a'\"\n"
    with pytest.raises(ConfigError, match="fact 1: min = 5 is above max = 3"):
        told([SUM], "pay", facts=f"{fact}min = 5\nmax = 3")
    with pytest.raises(ConfigError, match="fact 2, min: write a number"):
        told([SUM], "pay", facts=f"{fact}min = 5\n{fact}min = 'x'")
    for end, crossed in (("min = 200", "max 100"), ("max = -5", "min 0"), ("equals = 101", "max 100")):
        found = told([(SUM, 101)], "pay:0..100", NAMES, f"{fact}{end}")
        assert [c.reason for c in found.contradictions] == [
            f"what is known leaves somebody no pay: fact 1, the declared {crossed}"
        ]


def test_a_grid_is_called_declared_only_where_it_is() -> None:
    ward = pa.table({"name": ["a", "b"], "age": [30, 41]})
    log = [("SELECT SUM(age) FROM t WHERE ill = 'flu'", 7)]
    for private, grid in (("ill", ""), ("ill=flu,cold", " on the declared grid")):
        found = told(log, private, ward)
        assert [c.reason for c in found.contradictions] == [f"Q1 cannot be true: no table{grid} gives it"]
