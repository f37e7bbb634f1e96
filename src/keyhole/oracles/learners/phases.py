"""OnlineBisection phase by phase instead of query by query: its slope for streams that nobody could play."""

from __future__ import annotations

import math

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.learners.bisection import PublishedConstants
from keyhole.oracles.noise import OracleNoise
from keyhole.oracles.subspace import Subspace


def phase_level_error(
    noise: OracleNoise,
    subspace: Subspace,
    horizon: int,
    *,
    rng: np.random.Generator,
    constants: PublishedConstants = PublishedConstants(),  # noqa: B008 - a frozen value
) -> float:
    """The average error of one run of T unit queries along the axes, each as often.

    In a phase every direction gets its N_crit answers: their yeses are one binomial draw, and d N_crit queries pass
    (waiting for the slowest direction adds a share of 1/sqrt(N_crit)). The rest is as in `OnlineBisection`. Time
    O(d log T) in all, so T may be 10^16.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> space = Subspace.blocks(4, 2)
    >>> round(phase_level_error(UniformNoise(1.0), space, 10**6, rng=np.random.default_rng(0)), 2)
    0.06
    """
    if not 3 <= horizon <= 10**17:
        raise ModelError(f"the horizon is from 3 to 10^17, where binomial draws still fit a word; got {horizon}")
    w = subspace.coordinates(rng.uniform(subspace.lower, subspace.upper))
    size = math.sqrt(float(np.sum(np.maximum(subspace.lower**2, subspace.upper**2))))
    x, y = np.full(subspace.d, -size), np.full(subspace.d, size)
    left, total = float(horizon), 0.0
    while left > 0:
        side, centre = float(y[0] - x[0]), (x + y) / 2
        low, dp = constants.rates(noise, side, 1.0)
        needed = math.ceil(min(1e18, constants.n_crit(horizon, dp)))
        spent = min(left, float(needed) * subspace.d)
        total += spent * float(np.mean(np.abs(centre - w)))
        left -= spent
        if left <= 0 or side <= constants.stop_side(horizon):
            total += max(left, 0.0) * float(np.mean(np.abs(centre - w)))
            break
        chance = np.array([1 - noise.cdf(float(v)) for v in centre - w])
        upper = rng.binomial(needed, chance) > needed * (low + dp / 2)
        x, y = np.where(upper, y - constants.keep * side, x), np.where(upper, y, x + constants.keep * side)
    return total / horizon
