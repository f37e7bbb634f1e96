"""Compiled steps on a box of coordinates: where to aim, what a bit proves, when a side is cut.

Geometry (exact; no linear program). The box has sides l_i around `centre`; a query has coordinates z_i. With
the direction j that maximises |z_i| l_i and the kept share th, let
    gap = |z_j| l_j (th - 1/2) - (1/2) sum_{i != j} |z_i| l_i - slack.
If the coordinate c_j lies in the low end of the side (seen along the query) then q.w <= q.centre - gap, and if in
the high end, q.w >= q.centre + gap. At most one direction has gap > 0, since th < 1.

Test. For *any* threshold t, Pr(bit = 1) <= p0 = Pr(noise > t - (q.centre - gap)) in the first case and
>= p1 = Pr(noise > t - (q.centre + gap)) in the second. The odds W_j are multiplied by p1/p0 for a yes, by
(1-p1)/(1-p0) for a no. In the first case W_j is a nonnegative supermartingale, in the second 1/W_j is; by Ville's
inequality [ville1939] either passes a bar b with probability at most 1/b. The noise need not be symmetric, thresholds
and queries may be chosen adaptively, and an upper bound for p0 with a lower bound for p1 keeps all of it true.

One step of an attack is its compiled loop over one row, so that a long run and its steps cannot drift apart. Passes
over a row stand in the loop itself, and what is named apart takes numbers: a view of a row, or an array handed to an
inlined function, costs a reference count, which is more than the arithmetic. Arrays go only to what is called seldom.
Odds are kept as two products, the likelihoods under either end: no logarithm, no division.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from keyhole.oracles.learners.betting import ALWAYS_BET, BET_MASK, bet, bet_on_edge, is_downwards
from keyhole.oracles.noise import BETWEEN, TABLE, Floats, closed_tail, tail

CENTRE, EDGE, ESTIMATE, EDGES = range(4)  # where the threshold goes; EDGES: at either edge in turn
TINY = 1e-140  # likelihoods are brought back to size before they underflow


# What the loops take and change, in groups. Plain tuples: numba needs 25 microseconds a call to type named ones.
AskedRows = tuple[Floats, Floats, Floats, Floats, Floats]
"""Queries in coordinates z, what their unknown part may add (slack), the true answers less their known part off the
subspace (target), the noise to come, and where the errors go."""
Aim = tuple[int, float, float, float]
"""CENTRE, EDGE, EDGES or ESTIMATE; a threshold forced on every row, unless nan; the edge of the noise; how wide the
range of answers may be (coarse) before a row with a gap goes to the box alone, for moment matching is a poor guide
through noise far finer than the box."""
CutBox = tuple[Floats, Floats, Floats, Floats, float, float]
"""Lower ends x, upper ends y, odds and (bar, cuts) of each direction; the share of a side that survives a cut (keep),
and the chance of ever cutting wrongly (delta)."""
PackedLaw = tuple[Floats, Floats, Floats]
"""A law of noise as `tails` reads it: packed numbers, knots, tails."""
Doubt = tuple[Floats, Floats]
"""Bits counted by slot, and (log odds against the model, sum of certified errors, answers used so far, log odds that
the edge is narrower than stated, and three that it is wider)."""
Guess = tuple[Floats, Floats, Floats, Floats, Floats]
"""The estimate N(c, P), room for P z, and the smoothed density as a table on its grid."""


@njit(cache=True, error_model="numpy")
def _cut(x: Floats, y: Floats, odds: Floats, bars: Floats, keep: float, delta: float, j: int) -> None:
    """Keep the share `keep` of side j that the odds point to; the k-th bar is d (k+1)(k+2) / delta.

    The chances 1/bar of a wrong cut sum to delta over all directions and cuts.
    """
    if odds[j, 0] > odds[j, 1]:
        x[j] = y[j] - keep * (y[j] - x[j])
    else:
        y[j] = x[j] + keep * (y[j] - x[j])
    odds[j, 0] = 1.0
    odds[j, 1] = 1.0
    bars[j, 1] += 1.0
    bars[j, 0] = x.size * (bars[j, 1] + 1.0) * (bars[j, 1] + 2.0) / delta


@njit(cache=True, error_model="numpy")
def _start_afresh(c: Floats, P: Floats, x: Floats, y: Floats, j: int, halving: bool) -> None:
    """After a row for the box alone: an estimate that the box has refuted, or that knows less, starts afresh in j."""
    width = (y[j] - x[j]) ** 2 / 12.0
    if halving and (c[j] < x[j] or c[j] > y[j] or P[j, j] > width):
        c[j] = 0.5 * (x[j] + y[j])
        for i in range(c.size):
            P[i, j] = 0.0
            P[j, i] = 0.0
        P[j, j] = width


@njit(cache=True, error_model="numpy")
def _above(kind: int, scale: float, near: float, line: float, x: float) -> float:
    """A bound of Pr(noise > x): near 0 the given line, elsewhere the law's own tail."""
    return line if abs(x) <= near else closed_tail(kind, scale, x)


