"""Remainder rows: a margin less the cells shown inside it is a row of few people that nobody asked for.

For a table T (a GROUP BY: disjoint rows) and a row r: take out of r all cells of T that lie wholly inside it. What is
left, if it is little, is a new row with ends [lo_r - sum hi, hi_r - sum lo] and weights +1 on r and -1 on the cells.
Propagation through these finds what it misses through the given rows alone; the weights keep every proof one about the
given rows. A second pass works on rows and remainders. Cost: a look at three columns of each cell for each row; one
pass over the row for each table that may leave little of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.polytope import End, Ints, Polytope, Weights

SHARES = (Fraction(34, 100), Fraction(60, 100))  # of a row that may be left, in the first and in the second pass
MOST_ROWS = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Plus:
    """A polytope with remainder rows behind its own; `origin[i]` gives row i as weights on the rows given."""

    polytope: Polytope
    origin: tuple[Weights, ...]

    def given(self, weights: Weights) -> Weights:
        """Weights on all rows as weights on the rows given."""
        found: Weights = {}
        for i, weight in weights.items():
            for r, share in self.origin[i].items():
                found[r] = found.get(r, Fraction(0)) + weight * share
        return {r: w for r, w in found.items() if w}


@dataclass(frozen=True, slots=True, eq=False)
class _Plain:
    """A row of ones: its columns, its ends, and what it is made of."""

    columns: Ints
    lo: End
    hi: End
    weights: Weights


_Family = tuple[NDArray[np.int64], list[_Plain]]


def with_remainders(polytope: Polytope, tables: Sequence[Sequence[int]]) -> Plus:
    """All remainders of two passes, each set of columns once.

    >>> both, one = {0: 1, 1: 1, 2: 1}, {0: 1, 1: 1}
    >>> rows = [(both, Fraction(9), Fraction(9)), (one, Fraction(5), Fraction(6))]
    >>> plus = with_remainders(Polytope.of(rows, [(None, None)] * 3), [[1]])
    >>> plus.polytope.row(2), plus.polytope.rows[2], plus.origin[2]
    (([2], [1]), (Fraction(3, 1), Fraction(4, 1)), {0: Fraction(1, 1), 1: Fraction(-1, 1)})
    """
    plain: dict[int, _Plain] = {}
    for i in range(polytope.m):
        at = slice(int(polytope.start[i]), int(polytope.start[i + 1]))
        if at.stop > at.start and bool((polytope.entries[at] == 1).all()):
            plain[i] = _Plain(polytope.columns[at], *polytope.rows[i], {i: Fraction(1)})
    families = [family for table in tables for family in _disjoint([i for i in table if i in plain], plain, polytope.K)]
    seen = {np.sort(row.columns).tobytes() for row in plain.values()}
    rows, added = list(plain.values()), list[_Plain]()
    for share in SHARES:
        fresh, around = [], _possible(rows, families, polytope.K, share)
        for (cell_of, cells), some in zip(families, around, strict=True):
            sizes = np.array([len(cell.columns) for cell in cells])
            for n in some:
                left = _left(rows[n], cell_of, cells, sizes, share)
                if left is not None and (key := np.sort(left.columns).tobytes()) not in seen:
                    seen.add(key)
                    fresh.append(left)
            if len(added) + len(fresh) > MOST_ROWS:
                break
        added += fresh
        rows += fresh
    return _appended(polytope, added)


def _disjoint(table: list[int], plain: dict[int, _Plain], K: int) -> list[_Family]:
    """The rows of one statement as families of disjoint rows: `cell_of[k]` is the place of the row with column k."""
    families: list[_Family] = []
    for i in table:
        columns = plain[i].columns
        family = next((f for f in families if (f[0][columns] < 0).all()), None)
        if family is None:
            family = (np.full(K, -1, dtype=np.int64), [])
            families.append(family)
        family[0][columns] = len(family[1])
        family[1].append(plain[i])
    return [family for family in families if len(family[1]) > 1 or len(table) == 1]


def _possible(rows: list[_Plain], families: list[_Family], K: int, share: Fraction) -> list[list[int]]:
    """For each family the rows of which it may leave so little: a cell inside a row has three of its columns there."""
    found: list[list[int]] = [[] for _ in families]
    if not families:
        return found
    cells = [cell.columns for _, listed in families for cell in listed]
    three = np.array([(at[0], at[len(at) // 2], at[-1]) for at in cells]).T.copy()
    sizes = np.array([len(at) for at in cells])
    begin = np.cumsum([0, *(len(listed) for _, listed in families[:-1])])
    member = np.zeros(K, dtype=np.bool_)
    for n, row in enumerate(rows):
        member[row.columns] = True
        inside = member[three[0]] & member[three[1]] & member[three[2]]
        member[row.columns] = False
        most = np.add.reduceat(inside * sizes, begin)
        for f in np.flatnonzero((most > 0) & (most >= len(row.columns) - int(share * len(row.columns)))).tolist():
            found[f].append(n)
    return found


def _left(
    row: _Plain, cell_of: NDArray[np.int64], cells: list[_Plain], sizes: NDArray[np.int64], share: Fraction
) -> _Plain | None:
    """What is left of a row without the cells wholly inside it; None if nothing, too much, or all of it."""
    place = cell_of[row.columns]
    inside = np.bincount(place[place >= 0], minlength=len(cells))
    whole = np.flatnonzero(inside == sizes)
    if not len(whole):
        return None
    kept = row.columns[~np.isin(place, whole)]
    if not 0 < len(kept) <= share * len(row.columns):
        return None
    lo, hi, weights = row.lo, row.hi, dict(row.weights)
    for j in whole.tolist():
        cell = cells[j]
        lo = None if lo is None or cell.hi is None else lo - cell.hi
        hi = None if hi is None or cell.lo is None else hi - cell.lo
        for i, weight in cell.weights.items():
            weights[i] = weights.get(i, Fraction(0)) - weight
    return None if lo is None and hi is None else _Plain(kept, lo, hi, {i: w for i, w in weights.items() if w})


def _appended(P: Polytope, added: list[_Plain]) -> Plus:
    origin = (*({i: Fraction(1)} for i in range(P.m)), *(row.weights for row in added))
    if not added:
        return Plus(P, origin)
    lengths = np.cumsum([len(row.columns) for row in added]).astype(np.int64)
    columns = np.concatenate([P.columns, *(row.columns for row in added)])
    entries = np.concatenate([P.entries, np.ones(int(lengths[-1]), dtype=P.entries.dtype)])
    start = np.concatenate([P.start, P.start[-1] + lengths])
    ends = (*P.rows, *((row.lo, row.hi) for row in added))
    return Plus(Polytope(start, columns, entries, ends, P.records, P.sizes), origin)
