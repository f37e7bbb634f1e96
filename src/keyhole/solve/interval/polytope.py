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
from math import ceil, floor, lcm
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

End: TypeAlias = Fraction | None  # None: infinite
Side: TypeAlias = Literal["lo", "hi"]
Weights: TypeAlias = dict[int, Fraction]  # row -> lambda
Ints: TypeAlias = NDArray[np.int64]

MANY = 1 << 20  # entries from which on compiled code pays


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
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False)  # what was computed of it once

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
        return _times(self.records[k], self.sizes[k])

    @property
    def totals(self) -> tuple[list[tuple[End, End]], Ints]:
        """The same of all columns: the distinct ends, and which of them each column has.

        Columns whose records have one pair of ends (the same object) and that are as many share their numbers.
        """
        if "totals" not in self._made:
            _, pair = np.unique(np.fromiter(map(id, self.records), np.int64, self.K), return_inverse=True)
            sizes = np.array(self.sizes, dtype=np.int64)
            keys = pair * (int(sizes.max(initial=0)) + 1) + sizes
            _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
            self._made["totals"] = [_times(self.records[k], self.sizes[k]) for k in first.tolist()], kind
        made: tuple[list[tuple[End, End]], Ints] = self._made["totals"]
        return made

    @property
    def plain(self) -> bool:
        """Are all entries one?"""
        if "plain" not in self._made:
            self._made["plain"] = bool((self.entries == 1).all())
        return bool(self._made["plain"])

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
        """Connected components as (rows, columns); columns that no row touches are in none. Made once."""
        if "parts" not in self._made:
            full = np.flatnonzero(np.diff(self.start))
            labels = _labels(self.start, self.columns, full, self.K)
            touched = np.zeros(self.K, dtype=np.bool_)
            touched[self.columns] = True
            groups: dict[int, tuple[list[int], list[int]]] = {}
            for i, label in zip(full.tolist(), labels[self.columns[self.start[full]]].tolist(), strict=True):
                groups.setdefault(label, ([], []))[0].append(i)
            at = np.flatnonzero(touched)
            for k, label in zip(at.tolist(), labels[at].tolist(), strict=True):
                groups[label][1].append(k)
            self._made["parts"] = list(groups.values())
        made: list[tuple[list[int], list[int]]] = self._made["parts"]
        return made

    def products(self, table: Sequence[Fraction]) -> list[Fraction]:
        """What every row is on a table of totals: A x, in machine integers where they fit."""
        units, unit = in_units(table)
        full = np.flatnonzero(np.diff(self.start))
        found = [Fraction(0)] * self.m
        if not len(full):
            return found
        widest = int(np.diff(self.start).max()) * max(abs(int(units.min())), abs(int(units.max())))
        if not self.plain and self.entries.dtype != object:
            widest *= int(np.abs(self.entries).max())
        wide = self.entries.dtype == object or widest >= 1 << 62
        values: NDArray[Any] = (units.astype(object) if wide else units)[self.columns]
        sums = np.add.reduceat(values if self.plain else self.entries * values, self.start[full])
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
        return rows, set(np.flatnonzero(~self._within(table, strictly=False)).tolist())

    def between(self, table: Sequence[Fraction]) -> NDArray[np.bool_]:
        """The columns whose total, on a table, is strictly between its ends."""
        return self._within(table, strictly=True)

    def _within(self, table: Sequence[Fraction], *, strictly: bool) -> NDArray[np.bool_]:
        """Compared in whole numbers: x / unit >= lo iff x >= ceil(lo unit), and > iff x > floor(lo unit)."""
        units, unit = in_units(table)
        ends, kind = self.totals
        low, high = (floor, ceil) if strictly else (ceil, floor)
        least = _whole([None if lo is None else low(lo * unit) for lo, _ in ends])[kind]
        most = _whole([None if hi is None else high(hi * unit) for _, hi in ends])[kind]
        no_lo, no_hi = (np.array([e[side] is None for e in ends], dtype=np.bool_)[kind] for side in (0, 1))
        fits = (units > least, units < most) if strictly else (units >= least, units <= most)
        return np.asarray((no_lo | fits[0].astype(np.bool_)) & (no_hi | fits[1].astype(np.bool_)), dtype=np.bool_)


def _times(record: tuple[End, End], size: int) -> tuple[End, End]:
    low, high = record
    return (None if low is None else size * low), (None if high is None else size * high)


def in_units(table: Sequence[Fraction]) -> tuple[NDArray[Any], int]:
    """Fractions as whole numbers of one unit, and how many of these make one: in machine integers where they fit.

    >>> in_units([Fraction(1, 2), Fraction(2, 3)])
    (array([3, 4]), 6)
    """
    ratios = [x.as_integer_ratio() for x in table]
    unit = lcm(*{over for _, over in ratios})
    return _whole([n if over == unit else n * (unit // over) for n, over in ratios]), unit


def _whole(values: Sequence[int | None]) -> NDArray[Any]:
    """Integers as an array, 0 for none; of Python integers where some would not fit."""
    found = [0 if v is None else v for v in values]
    narrow = max(found, default=0) < 1 << 62 and min(found, default=0) > -(1 << 62)
    return np.array(found, dtype=np.int64 if narrow else object)


def _labels(start: Ints, columns: Ints, full: Ints, K: int) -> Ints:
    """A label for each column, the same for those that rows connect; `full` are the rows with columns.

    Every column takes the least label of its rows, until nothing changes. Cost: a few passes over the entries.
    """
    labels, before = np.arange(K), np.zeros(0, dtype=np.int64)
    if not len(full):
        return labels
    if len(columns) >= MANY:
        from keyhole.solve.interval.projection_kernels import connected

        return connected(start, columns, K)
    counts = np.diff(start)[full]
    while not np.array_equal(labels, before):
        before = labels.copy()
        least = np.minimum.reduceat(labels[columns], start[full])
        np.minimum.at(labels, columns, np.repeat(least, counts))
        labels = labels[labels]
    return labels


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
