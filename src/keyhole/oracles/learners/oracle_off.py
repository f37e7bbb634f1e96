"""The oracle switched off: raw noisy answers and recursive least squares, to show the price of one bit."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numba import njit

from keyhole.errors import ModelError
from keyhole.oracles.base import Course, Run, ThresholdOracle, split_queries
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace


@njit(cache=True, error_model="numpy")
def _loop(
    z: Floats, known: Floats, values: Floats, hidden: Floats, errors: Floats, variance: float, c: Floats, P: Floats
) -> None:
    """Kalman form: k = Pz / (z^T P z + variance); c += k (value - z.c); P -= k (Pz)^T."""
    d = c.size
    Pz = np.empty(d)
    for t in range(z.shape[0]):
        guess, spread = 0.0, variance
        for i in range(d):
            part = 0.0
            for k in range(d):
                part += P[i, k] * z[t, k]
            Pz[i] = part
            guess += z[t, i] * c[i]
            spread += z[t, i] * part
        errors[t] = abs(guess + known[t] - hidden[t])
        gain = (values[t] - known[t] - guess) / spread
        for i in range(d):
            c[i] += Pz[i] * gain
            part = Pz[i] / spread
            for k in range(d):
                P[i, k] -= part * Pz[k]


class OracleOff:
    """Recursive least squares on raw noisy answers: not an attack on the yes/no oracle but its yardstick.

    Best linear unbiased for any noise of mean 0; its floor is average_error_floor with the noise's own standard
    deviation. For Gaussian noise one bit costs a factor sqrt(pi/2) = 1.25 in error, no more.
    Memory d^2; time O(dD + d^2) a query.

    >>> from keyhole.oracles.noise import GaussianNoise
    >>> rls = OracleOff(Subspace.blocks(4, 2), GaussianNoise(0.5))
    >>> oracle = ThresholdOracle(np.array([0.9, 0.8, 0.1, 0.3]), GaussianNoise(0.5), rng=np.random.default_rng(7))
    >>> run = rls.run(np.tile(rls.subspace.basis, (5000, 1)), oracle)
    >>> [round(float(v), 2) for v in rls.estimate()]
    [0.85, 0.85, 0.19, 0.19]
    """

    def __init__(self, subspace: Subspace, noise: OracleNoise) -> None:
        self.subspace, self.noise = subspace, noise
        self._c = subspace.coordinates(subspace.middle)
        self._P = subspace.initial_covariance()

    def answer(self, q: Floats) -> float:
        """Present answer to q."""
        z, known, _ = self.subspace.project(np.asarray(q, dtype=np.float64)[None, :])
        return float(z[0] @ self._c) + float(known[0])

    def learn(self, q: Floats, value: float) -> None:
        """Take in one raw noisy answer."""
        if not math.isfinite(value):
            raise ModelError(f"a raw answer is a finite number, got {value!r}")
        z, known, _ = self.subspace.project(np.asarray(q, dtype=np.float64)[None, :])
        _loop(z, known, np.array([value]), np.zeros(1), np.empty(1), self.noise.std**2, self._c, self._P)

    def estimate(self) -> Floats:
        """Present estimate of w's projection."""
        return np.asarray(self._c @ self.subspace.basis, dtype=np.float64)

    def run(self, queries: Floats | Iterable[Floats], oracle: ThresholdOracle) -> Run:
        """Compiled; the same numbers as `learn(q, oracle.noisy(q))` one by one."""
        course, before = Course(), oracle.asked
        for piece in split_queries(queries, self.subspace.D):
            z, known, _ = self.subspace.project(piece)
            hidden, errors = oracle.true_answers(piece), np.empty(len(piece))
            values = hidden + oracle.upcoming(len(piece))
            oracle.advance(len(piece))
            _loop(z, known, values, hidden, errors, self.noise.std**2, self._c, self._P)
            course.add(errors)
        final = float(np.linalg.norm(self._c - self.subspace.coordinates(oracle.hidden)))
        return course.close(asked=oracle.asked - before, final_error=final, contained=None, bound=math.inf)
