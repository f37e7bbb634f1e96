"""Compiled passes over a histogram: the inner loops of counting and of multiplicative weights.

Each is one pass through memory. Sums of doubles are associated freely (`fastmath`), which moves the last digits of a
public number only; sums of counts are exact 64-bit integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Weights = NDArray[Any]

FLOOR = 1e-290  # keeps a cell that was often scaled down from sticking at zero; far below any mass that counts


@njit(cache=True, nogil=True)
def dot_counts(counts: Counts, weights: Weights) -> int:  # pragma: no cover - compiled
    """sum(weights * counts) in exact 64-bit integers."""
    total = np.int64(0)
    for i in range(counts.size):
        total += np.int64(weights[i]) * counts[i]
    return total  # type: ignore[return-value]


@njit(cache=True, nogil=True, fastmath=True)
def dot_floats(cells: Floats, weights: Weights) -> float:  # pragma: no cover - compiled
    """sum(weights * cells) in doubles."""
    total = 0.0
    for i in range(cells.size):
        total += weights[i] * cells[i]
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "arcp", "contract"})
def scale_by_table(cells: Floats, weights: Weights, table: Floats) -> float:  # pragma: no cover - compiled
    """cells *= table[weights], in place, floored; returns the new total."""
    total = 0.0
    for i in range(cells.size):
        scaled = max(cells[i] * table[weights[i]], 1e-290)
        cells[i] = scaled
        total += scaled
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "arcp", "contract"})
def scale_by_bit(cells: Floats, bits: Weights, factor: float) -> float:  # pragma: no cover - compiled
    """cells *= factor where bits is one, in place, floored; returns the new total."""
    total = 0.0
    step = factor - 1.0
    for i in range(cells.size):
        scaled = max(cells[i] + cells[i] * (step * bits[i]), 1e-290)
        cells[i] = scaled
        total += scaled
    return total
