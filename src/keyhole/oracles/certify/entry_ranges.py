"""Entries of w from answers known to intervals: what a computed inverse, a little wrong, makes certain of each."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from keyhole.oracles.certify.tails import Floats

ROUNDING: float = 2.0**-52
LEAK = 1e-9  # of an entry into another: beyond this the entry is not in the span


def entry_ranges(rows: Floats, inverse: Floats, ends: Floats, bounds: Floats | None) -> Floats:
    """How far entry i of w may be from (inverse @ middle of the ends)_i; inf where nothing is known.

    With B the computed inverse and A the rows, w = B (A w) + (I - B A) w. A w lies between the ends; I - B A, the leak,
    is bounded with the rounding of its own computation, |I - B A| + (k + 3) 2^-52 (|B| |A| + 1), or is 0 where exact
    arithmetic says so. |w| is bounded by `bounds`, or else by what the entries themselves make certain: with rho the
    largest row sum of the leak, max |w| <= max |B A w| / (1 - rho). An entry into which another leaks of which nothing
    is known is not known either. Cost: O(D^2 k), exact arithmetic only for entries that the rows do not span.

    >>> one = np.array([[1.0, 1e-10]])
    >>> entry_ranges(one, np.linalg.pinv(one), np.array([[0.4, 0.6]]), None).tolist()  # the other may be 1e9
    [inf, inf]
    >>> both = np.eye(2)
    >>> [round(float(v), 6) for v in entry_ranges(both, both, np.array([[0.4, 0.6], [1.0, 1.0]]), None)]
    [0.1, 0.0]
    """
    width, count = rows.shape[1], len(rows)
    if not count:
        return np.full(width, math.inf)
    middle, size = ends.mean(axis=1), np.abs(ends).max(axis=1)
    half = np.maximum(ends[:, 1] - middle, middle - ends[:, 0]) * (1 + 4 * ROUNDING)
    lost = (count + 3) * ROUNDING
    leak = np.abs(np.eye(width) - inverse @ rows) + lost * (np.abs(inverse) @ np.abs(rows) + 1)
    told = (np.abs(inverse) @ half + 2 * lost * (np.abs(inverse) @ size)) * (1 + 1e-12)
    told += 1e-9 * (1 + np.abs(inverse @ middle))  # more than any of the roundings that follow
    if bounds is not None:
        wide = np.max(leak - lost, axis=1) >= LEAK
        return np.where(wide, math.inf, told + (leak @ bounds) * (1 + 1e-9))
    seen = np.max(np.abs(np.eye(width) - inverse @ rows), axis=1) < LEAK
    while np.any(seen) and not np.all(seen):
        more = np.array(
            [bool(s) and _untouched(i, rows, inverse[i], np.flatnonzero(~seen)) for i, s in enumerate(seen)]
        )
        if np.array_equal(more, seen):
            break
        seen = more
    if not np.any(seen):
        return np.full(width, math.inf)
    inner = leak[np.ix_(seen, seen)]
    rho = float(inner.sum(axis=1).max())
    if rho >= 0.5:
        return np.full(width, math.inf)
    most = float(np.max(np.abs(inverse[seen]) @ size)) * (1 + 1e-9) / (1 - rho)
    reach = np.full(width, math.inf)
    reach[seen] = told[seen] + inner.sum(axis=1) * most * (1 + 1e-9)
    return reach


def _untouched(i: int, rows: Floats, weights: Floats, others: np.ndarray) -> bool:
    """Does nothing of the other entries leak into entry i, in exact arithmetic?"""
    used = np.flatnonzero(weights)
    return all(
        sum((Fraction(float(weights[k])) * Fraction(float(rows[k, j])) for k in used), Fraction(0)) == (i == j)
        for j in others
    )
