"""Compiled steps on a box of coordinates: where to aim, what a bit proves, when a side is cut, when to doubt.

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

One compiled loop serves the three certified attacks, and one step of an attack is the loop over one row, so
that a long run and its steps cannot drift apart. Its hot path is written out flat: a view of a row, or an array
handed to an inlined function, costs a reference count, which is more than the arithmetic. Odds are kept as two
products, the likelihoods under either end: no logarithm, no division.
"""

from __future__ import annotations

import math

from numba import njit

from keyhole.attack.oracle.tails import TABLE, Floats, closed_tail, table_tail, tail

CENTRE, EDGE, ESTIMATE = range(3)  # where the threshold goes
ALWAYS_BET = 1024  # every bit is bet on up to here, then one in BET_MASK + 1
BET_MASK = 63
TINY = 1e-140  # likelihoods are brought back to size before they underflow


@njit(cache=True, error_model="numpy")
def bet(
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    slot: int,
    above: float,
    reach: float,
    bit: float,
) -> None:
    """Bet against the model: `above` = threshold - q.centre, `reach` = half the range of q.w over the box.

    If w is in the box, Pr(bit = 1) lies between two tails. When the running frequency of ones in this slot
    (direction and sign of the query) is outside them, stake on the frequency against the nearer tail: the wealth
    exp(doubt) is a supermartingale under the model. With nothing to bet on, the wealth stays.
    """
    guess = (counts[slot, 1] + 0.5) / (counts[slot, 0] + 1.0)
    counts[slot, 0] += 1.0
    counts[slot, 1] += bit
    most = tail(law, knots, tails, above - reach * law[6])[1]
    if guess > most:
        doubt[0] += math.log(guess / most) if bit > 0.0 else math.log((1.0 - guess) / (1.0 - most))
        return
    least = tail(law, knots, tails, above + reach * law[6])[0]
    if guess < least:
        doubt[0] += math.log(guess / least) if bit > 0.0 else math.log((1.0 - guess) / (1.0 - least))


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
def _elsewhere(law: Floats, knots: Floats, tails: Floats, away: float, width: float) -> tuple[float, float]:
    """Density and tail near `away`, for a threshold somebody else chose: a two-sided difference over +-width."""
    up, down = tail(law, knots, tails, away - width), tail(law, knots, tails, away + width)
    high, low = 0.5 * (up[0] + up[1]), 0.5 * (down[0] + down[1])
    return (high - low) / (2.0 * width), 0.5 * (high + low)


