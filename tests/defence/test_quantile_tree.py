"""Quantiles from a two-level tree: least squares, prices, bars in values, and when it is bought."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.defence.test_planner import answer, people, value

from keyhole.defence.budget.ledger import KeptRelease
from keyhole.defence.budget.loss import Loss
from keyhole.defence.planner.quantiles import BoughtTree, size_tree
from keyhole.defence.simulate.release import SeededNoise
from keyhole.defence.tables.noisy_tables import COUNT, Dose, NoiseLaw, add_noise

NOBODY = KeptRelease(0, {}, ())


@pytest.mark.parametrize("size", [5, 9, 11])
def test_weights_are_least_squares(size: int) -> None:
    """Against generalised least squares over all points; the variance with them is the smallest there is."""
    width = int(np.ceil(np.sqrt(size)))
    starts = np.arange(0, size, width)
    rows = np.array([[float(s <= k < s + width) for k in range(size)] for s in starts])
    seen = np.vstack([rows, np.eye(size)])
    best = np.linalg.inv(seen.T @ seen) @ seen.T
    tree = BoughtTree(np.zeros(len(starts)), np.zeros(size), width, "gaussian", Fraction(4), NOBODY)
    for upto in range(size):
        for level in (0.5, 0.1):
            asked = np.where(np.arange(size) <= upto, 1 - level, -level)
            own, fine = tree.weights(level, upto)
            assert np.allclose(np.concatenate([own, fine]), asked @ best)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_quantile_lies_within_its_bar_as_often_as_it_says(law: NoiseLaw) -> None:
    """One random level from each of many runs, with ties and gaps; the value between two neighbours included."""
    rng = np.random.default_rng(3)
    noise, points = SeededNoise(rng), np.array([0, 0, 40, 3, 0, 0, 90, 25, 25, 0, 60, 7], dtype=np.int64)
    values = np.repeat(np.arange(12), points)
    blocks, beta, runs, missed = np.add.reduceat(points, np.arange(0, 12, 4)), 0.2, 400, 0
    dose = Dose(COUNT, Fraction(100 if law == "gaussian" else 7))
    for _ in range(runs):
        made = [add_noise(t, dose, law, noise).astype(float) for t in (blocks, points)]
        level = Fraction(int(rng.integers(1, 20)), 20)
        _, low, high = BoughtTree(made[0], made[1], 4, law, dose.noise, NOBODY).quantile(level, beta)
        first, last = (float(np.quantile(values, float(level), method=m)) for m in ("lower", "higher"))
        missed += not (low <= first and last <= high)
    assert missed <= beta * runs + 3.1 * np.sqrt(beta * (1 - beta) * runs)


@pytest.mark.parametrize("unit", ["rho", "epsilon"])
def test_a_tree_costs_what_it_is_bought_for_at_most(unit: str) -> None:
    """One person is in one block and at one point: replaced, two of each change by one."""
    dose, law = size_tree(Loss(unit, Fraction(1, 100)), "replace-one")  # type: ignore[arg-type]
    moved = 4 * (1 / (2 * dose.noise) if law == "gaussian" else 1 / dose.noise)
    assert Fraction(99, 10_000) < moved <= Fraction(1, 100)


def test_the_third_quantile_buys_a_tree_and_all_others_are_free(tmp_path: Path) -> None:
    age = people()["age"].to_numpy()
    asked = [f"SELECT QUANTILE_CONT(age, {q}) FROM people" for q in (0.25, 0.5, 0.75, 0.9)]
    made = [answer([sql], tmp_path, horizon=20)[0] for sql in asked]
    assert [m.cost > 0 for m in made] == [True, True, True, False]
    assert [m.groups[0][1][0].ranks is None for m in made] == [False, False, True, True]
    for one, q in zip(made[2:], (0.75, 0.9), strict=True):
        assert abs(value(one) - np.quantile(age, q)) <= 3 * float(one.groups[0][1][0].bar or 0) + 1


def test_a_file_with_three_quantiles_buys_one_tree(tmp_path: Path) -> None:
    asked = [f"SELECT QUANTILE_CONT(age, {q}) FROM people WHERE sex = 'M'" for q in (0.25, 0.5, 0.75)]
    made = answer(asked, tmp_path, spend=1)
    assert all(m.groups[0][1][0].ranks is None and m.refused is None for m in made)
    assert [m.cost > 0 for m in made] == [True, False, False]
