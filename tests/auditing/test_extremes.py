"""MAX online: the closed form against all candidate answers, the known answers, and the auditor around it."""

from __future__ import annotations

import random
import secrets
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from keyhole.auditing.online.minmax import Extremes
from keyhole.auditing.online.online import OnlineAuditor
from keyhole.basis.bits import Words, pack
from keyhole.config import Columns
from keyhole.datasets import load_roster
from keyhole.model.prior import Knowledge, Prior

End = Fraction | None
Facts = list[tuple[list[int], Fraction]]


def bits(n: int, people: list[int]) -> Words:
    return pack(np.isin(np.arange(n), people))


def discloses(n: int, facts: Facts, low: End, high: End, insiders: int) -> bool | None:
    """By the definition: extreme sets of all answers; None if they cannot all be true."""
    mu: list[End] = [high] * n
    for people, a in facts:
        for j in people:
            held = mu[j]
            mu[j] = a if held is None else min(held, a)
    tells = low is not None and low in mu
    for people, a in facts:
        reach = sum(mu[j] == a for j in people)
        if not reach or (low is not None and a < low) or (high is not None and a > high):
            return None
        tells = tells or reach <= 1 + insiders
    return tells


def by_candidates(n: int, facts: Facts, people: list[int], low: End, high: End, insiders: int) -> bool:
    """The 2 l + 1 candidates between and beside the answers, and the declared ends."""
    v = sorted({a for _, a in facts} | {end for end in (low, high) if end is not None})
    middles = [(a + b) / 2 for a, b in pairwise(v)]
    tried = [v[0] - 1, *v, *middles, v[-1] + 1] if v else [Fraction(0)]
    return any(discloses(n, [*facts, (people, a)], low, high, insiders) for a in tried)


def compared(histories: int, seed: int) -> tuple[int, int]:
    """Random histories with ties: (decisions, denials), all equal to the rule by candidates."""
    rng, decided, denied = random.Random(seed), 0, 0
    for _ in range(histories):
        n, insiders = rng.randint(2, 7), rng.choice((0, 0, 1))
        low, high = rng.choice((None, None, Fraction(0))), rng.choice((None, Fraction(6)))
        truth, state, facts = [Fraction(rng.randint(0, 6)) for _ in range(n)], Extremes(n, low, high, insiders), []
        for _ in range(7):
            people = sorted(rng.sample(range(n), rng.randint(1, n)))
            told = state.tells(bits(n, people))
            assert told == by_candidates(n, facts, people, low, high, insiders), (seed, n, facts, people, low, high)
            decided, denied = decided + 1, denied + told
            if not told:
                facts.append((people, max(truth[j] for j in people)))
                assert state.commit(bits(n, people), facts[-1][1])
    return decided, denied


def test_the_closed_form_is_the_rule_by_candidates() -> None:
    decided, denied = compared(300, 7)
    assert decided > 2000
    assert 0 < denied < decided


@pytest.mark.soak
def test_the_closed_form_is_the_rule_by_candidates_on_many_histories() -> None:
    seed = secrets.randbelow(10**9)
    print(seed, compared(10_000, seed))  # noqa: T201 - so that a failure can be repeated


def test_an_answer_that_cannot_be_true_changes_nothing() -> None:
    state = Extremes(3)
    assert state.commit(bits(3, [0, 1]), Fraction(5))
    assert not state.commit(bits(3, [0, 1]), Fraction(7))
    assert not state.commit(bits(3, [0, 1, 2]), Fraction(4))
    assert state.answers == [5]


# -- the auditor ------------------------------------------------------------------------------------------------------

PEOPLE = pa.table({"name": list("abcde"), "pay": [9, 9, 4, 7, 7]})
COLUMNS = Columns.checked({"id": ["name"], "private": {"pay": {"family": "minmax"}}})


def asked(*names: str, item: str = "MAX(pay)") -> str:
    return f"SELECT {item} FROM t WHERE name IN ({', '.join(repr(n) for n in names)})"


@pytest.fixture
def auditor() -> OnlineAuditor:
    return OnlineAuditor(load_roster(PEOPLE, COLUMNS), families={"pay": "minmax"})


def test_known_answers_after_a_largest_value(auditor: OnlineAuditor) -> None:
    assert str(auditor.admit(asked("a", "b", "c")).verdict) == "allow"
    auditor.record(asked("a", "b", "c"), 9)
    groups = ("ab", "de", "abcde", "abcd", "a", "cde")
    said = [str(auditor.admit(asked(*group)).verdict) for group in groups]
    assert said == ["deny", "allow", "allow", "deny", "deny", "allow"]


def test_least_and_greatest_of_the_same_people_are_not_decided_together(auditor: OnlineAuditor) -> None:
    auditor.record(asked("a", "b", "c"), 9)
    least = auditor.admit(asked("c", "d", "e", item="MIN(pay)"))
    assert str(least.verdict) == "refused"
    assert str(auditor.admit(asked("d", "e", item="MIN(pay)")).verdict) == "allow"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MIN(pay), MAX(pay) FROM t",
        "SELECT name, MAX(pay) FROM t GROUP BY name",
        "SELECT MAX(pay) > 5 FROM t",
        "SELECT ROUND(MAX(pay), -1) FROM t",
        "SELECT MAX(pay) FROM t WHERE pay < 5",
        "SELECT SUM(pay) FROM t",
        "SELECT MEDIAN(pay) FROM t",
    ],
)
def test_what_is_not_decided_is_refused(auditor: OnlineAuditor, sql: str) -> None:
    assert str(auditor.admit(sql).verdict) == "refused"


@pytest.mark.parametrize("answer", [None, "no number", 3])
def test_without_a_possible_answer_nothing_more_is_decided(auditor: OnlineAuditor, answer: object) -> None:
    auditor.record(asked("a", "b", "c"), 9)
    auditor.record(asked("a", "b", "c"), answer)
    assert str(auditor.admit(asked("d", "e")).verdict) == "refused"


def test_a_declared_least_value_could_be_the_answer() -> None:
    low = Knowledge({"pay": Prior(lo=Decimal(0))})
    auditor = OnlineAuditor(load_roster(PEOPLE, COLUMNS), families={"pay": "minmax"}, knowledge=low)
    assert str(auditor.admit(asked("a", "b", "c")).verdict) == "deny"


def test_what_was_answered_goes_on_where_it_was() -> None:
    first = OnlineAuditor(load_roster(PEOPLE, COLUMNS), families={"pay": "minmax"})
    first.record(asked("a", "b", "c"), 9)
    second = OnlineAuditor(load_roster(PEOPLE, COLUMNS), families={"pay": "minmax"})
    second.resume(first.past, "the past")
    assert str(second.admit(asked("a", "b")).verdict) == "deny"
    assert str(second.admit(asked("d", "e")).verdict) == "allow"
