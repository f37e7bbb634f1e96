"""Expectation propagation: each unknown sees the others as one Gaussian cloud. For what is too large to sample.

The answers are linear, so with a Gaussian in place of every other unit what they say of one unit is a Gaussian in its
features (its cavity); times its prior that gives the chances of its states, whose moments give the next Gaussian
(Minka 2001; Opper and Winther 2000). The first round is the best linear estimate; where the rounds do not settle, the
chances are those of the first. `propagate_in_box` does the same for numbers in ranges: there the prior is a density on
[lower, upper], even for one record, the normal one with the same mean and variance for the mean of several.

An answer whose law is not Gaussian has a site: the Gaussian that stands for the law, given all other answers. They say
of the sum v that the answer is about: N(mu, s^2). That times the law has some mean and some variance, and the site
gives the same two. For a log-concave law (Laplace, clamped, suppressed) a site never has a negative precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from keyhole.solve.decode.posterior.units import Floats, Ints, RowLaw, Units

LARGEST = 3_000  # units times features
_FIRM = 0.3  # a hard answer is taken as Gaussian with this share of its least step: about that of rounding to it
_POINTS = np.concatenate([-np.geomspace(9.0, 1e-2, 60), [0.0], np.geomspace(1e-2, 9.0, 60)])  # in scales, both sides
_BETWEEN = (RowLaw.LAPLACE_BETWEEN, RowLaw.GAUSSIAN_BETWEEN)
ROUNDS = 40
_X, _WEIGHT = np.polynomial.legendre.leggauss(48)


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


def propagate_chances(units: Units) -> Floats:
    """P(state), flat like `Units.features`. Cost: (units F)^3 a round, at most a dozen rounds.

    >>> one = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
    >>> bool((propagate_chances(one)[[0, 2]] > 0.9).all())
    True
    """
    sites = RowSites.of(units)
    B, F, count = units.dense(), units.F, units.count
    H, b = sites.normal(B)
    chances = np.exp(units.log_prior)
    if not count:
        return chances
    mean, spread = _moments(units, chances)
    wide = spread + 1e-9 * np.eye(F) * (1 + np.trace(spread, axis1=1, axis2=2)[:, None, None])
    precision = np.linalg.inv(wide)
    pull = np.einsum("ufg,ug->uf", precision, mean)
    rounds = 12 if count * F <= 400 else 5 if count * F <= 1200 else 1
    first, before, every = chances, chances, np.arange(count)
    for turn in range(rounds):
        Q = H.copy()
        Q.reshape(count, F, count, F)[every, :, every, :] += precision
        S = np.linalg.inv(Q)
        centre = (S @ (b + pull.ravel())).reshape(count, F)
        inner = np.linalg.inv(S.reshape(count, F, count, F)[every, :, every, :])
        cavity, drift = inner - precision, np.einsum("ufg,ug->uf", inner, centre) - pull
        chances = _state_chances(units, cavity, drift)
        if turn == 0:
            first = chances
        change = float(np.sqrt(np.mean((chances - before) ** 2)))
        if turn and change < 1e-4:
            return chances
        before = chances
        if rounds > 1 and len(sites.curved):
            sites = sites.refined(B @ centre.ravel(), np.einsum("jp,jp->j", B @ S, B))
            H, b = sites.normal(B)
        mean, spread = _moments(units, chances)
        wide_now = spread + 1e-4 * wide
        target = np.linalg.inv(wide_now)
        fresh = target - cavity
        ok = np.linalg.eigvalsh(fresh)[:, 0] > 0
        moved = np.einsum("ufg,ug->uf", target, mean) - drift
        precision = np.where(ok[:, None, None], 0.5 * precision + 0.5 * fresh, precision)
        pull = np.where(ok[:, None], 0.5 * pull + 0.5 * moved, pull)
    return chances if rounds > 1 and change < 0.02 else first


def _moments(units: Units, chances: Floats) -> tuple[Floats, Floats]:
    """Mean (units, F) and covariance (units, F, F) of the features under these chances."""
    first = units.states[:-1]
    weighted = units.features * chances[:, None]
    mean = np.add.reduceat(weighted, first, axis=0)
    second = np.add.reduceat(units.features[:, :, None] * weighted[:, None, :], first, axis=0)
    return mean, second - mean[:, :, None] * mean[:, None, :]


def _state_chances(units: Units, cavity: Floats, drift: Floats) -> Floats:
    """Chances of the states: prior times the cavity's Gaussian."""
    of = np.repeat(np.arange(units.count), np.diff(units.states))
    x = units.features
    logs = units.log_prior + np.einsum("sf,sf->s", x, drift[of]) - 0.5 * np.einsum("sf,sfg,sg->s", x, cavity[of], x)
    top = np.maximum.reduceat(logs, units.states[:-1])
    weight = np.exp(logs - top[of])
    return np.asarray(weight / np.add.reduceat(weight, units.states[:-1])[of])