@njit(cache=True, error_model="numpy")
def _table_ends(law: Floats, knots: Floats, tails: Floats, low: float, high: float) -> tuple[float, float]:
    """An upper bound of Pr(noise > low) and a lower one of Pr(noise > high), for a law given as a table."""
    return tail(law, knots, tails, low)[1], tail(law, knots, tails, high)[0]


@njit(cache=True, error_model="numpy")
def _weighed(
    upper: float, lower: float, positive: bool, bit: float, p0: float, p1: float, bar: float
) -> tuple[float, float, bool]:
    """Odds of a direction after a bit whose chances are p0 and p1 at the ends, as two products; have they passed?

    They are brought back to size if need be. `positive`: the query points along the direction.
    """
    yes, no = (p1 if bit > 0.0 else 1.0 - p1), (p0 if bit > 0.0 else 1.0 - p0)
    upper, lower = upper * (yes if positive else no), lower * (no if positive else yes)
    if upper >= bar * lower or upper * bar <= lower:
        return upper, lower, True
    if lower < TINY or upper < TINY:
        return upper / lower, 1.0, False
    return upper, lower, False


@njit(cache=True, error_model="numpy")
def _elsewhere(law: Floats, knots: Floats, tails: Floats, away: float, width: float) -> tuple[float, float]:
    """Density and tail near `away`, for a threshold somebody else chose: a two-sided difference over +-width."""
    up, down = tail(law, knots, tails, away - width), tail(law, knots, tails, away + width)
    high, low = 0.5 * (up[0] + up[1]), 0.5 * (down[0] + down[1])
    return (high - low) / (2.0 * width), 0.5 * (high + low)


@njit(cache=True, error_model="numpy")
def _smooth(table: Floats, grid: Floats, variance: float) -> tuple[float, float]:
    """(density at 0, chance of a yes) of noise + N(0, variance), interpolated on the log grid."""
    at = (math.log(variance) - grid[0]) / grid[1]
    if at >= table.shape[0] - 1:
        return 1.0 / math.sqrt(2.0 * math.pi * variance), 0.5
    k = int(at)
    part = at - k
    return (
        table[k, 0] + part * (table[k + 1, 0] - table[k, 0]),
        table[k, 1] + part * (table[k + 1, 1] - table[k, 1]),
    )


@njit(cache=True, error_model="numpy")
def _gain(rho: float, p: float, bit: float, variance: float) -> tuple[float, float]:
    """Moment matching: c moves by gain * Pz and P loses shrink * Pz Pz^T; (0, 0) where the bit tells nothing.

    gain = rho (bit - p) / (p (1-p)), shrink = rho^2 / (p (1-p)). At the estimate the share taken off is at most 2/pi;
    the cap guards thresholds chosen elsewhere.
    """
    spread = p * (1.0 - p)
    if spread > 1e-12 and rho > 0.0:
        return rho * (bit - p) / spread, min(rho * rho / spread, 0.999 / variance)
    return 0.0, 0.0


