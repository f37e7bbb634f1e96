"""EdgeBisection: an edge known to an interval keeps the truth, and a wrong edge is noticed."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from keyhole.errors import ModelError
from keyhole.oracles import (
    Concentrated,
    EdgeBisection,
    ModelWarning,
    OracleNoise,
    Subspace,
    ThresholdOracle,
    UniformBetween,
    UniformNoise,
)
from keyhole.oracles.attack_target import learn_target
from keyhole.oracles.certify.unknown_edge import _at_most, certify_without_edge
from keyhole.oracles.result import AskingPlan, Questions

SPACE = Subspace.blocks(4, 2)


def played(stated: OracleNoise, true: float, seed: int, bits: int) -> tuple[bool, bool, float]:
    """Was the truth kept; was there a warning; the longest side in the end."""
    rng = np.random.default_rng(seed)
    attack, oracle = EdgeBisection(SPACE, stated), ThresholdOracle(rng.random(4), UniformNoise(true), rng=rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        run = attack.run(Concentrated(SPACE).block(bits, rng), oracle)
    x, y = attack.box()
    assert run.contained is not None
    return run.contained, bool(caught), float(np.max(y - x))


@pytest.mark.parametrize("true", [0.999, 1.001, 0.99, 1.01, 0.5, 2.0])
def test_an_edge_that_is_wrong_is_noticed_when_the_truth_is_lost(true: float) -> None:
    for seed in range(4):
        kept, warned, _ = played(UniformNoise(1.0), true, seed, 300_000)
        assert kept or warned


def test_a_thousandth_off_is_noticed_nearly_always() -> None:
    for true in (0.999, 1.001):
        assert sum(played(UniformNoise(1.0), true, seed, 300_000)[1] for seed in range(4, 8)) >= 3


def test_the_right_edge_is_not_doubted() -> None:
    for seed in range(10):
        assert played(UniformNoise(1.0), 1.0, seed, 100_000)[:2] == (True, False)


@pytest.mark.parametrize("true", [0.999, 1.0, 1.001])
def test_an_interval_for_the_edge_keeps_the_truth(true: float) -> None:
    for seed in range(5):
        kept, warned, side = played(UniformBetween(0.999, 1.001), true, seed, 100_000)
        assert (kept, warned) == (True, False)
        assert side < 0.05


def test_one_that_does_not_hold_the_edge_is_noticed() -> None:
    for true in (0.98, 1.02):
        noticed = sum(played(UniformBetween(0.999, 1.001), true, seed, 100_000)[1] for seed in range(4))
        assert noticed >= 3


def test_an_interval_is_low_to_high() -> None:
    with pytest.raises(ModelError, match="low <= high"):
        UniformBetween(2.0, 1.0)


def test_steps_and_run_agree() -> None:
    rng = np.random.default_rng(1)
    queries, w = Concentrated(SPACE).block(300, rng), rng.random(4)
    one, other = EdgeBisection(SPACE, UniformBetween(0.9, 1.0)), EdgeBisection(SPACE, UniformBetween(0.9, 1.0))
    one.run(queries, ThresholdOracle(w, UniformNoise(1.0), rng=np.random.default_rng(2)))
    oracle = ThresholdOracle(w, UniformNoise(1.0), rng=np.random.default_rng(2))
    for q in queries:
        threshold = other.threshold(q)
        if threshold is not None:
            other.learn(q, threshold, oracle.above(q, threshold))
    assert np.allclose(one.box(), other.box())
    assert one.doubt == pytest.approx(other.doubt)


def silently_lost(true: float, runs: int, delta: float, bits: int, first: int = 0) -> tuple[int, int, int]:
    """In how many runs the learner's own box, and the one that needs no edge, lost w while no warning was given; and in
    how many the latter was finite."""
    own = free = told = 0
    for seed in range(first, first + runs):
        rng = np.random.default_rng([seed, 9])
        w = rng.random(4)
        attack, oracle = EdgeBisection(SPACE, UniformNoise(1.0)), ThresholdOracle(w, UniformNoise(true), rng=rng)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            run = attack.run(Concentrated(SPACE).block(bits, rng), oracle)
        found = certify_without_edge(attack, Concentrated(SPACE).block(bits // 2, rng), oracle, delta=delta)
        told += bool(np.all(np.isfinite(found.half)))
        own += not run.contained and not caught
        free += bool(np.any(np.abs(SPACE.coordinates(w) - found.centre) > found.half)) and not caught
    return own, free, told


@pytest.mark.parametrize("true", [0.9, 0.99, 0.999, 1.0, 1.001, 1.01, 1.1])
def test_what_needs_no_edge_holds_for_every_edge(true: float) -> None:
    runs, delta = 20, 0.2
    _, lost, told = silently_lost(true, runs, delta, 800)
    assert told == runs
    assert binom.sf(lost - 1, runs, delta) > 1e-3


def test_the_same_check_catches_a_box_that_rests_on_a_wrong_edge() -> None:
    runs, delta = 20, 0.2
    assert binom.sf(silently_lost(1.1, runs, delta, 400)[0] - 1, runs, delta) < 1e-6


@pytest.mark.soak
@pytest.mark.parametrize("true", [0.9, 0.99, 1.0, 1.01, 1.1])
def test_what_needs_no_edge_holds_for_every_edge_with_fresh_seeds(true: float) -> None:
    runs, delta, first = 400, 0.2, int(np.random.SeedSequence().entropy) % 10**9  # type: ignore[operator]
    for bits in (800, 3000):
        assert binom.sf(silently_lost(true, runs, delta, bits, first)[1] - 1, runs, delta) > 1e-4


def test_the_inequality_behind_it_is_exact() -> None:
    """Twin: every half-width a and distance v on a grid, in fractions, with h = 1."""
    h = Fraction(1)
    for a in (Fraction(k, 20) for k in range(10, 60)):
        for v in (Fraction(k, 20) for k in range(60)):
            above, below = (min(max((s * v + a - h) / (2 * a), Fraction(0)), Fraction(1)) for s in (1, -1))
            if below > 0 and above < Fraction(1, 2):
                assert v <= h * above / (1 - above)


@pytest.mark.parametrize(("k", "n", "chance"), [(0, 40, 0.01), (3, 40, 0.2), (39, 40, 0.05), (40, 40, 0.05)])
def test_the_largest_share_is_that_of_the_binomial_law(k: int, n: int, chance: float) -> None:
    most = _at_most(k, n, chance)
    assert k == n or binom.cdf(k, n, most) == pytest.approx(chance, rel=1e-6)
    assert (most == 1) == (k == n)


def test_other_noise_and_queries_that_lie_across_certify_nothing() -> None:
    rng = np.random.default_rng(3)
    attack, oracle = EdgeBisection(SPACE, UniformNoise(1.0)), ThresholdOracle(rng.random(4), UniformNoise(1.0), rng=rng)
    across = np.tile(SPACE.basis.sum(axis=0), (50, 1))
    assert "along one direction" in certify_without_edge(attack, across, oracle).why
    assert "still as wide" in certify_without_edge(attack, np.tile(SPACE.basis, (40, 1)), oracle).why
    attack.run(Concentrated(SPACE).block(2000, rng), oracle)
    silent = ThresholdOracle(oracle.hidden, UniformNoise(0.5), rng=rng)
    assert "does not reach" in certify_without_edge(attack, np.tile(SPACE.basis, (800, 1)), silent).why


@pytest.mark.parametrize("budget", [True, False])
def test_the_command_certifies_what_needs_no_edge(budget: bool) -> None:
    w, rng = np.array([0.2, 0.9]), np.random.default_rng(4)
    rows = np.tile(np.eye(2), (1500, 1))
    plan = AskingPlan("uniform:1", "edge", calibrate=0 if budget else 1000)
    oracle = ThresholdOracle(w, UniformNoise(1.01), rng=rng)
    found = learn_target(oracle, Questions(rows, np.zeros(2), np.ones(2)), plan)
    assert np.all(found.low <= w)
    assert np.all(w <= found.high)
    assert (found.radius == np.inf) == budget
    assert any(("was not checked" if budget else "whatever the edge is") in note for note in found.notes)