def propagate_in_box(B: Floats, sites: RowSites, lower: Floats, upper: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of every unknown (a mean over `sizes` records) given the answers B u.

    Cost: p^3 a round, at most `ROUNDS` rounds. Where the rounds do not settle, the last ones stand.

    >>> rows = RowSites.exact(np.array([1.2, 0.4]))
    >>> mean, variance = propagate_in_box(np.array([[1.0, 1], [1, -1]]), rows, np.zeros(2), np.ones(2), np.ones(2))
    >>> mean.round(2).tolist(), variance.round(2).tolist()
    ([0.8, 0.4], [0.0, 0.0])
    """
    middle, prior = (lower + upper) / 2, np.maximum((upper - lower) ** 2 / 12, 1e-300)
    even = np.where(sizes > 1, sizes / prior, 0.0)  # precision of the prior inside its box
    precision, pull = sizes / prior, middle * sizes / prior
    mean, variance = middle.copy(), prior / sizes
    for turn in range(ROUNDS):
        H, b = sites.normal(B)
        H[np.diag_indices(len(H))] += precision
        S = np.linalg.inv(H)
        centre, own = S @ (b + pull), np.maximum(np.diag(S), 1e-300)
        cavity = np.maximum(1 / own - precision, 1e-9 / prior)
        drift = centre / own - pull
        before = variance
        mean, variance = _inside(lower, upper, cavity + even, drift + even * middle)
        variance = np.maximum(variance, 1e-12 * prior)
        keep = 0.0 if turn == 0 else 0.5
        fresh = np.maximum(1 / variance - cavity, 1e-9 / prior)
        precision = keep * precision + (1 - keep) * fresh
        pull = keep * pull + (1 - keep) * (mean / variance - drift)
        if turn > 4 and float(np.max(np.abs(np.sqrt(variance) - np.sqrt(before)) / np.sqrt(prior), initial=0.0)) < 1e-3:
            break
        if len(sites.curved):
            sites = sites.refined(B @ centre, np.einsum("jp,jp->j", B @ S, B))
    return mean, variance


def _inside(lower: Floats, upper: Floats, precision: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the normal density with this precision on [lower, upper], by Gauss-Legendre."""
    s = 1 / np.sqrt(precision)
    m = pull / precision
    c = np.clip(m, lower, upper)
    reach = np.minimum(8 * s, 40 * s**2 / np.maximum(np.abs(m - c), 1e-300))
    lo, hi = np.maximum(lower, c - reach), np.minimum(upper, c + reach)
    x = (lo + hi)[:, None] / 2 + (hi - lo)[:, None] / 2 * _X
    logs = -0.5 * ((x - m[:, None]) / s[:, None]) ** 2
    weight = np.exp(logs - logs.max(axis=1, keepdims=True)) * _WEIGHT
    weight /= weight.sum(axis=1, keepdims=True)
    mean = (weight * x).sum(axis=1)
    return mean, (weight * (x - mean[:, None]) ** 2).sum(axis=1)