@njit(cache=True, error_model="numpy")
def certified_loop(rows: AskedRows, aim: Aim, box: CutBox, law: PackedLaw, doubt: Doubt) -> int:
    """Rows of coordinates in, errors and a changed box out; the number of answers used.

    A row that cannot cut the box is answered from its centre but not asked.
    """
    z, slack, target, noise, errors = rows
    at, forced, edge, _ = aim
    x, y, odds, bars, keep, delta = box
    packed, knots, tails = law
    counts, sums = doubt
    kind, scale, zero, steep, shallow, near = int(packed[0]), packed[1], packed[2], packed[3], packed[4], packed[5]
    used, sure, seen, d, cuts = 0, sums[1], int(sums[2]), x.size, int(bars[:, 1].sum())
    begun = float(cuts // (4 * d))
    for t in range(z.shape[0]):
        best, total, centre, j = -1.0, 0.0, 0.0, 0
        for i in range(d):
            v = z[t, i]
            side = abs(v) * (y[i] - x[i])
            total += side
            centre += v * (x[i] + y[i])
            j = i if side > best else j
            best = side if side > best else best
        centre *= 0.5
        gap = best * (keep - 0.5) - 0.5 * (total - best) - slack[t]
        reach = 0.5 * total + slack[t]
        errors[t] = abs(centre - target[t])
        sure += reach
        if gap <= 0.0:
            continue
        down = at == EDGES and is_downwards(seen)
        threshold = centre + gap - edge if down else centre - gap + edge if at in (EDGE, EDGES) else centre
        if forced == forced:  # not nan
            threshold = forced
        bit = 1.0 if target[t] + noise[used] > threshold else 0.0
        used += 1
        seen += 1
        positive = z[t, j] > 0.0
        if seen <= ALWAYS_BET or (seen & BET_MASK) == 0:
            slot = 2 * j if positive else 2 * j + 1
            bet(packed, knots, tails, counts, sums, slot, threshold - centre, reach, bit)
        low, high = threshold - (centre - gap), threshold - (centre + gap)
        if at == EDGES and abs(high + edge if down else low - edge) <= 1e-9 * edge:
            bet_on_edge(sums, shallow if kind == BETWEEN else scale, edge, gap, reach, (bit < 1.0) == down, begun)
        p0 = _above(kind, scale, near, zero - (shallow if low > 0.0 else steep) * low, low)
        p1 = _above(kind, scale, near, zero - (steep if high > 0.0 else shallow) * high, high)
        if kind >= TABLE:
            p0, p1 = _table_ends(packed, knots, tails, low, high)
        if packed[6] != 1.0 and (low < 0.0 or high > 0.0):
            continue  # a steep output: beyond the ends the slope may be steeper than stated, and p0, p1 no bounds
        if p1 > p0:  # else rounding ate the gap, or neither end can say yes: nothing to learn
            odds[j, 0], odds[j, 1], passed = _weighed(odds[j, 0], odds[j, 1], positive, bit, p0, p1, bars[j, 0])
            if passed:
                _cut(x, y, odds, bars, keep, delta, j)
                cuts += 1
                if cuts % (4 * d) == 0:
                    begun, sums[3:] = begun + 1.0, 0.0
    sums[1], sums[2] = sure, seen
    return used


@njit(cache=True, error_model="numpy")
def estimating_loop(rows: AskedRows, aim: Aim, box: CutBox, law: PackedLaw, doubt: Doubt, guess: Guess) -> int:
    """The same around an estimate, where thresholds go: every bit moves it, unless a wide row goes to the box alone."""
    (z, slack, target, noise, errors), (c, P, Pz, table, grid), (_, forced, _, coarse) = rows, guess, aim
    (x, y, odds, bars, keep, delta), (packed, knots, tails), (counts, sums) = box, law, doubt
    kind, scale, zero, steep, shallow, near = int(packed[0]), packed[1], packed[2], packed[3], packed[4], packed[5]
    sure, seen, d = sums[1], int(sums[2]), x.size
    for t in range(z.shape[0]):
        best, total, centre, said, j = -1.0, 0.0, 0.0, 0.0, 0
        for i in range(d):
            side = abs(z[t, i]) * (y[i] - x[i])
            total += side
            centre += 0.5 * z[t, i] * (x[i] + y[i])
            j = i if side > best else j
            best = side if side > best else best
            c[i] = min(max(c[i], x[i]), y[i])  # the box may have been cut by the row before
            said += z[t, i] * c[i]
        gap = best * (keep - 0.5) - 0.5 * (total - best) - slack[t]
        reach = 0.5 * total + slack[t]
        halving = gap > 0.0 and reach > coarse
        threshold = forced if forced == forced else centre if halving else said
        errors[t], sure = abs(said - target[t]), sure + (reach + abs(said - centre))
        bit, seen = (1.0 if target[t] + noise[t] > threshold else 0.0), seen + 1
        positive = z[t, j] > 0.0
        if seen <= ALWAYS_BET or (seen & BET_MASK) == 0:
            slot = 2 * j if positive else 2 * j + 1
            bet(packed, knots, tails, counts, sums, slot, threshold - centre, reach, bit)
        if not halving:
            variance, rho, p = 0.0, table[0, 0], table[0, 1]
            for i in range(d):
                part = 0.0
                for k in range(d):
                    part += P[i, k] * z[t, k]
                Pz[i] = part
                variance += z[t, i] * part
            if abs(threshold - said) > 1e-9 * scale:
                rho, p = _elsewhere(packed, knots, tails, threshold - said, math.sqrt(variance) + 1e-3 * scale)
            elif variance > grid[2]:
                rho, p = _smooth(table, grid, variance)
            gain, shrink = _gain(rho, p, bit, variance)
            for i in range(d):
                c[i] += Pz[i] * gain
                for k in range(d):
                    P[i, k] -= shrink * Pz[i] * Pz[k]
        if gap > 0.0:
            low, high = threshold - (centre - gap), threshold - (centre + gap)
            p0 = _above(kind, scale, near, zero - (shallow if low > 0.0 else steep) * low, low)
            p1 = _above(kind, scale, near, zero - (steep if high > 0.0 else shallow) * high, high)
            if kind >= TABLE:
                p0, p1 = _table_ends(packed, knots, tails, low, high)
            if p1 > p0 and (packed[6] == 1.0 or (low >= 0.0 and high <= 0.0)):  # else as in certified_loop
                odds[j, 0], odds[j, 1], passed = _weighed(odds[j, 0], odds[j, 1], positive, bit, p0, p1, bars[j, 0])
                if passed:
                    _cut(x, y, odds, bars, keep, delta, j)
                    _start_afresh(c, P, x, y, j, halving)
    c[:] = np.minimum(np.maximum(c, x), y)
    sums[1], sums[2] = sure, seen
    return len(z)
