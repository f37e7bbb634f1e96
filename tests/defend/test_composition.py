"""Optimal composition of releases fixed beforehand: against enumeration, against a peer, and in the book."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import keyhole
from keyhole.book import Book
from keyhole.defend.composition import bundle_delta, bundle_epsilon, bundle_share
from keyhole.knowledge import Config

TOLD = """
[budget]
epsilon = 1
delta = 1e-6
unit = "epsilon"
mechanism = "laplace"
[columns.public.age]
min = 0
max = 99
width = 10
"""
STATEMENTS = [f"SELECT COUNT(*) FROM t WHERE age >= {k}" for k in range(10, 100, 10)] + [
    f"SELECT COUNT(*) FROM t WHERE age < {k} AND age >= {j}" for k in range(30, 100, 10) for j in range(10, k - 10, 10)
]


@pytest.mark.parametrize(("each", "times", "epsilon"), [(0.3, 5, 0.5), (1.0, 4, 2.5), (0.05, 8, 0.0), (0.7, 3, 2.2)])
def test_delta_is_that_of_randomised_responses(each: float, times: int, epsilon: float) -> None:
    """Brute force over all outcomes of all of them."""
    right = math.exp(each) / (1 + math.exp(each))
    found = 0.0
    for bits in itertools.product((0, 1), repeat=times):
        first = math.prod(right if bit else 1 - right for bit in bits)
        second = math.prod(1 - right if bit else right for bit in bits)
        found += max(0.0, first - math.exp(epsilon) * second)
    assert found <= bundle_delta(each, times, epsilon) <= found * (1 + 1e-5) + 1e-15


def test_shares_are_rounded_inward_and_prices_outward() -> None:
    for times, epsilon, delta in ((2, 1, 1e-6), (50, 1, 1e-6), (1000, 10, 1e-9), (100, 1, 0)):
        share = bundle_share(times, Fraction(epsilon), Fraction(delta))
        assert share >= Fraction(epsilon, times)
        if delta:
            assert bundle_epsilon(share, times, Fraction(delta)) <= epsilon
            assert bundle_delta(float(share), times, float(epsilon)) <= delta * (1 + 1e-12) or share * times <= epsilon
    assert float(bundle_epsilon(Fraction(1, 100), 1000, Fraction(1, 10**6))) == pytest.approx(1.36, abs=0.01)


def test_a_file_is_paid_for_at_once_and_gets_more_for_it(tmp_path: Path) -> None:
    data = pa.table({"age": [k % 100 for k in range(5000)]})
    book, told = tmp_path / "b.keyhole", Config.parse(TOLD)
    prices = keyhole.answer(STATEMENTS, data=data, table="t", config=told, ledger=book, dry_run=True).prices
    found = keyhole.answer(STATEMENTS, data=data, table="t", config=told, ledger=book)
    assert found.refused == 0
    assert "optimal composition" in found.answers[0].how
    assert [a.cost > 0 for a in found.answers] == [True] + [False] * (len(STATEMENTS) - 1)
    assert sum(a.cost for a in found.answers) == found.spent == prices[0].cost <= 1
    with Book.open(book) as kept:
        amount, delta = kept.state.spent("*")
    assert amount == found.spent
    assert delta == Fraction(1, 10**6)
    even = 1 / len(STATEMENTS)
    bar = float(found.answers[0].groups[0][1][0].bar or 0)
    assert bar < 0.9 * math.log(1 / 0.05) / even  # that of an even share
    again = keyhole.answer(STATEMENTS, data=data, table="t", config=told, ledger=book)
    assert again.spent == found.spent
    assert [a.groups for a in again.answers] == [a.groups for a in found.answers]
    more = keyhole.answer(["SELECT COUNT(*) FROM t WHERE age < 20"], data=data, table="t", config=told, ledger=book)
    assert more.spent <= 1
