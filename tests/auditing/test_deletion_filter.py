"""Contradictions name what cannot be left out, declared ends included; checked against programs over all witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog

import keyhole
from keyhole.auditing.contradiction import MAYBE
from keyhole.config import Config

PEOPLE = pa.table({"name": ["ann", "bob", "cat", "dan"], "dept": ["A", "A", "B", "B"], "sex": ["f", "m", "f", "m"]})
GROUPS = {"dept = 'A'": (0, 1), "dept = 'B'": (2, 3), "sex = 'f'": (0, 2), "sex = 'm'": (1, 3), "TRUE": (0, 1, 2, 3)}
KNOWN = {"the min of pay, 0": ("MIN", (0, 1, 2, 3), 0), "the max of pay, 100": ("MAX", (0, 1, 2, 3), 100)}
Said = tuple[str, Sequence[int], int]


def contradictions(log: list[Any], private: str = "pay:0..100", facts: str = "") -> list[str]:
    config = Config.parse(facts) if facts else None
    found = keyhole.audit(log, data=PEOPLE, private=private, id="name", config=config)
    return [c.reason for c in found.contradictions]


def test_an_order_statistic_beside_sums_names_two_of_four_and_the_minimum() -> None:
    log = [
        ("SELECT SUM(pay) FROM t WHERE dept='A'", 5),
        ("SELECT MAX(pay) FROM t WHERE dept='A'", 20),
        ("SELECT SUM(pay) FROM t WHERE dept='B'", 25),
        ("SELECT SUM(pay) FROM t WHERE sex='f'", 28),
    ]
    for some in (log[:2], log, [*log[:3], ("SELECT SUM(pay) > 27 FROM t WHERE sex='f'", True)]):
        assert contradictions(some) == ["Q1, Q2 and the min of pay, 0 cannot all be true: no table fits"]


def test_counts_name_the_same_in_words_and_in_numbers() -> None:
    log = [
        ("SELECT COUNT(*) FROM t WHERE ill='flu'", 3),
        ("SELECT COUNT(*) FROM t WHERE ill='flu' AND dept='A'", 0),
        ("SELECT COUNT(*) FROM t WHERE ill='flu' AND sex='m'", 1),
    ]
    found = keyhole.audit(log, data=PEOPLE, private="ill=flu,cold", id="name").contradictions
    assert [(c.queries, c.reason) for c in found] == [(("1", "2"), "Q1 and Q2 cannot all be true: no table fits")]


def test_a_fact_is_a_member_and_keeps_its_number() -> None:
    facts = "[columns.private.pay]\n[[facts]]\nwhere = \"sex = 'f'\"\nmax = 30\n"
    facts += "[[facts]]\nwhere = \"name = 'bob'\"\nmax = 20\n"
    log = [("SELECT SUM(pay) FROM t WHERE dept='B'", 3), ("SELECT MAX(pay) FROM t WHERE dept='A' AND sex='m'", 40)]
    assert contradictions(log, "pay", facts) == ["Q2 and fact 2 cannot all be true: no table fits"]


def fits(said: Sequence[Said]) -> bool:
    """Is there a table? One linear program for each choice of who has each MIN and MAX that was answered."""
    ends = [s for s in said if s in KNOWN.values()]
    low, high = (next((v for w, _, v in ends if w == word), None) for word in ("MIN", "MAX"))
    asked = [s for s in said if s not in KNOWN.values()]
    for who in product(*(rows if word != "SUM" else (None,) for word, rows, _ in asked)):
        equal, less = [], []
        for at, (word, rows, value) in zip(who, asked, strict=True):
            equal.append((rows if at is None else (at,), value))
            sign = {"SUM": 0, "MAX": 1, "MIN": -1}[word]
            less += [(r, sign, sign * value) for r in rows if sign]
        a_eq = [np.isin(range(4), rows).astype(float) for rows, _ in equal]
        a_ub = [sign * np.eye(4)[r] for r, sign, _ in less]
        found = linprog(
            np.zeros(4),
            A_ub=a_ub or None,
            b_ub=[b for *_, b in less] or None,
            A_eq=a_eq or None,
            b_eq=[b for _, b in equal] or None,
            bounds=(low, high),
        )
        if found.status == 0:
            return True
    return False


def compare(rng: np.random.Generator) -> tuple[int, int]:
    """(contradictions, of which it is said to be irreducible) of one random log, all of them checked."""
    asked: list[Said] = []
    log = []
    for _ in range(int(rng.integers(2, 6))):
        word, where = str(rng.choice(["SUM", "MIN", "MAX"])), str(rng.choice(list(GROUPS)))
        asked.append((word, GROUPS[where], int(rng.integers(1, 60))))
        log.append((f"SELECT {word}(pay) FROM t WHERE {where}", asked[-1][2]))
    found = keyhole.audit(log, data=PEOPLE, private="pay:0..100", id="name").contradictions
    shown = 0
    for each in found:
        members = [asked[int(q) - 1] for q in each.queries] + [s for word, s in KNOWN.items() if word in each.reason]
        if each.reason.partition(" cannot")[2].endswith("no table fits"):
            assert not fits(members), (log, each)
            assert all(fits(members[:i] + members[i + 1 :]) for i in range(len(members))), (log, each)
            shown += 1
        elif MAYBE in each.reason:
            assert not fits(members if "the m" in each.reason else [*members, *KNOWN.values()]), (log, each)
    return len(found), shown


def test_random_contradictions_are_irreducible_where_it_is_said() -> None:
    rng = np.random.default_rng(12)
    counted = np.array([compare(rng) for _ in range(7)])
    assert (counted.sum(axis=0) >= 3).all()


@pytest.mark.soak
def test_many_random_contradictions() -> None:
    rng = np.random.default_rng()
    for _ in range(60):
        compare(rng)
