"""Is the noise as stated? Central thresholds cannot tell its scale; a few answers away from the centre can."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning, StreamAttack, YesNoOracle
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.levels import quantile
from keyhole.oracles.noise import OracleNoise

LEVELS = (
    0.05,
    0.2,
    0.5,
    0.8,
    0.95,
)  # quantiles of the stated noise at which the thresholds sit, from the attack's answer
CHANCE = 1e-6  # of a false alarm, besides the chance that the box has lost w


Margins = Callable[[Floats], tuple[float, float]]
"""What z.c can be at the least and at the most, by another certificate than the attack's box."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Share of yeses at one level, and between which shares the stated model and the box allow it to be."""

    level: float
    answers: int
    share: float
    least: float
    most: float

    @property
    def believable(self) -> bool:
        """Is the share within what the model allows?"""
        return self.least <= self.share <= self.most


def telling(noise: OracleNoise, probes: tuple[Probe, ...]) -> bool:
    """Would the probes have noticed noise of twice the stated scale, and of half of it?

    With w in the middle of the box and the scale f times the stated one, the share of yeses at the level of the
    threshold t is 1 - F(t / f); it must leave what the model allows by a standard deviation at some level.
    """
    return all(any(_leaves(noise, probe, factor) for probe in probes) for factor in (2.0, 0.5))


def _leaves(noise: OracleNoise, probe: Probe, factor: float) -> bool:
    share = 1 - noise.cdf(quantile(noise, probe.level) / factor)
    room = math.sqrt(share * (1 - share) / max(1, probe.answers))
    return bool(share + room < probe.least or share - room > probe.most)


def calibrate(
    attack: StreamAttack, queries: Floats, oracle: YesNoOracle, margins: Margins | None = None
) -> tuple[Probe, ...]:
    """Ask fresh queries off centre and compare the yeses with the stated law; a ModelWarning if they do not fit.

    Run it after the attack. The threshold of a query is the attack's answer plus the 5, 20, 50, 80 or 95 % quantile
    of the stated noise, in turn. With w in the box, Pr(yes) lies between two tails of the stated law, so the share of
    n yeses leaves [mean of the lower - r, mean of the upper + r], r = sqrt(log(10/1e-6) / (2n)), with probability at
    most 1e-6 over all levels and sides (Hoeffding's inequality for martingales), plus delta for the box. It
    notices a scale off by a factor of two from some 6,000 queries on, once the box is small against the noise; before,
    the two cannot be told apart. `margins`, such as `LikelihoodRegion.margins`, narrow where w is besides the box. The
    attack learns nothing from it.
    Time O(dD) a query.

    >>> from keyhole.oracles.base import ThresholdOracle
    >>> from keyhole.oracles.noise import UniformNoise
    >>> from keyhole.oracles.learners.sequential import SequentialBisection
    >>> from keyhole.oracles.streams import Concentrated
    >>> from keyhole.oracles.subspace import Subspace
    >>> space, rng = Subspace.blocks(4, 2), np.random.default_rng(0)
    >>> attack = SequentialBisection(space, UniformNoise(0.2))
    >>> oracle = ThresholdOracle(rng.random(4), UniformNoise(0.2), rng=rng)
    >>> run = attack.run(Concentrated(space).block(20_000, rng), oracle)
    >>> [probe.believable for probe in calibrate(attack, Concentrated(space).block(1500, rng), oracle)]
    [True, True, True, True, True]
    """
    rows = np.asarray(queries, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < len(LEVELS):
        raise ModelError(f"calibration takes at least {len(LEVELS)} queries, one per row; got shape {rows.shape}")
    noise, stretch = attack.noise, float(attack.noise.law[6])
    shifts = [quantile(noise, level) for level in LEVELS]
    low, high = attack.box()
    sums = np.zeros((len(LEVELS), 4))  # answers, yeses, sums of the least and the most chances
    for k, q in enumerate(rows):
        at = k % len(LEVELS)
        z, known, slack = attack.subspace.project(q[None, :])
        a, b = float(np.minimum(z[0] * low, z[0] * high).sum()), float(np.maximum(z[0] * low, z[0] * high).sum())
        near = (a, b) if margins is None else margins(z[0])
        if max(a, near[0]) <= min(b, near[1]):
            a, b = max(a, near[0]), min(b, near[1])
        middle, reach = (a + b) / 2 + float(known[0]), ((b - a) / 2 + float(slack[0])) * stretch
        threshold = attack.answer(q) + shifts[at]
        least, most = 1 - noise.cdf(threshold - middle + reach), 1 - noise.cdf(threshold - middle - reach)
        sums[at] += 1.0, oracle.above(q, threshold), least, most
    room = np.sqrt(math.log(2 * len(LEVELS) / CHANCE) / (2 * sums[:, 0]))
    shares = sums[:, 1:] / sums[:, :1]
    probes = tuple(
        Probe(level, int(n), float(share), float(least - r), float(most + r))
        for level, n, (share, least, most), r in zip(LEVELS, sums[:, 0], shares, room, strict=True)
    )
    odd = [probe for probe in probes if not probe.believable]
    if odd:
        told = ", ".join(f"{p.share:.2f} at level {p.level:g} instead of {p.least:.2f} to {p.most:.2f}" for p in odd)
        warnings.warn(
            f"the shares of yeses do not fit the stated noise: {told}; the noise law, its scale, the basis or the "
            "bounds are wrong, or the box lost w (chance <= delta)",
            ModelWarning,
            stacklevel=2,
        )
    return probes
