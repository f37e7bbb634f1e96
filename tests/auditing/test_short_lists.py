"""Short lists: people who have one of at most three values, though nobody knows whose is which."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.checker import replay
from keyhole.config import Config
from keyhole.errors import ConfigError

ROWS = [("Ann", "a", 53), ("Bob", "a", 54), ("Cyd", "a", 104), ("Dan", "b", 70), ("Eve", "b", 80), ("Fay", "b", 95)]
LIST = (Decimal(53), Decimal(54), Decimal(104))


def judged(log: list[str], values: list[Any] | None = None, private: str = "pay:real", **more: Any) -> keyhole.Verdict:
    pay = [row[2] for row in ROWS] if values is None else values
    people = pa.table({"name": [r[0] for r in ROWS], "dept": [r[1] for r in ROWS], "pay": pay})
    return keyhole.audit(log, data=people, id="name", private=private, **more)


@pytest.mark.parametrize(
    "log",
    [
        ["SELECT MIN(pay), MAX(pay), SUM(pay) FROM t WHERE dept = 'a'"],
        ["SELECT MIN(pay), MAX(pay), AVG(pay) FROM t WHERE dept = 'a'"],
        ["SELECT MIN(pay), MEDIAN(pay), MAX(pay) FROM t WHERE dept = 'a'"],
        ["SELECT MEDIAN(pay), MAX(pay) FROM t WHERE dept = 'a'", "SELECT SUM(pay) FROM t WHERE dept = 'a'"],
        [
            "SELECT MIN(pay), MAX(pay) FROM t WHERE dept = 'a'",
            "SELECT SUM(pay) FROM t",
            "SELECT SUM(pay) FROM t WHERE dept = 'b'",
        ],
    ],
)
@pytest.mark.parametrize("private", ["pay", "pay:real", "pay:0..200:1"])
def test_three_values_that_are_told_are_a_list_for_each(log: list[str], private: str) -> None:
    """The least, the greatest and the total of three people were an all-clear."""
    verdict = judged(log, private=private)
    assert verdict.exit_code == 1
    assert {f.who: f.allowed for f in verdict.inferred} == dict.fromkeys(("Ann", "Bob", "Cyd"), LIST)
    assert "is one of 53, 54, 104" in verdict.text()


@pytest.mark.parametrize(
    "log",
    [
        ["SELECT MAX(pay), SUM(pay) FROM t WHERE name IN ('Dan', 'Fay')"],
        ["SELECT MIN(pay), AVG(pay) FROM t WHERE name IN ('Dan', 'Fay')"],
        ["SELECT MEDIAN(pay), MAX(pay) FROM t WHERE name IN ('Dan', 'Fay')"],
        [
            "SELECT SUM(pay) FROM t",
            "SELECT SUM(pay) FROM t WHERE name NOT IN ('Dan', 'Fay')",
            "SELECT MIN(pay) FROM t WHERE name IN ('Dan', 'Fay')",
        ],
    ],
)
@pytest.mark.parametrize("private", ["pay", "pay:real", "pay:0..200:1"])
def test_two_values_that_are_told_are_a_list_for_both(log: list[str], private: str) -> None:
    """An extreme and the total, or the median, of two people were an all-clear."""
    verdict = judged(log, private=private)
    assert verdict.exit_code == 1
    assert {f.who: f.allowed for f in verdict.inferred} == dict.fromkeys(("Dan", "Fay"), (Decimal(70), Decimal(95)))


def test_a_list_is_not_said_to_be_replayed(tmp_path: Any) -> None:
    data = tmp_path / "t.csv"
    data.write_text("name,dept,pay\n" + "".join(f"{n},{d},{p}\n" for n, d, p in ROWS))
    log = ["SELECT MIN(pay), MAX(pay), SUM(pay) FROM t WHERE dept = 'a'"]
    verdict = keyhole.audit(log, data=data, id="name", private="pay:real")
    assert {str(c.outcome) for c in replay(verdict.dumps(), data).checked} == {"cannot be replayed"}


def test_two_equal_values_are_a_list_of_two() -> None:
    verdict = judged(["SELECT MIN(pay), MAX(pay), SUM(pay) FROM t WHERE dept = 'a'"], [53, 53, 104, 70, 80, 95])
    assert {f.allowed for f in verdict.inferred} == {(Decimal(53), Decimal(104))}


@pytest.mark.parametrize(
    ("log", "private"),
    [
        (["SELECT MIN(pay), MAX(pay) FROM t WHERE dept = 'a'"], "pay:real"),  # the one between is open
        (["SELECT MIN(pay), MAX(pay), SUM(pay) FROM t"], "pay:real"),  # six people
        (["SELECT MIN(pay), MAX(pay), ROUND(SUM(pay), -2) FROM t WHERE dept = 'a'"], "pay:0..200:1"),
    ],
)
def test_what_is_not_told_is_no_list(log: list[str], private: str) -> None:
    assert not [f for f in judged(log, private=private).findings if f.allowed]


def test_a_column_of_few_values_has_no_lists() -> None:
    log = ["SELECT MIN(pay), MAX(pay), SUM(pay) FROM t WHERE dept = 'a'"]
    verdict = judged(log, [1, 2, 4, 5, 6, 9], "pay:0..9:1")
    assert not [f for f in verdict.findings if f.proof is not None and "values of a small group" in f.proof.rule]


def test_every_list_holds_in_every_table_with_these_answers() -> None:
    rng, lists = random.Random(8), 0
    kinds = ["MIN(pay)", "MAX(pay)", "SUM(pay)", "MEDIAN(pay)", "AVG(pay)"]
    for _ in range(12):
        values = [rng.randrange(20) for _ in ROWS]
        asked = rng.sample(kinds, 3)
        verdict = judged([f"SELECT {', '.join(asked)} FROM t WHERE dept = 'a'"], values, "pay:0..19:1")
        fits = [t for t in itertools.product(range(20), repeat=3) if figures(t, asked) == figures(values[:3], asked)]
        for f in verdict.inferred:
            if f.allowed and f.row < 3:
                lists += 1
                assert {t[f.row] for t in fits} <= set(map(int, f.allowed)), (values, asked, f)
    assert lists


def figures(values: Any, asked: list[str]) -> list[Any]:
    made = {"MIN(pay)": min(values), "MAX(pay)": max(values), "MEDIAN(pay)": sorted(values)[1]}
    made |= {"SUM(pay)": sum(values), "AVG(pay)": sum(values)}
    return [made[name] for name in asked]


def test_more_values_for_everybody_else_are_promised_only_where_they_are_proved() -> None:
    total = ["SELECT SUM(pay) FROM t"]
    assert judged(total, among=3).exit_code == 0  # over all numbers everybody has as many as one likes
    assert judged(total, private="pay:0..200:1").exit_code == 0
    found = judged(total, private="pay:0..200:1", among=3)
    assert (found.exit_code, "more than 3 possible values" in found.promise) == (3, True)
    with pytest.raises(ConfigError, match="at least 1"):
        judged(total, among=0)


def test_a_list_and_a_range_meet() -> None:
    """Cyd has one of 53, 54, 104, and is known to have more than 100."""
    told = "[[facts]]\nwhere = \"name = 'Cyd'\"\nmin = 100\n"
    toml = f"[columns]\nid = ['name']\n[columns.private.pay]\ndomain = 'real'\n{told}"
    people = pa.table({"name": [r[0] for r in ROWS], "dept": [r[1] for r in ROWS], "pay": [r[2] for r in ROWS]})
    log = ["SELECT MIN(pay), MAX(pay), SUM(pay) FROM t WHERE dept = 'a'"]
    verdict = keyhole.audit(log, data=people, config=Config.parse(toml))
    assert [(f.who, f.value) for f in verdict.exposed] == [("Cyd", 104)]
