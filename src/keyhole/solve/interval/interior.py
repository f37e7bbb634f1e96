"""Who can move: the interior rank test.

Take a table that is possible, F its columns with room on both sides, and the rows that hold it: equations, and
inequalities met with equality. If e_k is not in the row space of these rows restricted to F, some direction d on F has
A d = 0 and d_k != 0, so table + t d is possible too for small t of either sign: column k has a second value. One exact
factorisation decides it for all columns of F.

**At a bound.** A column k that sits at one of its ends moves if its column of A lies in the span of those of F: then
some d on F has A d = -A_k, and e_k + d, or its negative, goes inwards. That is so for all of them at once if they do
not raise the rank; else it is asked of halves. A little of all these directions gives a table with more columns inside,
and the test is repeated from there. It speaks of real numbers; on a grid small steps do not exist. Where time is up,
what the last factorisation that was finished says stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.polytope import Ints, Polytope
from keyhole.solve.rowspace import RowMatrix, RowSpace

MOST_RANKS = 24  # factorisations spent on columns at a bound
WIDE_RANKS = 5  # of matrices of more cells than
WIDE_CELLS = 20_000_000
BLOCK = 16  # rows of bits that are written at once


class _Stopped(Exception):
    """A factorisation was left in the middle."""


def movable(
    P: Polytope,
    table: Sequence[Fraction],
    rows: Sequence[int],
    columns: Sequence[int],
    equations: frozenset[int],
    late: Callable[[], bool] = lambda: False,
) -> tuple[set[int], bool]:
    """The columns that have a second value, and whether all were looked at before it was `late`.

    `equations` are rows that hold even where they are blurred by a radius. Cost: one exact row space of the rows over
    the columns with room, and a few more ranks for those at a bound.

    >>> rows = [({0: 1, 1: 1}, Fraction(5), Fraction(5)), ({2: 1}, None, Fraction(4))]
    >>> P = Polytope.of(rows, [(Fraction(0), None)] * 3)
    >>> movable(P, [Fraction(2), Fraction(3), Fraction(4)], [0, 1], [0, 1, 2], frozenset())
    ({0, 1}, True)
    >>> movable(P, [Fraction(0), Fraction(5), Fraction(4)], [0, 1], [0, 1, 2], frozenset())
    ({0, 1}, True)
    >>> movable(P, [Fraction(2), Fraction(3), Fraction(4)], [0, 1], [0, 1, 2], frozenset(), lambda: True)
    (set(), False)
    """
    between, (ends, kind) = P.between(table), P.totals
    moves = np.array([lo is None or lo != hi for lo, hi in ends], dtype=np.bool_)[kind]
    listed = np.array(columns, dtype=np.int64)
    free, bound = listed[between[listed]].tolist(), np.sort(listed[~between[listed] & moves[listed]]).tolist()
    said = P.products(table)
    held = [i for i in rows if i in equations or not _between(said[i], P.rows[i])]
    ranks = MOST_RANKS if len(held) * len(columns) <= WIDE_CELLS else WIDE_RANKS
    inside, space = list[int](), None
    try:
        space, inside = _space(P, held, free, late), free
        while bound and ranks > 0:
            inwards, wider, ranks = _inwards(P, held, free, bound, space.rank, ranks, late)
            if not inwards:
                break
            gone = set(inwards)
            free, bound = [*free, *inwards], [k for k in bound if k not in gone]
            space, inside = wider or _space(P, held, free, late), free
    except _Stopped:
        finished = False
    else:
        finished = True
    stuck = set() if space is None else set(space.determined().tolist())
    return {k for j, k in enumerate(inside) if j not in stuck}, finished


def _space(P: Polytope, rows: Sequence[int], columns: Sequence[int], late: Callable[[], bool]) -> RowSpace:
    """The row space of some rows over some columns."""

    def tick(*_: object) -> None:
        if late():
            raise _Stopped

    tick()
    return RowSpace(_restricted(P, rows, columns), progress=tick)


def _inwards(
    P: Polytope,
    held: Sequence[int],
    free: Sequence[int],
    bound: list[int],
    rank: int,
    ranks: int,
    late: Callable[[], bool],
) -> tuple[list[int], RowSpace | None, int]:
    """The columns at a bound that lie in the span of the free ones; and how many ranks may still be taken.

    Between them the row space over the free ones and all these, where that was factorised.
    """
    found: list[int] = []
    waiting = [bound]
    while waiting and ranks > 0:
        group, ranks = waiting.pop(), ranks - 1
        space = _space(P, held, [*free, *group], late)
        if space.rank == rank:
            found += group
            if len(group) == len(bound):
                return found, space, ranks
        elif len(group) > 1:
            waiting += [group[: len(group) // 2], group[len(group) // 2 :]]
    return found, None, ranks


def _restricted(P: Polytope, rows: Sequence[int], columns: Sequence[int]) -> RowMatrix:
    """Some rows over some columns: rows of ones as bits, others as integers."""
    place = np.full(P.K, -1, dtype=np.int64)
    place[np.array(columns, dtype=np.int64)] = np.arange(len(columns))
    K, plain, others = len(columns), list[Ints](), list[tuple[Ints, NDArray[Any]]]()
    for i in rows:
        at = slice(int(P.start[i]), int(P.start[i + 1]))
        here, values = place[P.columns[at]], P.entries[at]
        kept = here >= 0
        if P.plain or bool((values[kept] == 1).all()):
            plain.append(here[kept])
            continue
        order = np.argsort(here[kept])
        others.append((here[kept][order], values[kept][order]))
    parts = [_ones(plain, K)]
    narrow = [pair for pair in others if pair[1].dtype != object]
    if narrow:
        parts.append(RowMatrix.from_entries(narrow, K))
    if wide := [pair for pair in others if pair[1].dtype == object]:
        parts.append(RowMatrix.from_sparse([dict(zip(*(v.tolist() for v in p), strict=True)) for p in wide], K))
    return parts[0] if len(parts) == 1 else RowMatrix.stack(parts)


def _ones(rows: Sequence[Ints], K: int) -> RowMatrix:
    """The rows with ones in these columns, a block of rows at a time."""
    packed = np.zeros((len(rows), -(-K // 64)), dtype=np.uint64)
    for first in range(0, len(rows), BLOCK):
        some = rows[first : first + BLOCK]
        bits = np.zeros((len(some), packed.shape[1] * 64), dtype=np.uint8)
        for i, at in enumerate(some):
            bits[i, at] = 1
        packed[first : first + BLOCK] = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    return RowMatrix.from_bits(packed, K)


def _between(value: Fraction, ends: tuple[Fraction | None, Fraction | None]) -> bool:
    lo, hi = ends
    return (lo is None or value > lo) and (hi is None or value < hi)
