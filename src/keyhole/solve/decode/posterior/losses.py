"""-log likelihood of one answer under its law, compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_FAR = 20.0  # scales beyond which a tail is taken by its leading term


@njit(cache=True, inline="always")
def distance_outside(v: float, lo: float, hi: float) -> float:
    """Distance of v from [lo, hi], 0 within rounding."""
    near = 1e-7 * (1.0 + abs(v))
    if v < lo - near:
        return lo - v
    if v > hi + near:
        return v - hi
    return 0.0


@njit(cache=True)
def gaussian_between(v: float, lo: float, hi: float, scale: float) -> float:
    """-log P(lo <= v + noise <= hi), the noise normal with this standard deviation."""
    a, b = (lo - v) / scale, (hi - v) / scale
    if a > 0.0:  # both ends above: mirror, so that tails are computed as tails
        a, b = -b, -a
    if b < -_FAR:
        return 0.5 * b * b + math.log(-b * 2.5066282746310002)
    p = 0.5 * math.erfc(-b / 1.4142135623730951)
    if not math.isinf(a):
        p -= 0.5 * math.erfc(-a / 1.4142135623730951)
    return -math.log(max(p, 1e-300))


@njit(cache=True)
def laplace_between(v: float, lo: float, hi: float, scale: float) -> float:
    """The same for Laplace noise."""
    a, b = (lo - v) / scale, (hi - v) / scale
    if a > 0.0:
        a, b = -b, -a
    if b < 0.0:
        inside = 1.0 if math.isinf(a) else 1.0 - math.exp(a - b)
        return -b + 0.6931471805599453 - math.log(max(inside, 1e-300))
    p = 1.0 - 0.5 * math.exp(-b)
    if not math.isinf(a):
        p -= 0.5 * math.exp(a)
    return -math.log(max(p, 1e-300))


@njit(cache=True)
def soft_loss(law: int, v: float, y: float, lo: float, hi: float, scale: float) -> float:
    """-log likelihood of a noisy answer about the sum v, up to a constant; 0 for hard ones."""
    if law == 1:
        return abs(y - v) / scale
    if law == 2:
        e = (y - v) / scale
        return 0.5 * e * e
    if law == 3:
        return laplace_between(v, lo, hi, scale)
    if law == 4:
        return gaussian_between(v, lo, hi, scale)
    return 0.0


def sum_losses(
    law: np.ndarray, v: np.ndarray, y: np.ndarray, lo: np.ndarray, hi: np.ndarray, scale: np.ndarray
) -> float:
    """The sum over answers, infinite where a hard one is missed: the plain form, for tests and checks.

    >>> one = np.ones(1)
    >>> sum_losses(np.array([2]), 3 * one, one, -np.inf * one, np.inf * one, one)
    2.0
    """
    total = 0.0
    for j in range(len(law)):
        if law[j] == 0 and distance_outside(v[j], lo[j], hi[j]) > 0:
            return math.inf
        total += soft_loss(law[j], v[j], y[j], lo[j], hi[j], scale[j])
    return total
