"""Pr(noise > x) inside compiled loops, for any law: exact, or between two true bounds.

The compiled attacks need tails for every law, at every query. A law therefore packs itself into one array
(kind, scale, tail at 0, rho_max, rho_near, near, stretch) and, for a custom law, a table (knots, tails). Two devices
keep it cheap *and* safe. (a) Within `near` of 0 the density lies between `rho_near` and `rho_max`, so the tail lies
between two straight lines: no transcendental function, and both lines are true bounds. (b) A custom law is read at the
table's neighbouring knots, rounded outwards, which is a true bound because a cdf is monotone. The tests built on
these numbers stay valid exactly; only a few per cent of their power are lost.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIFORM, GAUSSIAN, LAPLACE, TRIANGULAR, TABLE, BETWEEN = range(6)  # from TABLE on, tails are known between bounds


@njit(cache=True, error_model="numpy")
def closed_tail(kind: int, scale: float, x: float) -> float:
    """Pr(noise > x) in closed form. Scalars only: the compiler inlines it into the hot loop."""
    if kind == UNIFORM:
        side = 0.5 - 0.5 * x / scale
        return min(1.0, max(0.0, side))
    if kind == GAUSSIAN:
        return 0.5 * math.erfc(x / (scale * 1.4142135623730951))
    part = 0.5 * math.exp(-abs(x) / scale)
    if kind == TRIANGULAR:
        side = max(0.0, 1.0 - abs(x) / scale)
        part = 0.5 * side * side
    return part if x > 0.0 else 1.0 - part


@njit(cache=True, error_model="numpy")
def table_tail(knots: Floats, tails: Floats, x: float) -> tuple[float, float]:
    """(lower, upper) with lower <= Pr(noise > x) <= upper, from the knots on either side of x."""
    k = np.searchsorted(knots, x)
    if k == 0:
        return tails[0], 1.0
    if k == knots.size:
        return 0.0, tails[-1]
    return tails[k], tails[k - 1]


@njit(cache=True, error_model="numpy")
def tail(law: Floats, knots: Floats, tails: Floats, x: float) -> tuple[float, float]:
    """(lower, upper) with lower <= Pr(noise > x) <= upper: two lines near 0, the law's own tail elsewhere."""
    kind = int(law[0])
    if kind == BETWEEN:  # uniform, of a half-width between law[4] and law[1]
        wide, narrow = closed_tail(UNIFORM, law[1], x), closed_tail(UNIFORM, law[4], x)
        return min(wide, narrow), max(wide, narrow)
    if abs(x) > law[5]:
        if kind == TABLE:
            return table_tail(knots, tails, x)
        exact = closed_tail(kind, law[1], x)
        return exact, exact
    one, other = law[2] - law[3] * x, law[2] - law[4] * x
    return min(one, other), max(one, other)