@njit(cache=True, error_model="numpy")
def certified_loop(
    aiming: int,
    forced: float,
    z: Floats,
    slack: Floats,
    target: Floats,
    noise: Floats,
    errors: Floats,
    x: Floats,
    y: Floats,
    odds: Floats,
    bars: Floats,
    keep: float,
    delta: float,
    edge: float,
    coarse: float,
    law: Floats,
    knots: Floats,
    tails: Floats,
    counts: Floats,
    doubt: Floats,
    c: Floats,
    P: Floats,
    Pz: Floats,
    table: Floats,
    grid: Floats,
) -> int:
    """Rows of coordinates in, errors and a changed state out; the number of answers used.

    target: true answers less their known part off the subspace. forced: nan, or a threshold imposed on every row.
    doubt = (log odds against the model, sum of certified errors, answers used so far). A row whose answer cannot help
    is not asked, unless the estimate can still use it. coarse: where the range of answers is wider than this, a row
    with a gap goes to the box alone, for moment matching is a poor guide through noise far finer than the box.
    """
    d = x.size
    used, sure, seen = 0, doubt[1], int(doubt[2])
    kind, scale, p_zero, rho_max, rho_near, near = int(law[0]), law[1], law[2], law[3], law[4], law[5]
    flat, same = grid[2], 1e-9 * law[1]
    for t in range(z.shape[0]):
        best, total, centre, guess, j = -1.0, 0.0, 0.0, 0.0, 0
        for i in range(d):
            v = z[t, i]
            side = abs(v) * (y[i] - x[i])
            total += side
            centre += v * (x[i] + y[i])
            j = i if side > best else j
            best = side if side > best else best
        if aiming == ESTIMATE:
            for i in range(d):
                guess += z[t, i] * c[i]
        centre *= 0.5
        gap = best * (keep - 0.5) - 0.5 * (total - best) - slack[t]
        reach = 0.5 * total + slack[t]
        threshold = centre
        halving = False
        if aiming == ESTIMATE:
            halving = gap > 0.0 and reach > coarse
            threshold = centre if halving else guess
            errors[t] = abs(guess - target[t])
            sure += reach + abs(guess - centre)
        else:
            errors[t] = abs(centre - target[t])
            sure += reach
            if gap <= 0.0:
                continue
            if aiming == EDGE:
                threshold = centre - gap + edge
        if forced == forced:  # not nan
            threshold = forced
        bit = 1.0 if target[t] + noise[used] > threshold else 0.0
        used += 1
        seen += 1
        positive = z[t, j] > 0.0
        if seen <= ALWAYS_BET or (seen & BET_MASK) == 0:
            slot = 2 * j if positive else 2 * j + 1
            bet(law, knots, tails, counts, doubt, slot, threshold - centre, reach, bit)
        if aiming == ESTIMATE and not halving:
            # moment matching: c += Pz rho (bit - p) / (p (1-p)),  P -= Pz Pz^T rho^2 / (p (1-p))
            variance = 0.0
            for i in range(d):
                part = 0.0
                for k in range(d):
                    part += P[i, k] * z[t, k]
                Pz[i] = part
                variance += z[t, i] * part
            rho, p = table[0, 0], table[0, 1]
            if abs(threshold - guess) > same:
                rho, p = _elsewhere(law, knots, tails, threshold - guess, math.sqrt(variance) + 1e-3 * law[1])
            elif variance > flat:
                rho, p = _smooth(table, grid, variance)
            spread = p * (1.0 - p)
            if spread > 1e-12 and rho > 0.0:
                gain = rho * (bit - p) / spread
                # at the estimate the share taken off is at most 2/pi; the cap guards thresholds chosen elsewhere
                shrink = min(rho * rho / spread, 0.999 / variance)
                for i in range(d):
                    c[i] += Pz[i] * gain
                    part = shrink * Pz[i]
                    for k in range(d):
                        P[i, k] -= part * Pz[k]
        if gap > 0.0:
            low, high = threshold - (centre - gap), threshold - (centre + gap)
            if abs(low) <= near:
                p0 = p_zero - (rho_near if low > 0.0 else rho_max) * low
            else:
                p0 = closed_tail(kind, scale, low) if kind != TABLE else table_tail(knots, tails, low)[1]
            if abs(high) <= near:
                p1 = p_zero - (rho_max if high > 0.0 else rho_near) * high
            else:
                p1 = closed_tail(kind, scale, high) if kind != TABLE else table_tail(knots, tails, high)[0]
            if p1 > p0:  # else rounding ate the gap, or neither end can say yes: nothing to learn
                at_high = p1 if bit > 0.0 else 1.0 - p1
                at_low = p0 if bit > 0.0 else 1.0 - p0
                upper = odds[j, 0] * (at_high if positive else at_low)
                lower = odds[j, 1] * (at_low if positive else at_high)
                odds[j, 0] = upper
                odds[j, 1] = lower
                if upper >= bars[j, 0] * lower or upper * bars[j, 0] <= lower:
                    _cut(x, y, odds, bars, keep, delta, j)
                    # an estimate that the box has refuted, or that knows less than the box, starts afresh here
                    if halving and (c[j] < x[j] or c[j] > y[j] or P[j, j] > (y[j] - x[j]) ** 2 / 12.0):
                        c[j] = 0.5 * (x[j] + y[j])
                        for i in range(d):
                            P[i, j] = 0.0
                            P[j, i] = 0.0
                        P[j, j] = (y[j] - x[j]) ** 2 / 12.0
                elif lower < TINY or upper < TINY:
                    odds[j, 0] = upper / lower
                    odds[j, 1] = 1.0
        if aiming == ESTIMATE:
            for i in range(d):
                c[i] = min(max(c[i], x[i]), y[i])
    doubt[1] = sure
    doubt[2] = seen
    return used
