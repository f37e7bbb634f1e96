"""Variances from few draws each, moderated by what their class has in common.

Of many records with 8 draws each the surest tenth is mostly the luckiest: its variances are too small. How much of the
differences within a class is luck follows from the draws themselves. Reference: Smyth (2004), empirical Bayes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from keyhole.attacks.base import Floats

ALONE = 1e-3  # share of its class's variance below which a record is known better than its class
FEW = 10  # records below which a class does not tell how different they are
_FIRST = 3.0  # what a class counts then, in draws


def moderated(variance: Floats, classes: NDArray[Any], drawn: Floats) -> Floats:
    """Variances from `drawn` normal draws each, moved towards the mean of their class as far as their spread is luck.

    With s^2 of d draws about a variance that varies like an inverse chi-square of d0 draws about s0^2 the mean is
    (d0 s0^2 + d s^2) / (d0 + d); d0 and s0 are those that the mean and variance of log s^2 show. One that lies below a
    thousandth of its class's mean is no chance (below 1e-4): it stays alone. Cost: O(n log n).

    >>> moderated(np.array([1.0, 3.0, 1e-9]), np.array([2, 2, 2]), np.full(3, 3.0)).round(3).tolist()
    [1.5, 2.5, 0.0]
    >>> drawn = np.random.default_rng(0).chisquare(8, 1000) / 8
    >>> bool(moderated(drawn, np.zeros(1000), np.full(1000, 8.0)).std() < 0.1)
    True
    """
    _, of = np.unique(classes, return_inverse=True)
    of = of.ravel()
    count = np.bincount(of)
    mean = (np.bincount(of, weights=variance) / count)[of]
    alike = variance > ALONE * mean
    found = variance.copy()
    for members in np.split(np.argsort(of, kind="stable"), np.cumsum(count)[:-1]):
        some = members[alike[members]]
        if len(some):
            strength, common = _shared(variance[some], drawn[some])
            share = 1.0 if np.isinf(strength) else strength / (strength + drawn[some])
            found[some] = share * common + (1 - share) * variance[some]
    return found


def _shared(variance: Floats, drawn: Floats) -> tuple[float, float]:
    """What a class counts (in draws, infinite if all that differs is luck), and its common variance."""
    pooled = float((variance * drawn).sum() / drawn.sum())
    if len(variance) < FEW:
        return _FIRST, float(variance.mean())
    half = drawn / 2
    logs = np.log(variance) - digamma(half) + np.log(half)
    more = float(logs.var(ddof=1) - polygamma(1, half).mean())
    if more <= 0:
        return np.inf, pooled
    strength = 2 * _inverse_trigamma(more)
    return strength, float(np.exp(logs.mean() + digamma(strength / 2) - np.log(strength / 2)))


def _inverse_trigamma(x: float) -> float:
    """y with trigamma(y) = x, by Newton's method on 1/trigamma.

    >>> round(_inverse_trigamma(float(polygamma(1, 2.5))), 6)
    2.5
    """
    if x > 1e7:
        return float(1 / np.sqrt(x))
    y = 0.5 + 1 / x
    for _ in range(50):
        tri = float(polygamma(1, y))
        step = tri * (1 - tri / x) / float(polygamma(2, y))
        y += step
        if -step / y < 1e-8:
            break
    return y
