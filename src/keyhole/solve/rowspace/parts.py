"""Components of the graph of queries and columns: systems that share no unknown are solved apart."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace.matrix import RowMatrix

Ints = NDArray[np.int64]

_BUNDLE = 64  # rows


class Component:
    """A sub-matrix with the names its rows and columns have in the whole."""

    def __init__(self, matrix: RowMatrix, rows: Ints, columns: Ints) -> None:
        self.matrix, self.rows, self.columns = matrix, rows, columns

    def place(self, column: int) -> int:
        """Position of a column of the whole in this part, or -1."""
        at = int(np.searchsorted(self.columns, column))
        return at if at < len(self.columns) and self.columns[at] == column else -1

    def localise(self, target: Mapping[int, int]) -> dict[int, int]:
        """The part of a functional that lies in this part's columns."""
        return {self.place(k): v for k, v in target.items() if self.place(k) >= 0}

    def over_rows(self, weights: Mapping[int, Fraction]) -> dict[int, Fraction]:
        """Weights over this part's rows as weights over the rows of the whole."""
        return {int(self.rows[i]): w for i, w in weights.items()}


def split(matrix: RowMatrix, rows: Ints, known: Ints) -> list[Component]:
    """The components of `matrix` restricted to `rows` and without the columns `known`.

    A small matrix is left in one piece: its dense factorisation costs less than looking. Columns in no query belong
    to no component. Cost O(non-zeros) at worst; a matrix in one piece is noticed in one pass over its words.
    """
    if matrix.is_small:
        if not len(rows):
            return []
        return [Component(matrix.restricted(rows, known), rows, np.arange(matrix.K))]
    if not len(rows):
        return []
    open_matrix = matrix.restricted(rows, known)
    labels = _labels(open_matrix)
    names, sizes = np.unique(labels, return_counts=True)
    if len(names) == 1 and len(known) * 2 < matrix.K:
        return [Component(open_matrix, rows, np.arange(matrix.K))]
    order = np.argsort(labels, kind="stable")
    out: list[Component] = []
    ends = np.cumsum(sizes)
    # tiny components are bundled, block-diagonal, to spare the fixed cost of a factorisation each
    cuts = [
        int(e) for e, last in zip(ends, np.append(-_BUNDLE, ends[:-1]) // _BUNDLE, strict=True) if e // _BUNDLE > last
    ]
    for members in np.split(order, cuts):
        if not len(members):
            continue
        piece, columns = open_matrix.restricted(members, known[:0]).squeeze()
        out.append(Component(piece, rows[members], columns))
    return out


def _labels(matrix: RowMatrix) -> Ints:
    """A component label for each row."""
    from keyhole.solve.rowspace import peel_kernels as kernels

    support = matrix.support_bits()
    member = np.zeros(matrix.m, dtype=bool)
    sample = support[:, :: max(1, support.shape[1] // 512)]
    densest = int(np.argmax(np.bitwise_count(sample).sum(axis=1, dtype=np.int64)))
    kernels.sweep(support, densest, member)
    labels = np.full(matrix.m, matrix.m, dtype=np.int64)
    rest = np.flatnonzero(~member)
    if len(rest):
        labels[rest] = kernels.link(support, rest, matrix.K)
    return labels
