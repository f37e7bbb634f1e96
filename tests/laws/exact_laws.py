"""The exact output laws of the mechanisms on given true answers: what a faithful implementation must show."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

Law = Mapping[object, float]


def laplace_mass(scale: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Points and probabilities of discrete Laplace noise, to forty scales."""
    reach = math.ceil(40 * scale) + 1
    points = np.arange(-reach, reach + 1)
    masses = np.exp(-np.abs(points) / scale)
    return points, masses / masses.sum()


def gaussian_mass(variance: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Points and probabilities of discrete Gaussian noise, to twelve deviations."""
    reach = math.ceil(12 * math.sqrt(variance)) + 1
    points = np.arange(-reach, reach + 1)
    masses = np.exp(-(points**2) / (2 * variance))
    return points, masses / masses.sum()


def laplace_at_least(k: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """P(z >= k) for discrete Laplace noise.

    >>> laplace_at_least(np.array([0, 1]), 2.0).round(4).tolist()
    [0.6225, 0.3775]
    """
    q = math.exp(-1 / scale)
    return np.where(k >= 1, q ** np.maximum(k, 1) / (1 + q), 1 - q ** (1 - np.minimum(k, 0)) / (1 + q))


def buckets(points: NDArray[np.int64], masses: NDArray[np.float64], cuts: Sequence[int]) -> list[float]:
    """The mass below the first cut, between cuts, and from the last one on."""
    place = np.searchsorted(np.asarray(cuts), points, side="right")
    return [float(masses[place == i].sum()) for i in range(len(cuts) + 1)]


def bucket(value: int, cuts: Sequence[int]) -> int:
    """Which bucket a value falls into.

    >>> [bucket(v, (0, 5)) for v in (-1, 0, 4, 5)]
    [0, 1, 1, 2]
    """
    return bisect_right(cuts, value)


def gate_pattern(values: Sequence[int], threshold: int, threshold_scale: float, query_scale: float) -> float:
    """P(all but the last value stay below the noisy threshold, and the last reaches it)."""
    points, masses = laplace_mass(threshold_scale)
    level = threshold + points
    chance = masses.copy()
    for value in values[:-1]:
        chance *= 1 - laplace_at_least(level - value, query_scale)
    return float((chance * laplace_at_least(level - values[-1], query_scale)).sum())


def gate_silence(values: Sequence[int], threshold: int, threshold_scale: float, query_scale: float) -> float:
    """P(every value stays below the noisy threshold)."""
    points, masses = laplace_mass(threshold_scale)
    chance = masses.copy()
    for value in values:
        chance *= 1 - laplace_at_least(threshold + points - value, query_scale)
    return float(chance.sum())


def sparse_law(
    values: Sequence[int], threshold: int, firings: int, threshold_scale: float, query_scale: float
) -> dict[object, float]:
    """The probability of every pattern of TOP (True) and BOT (False) until the run halts or questions end."""
    law: dict[object, float] = {}
    for pattern in product((False, True), repeat=len(values)):
        tops = [i for i, top in enumerate(pattern) if top]
        end = tops[firings - 1] + 1 if len(tops) >= firings else len(values)
        shown = pattern[:end]
        if shown in law:
            continue
        chance, start = 1.0, 0
        for i in tops[:firings]:
            chance *= gate_pattern(values[start : i + 1], threshold, threshold_scale, query_scale)
            start = i + 1
        if len(tops) < firings and start < len(values):
            chance *= gate_silence(values[start:], threshold, threshold_scale, query_scale)
        law[shown] = chance
    return law


def worst_ratio(first: Law, second: Law) -> float:
    """The largest |ln P/P'| over the outcomes, both ways."""
    return max(abs(math.log(first[o] / second[o])) for o in first if first[o] > 0 or second[o] > 0)
