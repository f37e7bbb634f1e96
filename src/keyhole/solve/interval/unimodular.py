"""Totally unimodular systems: every vertex of their polytope is whole, so linear programs say what integers can do.

Two sufficient tests of a matrix of zeros and ones, both exact:

    families     the rows split into two laminar families (two rows of one family are disjoint or nested): GROUP BYs,
                 hierarchies, two-way margins. Rows that cross must lie in different families, so it is asked whether
                 the graph of crossing rows is bipartite                                              [edmonds1970]
    intervals    the columns have an order in which every row is consecutive: sums over ranges of one public column. The
                 order is proposed by the Fiedler vector of A'A, in floating point, and checked       [atkins1998]

**Guarantee** (Hoffman and Kruskal): if the test holds and bounds and right-hand sides are whole, the least and the
greatest value of every column over the reals are reached by whole tables. A test that fails says nothing. Cost: the
products of pairs of rows, m^2; for the order an eigenvector of K columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.model.grid import Grid
from keyhole.solve.interval.polytope import End, Ints, Polytope

MOST_CELLS = 40_000_000  # rows times columns that are looked at, and the square of rows
MOST_ORDERED = 600  # columns of which an order is sought


def unimodular(rows: Sequence[Sequence[int]], K: int) -> bool:
    """Is a matrix of zeros and ones, by the columns of each row, shown to be totally unimodular?

    >>> unimodular([[0, 1, 2, 3], [0, 1], [2, 3], [0, 2], [1, 3]], 4)  # a total and two GROUP BYs
    True
    >>> unimodular([[0, 1], [1, 2], [2, 3], [0, 1, 2]], 4)  # ranges
    True
    >>> unimodular([[0, 1], [1, 2], [0, 2]], 3)
    False
    """
    if len(rows) * max(len(rows), K) > MOST_CELLS:
        return False
    A = np.zeros((len(rows), K), dtype=np.float32)  # sums of ones up to 2^24 are exact
    for i, columns in enumerate(rows):
        A[i, list(columns)] = 1.0
    return _two_families(A) or _consecutive(A)


def _two_families(A: NDArray[np.float32]) -> bool:
    """Is the graph of crossing rows bipartite?"""
    both, sizes = A @ A.T, A.sum(axis=1)
    crosses = (both > 0) & (both < np.minimum.outer(sizes, sizes))
    side = np.full(len(A), -1, dtype=np.int8)
    for first in range(len(A)):
        if side[first] >= 0:
            continue
        side[first], waiting = 0, [first]
        while waiting:
            i = waiting.pop()
            others = np.flatnonzero(crosses[i])
            if (side[others] == side[i]).any():
                return False
            fresh = others[side[others] < 0]
            side[fresh] = 1 - side[i]
            waiting += fresh.tolist()
    return True


def _consecutive(A: NDArray[np.float32]) -> bool:
    """Is there an order of the columns, found in floats and checked, in which every row is consecutive?"""
    if A.shape[1] > MOST_ORDERED:
        return False
    near = (A.T @ A).astype(np.float64)
    laplacian = np.diag(near.sum(axis=1)) - near
    order = np.argsort(np.linalg.eigh(laplacian)[1][:, min(1, len(near) - 1)], kind="stable")
    steps = np.abs(np.diff(A[:, order], axis=1, prepend=0.0, append=0.0))
    return bool((steps.sum(axis=1) <= 2).all())


def whole_vertices(P: Polytope, rows: Sequence[int], columns: Sequence[int], grids: Sequence[Grid]) -> bool:
    """Is every vertex of a part on the grids of its columns? They must share a step, which all ends must meet.

    >>> one, grid = Fraction(1), Grid(Fraction(1))
    >>> P = Polytope.of([({0: 1, 1: 1}, one, one), ({1: 1, 2: 1}, one, one)], [(Fraction(0), one)] * 3)
    >>> whole_vertices(P, [0, 1], [0, 1, 2], [grid] * 3), whole_vertices(P, [0, 1], [0, 1, 2], [Grid(2 * one)] * 3)
    (True, False)
    """
    step = grids[columns[0]].step
    if step is None or any(grids[k].step != step for k in columns):
        return False
    base = {k: P.sizes[k] * grids[k].base for k in columns}
    if not all(_meets(P.total(k), base[k], P.sizes[k] * step) for k in columns):
        return False
    listed = []
    for i in rows:
        at: Ints = P.columns[P.start[i] : P.start[i + 1]]
        if not bool((P.entries[P.start[i] : P.start[i + 1]] == 1).all()):
            return False
        if not _meets(P.rows[i], sum((base[k] for k in at.tolist()), Fraction(0)), step):
            return False
        listed.append(at)
    place: Mapping[int, int] = {k: j for j, k in enumerate(columns)}
    return unimodular([[place[k] for k in at.tolist()] for at in listed], len(columns))


def _meets(ends: tuple[End, End], base: Fraction, step: Fraction) -> bool:
    return all(end is None or ((end - base) / step).denominator == 1 for end in ends)
