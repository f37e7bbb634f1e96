"""The inverse of L L' from its triangular factor, in single precision: a preconditioner, so a few digits are enough.

L is inverted in halves: of [A 0; B C] the inverse is [A^-1 0; -C^-1 B A^-1 C^-1]. The product L^-T L^-1 is made in
stripes that leave out the zeros. Cost: about r^3, in matrix products. Reference: [higham2002].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

LEAF = 64  # rows that are inverted as they are
STRIPE = 256


def inverted(
    factor: NDArray[np.float64], scale: NDArray[np.float64], tick: Callable[[], None] = lambda: None
) -> NDArray[np.float32]:
    """S (L L')^-1 S for the diagonal S; `factor` is overwritten, `tick` is called now and then.

    >>> inverted(np.array([[2.0, 0.0], [1.0, 1.0]]), np.ones(2)).tolist()
    [[0.5, -0.5], [-0.5, 1.0]]
    """
    _halved(factor, tick)
    factor *= scale
    low = factor.astype(np.float32)
    n = len(low)
    found = np.empty((n, n), dtype=np.float32)
    for first in range(0, n, STRIPE):
        last = min(first + STRIPE, n)
        found[first:last, :last] = low[first:, first:last].T @ low[first:, :last]
        found[:first, first:last] = found[first:last, :first].T
    return found


def _halved(factor: NDArray[np.float64], tick: Callable[[], None]) -> None:
    """A lower triangular matrix, replaced by its inverse."""
    n = len(factor)
    if n <= LEAF:
        factor[:] = np.tril(np.linalg.inv(factor)) if n else factor
        return
    half = n // 2
    _halved(factor[:half, :half], tick)
    _halved(factor[half:, half:], tick)
    tick()
    factor[half:, :half] = -factor[half:, half:] @ (factor[half:, :half] @ factor[:half, :half])
