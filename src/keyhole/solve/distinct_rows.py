"""The distinct rows of a table of integers, and which of them each row is: rows as numbers in a mixed radix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
MOST = 1 << 62  # a row as one number is below


def distinct_rows(rows: Integers) -> tuple[Integers, Integers]:
    """`np.unique(rows, axis=0, return_inverse=True)`, with the same order.

    A row r is the number sum_j (r_j - min_j) prod_{i>j} (max_i - min_i + 1), which orders as the rows do. Cost: one
    sort of numbers, where numpy sorts structures by comparing them field by field; that is done where the number would
    not fit into a word.

    >>> distinct, where = distinct_rows(np.array([[2, 0], [1, 5], [2, 0]]))
    >>> distinct.tolist(), where.tolist()
    ([[1, 5], [2, 0]], [1, 0, 1])
    """
    if rows.size == 0:
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        return distinct, inverse.ravel()
    low = rows.min(axis=0)
    spans = [int(hi) - int(lo) + 1 for lo, hi in zip(low, rows.max(axis=0), strict=True)]
    size, weights = 1, []
    for span in reversed(spans):
        weights.append(size)
        size *= span
    if size > MOST:
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        return distinct, inverse.ravel()
    keys = (rows - low) @ np.array(weights[::-1], dtype=np.int64)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], inverse.ravel()
