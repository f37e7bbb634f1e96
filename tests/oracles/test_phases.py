"""The phase-level simulation against the algorithm itself, and its slope far out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from keyhole.errors import ModelError
from keyhole.oracles import OnlineBisection, Subspace, ThresholdOracle, UniformNoise
from keyhole.oracles.bounds import phase_level_error

SPACE, NOISE = Subspace.blocks(4, 2), UniformNoise(1.0)


def mean(horizon: int, seeds: int) -> float:
    return float(
        np.mean([phase_level_error(NOISE, SPACE, horizon, rng=np.random.default_rng(k)) for k in range(seeds)])
    )


def test_it_agrees_with_the_algorithm() -> None:
    """Twin: OnlineBisection itself, queries along the axes in turn."""
    horizon, found = 100_000, list[float]()
    for seed in range(6):
        rng = np.random.default_rng([seed, 1])
        oracle = ThresholdOracle(rng.uniform(SPACE.lower, SPACE.upper), NOISE, rng=rng)
        attack = OnlineBisection(SPACE, NOISE, horizon=horizon)
        found.append(attack.run(np.tile(SPACE.basis, (horizon // 2, 1)), oracle).average_error)
    assert abs(mean(horizon, 60) / float(np.mean(found)) - 1) < 0.3


def test_the_slope_tends_to_a_half() -> None:
    slopes = [math.log10(mean(10 ** (k + 2), 40) / mean(10**k, 40)) / 2 for k in (6, 10, 14)]
    assert all(-0.5 < slope < -0.4 for slope in slopes)
    assert slopes[-1] < -0.46


def test_a_horizon_beyond_a_word_is_refused() -> None:
    with pytest.raises(ModelError, match="10\\^17"):
        phase_level_error(NOISE, SPACE, 10**18, rng=np.random.default_rng(0))
