"""Bounds that follow from one row at a time, until nothing moves: a x_k <= hi - (least of all others), and so on.

Ends are integers in units of a common denominator (coarser, and rounded outwards, where that is long), in int64 while
no row can overflow, else Python integers. Each round looks at the rows that a moved column touches; of rows of ones
first at their sums alone, since a row that leaves more room than its widest column has moves none. A trail keeps which
row moved which end in which round, so `weights` can say of any end which combination of rows proves it: with the
weights of the others' ends put in for them, lambda_k = (e_row - sum a_j lambda_j) / a_k.

Guarantee: sound, and exact where all entries are +-1 and the unit is common. Cost: a few passes over the non-zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.polytope import End, Polytope, Side, Weights

ROUNDS = 40
WIDE = 2.0**61
FINEST = 2**40  # denominators up to this are kept exactly

Flags = NDArray[np.bool_]


class Propagation:
    """The ends of all columns' totals, narrowed.

    >>> P = Polytope.of([({0: 1, 1: 1}, Fraction(11), Fraction(11))], [(Fraction(3), Fraction(5)), (None, None)])
    >>> narrowed = Propagation(P)
    >>> narrowed.weights(1, "hi"), narrowed.weights(0, "hi"), narrowed.clash
    ({0: Fraction(1, 1)}, {}, None)
    """

    def __init__(self, polytope: Polytope) -> None:
        self.polytope = self._P = polytope
        totals, kind = polytope.totals
        unit = _unit([e for pair in (*totals, *polytope.rows) for e in pair if e is not None])
        self._unit = unit
        self._lo, self._no_lo = (each[kind] for each in _scaled([lo for lo, _ in totals], unit, up=False))
        self._hi, self._no_hi = (each[kind] for each in _scaled([hi for _, hi in totals], unit, up=True))
        self._least, self._no_least = _scaled([lo for lo, _ in polytope.rows], unit, up=False)
        self._most, self._no_most = _scaled([hi for _, hi in polytope.rows], unit, up=True)
        if any(ends.dtype == object for ends in (self._lo, self._hi, self._least, self._most)):
            self._widen()
        self._trail: dict[tuple[int, Side], list[tuple[int, int]]] = {}  # (column, side) -> (round, row)
        self._memo: dict[tuple[int, Side, int], Weights] = {}
        self.clash: Weights | None = None  # weights by which the functional 0 is not 0
        full = rows = np.flatnonzero(np.diff(polytope.start))
        for number in range(1, ROUNDS + 1):
            moved = self._round(number, rows)
            if not len(moved) or self.clash is not None:
                break
            touched = np.zeros(polytope.K, dtype=np.bool_)
            touched[moved] = True
            rows = full[np.logical_or.reduceat(touched[polytope.columns], polytope.start[full])]

    @property
    def moved(self) -> Iterable[tuple[int, Side]]:
        """The ends that are no longer those of the column."""
        return self._trail.keys()

    @property
    def floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All ends in floating point, infinite where there is none: a proposal, not a bound."""
        lo, hi = (ends.astype(np.float64) / self._unit for ends in (self._lo, self._hi))
        return np.where(self._no_lo, -np.inf, lo), np.where(self._no_hi, np.inf, hi)

    def weights(self, k: int, side: Side, upto: int = ROUNDS) -> Weights:
        """The weights on rows that prove an end as it stood after a round; none if it is the column's own."""
        entries = [entry for entry in self._trail.get((k, side), ()) if entry[0] <= upto]
        if not entries:
            return {}
        number, row = entries[-1]
        if (k, side, number) not in self._memo:
            self._memo[k, side, number] = self._composed(k, side, number, row)
        return self._memo[k, side, number]

    def _composed(self, k: int, side: Side, number: int, row: int) -> Weights:
        other: Side = "lo" if side == "hi" else "hi"
        listed, entries = self._P.row(row)
        own = entries[listed.index(k)]
        found: Weights = {row: Fraction(1, own)}
        for j, a in zip(listed, entries, strict=True):
            if j == k:
                continue
            share = Fraction(-a, own)
            for i, weight in self.weights(j, side if share > 0 else other, number - 1).items():
                found[i] = found.get(i, Fraction(0)) + share * weight
        return {i: w for i, w in found.items() if w}

    def _round(self, number: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Look at some rows once; the columns that moved."""
        P, moved = self._P, list[int]()
        if not len(rows):
            return rows
        if len(rows := self._tight(rows)):
            at = _entries(P.start, rows)
            moved = self._looked(number, np.repeat(rows, np.diff(P.start)[rows]), P.columns[at], P.entries[at])
        crossed = np.flatnonzero(~self._no_lo & ~self._no_hi & (self._lo > self._hi))
        if len(crossed):
            k = int(crossed[0])
            lower = self.weights(k, "lo")
            found = dict(self.weights(k, "hi"))
            for i, weight in lower.items():
                found[i] = found.get(i, Fraction(0)) - weight
            self.clash = {i: w for i, w in found.items() if w}
        return np.array(sorted(set(moved)), dtype=np.int64)

    def _tight(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of some rows those that may move an end; the others leave more room than any column has."""
        P = self._P
        if not P.plain or not self._narrow():
            return rows
        at = _entries(P.start, rows)
        k, starts = P.columns[at], _begins(P.start, rows)[:-1]
        least, most = (np.add.reduceat(ends[k], starts) for ends in (self._lo, self._hi))
        widest = int((self._hi - self._lo).max(initial=0))
        news = ~self._no_most[rows] & (self._most[rows] - least < widest)
        news |= ~self._no_least[rows] & (most - self._least[rows] < widest)
        endless = self._no_lo | self._no_hi
        if endless.any():
            news |= np.logical_or.reduceat(endless[k], starts)
        return rows[news]

    def _looked(self, number: int, rows: NDArray[np.int64], k: NDArray[np.int64], a: NDArray[Any]) -> list[int]:
        """Look at the entries of some rows; the columns that moved."""
        self._guard(rows, k, a)
        up = a > 0
        lowest = _Activity(
            rows, np.where(up, self._lo[k], self._hi[k]) * a, np.where(up, self._no_lo[k], self._no_hi[k])
        )
        highest = _Activity(
            rows, np.where(up, self._hi[k], self._lo[k]) * a, np.where(up, self._no_hi[k], self._no_lo[k])
        )
        cap, capped = self._most[rows] - lowest.others, lowest.finite & ~self._no_most[rows]
        base, based = self._least[rows] - highest.others, highest.finite & ~self._no_least[rows]
        above, is_above = np.where(up, cap, base), np.where(up, capped, based)
        below, is_below = np.where(up, base, cap), np.where(up, based, capped)
        return [
            *self._better("hi", number, k, rows, -(-above // a), is_above),
            *self._better("lo", number, k, rows, below // a, is_below),
        ]

    def _better(
        self, side: Side, number: int, k: NDArray[np.int64], rows: NDArray[np.int64], ends: NDArray[Any], valid: Flags
    ) -> list[int]:
        """Take over the ends that are news; the first row that gives the best end is noted."""
        held, none = (self._hi, self._no_hi) if side == "hi" else (self._lo, self._no_lo)
        news = np.flatnonzero(valid & (none[k] | (ends < held[k] if side == "hi" else ends > held[k])))
        best: dict[int, tuple[Any, int]] = {}
        for at, end, row in zip(k[news].tolist(), ends[news].tolist(), rows[news].tolist(), strict=True):
            known = best.get(at)
            if known is None or (end < known[0] if side == "hi" else end > known[0]):
                best[at] = (end, row)
        for at, (end, row) in best.items():
            held[at], none[at] = end, False
            self._trail.setdefault((at, side), []).append((number, row))
        return list(best)

    def _narrow(self) -> bool:
        """Is every sum of a row of ones surely below 2^61?"""
        if self._lo.dtype == object:
            return False
        longest = int(np.diff(self._P.start).max(initial=0))
        return longest * _largest(self._lo, self._hi) + _largest(self._least, self._most) < WIDE

    def _guard(self, rows: NDArray[np.int64], k: NDArray[np.int64], a: NDArray[Any]) -> None:
        """Python integers from here on, if a row could overflow 64 bits."""
        if self._lo.dtype == object:
            return
        reach = np.maximum(np.abs(self._lo[k].astype(np.float64)), np.abs(self._hi[k].astype(np.float64)))
        sums = np.bincount(rows, weights=reach * np.abs(a.astype(np.float64)), minlength=self._P.m)
        sums += np.maximum(np.abs(self._least.astype(np.float64)), np.abs(self._most.astype(np.float64)))
        if sums.max(initial=0.0) >= WIDE:
            self._widen()

    def _widen(self) -> None:
        self._lo, self._hi = self._lo.astype(object), self._hi.astype(object)
        self._least, self._most = self._least.astype(object), self._most.astype(object)


def _largest(*ends: NDArray[Any]) -> int:
    return max(max(int(each.max(initial=0)), -int(each.min(initial=0))) for each in ends)


def _begins(start: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the entries of some rows begin, when they stand one after the other."""
    return np.concatenate([[0], np.cumsum(np.diff(start)[rows])]).astype(np.int64)


def _entries(start: NDArray[np.int64], rows: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """The places of the entries of some rows, which ascend; a slice if these are all."""
    begins = _begins(start, rows)
    if begins[-1] == start[-1] - start[0]:
        return slice(int(start[0]), int(start[-1]))
    return np.repeat(start[rows] - begins[:-1], np.diff(begins)) + np.arange(begins[-1])


class _Activity:
    """The least (or greatest) that the others of each row add up to; `finite` where that is a number."""

    def __init__(self, rows: NDArray[np.int64], values: NDArray[Any], infinite: Flags) -> None:
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        counts = np.diff(np.append(starts, len(rows)))
        values = np.where(infinite, 0, values)
        self.others = np.repeat(np.add.reduceat(values, starts), counts) - values
        self.finite: Flags = np.repeat(np.add.reduceat(infinite.astype(np.int64), starts), counts) == infinite


def _unit(ends: list[Fraction]) -> int:
    """What ends are multiplied by: their common denominator, or a power of ten where that is long."""
    exact = 1
    for end in ends:
        exact = lcm(exact, end.denominator)
        if exact > FINEST:
            return 10**9
    return exact


def _scaled(ends: list[End], unit: int, *, up: bool) -> tuple[NDArray[Any], Flags]:
    values = [0 if e is None else (ceil(e * unit) if up else floor(e * unit)) for e in ends]
    narrow = all(abs(v) < 1 << 60 for v in values)
    return np.array(values, dtype=np.int64 if narrow else object), np.array([e is None for e in ends], dtype=np.bool_)
