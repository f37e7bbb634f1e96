"""Answers as Gaussian sites of expectation propagation: the Gaussian that stands for a law, given all other answers.

The others say of the sum v that an answer is about: N(mu, s^2). Times the law of the answer that has some mean and some
variance, and the Gaussian that gives the same two is the answer's site (Minka 2001). For a log-concave law (Laplace,
clamped, suppressed) a site never has a negative precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from keyhole.solve.decode.posterior.units import Floats, Ints, RowLaw, Units

_FIRM = 0.3  # a hard answer is taken as Gaussian with this share of its least step: about that of rounding to it
_POINTS = np.concatenate([-np.geomspace(9.0, 1e-2, 60), [0.0], np.geomspace(1e-2, 9.0, 60)])  # in scales, both sides
_BETWEEN = (RowLaw.LAPLACE_BETWEEN, RowLaw.GAUSSIAN_BETWEEN)


@dataclass(frozen=True, slots=True, eq=False)
class RowSites:
    """Precision W and precision times centre of every answer; those that are not Gaussian are `curved`.

    `firm` is the deviation of a right answer; `wrong` the share of gross errors among the answers that may be one.
    """

    law: NDArray[np.int8]
    y: Floats
    lo: Floats
    hi: Floats
    scale: Floats
    firm: Floats
    W: Floats
    pull: Floats
    wrong: float = 0.2

    @classmethod
    def of(cls, units: Units) -> RowSites:
        """The start: every law by its own mean and variance; nothing for what is open on a side.

        >>> one = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
        >>> RowSites.of(one).W.round(2).tolist()
        [11.11]
        """
        return cls.start(units.law, units.y, units.lo, units.hi, units.scale, _FIRM * units.steps())

    @classmethod
    def start(cls, law: NDArray[np.int8], y: Floats, lo: Floats, hi: Floats, scale: Floats, firm: Floats) -> RowSites:
        """The same from arrays."""
        width = hi - lo
        closed = np.isfinite(width)
        middle = np.where(closed, (np.where(closed, lo, 0.0) + np.where(closed, hi, 0.0)) / 2, 0.0)
        inside = np.where(closed, np.where(closed, width, 0.0) ** 2 / 12, np.inf)
        own = np.where(np.isin(law, (RowLaw.LAPLACE, RowLaw.LAPLACE_BETWEEN)), 2 * scale**2, scale**2)
        between = np.isin(law, _BETWEEN)
        exact = np.maximum(inside, firm**2)
        variance = np.select([law == RowLaw.HARD, between], [exact, inside + own], own)
        W = np.where(np.isfinite(variance), 1 / variance, 0.0)
        centre = np.where((law == RowLaw.HARD) | between, middle, y)
        return cls(law, y, lo, hi, scale, firm, W, W * centre)

    @classmethod
    def exact(cls, y: Floats) -> RowSites:
        """Exact answers, for tests and doctests."""
        return cls.start(np.zeros(len(y), dtype=np.int8), y, y, y, np.ones(len(y)), np.full(len(y), 1e-4))

    @property
    def curved(self) -> Ints:
        """The answers whose law is not Gaussian."""
        return np.flatnonzero(~np.isin(self.law, (RowLaw.HARD, RowLaw.GAUSSIAN)))

    def normal(self, B: Floats) -> tuple[Floats, Floats]:
        """B^T W B and B^T W y: what all sites together say of the units."""
        return (B * self.W[:, None]).T @ B, B.T @ self.pull

    def refined(self, mean: Floats, variance: Floats) -> RowSites:
        """The sites after one round, half of the way, from the mean and variance of every sum with all sites in."""
        j = self.curved
        loose = 1 / np.maximum(variance[j], 1e-300) - self.W[j]
        fit = np.flatnonzero(loose > 1e-9 / np.maximum(variance[j], 1e-300))
        j, loose = j[fit], loose[fit]
        mu = (mean[j] / variance[j] - self.pull[j]) / loose
        s = 1 / np.sqrt(loose)
        gross = self.law[j] == RowLaw.GROSS
        m, v = self._tilted(j, mu, s)
        first, second, chance = self._gross(j, mu, s)
        m, v = np.where(gross, first, m), np.where(gross, second, v)
        v = np.minimum(v, 1 / loose)  # an answer never takes away what others say
        W, pull = self.W.copy(), self.pull.copy()
        W[j] = 0.5 * W[j] + 0.5 * (1 / v - loose)
        pull[j] = 0.5 * pull[j] + 0.5 * (m / v - mu * loose)
        share = float(np.clip(chance[gross].mean(), 0.02, 0.6)) if gross.any() else self.wrong
        return replace(self, W=W, pull=pull, wrong=share)

    def _tilted(self, rows: Ints, mu: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of N(mu, s^2) times the law of each row, by the trapezoid rule on points dense at both."""
        scale, y = self.scale[rows], self.y[rows]
        marks = [mu[:, None] + s[:, None] * _POINTS, y[:, None] + scale[:, None] * _POINTS]
        if np.isin(self.law[rows], _BETWEEN).any():
            for end in (self.lo[rows], self.hi[rows]):
                marks.append(np.where(np.isfinite(end), end, y)[:, None] + scale[:, None] * _POINTS)
        x = np.sort(np.concatenate(marks, axis=1), axis=1)
        logs = -0.5 * ((x - mu[:, None]) / s[:, None]) ** 2 + self._log_law(rows, x)
        step = np.diff(x, axis=1)
        share = np.zeros_like(x)
        share[:, :-1] += step / 2
        share[:, 1:] += step / 2
        share *= np.exp(logs - logs.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        mean = (share * x).sum(axis=1)
        return mean, np.maximum((share * (x - mean[:, None]) ** 2).sum(axis=1), 1e-12 * s**2)

    def _log_law(self, rows: Ints, v: Floats) -> Floats:
        """log likelihood of each row's answer at the sums v (rows, points), up to a constant a row."""
        law, scale = self.law[rows][:, None], self.scale[rows][:, None]
        far = -np.abs(self.y[rows][:, None] - v) / scale
        if not np.isin(law, _BETWEEN).any():
            return np.asarray(far)
        a, b = (self.lo[rows][:, None] - v) / scale, (self.hi[rows][:, None] - v) / scale
        between = [_log_between(a, b, below) for below in (_log_laplace_below, log_ndtr)]
        return np.select([law == RowLaw.LAPLACE_BETWEEN, law == RowLaw.GAUSSIAN_BETWEEN], between, far)

    def _gross(self, rows: Ints, mu: Floats, s: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean and variance for an answer that is right, or off by a Gaussian; and the chance that it is off."""
        y, ways = self.y[rows], (self.firm[rows], self.scale[rows])
        logs, means, variances = [], [], []
        for deviation, share in zip(ways, (1 - self.wrong, self.wrong), strict=True):
            total = s**2 + deviation**2
            logs.append(np.log(share) - 0.5 * np.log(total) - 0.5 * (y - mu) ** 2 / total)
            means.append((mu * deviation**2 + y * s**2) / total)
            variances.append(s**2 * deviation**2 / total)
        off = 1 / (1 + np.exp(np.clip(logs[0] - logs[1], -700, 700)))
        mean = (1 - off) * means[0] + off * means[1]
        square = (1 - off) * (variances[0] + means[0] ** 2) + off * (variances[1] + means[1] ** 2)
        return mean, np.maximum(square - mean**2, 1e-12 * s**2), off


def _log_laplace_below(t: Floats) -> Floats:
    """log P(noise <= t) of standard Laplace noise."""
    return np.where(t < 0, np.minimum(t, 0.0) - np.log(2), np.log1p(-0.5 * np.exp(-np.maximum(t, 0.0))))


def _log_between(a: Floats, b: Floats, below: Callable[[Floats], Floats]) -> Floats:
    """log P(a <= noise <= b) for a symmetric law, computed in the tail where both ends lie in one."""
    swap = a > 0
    low, high = np.where(swap, -b, a), np.where(swap, -a, b)
    top = below(high)
    return np.asarray(top + np.log1p(-np.minimum(np.exp(below(low) - top), 1 - 1e-12)))
