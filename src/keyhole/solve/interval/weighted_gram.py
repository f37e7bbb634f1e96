"""A W A' of a sparse matrix: columns of ones that share a weight are counted as bits, the others are multiplied out.

Two rows of bits have popcount(a & b) columns in common, and a column of c entries costs c^2 / 2 additions; for every
weight the cheaper way is taken. Cost: at most that of multiplying out. Exact up to the last sum of floats.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.decode.bitrows import overlaps, words_for
from keyhole.solve.interval.projection_kernels import Floats, Sparse, as_bits, gram

WORDS_AN_ADDITION = 4  # of two rows that are compared while one number is added
MOST_ROWS = 4_000  # of a matrix whose rows are compared in pairs: 8 bytes a pair
MOST_WEIGHTS = 8  # that are treated apart


def weighted_gram(by_row: Sparse, by_column: Sparse, weight: Floats) -> Floats:
    """A W A', symmetric.

    >>> rows = np.array([0, 2, 4]), np.array([0, 1, 1, 2]), np.zeros(0)
    >>> columns = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1]), np.zeros(0)
    >>> weighted_gram(rows, columns, np.array([1.0, 2.0, 3.0])).tolist()
    [[3.0, 2.0], [2.0, 5.0]]
    """
    m = len(by_row[0]) - 1
    found, left = np.zeros((m, m)), weight.copy()
    for value, columns in _shared(by_column, weight, m):
        place = np.full(len(weight), -1, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        found += value * overlaps(as_bits(by_row, place, words_for(len(columns))))
        left[columns] = 0.0
    if left.any():
        rest = np.zeros((m, m))
        gram(by_column, left, rest)
        found += rest + np.tril(rest, -1).T
    return found


def _shared(by_column: Sparse, weight: Floats, m: int) -> list[tuple[float, NDArray[np.int64]]]:
    """The weights of so many long columns that bits are cheaper, each with its columns."""
    start, _, entries = by_column
    if len(entries) or not 0 < m <= MOST_ROWS:
        return []
    values, of, sizes = np.unique(weight, return_inverse=True, return_counts=True)
    additions = np.bincount(of, weights=np.diff(start).astype(np.float64) ** 2, minlength=len(values))
    gain = additions - float(m) ** 2 * -(-sizes // 64) / WORDS_AN_ADDITION
    best = np.argsort(-gain, kind="stable")[:MOST_WEIGHTS]
    return [(float(values[v]), np.flatnonzero(of == v)) for v in best.tolist() if gain[v] > 0]
