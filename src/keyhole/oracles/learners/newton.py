"""OneBitNewton: the O(d^2)-memory estimator that reaches the Cramer-Rao floor, inside a certified box."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from keyhole.oracles.learners.box import ESTIMATE, Aim, AskedRows, estimating_loop
from keyhole.oracles.learners.sequential import SequentialBisection
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace

COARSE = 32.0  # deviations of the noise; over a range of answers wider than this the box is halved instead


@cache
def smoothed_density(noise: OracleNoise, points: int = 96) -> tuple[Floats, Floats]:
    """rho_s(0), the density at 0 of noise + N(0, s^2), and Pr(noise + N(0, s^2) > 0), on a log grid of s^2.

    Gives the grid (log of the smallest s^2, step, smallest s^2) and the table. It is what moment matching needs
    when the estimate itself is uncertain by s. Only the cdf is used: rho_s(0) = -E[F(-sZ) Z]/s with Z standard normal.
    """
    z = np.linspace(-6.5, 6.5, 401)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    s = noise.std * np.geomspace(1e-3, 1e3, points)
    table = np.empty((points, 2))
    for i, width in enumerate(s):
        values = np.array([noise.cdf(float(-width * t)) for t in z])
        table[i, 0] = -float(np.sum(values * z * weight)) / width
        table[i, 1] = 1 - float(np.sum(values * weight))
    logs = np.log(s * s)
    # below the first row that differs by 0.5 % from the limit s -> 0 nothing needs looking up
    flat = np.abs(table[:, 0] / noise.density_at_zero - 1) < 5e-3
    start = 0 if flat.all() else max(0, int(np.argmin(flat)) - 1)
    table[start] = noise.density_at_zero, 1 - noise.cdf(0.0)
    grid = np.array([logs[start], logs[1] - logs[0], s[start] ** 2])
    return grid, np.ascontiguousarray(table[start:])


class OneBitNewton(SequentialBisection):
    """Optimal-gain estimator from single bits, clipped into SequentialBisection's certified box (a hybrid).

    The threshold sits at the estimate, where a bit carries the most information: rho(0)^2 / (F(0)(1-F(0))) q q^T.
    State N(c, P); each bit moves it by matching moments [minka2001], with the noise density smoothed by the present
    uncertainty (so a start far from w, in units of the noise, is no trouble); once P is small this is the
    information filter, i.e. Newton's method on the likelihood, and the mean error tends to the Cramer-Rao floor
    2 sqrt(2/pi) E[sqrt(q^T M^-1 q)] / (2 rho(0) sqrt T) of central thresholds. The estimate carries no certificate; the
    box does, by the same bits: Pr(the box ever loses w) <= delta. Where a query's answers over the box still range over
    more than 32 deviations of the noise either way, and the query can cut the box, it is asked as SequentialBisection
    would; queries that cannot (spread ones in many dimensions) stay with the estimate, which may stall if the noise is
    below a hundredth of the box's sides: EllipsoidBisection is the method for next to no noise.
    Memory d^2 + O(d); time O(dD + d^2) a query.

    >>> from keyhole.oracles.base import ThresholdOracle
    >>> from keyhole.oracles.noise import GaussianNoise
    >>> attack = OneBitNewton(Subspace.blocks(4, 2), GaussianNoise(0.5))
    >>> oracle = ThresholdOracle(np.array([0.9, 0.8, 0.1, 0.3]), GaussianNoise(0.5), rng=np.random.default_rng(7))
    >>> run = attack.run(np.tile(attack.subspace.basis, (5000, 1)), oracle)
    >>> run.contained, [round(float(v), 2) for v in attack.estimate()]
    (True, [0.85, 0.85, 0.19, 0.19])
    """

    _aiming = ESTIMATE

    def __init__(self, subspace: Subspace, noise: OracleNoise, *, delta: float = 0.01, keep: float = 0.85) -> None:
        super().__init__(subspace, noise, delta=delta, keep=keep)
        self._c = subspace.coordinates(subspace.middle)
        self._P = subspace.initial_covariance()
        self._Pz = np.zeros(subspace.d)
        self._grid, self._table = smoothed_density(noise)
        self._coarse = COARSE * noise.std

    def _loop(self, rows: AskedRows, aim: Aim) -> int:
        guess = (self._c, self._P, self._Pz, self._table, self._grid)
        return int(estimating_loop(rows, aim, *self._state(), guess))

    def covariance(self) -> Floats:
        """The estimator's own covariance of its coordinates (asymptotic, not certified)."""
        return self._P.copy()

    def _centre(self) -> Floats:
        return self._c.copy()

    def _aim(self, z: Floats, slack: float) -> float | None:
        reach = 0.5 * float(np.abs(z[0]) @ (self._y - self._x)) + slack
        halving = self._gap(z, slack) > 0 and reach > self._coarse
        return float(z[0] @ (super()._centre() if halving else self._c))
