"""Every table, depth first or listed by CP-SAT: the posterior itself, where few tables are left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.extras import is_installed
from keyhole.solve.decode.cpsat import solve_integers
from keyhole.solve.decode.posterior.losses import distance_outside, soft_loss
from keyhole.solve.decode.posterior.units import Floats, Ints, Units
from keyhole.solve.status import SolverStatus

CUT = 45.0  # a branch this far (in logs, beyond its number of tables) below the best table is left: e^-45 of it
MODEL_LIMIT = 2_000_000  # nonzeros CP-SAT is given


@dataclass(frozen=True, slots=True, eq=False)
class Enumerated:
    """P(state) of every unit, flat like `Units.features`; the number of tables that count; was the limit enough?"""

    chances: Floats
    tables: int
    complete: bool


def enumerate_tables(units: Units, limit: float = 3e8) -> Enumerated:
    """The posterior by looking at every table that is not ruled out. No table at all: all chances are 0.

    Units are taken row by row. A branch is left when a hard row cannot be met any more, or when it is so much less
    likely than the best table found that all it holds weighs below 1e-15. Cost: at most `limit` additions.

    >>> two = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
    >>> enumerate_tables(two).chances.tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    order = _row_by_row(units)
    u = units.part(order, np.arange(units.m))
    F, count, m = u.F, u.count, u.m
    least, most, peak = np.zeros((count + 1, m)), np.zeros((count + 1, m)), np.zeros(count + 1)
    last = np.full(m, -1)
    for k in range(count - 1, -1, -1):
        moves = u.coefficients[u.entries(k)] @ u.features[u.of(k)].T
        rows = u.rows[u.entries(k)]
        least[k], most[k] = least[k + 1], most[k + 1]
        np.add.at(least[k], rows, moves.min(axis=1))
        np.add.at(most[k], rows, moves.max(axis=1))
        peak[k] = peak[k + 1] + u.log_prior[u.of(k)].max()
        last[rows] = np.maximum(last[rows], k)
    closed = np.argsort(last, kind="stable")
    ends = np.searchsorted(last[closed], np.arange(-1, count + 1))
    before = closed[: ends[1]]  # rows about nobody here
    if any(u.law[j] == 0 and distance_outside(0.0, u.lo[j], u.hi[j]) > 0 for j in before):
        return Enumerated(np.zeros(len(units.features)), 0, True)
    tables = float(np.sum(np.log(np.diff(u.states))))
    found, leaves, done = _search(
        u.start, u.rows, u.coefficients, F, u.states, u.features, u.log_prior, u.law, u.y, u.lo, u.hi, u.scale,
        least, most, peak, closed, ends[1:].astype(np.int64), CUT + tables, limit,
    )  # fmt: skip
    chances = np.zeros(len(units.features))
    for k, original in enumerate(order):
        total = found[u.of(k)].sum()
        chances[units.of(int(original))] = found[u.of(k)] / total if total > 0 else 0.0
    return Enumerated(chances, int(leaves), bool(done))


def _row_by_row(units: Units) -> Ints:
    """Units in an order in which rows are closed early: the row with the fewest units left is next."""
    member: list[list[int]] = [[] for _ in range(units.m)]
    for k in range(units.count):
        for j in units.rows[units.entries(k)].tolist():
            member[j].append(k)
    order: dict[int, None] = {}
    left = {j: len(who) for j, who in enumerate(member) if who}
    while left and len(order) < units.count:
        # hard rows first: only they rule out
        j = min(left, key=lambda r: (units.law[r] != 0, left[r], r))
        del left[j]
        for k in member[j]:
            if k not in order:
                order[k] = None
                for i in units.rows[units.entries(k)].tolist():
                    if i in left:
                        left[i] -= 1
    return np.array([*order, *(k for k in range(units.count) if k not in order)], dtype=np.int64)


