"""An exact simplex method: bounded variables, integers only, warm from one end to the next.

Rows are variables too: s = A x with s_i in [lo_i, hi_i], so the first basis is s itself. The dictionary is kept as
x_B = T x_N / d with integers T and d = |det B| (fraction-free, as in Bareiss), in int64 while products fit, else in
Python integers. Non-basic variables are whole multiples of a unit in which all ends are, so basic ones are multiples of
unit / d, and no step needs a fraction.
Where x_k is basic, its line *is* the proof of its end: x_k = sum of lambda_i s_i + sum of w_j x_j with every non-basic
variable at a bound. So the end, its weights and a table that reaches it are all exact.

Guarantee: no tolerance anywhere; Bland's rule after a run of degenerate steps, so it ends. Cost: O(m K) integer
operations a pivot. Reference: [bland1977], [bareiss1968].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.polytope import Polytope, Side, Weights

FITS = 1 << 30  # products of two such entries, and their difference, fit into 63 bits
PATIENCE = 40  # degenerate steps in a row before Bland's rule


class Simplex:
    """The tables of a polytope, walked. Columns and rows are those of `polytope`, or of a part of it.

    `start` is a table to begin at; non-basic variables may rest between their ends until a step moves them.

    >>> P = Polytope.of([({0: 1, 1: 1}, Fraction(11), Fraction(11))], [(Fraction(3), Fraction(5)), (None, None)])
    >>> walk = Simplex(P)
    >>> walk.infeasible(), walk.reach(1, "hi"), walk.value(1), walk.weights(1)
    (None, True, Fraction(8, 1), {0: Fraction(1, 1)})
    >>> Simplex(Polytope.of([({0: 1}, Fraction(7), None)], [(None, Fraction(5))])).infeasible()
    {0: Fraction(-1, 1)}
    """

    def __init__(
        self,
        polytope: Polytope,
        rows: Iterable[int] | None = None,
        columns: Iterable[int] | None = None,
        tick: Callable[[], None] = lambda: None,
        start: Mapping[int, Fraction] | None = None,
    ) -> None:
        self.rows = list(range(polytope.m) if rows is None else rows)
        self.columns = list(range(polytope.K) if columns is None else columns)
        self.at = {k: j for j, k in enumerate(self.columns)}
        self._tick = tick
        K, m = len(self.columns), len(self.rows)
        self._T: NDArray[Any] = np.zeros((m, K), dtype=polytope.entries.dtype)
        for i, r in enumerate(self.rows):
            listed, entries = polytope.row(r)
            self._T[i, [self.at[k] for k in listed]] = entries
        self._d = 1
        ends = [polytope.total(k) for k in self.columns] + [polytope.rows[r] for r in self.rows]
        begun = [_middle(lo, hi) for lo, hi in ends[:K]] if start is None else [start[k] for k in self.columns]
        self._unit = lcm(
            *(e.denominator for pair in ends for e in pair if e is not None), *(x.denominator for x in begun)
        )
        self._lo = [None if lo is None else int(lo * self._unit) for lo, _ in ends]
        self._hi = [None if hi is None else int(hi * self._unit) for _, hi in ends]
        self._nonbasic, self._basic = list(range(K)), list(range(K, K + m))
        self._place = [*range(K), *range(m)]  # variable -> its column or row of T
        self._is_basic = [False] * K + [True] * m
        self._rests = [int(x * self._unit) for x in begun]  # of each non-basic place, in units: ends, or where it began
        self._x = [sum(a * self._rests[self.at[k]] for k, a in zip(*polytope.row(r), strict=True)) for r in self.rows]
        self._stalled = 0
        self._up, self._down = np.zeros(K, dtype=np.bool_), np.zeros(K, dtype=np.bool_)
        for j in range(K):
            self._note(j)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def infeasible(self) -> Weights | None:
        """None once a table is found; else weights by which the functional 0 is not 0 (Farkas)."""
        while True:
            held, d = list(enumerate(zip(self._basic, self._x, strict=True))), self._d
            below = [i for i, (v, x) in held if (e := self._lo[v]) is not None and x < e * d]
            above = [i for i, (v, x) in held if (e := self._hi[v]) is not None and x > e * d]
            if not below and not above:
                return None
            gain = self._T[below].sum(axis=0) - self._T[above].sum(axis=0)
            step = self._entering(gain)
            if step is None:
                return self._farkas(below, above, gain)
            self._move(*step)

    def reach(self, k: int, side: Side) -> bool:
        """Walk to the end of a column's total; False if it has none (the total is unbounded)."""
        sign, v = (1 if side == "hi" else -1), self.at[k]
        while True:
            if self._is_basic[v]:
                step = self._entering(sign * self._T[self._place[v]])
            else:
                step = (self._place[v], sign) if self._free(self._place[v], sign) else None
            if step is None:
                return True
            if not self._move(*step):
                return False

    def value(self, k: int) -> Fraction:
        """The total of a column in the table where the walk is."""
        v = self.at[k]
        if self._is_basic[v]:
            return Fraction(self._x[self._place[v]], self._d * self._unit)
        return Fraction(self._rests[self._place[v]], self._unit)

    def weights(self, k: int) -> Weights:
        """The weights on rows by which the end just reached is proved; none if it is the column's own end."""
        v = self.at[k]
        if not self._is_basic[v]:
            return {}
        line = self._T[self._place[v]]
        return self._over_rows({self._nonbasic[j]: Fraction(int(line[j]), self._d) for j in np.flatnonzero(line)})

    # --- steps -------------------------------------------------------------------------------------------------------

    def _over_rows(self, coefficients: dict[int, Fraction]) -> Weights:
        K = len(self.columns)
        return {self.rows[v - K]: c for v, c in coefficients.items() if v >= K and c}

    def _farkas(self, below: list[int], above: list[int], gain: NDArray[Any]) -> Weights:
        """sum of basic variables outside - gain.x_N / d is identically 0."""
        found = {self._nonbasic[j]: Fraction(int(gain[j]), self._d) for j in np.flatnonzero(gain)}
        for i in below:
            found[self._basic[i]] = Fraction(-1)
        for i in above:
            found[self._basic[i]] = Fraction(1)
        return self._over_rows(found)

    def _free(self, j: int, sign: int) -> bool:
        """Can the variable at a non-basic place go further in a direction?"""
        end = (self._hi if sign > 0 else self._lo)[self._nonbasic[j]]
        return end is None or (self._rests[j] < end if sign > 0 else self._rests[j] > end)

    def _entering(self, gain: NDArray[Any]) -> tuple[int, int] | None:
        """A non-basic place whose move raises what is gained, and its direction."""
        able = np.flatnonzero(((gain > 0) & self._up) | ((gain < 0) & self._down))
        if not len(able):
            return None
        if self._stalled > PATIENCE:
            j = min(able.tolist(), key=lambda j: self._nonbasic[j])
        else:
            j = int(able[np.argmax(np.abs(gain[able]))])
        return j, (1 if gain[j] > 0 else -1)

    def _note(self, j: int) -> None:
        """Which ways the variable at a non-basic place can go."""
        self._up[j], self._down[j] = self._free(j, 1), self._free(j, -1)

    def _move(self, j: int, sign: int) -> bool:
        """Move a non-basic variable as far as everybody's ends allow; False if nothing stops it.

        The step is room / rate units; the first to stop it leaves, with the least number where several do.
        """
        self._tick()
        rates = (sign * self._T[:, j]).tolist()
        end = (self._hi if sign > 0 else self._lo)[self._nonbasic[j]]
        best, over, leaving, rests = (-1, 1, -1, 0) if end is None else (abs(end - self._rests[j]), 1, -1, end)
        for i, rate in enumerate(rates):
            stop = self._stop(i, rate) if rate else None
            if stop is None:
                continue
            room = (stop * self._d - self._x[i]) * (1 if rate > 0 else -1)
            nearer = room * over - best * abs(rate)
            first = leaving >= 0 and self._basic[i] < self._basic[leaving]
            if best < 0 or nearer < 0 or (nearer == 0 and first):
                best, over, leaving, rests = room, abs(rate), i, stop
        if best < 0:
            return False
        self._stalled = 0 if best else self._stalled + 1
        moved = [
            (x * over + rate * best) // self._d if leaving >= 0 else x + rate * best
            for x, rate in zip(self._x, rates, strict=True)
        ]
        if leaving >= 0:
            moved[leaving] = self._rests[j] * over + sign * best
            self._pivot(leaving, j)
        self._x, self._rests[j] = moved, rests
        self._note(j)
        return True

    def _stop(self, i: int, rate: int) -> int | None:
        """The end at which a basic variable stops a step; one that is outside stops where it comes in."""
        v, x, d = self._basic[i], self._x[i], self._d
        lo, hi = self._lo[v], self._hi[v]
        if rate > 0:
            return lo if lo is not None and x < lo * d else None if hi is not None and x > hi * d else hi
        return hi if hi is not None and x > hi * d else None if lo is not None and x < lo * d else lo

    def _pivot(self, r: int, c: int) -> None:
        T = self._T
        if T.dtype != object and int(np.abs(T).max(initial=0)) >= FITS:
            T = T.astype(object)
        p, line, column = int(T[r, c]), T[r].copy(), T[:, c].copy()
        column[r] = 0
        made = T * p - np.multiply.outer(column, line)
        made //= self._d  # exact: minors of A
        made[:, c] = column
        made[r] = -line
        made[r, c] = self._d
        if p < 0:
            made, p = -made, -p
        if made.dtype == object and p < FITS and (not made.size or int(abs(made).max()) < FITS):
            made = made.astype(np.int64)
        self._T, self._d = made, p
        leaves, enters = self._basic[r], self._nonbasic[c]
        self._basic[r], self._nonbasic[c] = enters, leaves
        self._place[enters], self._place[leaves] = r, c
        self._is_basic[enters], self._is_basic[leaves] = True, False


def _middle(lo: Fraction | None, hi: Fraction | None) -> Fraction:
    if lo is None or hi is None:
        return lo if lo is not None else hi if hi is not None else Fraction(0)
    return (lo + hi) / 2
