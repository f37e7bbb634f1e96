"""Pivoted Cholesky: which rows of a positive semidefinite matrix are independent, the largest diagonal first.

Blocks of columns are factored one by one with diagonal pivoting, and what is left is updated by one product a block
(the algorithm of LAPACK's xPSTRF). It ends where no diagonal is above the tolerance: the rank is a decision in floating
point. Cost: n r^2 for rank r, nearly all of it in matrix products. Reference: [higham1990].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 64


def independent(matrix: NDArray[np.float64], tolerance: float) -> NDArray[np.int64]:
    """The rows chosen, in order of choice; `matrix` is symmetric and is overwritten.

    >>> independent(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]), 1e-9).tolist()
    [2, 0]
    """
    n = len(matrix)
    chosen: list[int] = []
    left = np.ones(n, dtype=np.bool_)
    diagonal = np.diag(matrix).copy()
    while len(chosen) < n:
        panel = np.zeros((n, min(BLOCK, n - len(chosen))))
        width = 0
        for c in range(panel.shape[1]):
            pivot = int(np.argmax(np.where(left, diagonal, -np.inf)))
            if diagonal[pivot] <= tolerance:
                break
            column = matrix[:, pivot] - panel[:, :c] @ panel[pivot, :c]
            column *= left
            column /= np.sqrt(diagonal[pivot])
            panel[:, c] = column
            diagonal -= column * column
            left[pivot] = False
            chosen.append(pivot)
            width += 1
        if width < panel.shape[1]:
            break
        matrix -= panel @ panel.T
    return np.array(chosen, dtype=np.int64)
