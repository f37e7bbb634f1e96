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
from keyhole.config import Config
from keyhole.defence.budget.composition import LossDistribution, bundle_delta, bundle_epsilon, bundle_share

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


@pytest.mark.parametrize(
    ("epsilons", "epsilon"),
    [((0.3, 0.1, 0.7, 0.3), 0.5), ((1.0, 0.25, 0.25), 0.9), ((0.05,) * 5 + (0.9, 0.31), 0.6), ((0.37, 0.11), 0.0)],
)
def test_delta_of_unequal_releases_is_that_of_randomised_responses(epsilons: tuple[float, ...], epsilon: float) -> None:
    """Brute force over all outcomes; the grid rounds outward, and little."""
    right = [math.exp(e) / (1 + math.exp(e)) for e in epsilons]
    found = 0.0
    for bits in itertools.product((0, 1), repeat=len(epsilons)):
        first = math.prod(p if bit else 1 - p for p, bit in zip(right, bits, strict=True))
        second = math.prod(1 - p if bit else p for p, bit in zip(right, bits, strict=True))
        found += max(0.0, first - math.exp(epsilon) * second)
    made = LossDistribution.of([Fraction(str(e)) for e in epsilons])
    assert found <= made.delta(epsilon) <= found * 1.001 + 1e-15


def test_a_distribution_of_equal_releases_is_the_closed_form_rounded_outward() -> None:
    exact = bundle_epsilon(Fraction(1, 100), 1000, Fraction(1, 10**6))
    found = LossDistribution.of([Fraction(1, 100)] * 1000).epsilon(Fraction(1, 10**6))
    assert exact <= found <= exact * Fraction(1001, 1000)
    mixed = LossDistribution.of([Fraction(1, 100)] * 900 + [Fraction(1, 1000)] * 100).epsilon(Fraction(1, 10**6))
    assert mixed <= found


def test_a_file_of_one_accuracy_is_paid_for_at_once_where_that_is_cheaper(tmp_path: Path) -> None:
    """Prices follow from the accuracy and differ between counts and tables; together they cost less than their sum."""
    data = pa.table({"age": [k % 100 for k in range(5000)]})
    asked = [*STATEMENTS, "SELECT age // 10, COUNT(*) FROM t GROUP BY age // 10"][: len(STATEMENTS)]
    asked[0] = "SELECT COUNT(*), COUNT(*) FILTER (age >= 50) FROM t WHERE age >= 10"
    options = {"data": data, "table": "t", "config": Config.parse(TOLD), "accuracy": 0.06}
    alone = [keyhole.ask([sql], book=tmp_path / f"{k}.keyhole", **options).spent for k, sql in enumerate(asked[:2])]
    assert alone[0] > alone[1] > 0
    book = tmp_path / "b.keyhole"
    priced = keyhole.ask(asked, book=book, dry_run=True, **options).prices
    found = keyhole.ask(asked, book=book, **options)
    assert found.refused == 0
    assert found.spent == priced[0].cost < alone[0] + alone[1] * (len(asked) - 1)
    assert "optimal composition" in found.answers[0].how
    assert all(float(a.groups[0][1][0].bar or 0) <= 0.06 * 5000 for a in found.answers)
    with Book.open(book) as kept:
        assert kept.state.spent("*") == (found.spent, Fraction(1, 10**6))


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
    prices = keyhole.ask(STATEMENTS, data=data, table="t", config=told, book=book, dry_run=True).prices
    found = keyhole.ask(STATEMENTS, data=data, table="t", config=told, book=book)
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
    again = keyhole.ask(STATEMENTS, data=data, table="t", config=told, book=book)
    assert again.spent == found.spent
    assert [a.groups for a in again.answers] == [a.groups for a in found.answers]
    more = keyhole.ask(["SELECT COUNT(*) FROM t WHERE age < 20"], data=data, table="t", config=told, book=book)
    assert more.spent <= 1
