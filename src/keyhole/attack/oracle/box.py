"""Compiled steps on a box of coordinates: where to aim, what a bit proves, when a side is cut, when to doubt.

Geometry (exact; no linear program). The box has sides l_i around `centre`; a query has coordinates z_i. With
the direction j that maximises |z_i| l_i and the kept share th, let
    gap = |z_j| l_j (th - 1/2) - (1/2) sum_{i != j} |z_i| l_i - slack.
If the coordinate c_j lies in the low end of the side (seen along the query) then q.w <= q.centre - gap, and if in
the high end, q.w >= q.centre + gap. At most one direction has gap > 0, since th < 1.

Test. For *any* threshold t, Pr(bit = 1) <= p0 = Pr(noise > t - (q.centre - gap)) in the first case and
>= p1 = Pr(noise > t - (q.centre + gap)) in the second. S_j adds log(p1/p0) for a yes, log((1-p1)/(1-p0)) for a no.
In the first case exp(S_j) is a nonnegative supermartingale, in the second exp(-S_j) is; by Ville's inequality
[ville1939] either passes e^B with probability at most e^-B. The noise need not be symmetric, thresholds and queries may
be chosen adaptively, and an upper bound for p0 with a lower bound for p1 keeps all of it true.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from keyhole.attack.oracle.noise import Floats, tail_bounds


@njit(cache=True)
def aim(z: Floats, x: Floats, y: Floats, keep: float, slack: float) -> tuple[int, float, float, float]:
    """(j, q.centre, gap, half the range of q.w over the box)."""
    best, total, centre, j = -1.0, 0.0, 0.0, 0
    for i in range(z.size):
        reach = abs(z[i]) * (y[i] - x[i])
        total += reach
        centre += z[i] * (x[i] + y[i])
        if reach > best:
            best, j = reach, i
    gap = best * (keep - 0.5) - 0.5 * (total - best) - slack
    return j, 0.5 * centre, gap, 0.5 * total + slack


@njit(cache=True)
def weigh(
    law: Floats, knots: Floats, tails: Floats, threshold: float, centre: float, gap: float, bit: int
) -> float:
    """log Pr(bit | q.w = centre + gap) / Pr(bit | q.w = centre - gap), rounded towards 0; may be infinite."""
    _, p0 = tail_bounds(law, knots, tails, threshold - (centre - gap))
    p1, _ = tail_bounds(law, knots, tails, threshold - (centre + gap))
    if p1 <= p0:
        return 0.0
    if bit == 1:
        return math.log(p1 / p0) if p0 > 0.0 else math.inf
    return math.log((1.0 - p1) / (1.0 - p0)) if p1 < 1.0 else -math.inf


@njit(cache=True)
def test_side(
    z: Floats,
    x: Floats,
    y: Floats,
    score: Floats,
    cuts: Floats,
    keep: float,
    delta: float,
    j: int,
    evidence: float,
) -> None:
    """Add evidence (along the query) to direction j's statistic; cut the side when it passes its barrier.

    The barrier log(d (k+1)(k+2) / delta) of the k-th cut sums to delta over all directions and cuts.
    """
    score[j] += evidence if z[j] > 0.0 else -evidence
    barrier = math.log(x.size * (cuts[j] + 1.0) * (cuts[j] + 2.0) / delta)
    if score[j] >= barrier:
        x[j] = y[j] - keep * (y[j] - x[j])
    elif score[j] <= -barrier:
        y[j] = x[j] + keep * (y[j] - x[j])
    else:
        return
    score[j] = 0.0
    cuts[j] += 1.0


@njit(cache=True)
def doubt_model(
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    slot: int,
    above: float,
    reach: float,
    bit: int,
) -> None:
    """Bet against the model: `above` = threshold - q.centre, `reach` = half the range of q.w over the box.

    If w is in the box, Pr(bit = 1) lies between two tails. When the running frequency of ones in this slot
    (direction and sign of the query) is outside them, stake on the frequency against the nearer tail: the wealth
    is a supermartingale under the model. With nothing to bet on, the wealth stays.
    """
    ones, zeros = counts[slot, 1], counts[slot, 0]
    guess = (ones + 0.5) / (ones + zeros + 1.0)
    counts[slot, bit] += 1.0
    _, most = tail_bounds(law, knots, tails, above - reach)
    if guess > most:
        if bit == 1:
            doubt[0] += math.log(guess / most) if most > 0.0 else math.inf
        else:
            doubt[0] += math.log((1.0 - guess) / (1.0 - most))
        return
    least, _ = tail_bounds(law, knots, tails, above + reach)
    if guess < least:
        if bit == 0:
            doubt[0] += math.log((1.0 - guess) / (1.0 - least)) if least < 1.0 else math.inf
        else:
            doubt[0] += math.log(guess / least)


@njit(cache=True)
def clip_into(c: Floats, x: Floats, y: Floats) -> None:
    """Nearest point of the box, coordinate by coordinate."""
    for i in range(c.size):
        if c[i] < x[i]:
            c[i] = x[i]
        elif c[i] > y[i]:
            c[i] = y[i]


@njit(cache=True)
def dot(a: Floats, b: Floats) -> float:
    """Inner product in a fixed order, so that one step and a long run agree to the last bit."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


def box_holds(x: Floats, y: Floats, c: Floats) -> bool:
    """Is c in the box, up to rounding of the projection?"""
    room = 1e-9 * (1 + np.abs(c))
    return bool(np.all(c >= x - room) and np.all(c <= y + room))
