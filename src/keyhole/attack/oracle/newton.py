"""OneBitNewton: the O(d^2)-memory estimator that reaches the Cramer-Rao floor, inside a certified box."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from keyhole.attack.oracle.box import aim, clip_into, dot
from keyhole.attack.oracle.noise import Floats, Noise, smoothed_density, tail_bounds
from keyhole.attack.oracle.sequential import SequentialBisection, learn_bit
from keyhole.attack.oracle.subspace import Subspace


@njit(cache=True)
def _smooth(table: Floats, first: float, step: float, variance: float) -> tuple[float, float]:
    """(density at 0, chance of a yes) of noise + N(0, variance), interpolated on the log grid."""
    at = (math.log(variance) - first) / step if variance > 0.0 else -1.0
    if at <= 0.0:
        return table[0, 0], table[0, 1]
    if at >= table.shape[0] - 1:
        return 1.0 / math.sqrt(2.0 * math.pi * variance), 0.5
    k = int(at)
    part = at - k
    return (
        table[k, 0] + part * (table[k + 1, 0] - table[k, 0]),
        table[k, 1] + part * (table[k + 1, 1] - table[k, 1]),
    )


@njit(cache=True)
def newton_step(
    z: Floats,
    threshold: float,
    bit: int,
    c: Floats,
    P: Floats,
    Pz: Floats,
    law: Floats,
    knots: Floats,
    tails: Floats,
    table: Floats,
    first: float,
    step: float,
) -> None:
    """Moment matching: c += Pz rho (bit - p) / (p (1-p)),  P -= Pz Pz^T rho^2 / (p (1-p))."""
    d = z.size
    variance = 0.0
    for i in range(d):
        total = 0.0
        for k in range(d):
            total += P[i, k] * z[k]
        Pz[i] = total
        variance += z[i] * total
    away = threshold - dot(z, c)
    if away == 0.0:
        rho, p = _smooth(table, first, step, variance)
    else:  # a threshold somebody else chose: a two-sided difference of the tail gives its density there
        width = math.sqrt(variance) + 1e-3 * law[1]
        up = tail_bounds(law, knots, tails, away - width)
        down = tail_bounds(law, knots, tails, away + width)
        p = 0.5 * (0.5 * (up[0] + up[1]) + 0.5 * (down[0] + down[1]))
        rho = (0.5 * (up[0] + up[1]) - 0.5 * (down[0] + down[1])) / (2.0 * width)
    spread = p * (1.0 - p)
    if spread <= 1e-12 or rho <= 0.0:
        return
    gain = rho * (bit - p) / spread
    shrink = rho * rho / spread
    if shrink * variance > 0.999:  # cannot happen at the centre (at most 2/pi); guards odd thresholds
        shrink = 0.999 / variance
    for i in range(d):
        c[i] += Pz[i] * gain
        for k in range(i + 1):
            P[i, k] -= shrink * Pz[i] * Pz[k]
            P[k, i] = P[i, k]


@njit(cache=True)
def _loop(
    z: Floats,
    known: Floats,
    slack: Floats,
    hidden: Floats,
    noise: Floats,
    errors: Floats,
    x: Floats,
    y: Floats,
    score: Floats,
    cuts: Floats,
    keep: float,
    delta: float,
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    meter: Floats,
    c: Floats,
    P: Floats,
    Pz: Floats,
    table: Floats,
    first: float,
    step: float,
) -> int:
    for t in range(z.shape[0]):
        row = z[t]
        threshold = dot(row, c)
        errors[t] = abs(threshold + known[t] - hidden[t])
        _, centre, _, reach = aim(row, x, y, keep, slack[t])
        meter[0] += reach + abs(threshold - centre)
        bit = 1 if hidden[t] + noise[t] > threshold + known[t] else 0
        newton_step(row, threshold, bit, c, P, Pz, law, knots, tails, table, first, step)
        learn_bit(
            row, slack[t], threshold, bit, x, y, score, cuts, keep, delta, law, knots, tails, counts, doubt
        )
        clip_into(c, x, y)
    return z.shape[0]


class OneBitNewton(SequentialBisection):
    """Optimal-gain estimator from single bits, clipped into SequentialBisection's certified box (a hybrid).

    The threshold sits at the estimate, where a bit carries the most information: rho(0)^2 / (F(0)(1-F(0))) q q^T.
    State N(c, P); each bit moves it by matching moments [minka2001], with the noise density smoothed by the present
    uncertainty (so a start far from w, in units of the noise, is no trouble); once P is small this is the
    information filter, i.e. Newton's method on the likelihood, and the mean error tends to the Cramer-Rao floor
    2 sqrt(2/pi) E[sqrt(q^T M^-1 q)] / (2 rho(0) sqrt T) of central thresholds. The estimate carries no certificate; the
    box does, by the same bits: Pr(the box ever loses w) <= delta. Memory d^2 + O(d); time O(dD + d^2) a query.

    >>> from keyhole.attack.oracle.base import ThresholdOracle
    >>> from keyhole.attack.oracle.noise import Gaussian
    >>> attack = OneBitNewton(Subspace.blocks(4, 2), Gaussian(0.5))
    >>> oracle = ThresholdOracle(np.array([0.9, 0.8, 0.1, 0.3]), Gaussian(0.5), rng=np.random.default_rng(7))
    >>> run = attack.run(np.tile(attack.subspace.basis, (5000, 1)), oracle)
    >>> run.contained, [round(float(v), 2) for v in attack.estimate()]
    (True, [0.85, 0.85, 0.2, 0.2])
    """

    def __init__(self, subspace: Subspace, noise: Noise, *, delta: float = 0.01, keep: float = 0.85) -> None:
        super().__init__(subspace, noise, delta=delta, keep=keep)
        self._c = subspace.coordinates(subspace.middle)
        self._P = subspace.initial_covariance()
        self._Pz = np.zeros(subspace.d)
        self._first, self._step, self._table = smoothed_density(noise)

    def covariance(self) -> Floats:
        """The estimator's own covariance of its coordinates (asymptotic, not certified)."""
        return self._P.copy()

    def _centre(self) -> Floats:
        return self._c.copy()

    def _aim(self, z: Floats, slack: float) -> float | None:
        return float(dot(z, self._c))

    def _take(self, z: Floats, slack: float, threshold: float, bit: int) -> None:
        newton_step(
            z, threshold, bit, self._c, self._P, self._Pz, self._law, self._knots, self._tails,
            self._table, self._first, self._step,
        )  # fmt: skip
        super()._take(z, slack, threshold, bit)
        clip_into(self._c, self._x, self._y)

    def _consume(
        self, z: Floats, known: Floats, slack: Floats, hidden: Floats, noise: Floats, errors: Floats
    ) -> int:
        return int(
            _loop(
                z, known, slack, hidden, noise, errors, self._x, self._y, self._score, self._cuts,
                self.keep, self.delta, self._law, self._knots, self._tails, self._doubt_counts, self._doubt,
                self._meter, self._c, self._P, self._Pz, self._table, self._first, self._step,
            )
        )  # fmt: skip

    def _memory(self) -> dict[str, Floats]:
        return super()._memory() | {"c": self._c, "P": self._P}
