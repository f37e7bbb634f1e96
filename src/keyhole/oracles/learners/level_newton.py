"""Oracles that answer from k levels instead of two: between one bit and the raw answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import Course, Run, ThresholdOracle
from keyhole.oracles.noise import Floats, OracleNoise, quantile, require_law
from keyhole.oracles.subspace import Subspace

GRID = 40  # deviations of the estimate for which scores are tabulated
_Z = np.linspace(-6.5, 6.5, 201)
_WEIGHT = np.exp(-_Z * _Z / 2) / math.sqrt(2 * math.pi) * (_Z[1] - _Z[0])


class LevelNewton:
    """OneBitNewton for an oracle that says in which of k intervals its noisy answer lies.

    The k - 1 thresholds sit around the estimate at the noise's quantiles i/k. Moment matching with the score
    s_c = -(rho(b) - rho(a)) / (F(b) - F(a)) of the cell (a, b) that was named and the information sum s_c^2 Pr(c);
    k = 2 is OneBitNewton without its box. For Gaussian noise 2, 3 and 4 levels are worth 0.64, 0.79 and 0.86 of a
    raw answer.
    Memory d^2; time O(dD + d^2 + k) a query, in numpy (not compiled).

    >>> from keyhole.oracles.noise import GaussianNoise
    >>> space, noise = Subspace.blocks(4, 2), GaussianNoise(0.5)
    >>> [round(LevelNewton(space, noise, levels=k).information * noise.std**2, 2) for k in (2, 3, 4, 16)]
    [0.64, 0.79, 0.86, 0.98]
    """

    def __init__(self, subspace: Subspace, noise: OracleNoise, *, levels: int) -> None:
        if not isinstance(levels, int | np.integer) or levels < 2:
            raise ModelError(f"an oracle has a whole number of levels, at least 2, got {levels!r}")
        self.subspace, self.noise, self.levels = subspace, require_law(noise), int(levels)
        self.cuts = np.array([quantile(noise, i / levels) for i in range(1, levels)])
        self._c = subspace.coordinates(subspace.middle)
        self._P = subspace.initial_covariance()
        self._widths = noise.std * np.geomspace(1e-2, 1e3, GRID)
        tables = [self._scores(float(s)) for s in self._widths]
        self._score = np.array([score for score, _ in tables])
        self._information = np.array([information for _, information in tables])

    @property
    def information(self) -> float:
        """Fisher information of one answer about the mean, once the estimate is near: floor deviation^-2."""
        return float(self._information[0])

    def answer(self, q: Floats) -> float:
        """Present answer to q."""
        z, known, _ = self._one(q)
        return float(z @ self._c) + known

    def thresholds(self, q: Floats) -> Floats:
        """The k - 1 thresholds to ask q with, rising."""
        return np.asarray(self.answer(q) + self.cuts, dtype=np.float64)

    def learn(self, q: Floats, level: int) -> None:
        """Take in the number of thresholds exceeded, for the thresholds proposed now."""
        if not (isinstance(level, int | np.integer) and 0 <= level < self.levels):
            raise ModelError(f"an answer is a level 0..{self.levels - 1}, got {level!r}")
        z, _, _ = self._one(q)
        Pz = self._P @ z
        variance = float(z @ Pz)
        at = float(np.interp(math.log(max(variance, 1e-300)) / 2, np.log(self._widths), np.arange(GRID)))
        k = min(GRID - 2, int(at))
        part = at - k
        score = (1 - part) * self._score[k, level] + part * self._score[k + 1, level]
        information = (1 - part) * self._information[k] + part * self._information[k + 1]
        self._c += Pz * score
        self._P -= np.outer(Pz, Pz) * min(information, 0.999 / variance)

    def estimate(self) -> Floats:
        """Present estimate of w's projection."""
        return np.asarray(self._c @ self.subspace.basis, dtype=np.float64)

    def run(self, queries: Floats, oracle: ThresholdOracle) -> Run:
        """Answer, ask and learn each row."""
        course, before, errors = Course(), oracle.asked, np.empty(len(queries))
        for t, (q, truth) in enumerate(zip(queries, oracle.true_answers(queries), strict=True)):
            errors[t] = abs(self.answer(q) - float(truth))
            self.learn(q, oracle.level(q, self.thresholds(q)))
        course.add(errors)
        final = float(np.linalg.norm(self._c - self.subspace.coordinates(oracle.hidden)))
        return course.close(asked=oracle.asked - before, final_error=final, contained=None, bound=math.inf)

    def _scores(self, width: float) -> tuple[Floats, float]:
        """Scores of the cells and their information, for noise + N(0, width^2)."""
        cdf: Callable[[float], float] = self.noise.cdf
        values = np.array([[cdf(float(x - width * t)) for t in _Z] for x in self.cuts])
        F = np.concatenate([[0.0], values @ _WEIGHT, [1.0]])
        rho = np.concatenate([[0.0], -(values @ (_WEIGHT * _Z)) / width, [0.0]])
        mass = np.maximum(np.diff(F), 1e-300)
        score = -np.diff(rho) / mass
        return score, float(np.sum(score**2 * mass))

    def _one(self, q: Floats) -> tuple[Floats, float, float]:
        z, known, slack = self.subspace.project(np.asarray(q, dtype=np.float64)[None, :])
        return z[0], float(known[0]), float(slack[0])
