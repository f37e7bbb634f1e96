"""Pivoted Cholesky: which rows of a positive semidefinite matrix are independent, the largest diagonal first.

Blocks of columns are factored one by one with diagonal pivoting, and what is left is updated by one product a block
(the algorithm of LAPACK's xPSTRF): in stripes of rows, below the diagonal only, and over the rows that are still left.
It ends where no diagonal is above its floor: the rank is a decision in floating point. The factor of the rows
chosen is kept, so that nothing is factored twice. Cost: about n^2 r - n r^2 + r^3 / 3 for rank r, nearly all of it in
matrix products. Reference: [higham1990].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

BLOCK = 128
STRIPE = 256  # rows that are updated by one product
SHRINK = 0.8  # share of the rows left at which the others are taken out

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def independent(matrix: Floats, floor: Floats, tick: Callable[[], None] = lambda: None) -> tuple[Ints, Floats]:
    """The rows chosen, in order of choice, and their factor L: L L' is the matrix over these rows.

    A row of which no more than its `floor` is left depends on those before it. Of `matrix` what is on and below the
    diagonal is read, and overwritten; `tick` is called now and then.

    >>> chosen, L = independent(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]), np.full(3, 1e-9))
    >>> chosen.tolist(), L.tolist()
    ([2, 0], [[2.0, 0.0], [0.0, 1.0]])
    """
    chosen: list[int] = []
    panels: list[tuple[Ints, Floats]] = []
    names, diagonal = np.arange(len(matrix)), np.diag(matrix).copy()
    left = np.ones(len(matrix), dtype=np.bool_)
    while left.any():
        tick()
        panel, taken = _panel(matrix, diagonal, left, floor)
        chosen += names[taken].tolist()
        panels.append((names, panel[:, : len(taken)]))
        if len(taken) < panel.shape[1]:
            break
        if left.sum() < SHRINK * len(left):
            kept = np.flatnonzero(left)
            matrix, panel = matrix[np.ix_(kept, kept)], panel[kept]
            names, diagonal, left, floor = names[kept], diagonal[kept], left[kept], floor[kept]
        _update(matrix, panel)
    return np.array(chosen, dtype=np.int64), _factor(chosen, panels)


def _panel(matrix: Floats, diagonal: Floats, left: Flags, floor: Floats) -> tuple[Floats, list[int]]:
    """The next columns of the factor, one for each pivot; fewer pivots than columns where no more are above."""
    panel = np.zeros((len(matrix), min(BLOCK, int(left.sum()))))
    taken: list[int] = []
    for c in range(panel.shape[1]):
        pivot = int(np.argmax(np.where(left & (diagonal > floor), diagonal, -np.inf)))
        if not left[pivot] or diagonal[pivot] <= floor[pivot]:
            break
        column = np.concatenate([matrix[pivot, :pivot], matrix[pivot:, pivot]])
        column -= panel[:, :c] @ panel[pivot, :c]
        column *= left
        column /= np.sqrt(diagonal[pivot])
        panel[:, c] = column
        diagonal -= column * column
        left[pivot] = False
        taken.append(pivot)
    return panel, taken


def _update(matrix: Floats, panel: Floats) -> None:
    """matrix -= panel panel', below the diagonal."""
    for first in range(0, len(matrix), STRIPE):
        last = first + STRIPE
        matrix[first:last, :last] -= panel[first:last] @ panel[:last].T


def _factor(chosen: list[int], panels: list[tuple[Ints, Floats]]) -> Floats:
    """The factor over the rows chosen, from the panels over the rows that were left."""
    found, begin = np.zeros((len(chosen), len(chosen))), 0
    place = np.full(1 + max((int(names.max(initial=0)) for names, _ in panels), default=0), -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    for names, panel in panels:
        at = place[names]
        found[at[at >= 0], begin : begin + panel.shape[1]] = panel[at >= 0]
        begin += panel.shape[1]
    return found
