"""The row space of many short rows over many columns, by sparse elimination in integers: exact both ways.

Tables of counts by few columns give such rows: tens of thousands, most with a few ones. Markowitz's rule (the shortest
row next, pivoting on its rarest column of least entry) keeps them short and their entries small, so nothing modular
and nothing dense is needed. Every row operation is remembered: a value that is determined comes with rational weights
on the rows as they were given, one that is not comes with an integer vector that every row sends to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import gcd, lcm
from random import Random

IntRow = dict[int, int]
Step = tuple[int, int, int, int]  # pivot, keep, take, over: new row = (keep * old row - take * pivot row) / over


class SparseRowSpace:
    """Row space of 0/1 rows given as sets of columns.

    `complete` is False if `stop` ended it early: then what it expresses is still proved, and nothing is undetermined.
    Cost: that of the fill-in; 17,000 rows over 8,300 columns take seconds. Reference: markowitz1957, bareiss1968.

    >>> S = SparseRowSpace([[0, 1], [1, 2], [0, 1, 2, 3], [3, 4]])
    >>> S.rank, S.express(0), S.witness(0)
    (4, None, {0: 1, 1: -1, 2: 1, 3: -1, 4: 1})
    >>> T = SparseRowSpace([[0, 1], [1, 2], [0, 2]])
    >>> T.express(0), T.witness(0)
    ({0: Fraction(1, 2), 1: Fraction(-1, 2), 2: Fraction(1, 2)}, None)
    """

    def __init__(self, rows: Sequence[Iterable[int]], stop: Callable[[], bool] | None = None) -> None:
        self._rows: list[IntRow] = [dict.fromkeys((int(c) for c in row), 1) for row in rows]
        self._steps: list[list[Step]] = [[] for _ in self._rows]
        self._in: dict[int, set[int]] = {}
        for i, row in enumerate(self._rows):
            for c in row:
                self._in.setdefault(c, set()).add(i)
        self.pivots: list[tuple[int, int]] = []  # (row, column), in the order of elimination
        self.complete = self._eliminate(stop)
        self._at = {c: t for t, (_, c) in enumerate(self.pivots)}
        self._of: dict[int, list[int]] = {}  # column -> the pivots whose rows hold it
        for t, (i, _) in enumerate(self.pivots):
            for c in self._rows[i]:
                self._of.setdefault(c, []).append(t)

    @property
    def rank(self) -> int:
        """Of the rows, over the rationals; a lower bound where it was stopped."""
        return len(self.pivots)

    def _eliminate(self, stop: Callable[[], bool] | None) -> bool:
        waiting = [(len(row), i) for i, row in enumerate(self._rows)]
        heapify(waiting)
        done = [False] * len(self._rows)
        while waiting:
            length, i = heappop(waiting)
            row = self._rows[i]
            if done[i] or length != len(row):
                continue
            done[i] = True
            if not row:
                continue
            if stop is not None and stop():
                return False
            least = min(abs(v) for v in row.values())
            column = min((len(self._in[c]), c) for c, v in row.items() if abs(v) == least)[1]
            for c in row:
                self._in[c].discard(i)
            for j in sorted(self._in[column]):
                self._reduce(j, len(self.pivots), row, column)
                heappush(waiting, (len(self._rows[j]), j))
            self.pivots.append((i, column))
        return True

    def _reduce(self, j: int, pivot: int, row: IntRow, column: int) -> None:
        other, inside = self._rows[j], self._in
        common = gcd(row[column], other[column])
        keep, take = row[column] // common, other[column] // common
        if keep < 0:
            keep, take = -keep, -take
        if keep != 1:
            for c in other:
                other[c] *= keep
        for c, v in row.items():
            old = other.get(c)
            if old is None:
                other[c] = -take * v
                inside[c].add(j)
            elif old == take * v:
                del other[c]
                inside[c].discard(j)
            else:
                other[c] = old - take * v
        over = gcd(*other.values()) if other and keep != 1 else 1
        if over > 1:
            for c in other:
                other[c] //= over
        self._steps[j].append((pivot, keep, take, over))

    def _cleared(self, target: Mapping[int, int]) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
        """Weights on pivot rows that clear every pivot column of the target, and what is left of it."""
        left = {c: Fraction(v) for c, v in target.items() if v}
        used: dict[int, Fraction] = {}
        waiting = [self._at[c] for c in left if c in self._at]
        heapify(waiting)
        while waiting:
            t = heappop(waiting)
            i, column = self.pivots[t]
            if column not in left:
                continue
            weight = left[column] / self._rows[i][column]
            used[t] = weight
            for c, v in self._rows[i].items():
                new = left.get(c, Fraction(0)) - weight * v
                if new:
                    if c not in left and c in self._at:
                        heappush(waiting, self._at[c])
                    left[c] = new
                else:
                    left.pop(c, None)
        return used, left

    def express(self, column: int) -> dict[int, Fraction] | None:
        """Weights on the given rows that add up to this one column, exactly; None if it is not determined."""
        used, left = self._cleared({column: 1})
        if left:
            return None
        weights: dict[int, Fraction] = {}
        waiting = [-t for t in used]
        heapify(waiting)
        while waiting:
            t = -heappop(waiting)
            weight = used.pop(t, None)
            if not weight:
                continue
            i = self.pivots[t][0]
            for pivot, keep, take, over in reversed(self._steps[i]):
                weight = weight / over
                if pivot not in used:
                    heappush(waiting, -pivot)
                used[pivot] = used.get(pivot, Fraction(0)) - weight * take
                weight *= keep
            weights[i] = weight
        return dict(sorted(weights.items()))

    def witness(self, column: int) -> dict[int, int] | None:
        """An integer vector that is not 0 here and that all rows send to 0; None if the column is determined.

        Add it to the values, and no sum changes: a second table. None too where the elimination was stopped.
        """
        _, left = self._cleared({column: 1})
        if not left or not self.complete:
            return None
        z = self._back({min(left): Fraction(1)})  # from a column without pivot, on which the value depends
        sign = 1 if z[column] > 0 else -1
        return {c: sign * v for c, v in z.items()}

    def generic(self, seed: int = 0) -> dict[int, int]:
        """One integer vector that all rows send to 0, random where it is free: nearly surely not 0 where it can be.

        Whatever is not 0 in it is not determined, which needs no randomness to check.

        >>> SparseRowSpace([[0, 1], [2]]).generic().keys()
        dict_keys([0, 1])
        """
        random = Random(seed)
        free = sorted(c for c in self._in if c not in self._at)
        return self._back({c: Fraction(random.randrange(1, 1 << 16)) for c in free}) if self.complete else {}

    def _back(self, z: dict[int, Fraction]) -> dict[int, int]:
        """The null vector with these entries where there is no pivot, in integers."""
        queued = {t for c in z for t in self._of.get(c, ())}
        waiting = [-t for t in queued]
        heapify(waiting)
        while waiting:
            i, own = self.pivots[-heappop(waiting)]
            row = self._rows[i]
            total = sum((v * z[c] for c, v in row.items() if c in z), Fraction(0))
            if total:
                z[own] = -total / row[own]
                for earlier in set(self._of[own]) - queued:
                    queued.add(earlier)
                    heappush(waiting, -earlier)
        scale = lcm(*(v.denominator for v in z.values()))
        return {c: int(v * scale) for c, v in sorted(z.items())}
