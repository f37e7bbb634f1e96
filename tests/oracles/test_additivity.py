"""Are answers sums? The e-value passes no more often than it may, its fit is the maximum, and averages are noticed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import binom

from keyhole.oracles import GaussianNoise, ThresholdOracle
from keyhole.oracles.attack_target import learn_target
from keyhole.oracles.certify.additivity import AskedBits, _fit_probit, _greatest_likelihoods, collect_doubts
from keyhole.oracles.result import AskingPlan, Questions

STD = 0.3


def told(seed: int, n: int, D: int, *, means: bool = False, shift: float = 0.0) -> float:
    """The log odds of one made-up target, asked near its answers."""
    rng = np.random.default_rng([seed, n, D])
    q, w = rng.random((n, D)), rng.uniform(0.5, 1.0, D)
    answers = q @ w / (q.sum(axis=1) if means else 1.0) + shift
    at = answers + rng.normal(0, 0.2, n)
    anywhere = np.full(q.shape[1], np.inf)
    return collect_doubts(AskedBits(q, at, answers + rng.normal(0, STD, n) > at, STD), -anywhere, anywhere).sums


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
    assert _fit_probit(X, t, signs, STD, 0.0)[1] == pytest.approx(-found.fun, abs=1e-4)


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


def asked_off_centre(seed: int, n: int, w: np.ndarray, std: float, product: float = 0.0) -> AskedBits:
    """Bits of a target with noise of this scale, STD stated: near the answers, a tenth of them off centre."""
    rng = np.random.default_rng([seed, n])
    q = rng.random((n, len(w)))
    answers = q @ w + product * q[:, 0] * q[:, -1]
    at = answers + np.where(
        np.arange(n) < n - n // 10, rng.normal(0, 0.1, n), STD * rng.choice([-1.6, -0.8, 0.8, 1.6], n)
    )
    return AskedBits(q, at, answers + rng.normal(0, std, n) > at, STD, n // 10)


BOX = np.zeros(2), np.ones(2)


def test_numbers_outside_the_range_products_and_another_scale_are_noticed() -> None:
    inside, outside = np.array([0.0, 1.0]), np.array([-0.3, 1.3])
    for seed in range(3):
        fine, beyond = (collect_doubts(asked_off_centre(seed, 2000, w, STD), *BOX) for w in (inside, outside))
        assert max(fine.sums, fine.box, beyond.sums) < math.log(1e3) < beyond.box
        assert len(fine.tried) == 5
        assert collect_doubts(asked_off_centre(seed, 6000, inside, 2 * STD), *BOX).sums > math.log(1e3)
        assert collect_doubts(asked_off_centre(seed, 6000, inside, STD / 2), *BOX).sums > math.log(1e3)
        assert collect_doubts(asked_off_centre(seed, 6000, inside, STD, product=1.0), *BOX).sums > math.log(1e3)


def test_a_secret_in_the_corner_of_the_range_is_doubted_no_more_often_than_it_may() -> None:
    w = np.array([0.0, 1.0])
    odds = [max(collect_doubts(asked_off_centre(seed, 200, w, STD), *BOX).box, 0.0) for seed in range(60)]
    assert binom.sf(sum(each > math.log(5) for each in odds) - 1, 60, 1 / 5) > 1e-3


def test_the_likelihood_in_the_box_is_the_maximum_there() -> None:
    """Twin: every w on a fine grid of the box."""
    made = asked_off_centre(1, 400, np.array([-0.3, 1.3]), STD)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    u = made.signs[100:, None] * (made.rows[100:] @ grid.T - made.thresholds[100:, None]) / STD
    best = float(log_ndtr(u).sum(axis=0).max())
    free, bound = _greatest_likelihoods(made, 100, *BOX)
    assert best - 1e-9 <= bound <= best + 0.05 < free


@pytest.mark.parametrize("off", [0.0, 0.4])
def test_a_secret_outside_the_stated_range_certifies_nothing(off: float) -> None:
    rng = np.random.default_rng(5)
    oracle = ThresholdOracle(np.array([-off, 1 + off]), GaussianNoise(STD), rng=rng)
    questions = Questions(rng.random((1500, 2)), *BOX)
    found = learn_target(oracle, questions, AskingPlan(f"gaussian:{STD}", calibrate=150))
    assert (found.radius == np.inf) == (off > 0) == any("outside the stated range" in note for note in found.notes)
