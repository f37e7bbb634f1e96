"""Are answers sums? The e-value passes no more often than it may, its fit is the maximum, and averages are noticed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import binom

from keyhole.oracle import GaussianNoise, ThresholdOracle
from keyhole.oracle.additivity import _fitted, log_odds_against_sums
from keyhole.oracle.real import AskingPlan, Questions, learn_target

STD = 0.3


def told(seed: int, n: int, D: int, *, means: bool = False, shift: float = 0.0) -> float:
    """The log odds of one made-up target, asked near its answers."""
    rng = np.random.default_rng([seed, n, D])
    q, w = rng.random((n, D)), rng.uniform(0.5, 1.0, D)
    answers = q @ w / (q.sum(axis=1) if means else 1.0) + shift
    at = answers + rng.normal(0, 0.2, n)
    return log_odds_against_sums(q, at, answers + rng.normal(0, STD, n) > at, STD)


def passes(bar: float, runs: int, first: int = 0) -> int:
    """How often sums are doubted at odds of `bar`."""
    return sum(told(seed, 260, 1 + seed % 2) > math.log(bar) for seed in range(first, first + runs))


def test_sums_are_doubted_no_more_often_than_they_may() -> None:
    assert binom.sf(passes(5, 60) - 1, 60, 1 / 5) > 1e-3


@pytest.mark.soak
def test_sums_are_doubted_no_more_often_than_they_may_with_fresh_seeds() -> None:
    first = int(np.random.SeedSequence().entropy) % 10**9  # type: ignore[operator]
    assert binom.sf(passes(5, 3000, first) - 1, 3000, 1 / 5) > 1e-4


def test_averages_and_noise_off_centre_are_noticed() -> None:
    assert min(told(seed, 900, 2, means=True) for seed in range(5)) > math.log(1e4)
    assert min(told(seed, 8000, 2, shift=0.3) for seed in range(3)) > math.log(1e4)
    assert told(1, 40, 2, means=True) == 0.0  # too few answers


def test_the_fit_is_the_maximum() -> None:
    """Twin: a general minimiser from elsewhere."""
    rng = np.random.default_rng(2)
    X, signs = rng.random((200, 3)), np.where(rng.random(200) < 0.6, 1.0, -1.0)
    t = rng.random(200)
    found = minimize(lambda b: -np.sum(log_ndtr(signs * (X @ b - t) / STD)), np.zeros(3), method="BFGS")
    assert _fitted(X, t, signs, STD, 0.0)[1] == pytest.approx(-found.fun, abs=1e-4)


@pytest.mark.parametrize("means", [True, False])
def test_a_noisy_target_of_averages_certifies_nothing(means: bool) -> None:
    rng, w = np.random.default_rng(3), np.array([0.2, 0.9])

    class Target(ThresholdOracle):
        def above(self, q: np.ndarray, threshold: float) -> int:
            return super().above(q / q.sum() if means else q, threshold)

    oracle = Target(w, GaussianNoise(STD), rng=rng)
    questions = Questions(rng.random((900, 2)), np.zeros(2), np.ones(2))
    found = learn_target(oracle, questions, AskingPlan(f"gaussian:{STD}"))
    assert (found.radius == np.inf) == means == any("no sums" in note for note in found.notes)
