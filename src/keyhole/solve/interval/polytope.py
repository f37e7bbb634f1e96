"""The tables that are possible, as a polytope: lo <= A X <= hi over totals X of atoms whose records lie in [low, high].

Only the total of an atom is constrained, so an atom is one unknown X_k in [size low, size high], and a record of it can
have whatever leaves the others room: [max(low, X_k - (size-1) high), min(high, X_k - (size-1) low)].

**Any weights prove.** For every rational lambda, x = lambda.(A x) + w.x with w = e - A'lambda, so
    x_i <= sum_r max(lambda_r lo_r, lambda_r hi_r) + sum_j max(w_j low_j, w_j high_j),
and likewise from below. Weights that come from floats, from a heuristic or from a liar can make a bound loose, never
false. An infinite end under a weight that is not zero proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

End: TypeAlias = Fraction | None  # None: infinite
Side: TypeAlias = Literal["lo", "hi"]
Weights: TypeAlias = dict[int, Fraction]  # row -> lambda
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Polytope:
    """Row i has `entries[start[i]:start[i+1]]` in `columns[...]`; all entries are integers, none is zero.

    `rows[i]` are the ends of row i, `records[k]` those of each of the `sizes[k]` records of column k.
    """

    start: Ints
    columns: Ints
    entries: NDArray[Any]
    rows: tuple[tuple[End, End], ...]
    records: tuple[tuple[End, End], ...]
    sizes: tuple[int, ...]
    _sparse: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[Mapping[int, int], End, End]],
        records: Sequence[tuple[End, End]],
        sizes: Sequence[int] | None = None,
    ) -> Polytope:
        """From rows as (column -> entry, lo, hi).

        >>> P = Polytope.of([({0: 1, 1: 1}, Fraction(11), Fraction(11))], [(Fraction(3), Fraction(5)), (None, None)])
        >>> P.bound({0: Fraction(1)}, 1, "hi"), P.bound({0: Fraction(1)}, 1, "lo")
        (Fraction(8, 1), Fraction(6, 1))
        """
        start = np.cumsum([0, *(len(row) for row, _, _ in rows)]).astype(np.int64)
        columns = np.array([k for row, _, _ in rows for k in row], dtype=np.int64)
        listed = [v for row, _, _ in rows for v in row.values()]
        narrow = all(abs(v) < 1 << 62 for v in listed)
        entries = np.array(listed, dtype=np.int64 if narrow else object)
        ends = tuple((lo, hi) for _, lo, hi in rows)
        return cls(start, columns, entries, ends, tuple(records), tuple(sizes or [1] * len(records)))

    @property
    def m(self) -> int:
        """How many rows."""
        return len(self.rows)

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the literature
        """How many columns."""
        return len(self.records)

    def row(self, i: int) -> tuple[list[int], list[int]]:
        """(columns, entries) of a row."""
        if i not in self._sparse:
            at = slice(int(self.start[i]), int(self.start[i + 1]))
            self._sparse[i] = (self.columns[at].tolist(), self.entries[at].tolist())
        return self._sparse[i]

    def total(self, k: int) -> tuple[End, End]:
        """Between what the total of a column lies beforehand."""
        low, high = self.records[k]
        size = self.sizes[k]
        return (None if low is None else size * low), (None if high is None else size * high)

    def combined(self, weights: Mapping[int, Fraction]) -> dict[int, Fraction]:
        """A'lambda: column -> coefficient, without zeros."""
        found: dict[int, Fraction] = {}
        for i, weight in weights.items():
            for k, a in zip(*self.row(i), strict=True):
                found[k] = found.get(k, Fraction(0)) + weight * a
        return {k: c for k, c in found.items() if c}

    def bound(self, weights: Mapping[int, Fraction], record_of: int | None, side: Side) -> End:
        """What weights prove of one record of a column (None: of nothing, the functional 0) at one side.

        The exact end, None if it is infinite. Cost: the entries of the rows that have a weight.
        """
        sign = 1 if side == "hi" else -1
        total = Fraction(0)
        for i, weight in weights.items():
            end = self.rows[i][1 if weight * sign > 0 else 0]
            if weight and end is None:
                return None
            total += weight * end if end is not None else 0
        combined = self.combined(weights)
        if record_of is not None:
            combined.setdefault(record_of, Fraction(0))
        for k, coefficient in combined.items():
            others = self.sizes[k] - (k == record_of)
            for count, w in ((others, -coefficient), (int(k == record_of), 1 - coefficient)):
                end = self.records[k][1 if w * sign > 0 else 0]
                if not count or not w:
                    continue
                if end is None:
                    return None
                total += count * w * end
        return total

    def parts(self) -> list[tuple[list[int], list[int]]]:
        """Connected components as (rows, columns); columns that no row touches are in none.

        Every column takes the least label of its rows, until nothing changes. Cost: a few passes over the entries.
        """
        full = np.flatnonzero(np.diff(self.start))
        if not len(full):
            return []
        at, counts = self.start[full], np.diff(self.start)[full]
        labels, before = np.arange(self.K), np.zeros(0, dtype=np.int64)
        while not np.array_equal(labels, before):
            before = labels.copy()
            least = np.minimum.reduceat(labels[self.columns], at)
            np.minimum.at(labels, self.columns, np.repeat(least, counts))
            labels = labels[labels]
        touched = np.zeros(self.K, dtype=np.bool_)
        touched[self.columns] = True
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for i, label in zip(full.tolist(), labels[self.columns[at]].tolist(), strict=True):
            groups.setdefault(label, ([], []))[0].append(i)
        for k in np.flatnonzero(touched).tolist():
            groups[int(labels[k])][1].append(k)
        return list(groups.values())

    def products(self, table: Sequence[Fraction]) -> list[Fraction]:
        """What every row is on a table of totals: A x, in machine integers where they fit."""
        unit = lcm(*(x.denominator for x in table))
        units = [x.numerator * (unit // x.denominator) for x in table]
        full = np.flatnonzero(np.diff(self.start))
        found = [Fraction(0)] * self.m
        if not len(full):
            return found
        widest = int(np.diff(self.start).max()) * max(map(abs, units), default=0)
        entries = self.entries
        if entries.dtype != object:
            widest *= int(np.abs(entries).max())
        wide = entries.dtype == object or widest >= 1 << 62
        values: NDArray[Any] = np.array(units, dtype=object if wide else np.int64)
        sums = np.add.reduceat(entries * values[self.columns], self.start[full])
        for i, said in zip(full.tolist(), sums.tolist(), strict=True):
            found[i] = Fraction(said, unit)
        return found

    def said(self, i: int, table: Sequence[Fraction] | Mapping[int, Fraction]) -> Fraction:
        """What row i is on a table of totals."""
        return sum((a * table[k] for k, a in zip(*self.row(i), strict=True)), Fraction(0))

    def holds(self, table: Sequence[Fraction]) -> bool:
        """Is a table of totals inside all rows and all bounds?"""
        return self.broken(table) == (set(), set())

    def broken(self, table: Sequence[Fraction]) -> tuple[set[int], set[int]]:
        """The rows and the columns of which a table of totals is outside."""
        rows = {i for i, x in enumerate(self.products(table)) if not inside(x, self.rows[i])}
        return rows, {k for k, x in enumerate(table) if not inside(x, self.total(k))}


def inside(x: Fraction, ends: tuple[End, End]) -> bool:
    """Is a number between ends, or on one?"""
    lo, hi = ends
    return (lo is None or x >= lo) and (hi is None or x <= hi)


def room(record: tuple[End, End], size: int, total: Fraction) -> tuple[End, End]:
    """Between what one of `size` records can lie, each of them within `record`, if they add up to a total.

    >>> room((Fraction(3), None), 3, Fraction(15))
    (Fraction(3, 1), Fraction(9, 1))
    """
    (low, high), others = record, size - 1
    if not others:
        return total, total
    least = None if high is None else total - others * high
    most = None if low is None else total - others * low
    return highest(low, least), lowest(high, most)


def highest(a: End, b: End) -> End:
    """The larger of two lower ends."""
    return b if a is None else a if b is None else max(a, b)


def lowest(a: End, b: End) -> End:
    """The smaller of two upper ends."""
    return b if a is None else a if b is None else min(a, b)
