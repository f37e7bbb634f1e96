"""An exact simplex method: bounded variables, integers only, warm from one end to the next.

Rows are variables too: s = A x with s_i in [lo_i, hi_i], so the first basis is s itself. The dictionary is kept as
x_B = T x_N / d with integers T and d = |det B| (fraction-free, as in Bareiss), in int64 while products fit, else in
Python integers. Where x_k is basic, its line *is* the proof of its end: x_k = sum of lambda_i s_i + sum of w_j x_j with
every non-basic variable at a bound. So the end, its weights and a table that reaches it are all exact.

Guarantee: no tolerance anywhere; Bland's rule after a run of degenerate steps, so it ends. Cost: O(m K) integer
operations a pivot. Reference: [bland1977], [bareiss1968].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
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
        self._lo, self._hi = [lo for lo, _ in ends], [hi for _, hi in ends]
        self._nonbasic, self._basic = list(range(K)), list(range(K, K + m))
        self._place = [*range(K), *range(m)]  # variable -> its column or row of T
        self._is_basic = [False] * K + [True] * m
        self._x: list[Fraction] = [_middle(lo, hi) for lo, hi in ends]
        if start is not None:
            self._x[:K] = [start[k] for k in self.columns]
        for i, r in enumerate(self.rows):
            self._x[K + i] = sum((a * self._x[self.at[k]] for k, a in zip(*polytope.row(r), strict=True)), Fraction(0))
        self._stalled = 0
        self._up, self._down = np.zeros(K, dtype=np.bool_), np.zeros(K, dtype=np.bool_)
        for j in range(K):
            self._note(j)

    # --- what is asked -----------------------------------------------------------------------------------------------

    def infeasible(self) -> Weights | None:
        """None once a table is found; else weights by which the functional 0 is not 0 (Farkas)."""
        while True:
            below = [i for i, v in enumerate(self._basic) if (e := self._lo[v]) is not None and self._x[v] < e]
            above = [i for i, v in enumerate(self._basic) if (e := self._hi[v]) is not None and self._x[v] > e]
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
                step = (self._place[v], sign) if self._free(v, sign) else None
            if step is None:
                return True
            if not self._move(*step):
                return False

    def value(self, k: int) -> Fraction:
        """The total of a column in the table where the walk is."""
        return self._x[self.at[k]]

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

    def _free(self, v: int, sign: int) -> bool:
        end = self._hi[v] if sign > 0 else self._lo[v]
        return end is None or (self._x[v] < end if sign > 0 else self._x[v] > end)

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
        self._up[j], self._down[j] = self._free(self._nonbasic[j], 1), self._free(self._nonbasic[j], -1)

    def _move(self, j: int, sign: int) -> bool:
        """Move a non-basic variable as far as everybody's ends allow; False if nothing stops it."""
        self._tick()
        v = self._nonbasic[j]
        column = self._T[:, j]
        touched = np.flatnonzero(column).tolist()
        rates = {i: Fraction(sign * int(column[i]), self._d) for i in touched}
        end = self._hi[v] if sign > 0 else self._lo[v]
        best = None if end is None else abs(end - self._x[v])
        leaving = -1
        for i, rate in rates.items():
            room = self._room(self._basic[i], rate)
            if room is None:
                continue
            if best is None or room < best or (room == best and self._before(i, leaving)):
                best, leaving = room, i
        if best is None:
            return False
        self._stalled = 0 if best else self._stalled + 1
        for i, rate in rates.items():
            self._x[self._basic[i]] += rate * best
        self._x[v] += sign * best
        if leaving >= 0:
            self._pivot(leaving, j)
        self._note(j)
        return True

    def _before(self, i: int, leaving: int) -> bool:
        return leaving >= 0 and self._basic[i] < self._basic[leaving]

    def _room(self, b: int, rate: Fraction) -> Fraction | None:
        """How far a step may go before basic variable b meets an end; one that is outside stops where it comes in."""
        x, lo, hi = self._x[b], self._lo[b], self._hi[b]
        if rate > 0:
            end = lo if lo is not None and x < lo else None if hi is not None and x > hi else hi
        else:
            end = hi if hi is not None and x > hi else None if lo is not None and x < lo else lo
        return None if end is None else (end - x) / rate

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
