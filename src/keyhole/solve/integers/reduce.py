"""A smaller system with the same solutions: zeros out, equal rows once, and one number per cell instead of slots.

A slot is a row of 0/1 columns that adds up to 1: one person, whoever it is. Slots whose columns are alike in all other
rows are exchangeable, so k of them are one row that adds up to k over one column per kind of person. Nothing is lost:
any such numbers can be dealt out to the slots again (`spread`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.integers.system import IntegerSystem, Ints


@dataclass(frozen=True, slots=True, eq=False)
class ReducedSystem:
    """The smaller system; `kept` are the original columns that its columns stand for, the first of each.

    `slots` lists for each set of exchangeable slots the original columns: a row a slot, a column a kind.
    """

    system: IntegerSystem
    original: IntegerSystem
    kept: Ints
    fixed: Ints  # the values of the original columns, where they are settled
    slots: tuple[NDArray[np.int64], ...]

    def spread(self, z: Ints) -> Ints:
        """A solution of the original system."""
        found = self.fixed.copy()
        found[self.kept] = z
        for table in self.slots:
            counts = found[table[0]].copy()
            found[table.ravel()] = 0
            kinds = np.repeat(np.arange(len(counts)), counts)
            found[table[np.arange(len(table)), kinds]] = 1
        return found


def reduce_system(system: IntegerSystem) -> ReducedSystem:
    """The smaller system. Cost: linear in the entries, but for a sort."""
    lower, upper = system.lower.copy(), system.upper.copy()
    _zeros(system, lower, upper)
    free = lower < upper
    fixed = np.where(free, 0, lower)
    if system.choices:
        return ReducedSystem(
            replace(system, lower=lower, upper=upper), system, np.arange(system.columns), fixed * 0, ()
        )
    smaller = _without(system, free, fixed)
    slots, gone, rows = _slots(smaller, lower, upper)
    keep = free.copy()
    keep[gone] = False
    kept = np.flatnonzero(keep)
    final = _merged(smaller, slots, rows, keep)
    place = np.cumsum(keep) - 1
    system_out = replace(final, column=place[final.column], lower=lower[kept], upper=_tops(upper, slots)[kept])
    return ReducedSystem(system_out, system, kept, fixed, tuple(slots))


def _zeros(system: IntegerSystem, lower: Ints, upper: Ints) -> None:
    """Columns of rows that leave no room: all coefficients positive, and the least is already all there may be."""
    if not len(system.column):
        return
    row, some = system.row_of, np.diff(system.start) > 0
    least = np.zeros(system.rows, dtype=np.int64)
    np.add.at(least, row, system.coefficient * lower[system.column])
    low = np.ones(system.rows, dtype=np.int64)
    low[some] = np.minimum.reduceat(system.coefficient, system.start[:-1][some])
    tight = (low > 0) & (least == system.hi)
    at = system.column[tight[row]]
    upper[at] = lower[at]


def _without(system: IntegerSystem, free: NDArray[np.bool_], fixed: Ints) -> IntegerSystem:
    """Fixed columns taken off, rows with nothing left dropped (one that cannot hold stays), equal rows once."""
    row = system.row_of
    off = np.zeros(system.rows, dtype=np.int64)
    np.add.at(off, row, system.coefficient * fixed[system.column])
    stays = free[system.column]
    counts = np.bincount(row[stays], minlength=system.rows)
    lo, hi = system.lo - off, system.hi - off
    column, coefficient = system.column[stays], system.coefficient[stays]
    start = np.concatenate([[0], np.cumsum(counts)])
    seen: dict[tuple[bytes, bytes, int, int], None] = {}
    chosen = []
    for k, (a, b) in enumerate(pairwise(start.tolist())):
        if a == b:
            if not lo[k] <= 0 <= hi[k]:
                chosen.append(k)
            continue
        at = (column[a:b].tobytes(), coefficient[a:b].tobytes(), int(lo[k]), int(hi[k]))
        if at not in seen:
            seen[at] = None
            chosen.append(k)
    return _rows(replace(system, start=start, column=column, coefficient=coefficient, lo=lo, hi=hi), chosen)


def _rows(system: IntegerSystem, chosen: Sequence[int]) -> IntegerSystem:
    parts = [slice(system.start[k], system.start[k + 1]) for k in chosen]
    start = np.cumsum([0, *(p.stop - p.start for p in parts)]).astype(np.int64)
    empty = [np.zeros(0, dtype=np.int64)]
    return replace(
        system,
        start=start,
        column=np.concatenate([*empty, *(system.column[p] for p in parts)]),
        coefficient=np.concatenate([*empty, *(system.coefficient[p] for p in parts)]),
        lo=system.lo[list(chosen)],
        hi=system.hi[list(chosen)],
        groups=system.groups[list(chosen)],
    )


def _slots(system: IntegerSystem, lower: Ints, upper: Ints) -> tuple[list[NDArray[np.int64]], Ints, list[list[int]]]:
    """Exchangeable slots: tables of their columns, the columns that go, and their rows."""
    rows_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, column, c in zip(system.row_of.tolist(), system.column.tolist(), system.coefficient.tolist(), strict=True):
        rows_of[column].append((row, c))
    alike: dict[tuple[object, ...], list[tuple[int, list[int]]]] = defaultdict(list)
    for k in range(system.rows):
        columns = system.column[system.start[k] : system.start[k + 1]]
        ones = system.coefficient[system.start[k] : system.start[k + 1]]
        binary = (lower[columns] == 0).all() and (upper[columns] == 1).all() and (ones == 1).all()
        if len(columns) and binary and system.lo[k] == 1 == system.hi[k]:
            outside = {c: tuple(e for e in rows_of[c] if e[0] != k) for c in columns.tolist()}
            ordered = sorted(outside, key=outside.__getitem__)
            alike[tuple(outside[c] for c in ordered)].append((k, ordered))
    tables, gone, rows = [], [np.zeros(0, dtype=np.int64)], []
    for same in alike.values():
        if len(same) > 1:
            tables.append(np.array([columns for _, columns in same], dtype=np.int64))
            gone.append(tables[-1][1:].ravel())
            rows.append([k for k, _ in same])
    return tables, np.concatenate(gone), rows


def _merged(
    system: IntegerSystem,
    slots: Sequence[NDArray[np.int64]],
    rows: Sequence[Sequence[int]],
    keep: NDArray[np.bool_],
) -> IntegerSystem:
    """One row for each set of slots, without the columns of all but the first."""
    lo, hi = system.lo.copy(), system.hi.copy()
    dropped: set[int] = set()
    for table, same in zip(slots, rows, strict=True):
        lo[same[0]] = hi[same[0]] = len(table)
        dropped.update(same[1:])
    stays = keep[system.column]
    counts = np.bincount(system.row_of[stays], minlength=system.rows)
    start = np.concatenate([[0], np.cumsum(counts)])
    smaller = replace(
        system, start=start, column=system.column[stays], coefficient=system.coefficient[stays], lo=lo, hi=hi
    )
    return _rows(smaller, [k for k in range(system.rows) if k not in dropped])


def _tops(upper: Ints, slots: Sequence[NDArray[np.int64]]) -> Ints:
    found = upper.copy()
    for table in slots:
        found[table[0]] = len(table)
    return found
