"""The inverse T of the history at its pivots, bordered by one more row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Move:
    """The bordering of T that a committed query makes."""

    pivot: int
    y: Ints
    rho_inverse: int
    u: Ints
    null: Ints  # (r + 1, lanes): z' of the old pivots and of the new one
    sums: Ints  # (lanes,)


def border(T: Floats, r: int, u: Ints, bottom: Ints, p: int, compiled: bool) -> None:
    """T <- [[T - u bottom[:r], -u bottom[r]], [bottom]] mod p, in place."""
    if compiled:
        from keyhole.solve.rowspace import online_kernels

        online_kernels.border(T, r, u, bottom, p)
        return
    T[:r, : r + 1] = (T[:r, : r + 1].astype(np.int64) - u[:, None] * bottom % p) % p
    T[r, : r + 1] = bottom
