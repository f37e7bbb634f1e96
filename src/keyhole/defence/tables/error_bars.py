"""How far off a sum of independent noise can be: exact tails of weighted Gaussian and Laplace noise.

The normal quantile is up to 1.33 times too narrow on sums of Laplace noise at probability 1 - .001, so none of it is
used there: the tail of the sum itself is, by its characteristic function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

ROUNDED = 1 + 1e-9  # quantiles are rounded outward
Terms = tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class ErrorLaw:
    """A centred error: Gaussian noise of `variance` plus Laplace noise of each scale, so many times; `step` is the
    largest weight of one draw, on whose grid the noise is discrete.

    >>> round(ErrorLaw(4.0).bar(0.05), 3), round(ErrorLaw(0.0, ((2.0, 1),)).bar(0.05), 3)
    (3.92, 5.991)
    """

    variance: float = 0.0
    laplace: Terms = ()
    step: float = 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation of the whole."""
        return math.sqrt(self.variance + sum(2 * b * b * k for b, k in self.laplace))

    def times(self, factor: float) -> ErrorLaw:
        """The error multiplied by a number."""
        size = abs(factor)
        return ErrorLaw(self.variance * size * size, tuple((b * size, k) for b, k in self.laplace), self.step * size)

    def plus(self, other: ErrorLaw) -> ErrorLaw:
        """The sum of two independent errors."""
        terms = (*self.laplace, *other.laplace)
        return ErrorLaw(self.variance + other.variance, gathered(terms), max(self.step, other.step))

    def over(self, other: ErrorLaw) -> ErrorLaw:
        """A law whose bar is at no beta below that of either: the larger of each part, largest with largest.

        A sum of symmetric unimodal noise has heavier tails when any of its parts does (Birnbaum 1948). Which of two
        laws has the wider bar may depend on beta, so the wider deviation alone does not tell.
        """
        return ErrorLaw(
            max(self.variance, other.variance), largest(self.laplace, other.laplace), max(self.step, other.step)
        )

    def bar(self, beta: float) -> float:
        """A bound that the error passes with probability beta at most, half a step of the grid included."""
        if not self.laplace:
            return (normal_quantile(beta) * math.sqrt(self.variance) + self.step / 2) * ROUNDED
        scale = self.deviation
        if not math.isfinite(scale):
            return math.inf
        shape = tuple((float(f"{b / scale:.9g}") * (1 + 1e-8), k) for b, k in self.laplace)
        return (scale * _quantile(self.variance / scale**2, shape, beta) + self.step / 2) * ROUNDED


@lru_cache(maxsize=64)
def normal_quantile(beta: float) -> float:
    """z with P(|N| > z) = beta.

    >>> round(normal_quantile(0.05), 4)
    1.96
    """
    return -NormalDist().inv_cdf(beta / 2)


def gathered(terms: Iterable[tuple[float, int]], digits: int = 6) -> Terms:
    """Equal scales together; scales that differ by less than their last digit are rounded up to one.

    >>> gathered([(2.0, 1), (1.0, 3), (2.0, 2)])
    ((2.0, 3), (1.0, 3))
    """
    found: dict[float, int] = {}
    for scale, times in terms:
        if scale > 0:
            found[_up(scale, digits)] = found.get(_up(scale, digits), 0) + times
    return tuple(sorted(found.items(), reverse=True))


def largest(first: Terms, second: Terms) -> Terms:
    """The larger of the k-th largest scales of two lists, for every k.

    >>> [(round(b, 9), k) for b, k in largest(((3.0, 1), (1.0, 2)), ((2.0, 2),))]
    [(3.0, 1), (2.0, 1), (1.0, 1)]
    """
    left, right, largest_bar = [list(t) for t in first], [list(t) for t in second], []
    while left and right:
        times = int(min(left[0][1], right[0][1]))
        largest_bar.append((float(max(left[0][0], right[0][0])), times))
        for side in (left, right):
            side[0][1] -= times
            if not side[0][1]:
                side.pop(0)
    return gathered([*largest_bar, *((float(b), int(k)) for b, k in (*left, *right))])


def laplace_terms(weights: NDArray[np.float64], scale: float) -> Terms:
    """The scales of Laplace noise of one scale under many weights, those that are nothing left out."""
    sizes, times = np.unique(np.abs(weights.ravel()).round(12), return_counts=True)
    return gathered((float(w) * scale, int(k)) for w, k in zip(sizes, times, strict=True) if w > 1e-9 * sizes[-1])


def _up(number: float, digits: int) -> float:
    step = 10.0 ** (math.floor(math.log10(number)) + 1 - digits)
    return math.ceil(number / step - 1e-9) * step


@lru_cache(maxsize=65536)
def _quantile(gaussian: float, laplace: Terms, beta: float) -> float:
    """x with P(|sum| > x) = beta for a sum of variance 1 (about), by bisection on its tail."""
    if len(laplace) == 1 and laplace[0][1] == 1 and gaussian == 0:
        return laplace[0][0] * math.log(1 / beta)
    tail = _tail_of(gaussian, laplace)
    low, high = 0.0, 3.0
    while tail(high) > beta:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > beta else (low, middle)
    return high


def _tail_of(gaussian: float, laplace: Terms) -> Callable[[float], float]:
    """x -> P(|sum| > x) = 1 - (2/pi) int sin(t x) phi(t) / t dt (Gil-Pelaez 1951).

    phi(t) = exp(-g t^2 / 2) prod 1 / (1 + (b t)^2)^k. The integral is a sum over a grid so fine that what it folds in
    from far tails is below 1e-12, cut off where phi is.
    """
    step = 2 * math.pi / 120.0  # the sum is periodic in 120 deviations
    top = 8.0
    while top < 4096 and _log_phi(np.array([top]), gaussian, laplace)[0] > math.log(1e-13 * top):
        top *= 2
    t: NDArray[np.float64] = step * (np.arange(1, math.ceil(top / step) + 1, dtype=np.float64) - 0.5)
    phi = np.exp(_log_phi(t, gaussian, laplace)) / t

    def tail(x: float) -> float:
        return float(1 - 2 / math.pi * step * (np.sin(t * x) * phi).sum())

    return tail


def _log_phi(t: NDArray[np.float64], gaussian: float, laplace: Terms) -> NDArray[np.float64]:
    found = -gaussian * t**2 / 2
    for b, k in laplace:
        found = found - k * np.log1p((b * t) ** 2)
    return found
