"""Who can move: the interior rank test.

Take a table that is possible, F its columns with room on both sides, and the rows that hold it: equations, and
inequalities met with equality. If e_k is not in the row space of these rows restricted to F, some direction d on F has
A d = 0 and d_k != 0, so table + t d is possible too for small t of either sign: column k has a second value. One exact
factorisation decides it for all columns. It speaks of real numbers; on a grid small steps do not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from keyhole.solve.interval.polytope import Polytope
from keyhole.solve.rowspace import RowMatrix, RowSpace


def movable(
    polytope: Polytope,
    table: Sequence[Fraction],
    rows: Sequence[int],
    columns: Sequence[int],
    equations: frozenset[int],
) -> set[int]:
    """The columns that have a second value; `equations` are rows that hold even where they are blurred by a radius.

    Cost: one exact row space of the rows over the columns with room.

    >>> rows = [({0: 1, 1: 1}, Fraction(5), Fraction(5)), ({2: 1}, None, Fraction(4))]
    >>> P = Polytope.of(rows, [(Fraction(0), None)] * 3)
    >>> sorted(movable(P, [Fraction(2), Fraction(3), Fraction(4)], [0, 1], [0, 1, 2], frozenset()))
    [0, 1]
    >>> movable(P, [Fraction(0), Fraction(5), Fraction(4)], [0, 1], [0, 1, 2], frozenset())
    set()
    """
    free = [k for k in columns if _between(table[k], polytope.total(k))]
    place = np.full(polytope.K, -1, dtype=np.int64)
    place[free] = np.arange(len(free))
    if not free:
        return set()
    said = polytope.products(table)
    held = [i for i in rows if i in equations or not _between(said[i], polytope.rows[i])]
    entries = []
    for i in held:
        at = slice(int(polytope.start[i]), int(polytope.start[i + 1]))
        here = place[polytope.columns[at]]
        entries.append((here[here >= 0], polytope.entries[at][here >= 0]))
    space = RowSpace(_matrix(entries, len(free)))
    stuck = set(space.determined().tolist())
    return {k for j, k in enumerate(free) if j not in stuck}


def _between(value: Fraction, ends: tuple[Fraction | None, Fraction | None]) -> bool:
    lo, hi = ends
    return (lo is None or value > lo) and (hi is None or value < hi)


def _matrix(entries: list[tuple[np.ndarray, np.ndarray]], K: int) -> RowMatrix:
    """Rows of ones as bits, others as integers."""
    plain = [at for at, values in entries if bool((values == 1).all())]
    bits = np.zeros((len(plain), -(-K // 64) * 64), dtype=np.uint8)
    for i, at in enumerate(plain):
        bits[i, at] = 1
    packed = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    parts = [RowMatrix.from_bits(packed, K)]
    others = [(at, values) for at, values in entries if not bool((values == 1).all())]
    narrow = [pair for pair in others if pair[1].dtype != object]
    if narrow:
        parts.append(RowMatrix.from_entries(narrow, K))
    if wide := [pair for pair in others if pair[1].dtype == object]:
        parts.append(RowMatrix.from_sparse([dict(zip(*(v.tolist() for v in p), strict=True)) for p in wide], K))
    return parts[0] if len(parts) == 1 else RowMatrix.stack(parts)
