"""EdgeBisection: an edge known to an interval keeps the truth, and a wrong edge is noticed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from keyhole.errors import ModelError
from keyhole.oracle import (
    Concentrated,
    EdgeBisection,
    ModelWarning,
    OracleNoise,
    Subspace,
    ThresholdOracle,
    UniformBetween,
    UniformNoise,
)

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