@njit(cache=True, nogil=True)
def _search(
    start: Ints, rows: Ints, coefficients: Floats, F: int, states: Ints, features: Floats, prior: Floats,
    law: NDArray[np.int8], y: Floats, lo: Floats, hi: Floats, scale: Floats,
    least: Floats, most: Floats, peak: Floats, closed: Ints, ends: Ints, cut: float, limit: float,
) -> tuple[Floats, int, bool]:  # fmt: skip
    count = len(start) - 1
    v = np.zeros(len(y))
    at = np.full(count + 1, -1)
    logs, below = np.zeros(count + 1), np.zeros(count + 2)
    chances = np.zeros(len(prior))
    best, reference = -math.inf, -math.inf
    work, leaves, d = 0.0, 0, 0
    while d >= 0:
        if at[d] >= 0:  # take the last state back
            s = states[d] + at[d]
            for e in range(start[d], start[d + 1]):
                for f in range(F):
                    v[rows[e]] -= coefficients[e, f] * features[s, f]
            chances[s] += below[d + 1]
            below[d] += below[d + 1]
        below[d + 1] = 0.0
        at[d] += 1
        if at[d] == states[d + 1] - states[d]:
            at[d] = -1
            d -= 1
            continue
        s = states[d] + at[d]
        work += 1.0 + (start[d + 1] - start[d]) * F
        if work > limit:
            return chances, leaves, False
        dead = False
        for e in range(start[d], start[d + 1]):
            j = rows[e]
            for f in range(F):
                v[j] += coefficients[e, f] * features[s, f]
            if law[j] == 0 and (
                distance_outside(v[j] + least[d + 1, j], -math.inf, hi[j]) > 0.0
                or distance_outside(v[j] + most[d + 1, j], lo[j], math.inf) > 0.0
            ):
                dead = True
        if dead:
            continue
        w = logs[d] + prior[s]
        for i in range(ends[d], ends[d + 1]):
            j = closed[i]
            w -= soft_loss(law[j], v[j], y[j], lo[j], hi[j], scale[j])
        if w + peak[d + 1] < best - cut or w == -math.inf:
            continue
        if d < count - 1:
            logs[d + 1] = w
            d += 1
            at[d] = -1
            below[d] = 0.0
            continue
        leaves += 1
        best = max(best, w)
        if w > reference + 50.0:  # keep what is summed within range
            ratio = math.exp(reference - w) if reference > -math.inf else 0.0
            chances *= ratio
            below *= ratio
            reference = w
        below[d + 1] = math.exp(w - reference)
    return chances, leaves, True


def list_tables(units: Units, seconds: float) -> Enumerated | None:
    """The posterior over all tables that meet every answer; None if there are too many, or the search did not end.

    Each unit has a 0/1 unknown a state; no table at all: `tables` is 0.

    >>> two = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
    >>> found = list_tables(two, 5.0)
    >>> found is None or found.chances.tolist() == [1.0, 0.0, 1.0, 0.0]
    True
    """
    if not is_installed("ortools"):
        return None
    S, count = len(units.features), units.count
    of = np.repeat(np.arange(count), np.diff(units.states))
    B = units.dense().reshape(units.m, count, units.F)
    C = np.einsum("jsf,sf->js", B[:, of], units.features)
    if np.count_nonzero(C) > MODEL_LIMIT:
        return None
    made = _integral(C, units)
    if made is None:
        return None
    each = np.zeros((count, S), dtype=np.int64)
    each[of, np.arange(S)] = 1
    one = np.ones(count, dtype=np.int64)
    rows = np.concatenate([made[0], each]), np.concatenate([made[1], one]), np.concatenate([made[2], one])
    found = solve_integers(*rows, np.ones(S, dtype=np.int64), seconds=seconds, samples=1)
    if found.status is SolverStatus.INFEASIBLE:
        return Enumerated(np.zeros(S), 0, True)
    if not found.complete:
        return None
    log = found.solutions @ units.log_prior
    weight = np.exp(log - log.max())
    return Enumerated(weight @ found.solutions / weight.sum(), len(found.solutions), True)


def _integral(C: Floats, units: Units) -> tuple[Ints, Ints, Ints] | None:
    """Rows with integer coefficients and ends, scaled by what makes each row integral; None: no such scale."""
    made = np.zeros(C.shape, dtype=np.int64)
    lo, hi = np.zeros(len(C), dtype=np.int64), np.zeros(len(C), dtype=np.int64)
    for j, row in enumerate(C):
        parts = [Fraction(float(c)).limit_denominator(10**6) for c in np.unique(row)]
        factor = lcm(*(p.denominator for p in parts))
        scaled = np.round(row * factor)
        if np.abs(scaled).max(initial=0.0) > 2**40 or np.abs(scaled - row * factor).max(initial=0.0) > 1e-6:
            return None
        divisor = int(np.gcd.reduce(scaled.astype(np.int64))) or 1
        made[j] = scaled.astype(np.int64) // divisor
        per, reach = factor / divisor, float(np.abs(made[j]).sum()) + 1
        lo[j] = int(max(np.ceil(units.lo[j] * per - 1e-6), -reach))
        hi[j] = int(min(np.floor(units.hi[j] * per + 1e-6), reach))
    return made, lo, hi
