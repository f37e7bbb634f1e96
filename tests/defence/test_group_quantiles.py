"""Quantiles by GROUP BY: what all groups cost together, by brute force over neighbours; answered, recalled, refused."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.defence.test_planner import answer, people

from keyhole.book import Book, Mark
from keyhole.defence.budget.loss import Neighbours
from keyhole.defence.planner.group_quantiles import price_in_groups
from keyhole.defence.planner.quantiles import get_sensitivity, score_candidates

GRID = np.arange(3)
PEOPLE = [(group, point) for group in (0, 1) for point in range(3)]
Person = tuple[int, int] | None  # None: nobody, under add-remove
World = tuple[Person, ...]
EPSILON = 0.8


def scored(world: World, group: int, level: Fraction) -> NDArray[np.float64]:
    points, counts = np.unique([p[1] for p in world if p and p[0] == group], return_counts=True)
    return np.array(score_candidates(points.astype(np.int64), counts.astype(np.int64), GRID, level), dtype=float)


def choices(world: World, group: int, level: Fraction, neighbours: Neighbours) -> NDArray[np.float64]:
    """With what chance each grid point is chosen for a group, exactly as `buy_quantile` does."""
    weights = np.exp(scored(world, group, level) * EPSILON / (2 * get_sensitivity(level, neighbours)))
    chances: NDArray[np.float64] = weights / weights.sum()
    return chances


def pairs(neighbours: Neighbours) -> list[tuple[World, World]]:
    rest = list(product(PEOPLE, repeat=2))
    if neighbours == "replace-one":
        return [((a, *r), (b, *r)) for r in rest for a in PEOPLE for b in PEOPLE if a != b]
    return [pair for r in rest for a in PEOPLE for pair in (((a, *r), (None, *r)), ((None, *r), (a, *r)))]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(1, 4), Fraction(199, 200)])
def test_all_groups_together_cost_what_is_charged(level: Fraction, neighbours: Neighbours) -> None:
    """Both groups of every pair of neighbours: the worst outcome against epsilon, Renyi divergences against rho."""
    pure, renyi, moved, orders = 0.0, 0.0, 0.0, (1.5, 2.0, 8.0)
    for one, other in pairs(neighbours):
        moved = max(moved, sum(np.abs(scored(one, g, level) - scored(other, g, level)).max() for g in (0, 1)))
        laws = [(choices(one, g, level, neighbours), choices(other, g, level, neighbours)) for g in (0, 1)]
        pure = max(pure, sum(float(np.log(p / q).max()) for p, q in laws))
        for a in orders:
            found = sum(math.log(float((p**a * q ** (1 - a)).sum())) / (a - 1) for p, q in laws)
            renyi = max(renyi, found / a)
    assert pure <= float(price_in_groups(level, "epsilon", neighbours)) * EPSILON + 1e-12
    assert renyi <= float(price_in_groups(level, "rho", neighbours)) * EPSILON**2 / 8 + 1e-12
    times = price_in_groups(level, "epsilon", neighbours)
    assert moved == times * get_sensitivity(level, neighbours)  # exact: no less would do
    assert times == 1 or moved > get_sensitivity(level, neighbours)  # the liar: all groups at the price of one


def test_medians_of_groups_are_bought_together_and_recalled_one_by_one(tmp_path: Path) -> None:
    sql = "SELECT town, MEDIAN(age) FROM people GROUP BY town"
    (single,) = answer(["SELECT MEDIAN(age) FROM people"], tmp_path, accuracy=0.05)
    (made,) = answer([sql], tmp_path, accuracy=0.05)
    assert made.refused is None, made.refused
    assert [dict(key)["town"] for key, _ in made.groups] == ["a", "b", "c"]
    assert made.groups[0][1][0].ranks == single.groups[0][1][0].ranks  # at the same price, the same bar
    assert made.cost == single.cost > 0
    data = people()
    ages = data["age"].to_numpy()
    for key, (estimate,) in made.groups:
        assert estimate.value is not None
        assert estimate.ranks is not None
        here = ages[data["town"].to_numpy(zero_copy_only=False) == dict(key)["town"]]
        below, upto = (here < float(estimate.value)).sum(), (here <= float(estimate.value)).sum()
        assert max(below - len(here) / 2, len(here) / 2 - upto) <= 3 * estimate.ranks
    again, one = answer([sql, "SELECT MEDIAN(age) FROM people WHERE town = 'b'"], tmp_path, accuracy=0.05)
    assert (again.cost, again.groups, one.cost) == (0, made.groups, 0)
    assert one.groups[0][1][0] == made.groups[1][1][0]
    with Book.open(tmp_path / "book.keyhole") as book:
        charges = [e for e in book.entries() if e.kind == Mark.CHARGE]
    assert len(charges) == 2


def test_what_is_not_built_or_says_nothing_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    cases = {
        "SELECT town, MEDIAN(age), COUNT(*) FROM people GROUP BY town": "a statement of their own",
        "SELECT town, sex, MEDIAN(age) FROM people GROUP BY ROLLUP (town, sex)": "one set of groups",
        "SELECT age, pay, MEDIAN(age) FROM people GROUP BY age, pay": "at most 500",
        "SELECT town, MEDIAN(age) FROM people GROUP BY town": "--anyway",
    }
    for one, words in zip(answer(list(cases), tmp_path, horizon=10**9), cases.values(), strict=True):
        assert one.refused is not None
        assert words in one.refused.reason
        assert one.cost == 0
