"""Partitions of the records: the common refinement of two, numbered by first appearance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """The classes of two partitions that meet: `of[r]` is the class of record r, `left[k]` and `right[k]` whence it is.

    `first[k]` is the first record of class k, `sizes[k]` how many it has.
    """

    of: NDArray[np.int32]
    sizes: NDArray[np.int64]
    first: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]


def refine(left: NDArray[np.int32], right: NDArray[np.int32]) -> Refinement:
    """The coarsest partition that is finer than both. O(n log n).

    >>> made = refine(np.array([0, 0, 1], dtype=np.int32), np.array([0, 1, 1], dtype=np.int32))
    >>> made.of.tolist(), made.left.tolist(), made.right.tolist()
    ([0, 1, 2], [0, 0, 1], [0, 1, 1])
    """
    pairs = left.astype(np.int64) * (int(right.max(initial=0)) + 1) + right
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    of, leaders = rank[inverse.ravel()], first[order].astype(np.int64)
    sizes = np.bincount(of, minlength=len(leaders)).astype(np.int64)
    return Refinement(of, sizes, leaders, left[leaders].astype(np.int64), right[leaders].astype(np.int64))
