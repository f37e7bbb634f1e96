"""Who can move: the interior rank test.

Take a table that is possible, F its columns with room on both sides, and the rows that hold it: equations, and
inequalities met with equality. If e_k is not in the row space of these rows restricted to F, some direction d on F has
A d = 0 and d_k != 0, so table + t d is possible too for small t of either sign: column k has a second value. One exact
factorisation decides it for all columns of F.

**At a bound.** A column k that sits at one of its ends moves if its column of A lies in the span of those of F: then
some d on F has A d = -A_k, and e_k + d, or its negative, goes inwards. That is so if and only if every dependency w of
the rows over F (w A = 0 there) has w A_k = 0: the same factorisation decides it, and no more columns are gained by a
second one, since the span stays the same. Whoever of F is fixed over F, e_j = w A there, moves along with such a column
k if w A_k != 0. It speaks of real numbers; on a grid small steps do not exist. Where time
is up, what the factorisation says of F stays, if it was finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.polytope import Ints, Polytope
from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace.verify import combine

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
    the columns with room; for those at a bound one product with each of its dependencies.

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
    inwards, stuck, finished = list[int](), set(range(len(free))), False
    try:
        space = _space(P, held, free, late)
        stuck = set(space.determined().tolist())
        spanned = _inwards(P, held, bound, space, late)
        inwards, stuck = spanned, _stuck(P, held, spanned, space, late)
        finished = True
    except _Stopped:
        pass
    return {*(k for j, k in enumerate(free) if j not in stuck), *inwards}, finished


def _space(P: Polytope, rows: Sequence[int], columns: Sequence[int], late: Callable[[], bool]) -> RowSpace:
    """The row space of some rows over some columns."""

    def tick(*_: object) -> None:
        if late():
            raise _Stopped

    tick()
    return RowSpace(_restricted(P, rows, columns), progress=tick)


def _inwards(
    P: Polytope, held: Sequence[int], bound: list[int], space: RowSpace, late: Callable[[], bool]
) -> list[int]:
    """The columns at a bound that lie in the span of the free ones."""
    if not bound or space.rank == len(held):
        return bound
    off, matrix = set[int](), _restricted(P, held, bound)
    for relation in space.dependencies():
        if late():
            raise _Stopped
        off.update(_combined(matrix, relation))
    return [k for j, k in enumerate(bound) if j not in off]


def _stuck(P: Polytope, held: Sequence[int], inwards: list[int], space: RowSpace, late: Callable[[], bool]) -> set[int]:
    """The places of the free columns that are fixed, and stay so if the others go inwards."""
    stuck = space.determined().tolist()
    if not inwards or not stuck:
        return set(stuck)
    found, matrix = set[int](), _restricted(P, held, inwards)
    for j in stuck:
        if late():
            raise _Stopped
        if not _combined(matrix, space.proof(j)):
            found.add(j)
    return found


def _combined(matrix: RowMatrix, weights: Mapping[int, Fraction]) -> dict[int, int]:
    """A multiple of the weighted sum of some rows: {column: non-zero entry}."""
    d = lcm(*(w.denominator for w in weights.values()))
    return combine(matrix, {i: w.numerator * (d // w.denominator) for i, w in weights.items()})


def _restricted(P: Polytope, rows: Sequence[int], columns: Sequence[int]) -> RowMatrix:
    """Some rows over some columns, in this order: rows of ones as bits, others as integers."""
    place = np.full(P.K, -1, dtype=np.int64)
    place[np.array(columns, dtype=np.int64)] = np.arange(len(columns))
    plain, ones, others = list[int](), list[Ints](), dict[int, tuple[Ints, NDArray[Any]]]()
    for n, i in enumerate(rows):
        at = slice(int(P.start[i]), int(P.start[i + 1]))
        here, values = place[P.columns[at]], P.entries[at]
        kept = here >= 0
        if P.plain or bool((values[kept] == 1).all()):
            plain.append(n)
            ones.append(here[kept])
            continue
        order = np.argsort(here[kept])
        others[n] = here[kept][order], values[kept][order]
        if values.dtype == object:
            wide = dict(zip(*(each.tolist() for each in others[n]), strict=True))
            others[n] = RowMatrix.from_sparse([wide], len(columns)).general[0]
    return RowMatrix(_ones(ones, len(columns)), np.array(plain, dtype=np.int64), others, len(rows), len(columns))


def _ones(rows: Sequence[Ints], K: int) -> NDArray[np.uint64]:
    """The bits of rows with ones in these columns, a block of rows at a time."""
    packed = np.zeros((len(rows), -(-K // 64)), dtype=np.uint64)
    for first in range(0, len(rows), BLOCK):
        some = rows[first : first + BLOCK]
        bits = np.zeros((len(some), packed.shape[1] * 64), dtype=np.uint8)
        for i, at in enumerate(some):
            bits[i, at] = 1
        packed[first : first + BLOCK] = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    return packed


def _between(value: Fraction, ends: tuple[Fraction | None, Fraction | None]) -> bool:
    lo, hi = ends
    return (lo is None or value > lo) and (hi is None or value < hi)
