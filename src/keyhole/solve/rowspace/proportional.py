"""Two records of which one gives the other away: columns whose null vectors are proportional modulo p."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace.residues import Ints, parallel, ratios


class Proportional:
    """Vectors supported on two columns, found as equal points (z1 : z2 : ...) mod p.

    alpha e_i + beta e_k is in the row space iff alpha z_i + beta z_k = 0 for all null vectors z. Off the pivots z is
    the shadow g itself, so those ratios are sorted once. Equal by chance: at most p^-2 < 2^-61 a pair. Only columns
    `among` count (None: all).

    >>> g = np.array([[1, 2, 3], [4, 4, 1], [5, 1, 2]])
    >>> sorted(Proportional(g, 7).pairs(np.array([[2, 4, 6]]), np.array([2])))
    [(0, 2), (2, 0)]
    """

    def __init__(self, g: Ints, p: int, among: NDArray[np.bool_] | None = None) -> None:
        self._g, self._p, self._among = g, p, among
        keys = ratios(g, p)
        order = np.argsort(keys, kind="stable")
        if among is not None:
            order = order[among[order]]
        self._sorted, self._order = keys[order], order

    def pairs(self, null: Ints, pivots: Ints) -> set[tuple[int, int]]:
        """Both orders of each pair; `null` has the null vectors of the pivots. A zero vector is in no pair."""
        counts = null.any(axis=1) if self._among is None else null.any(axis=1) & self._among[pivots]
        live = np.flatnonzero(counts)
        keys = ratios(null[live], self._p)
        is_pivot = np.zeros(len(self._g), dtype=bool)
        is_pivot[pivots] = True
        out: set[tuple[int, int]] = set()
        lo, hi = np.searchsorted(self._sorted, keys, "left"), np.searchsorted(self._sorted, keys, "right")
        for e in np.flatnonzero(hi > lo).tolist():
            for k in self._order[lo[e] : hi[e]].tolist():
                if not is_pivot[k] and parallel(null[live[e]], self._g[k], self._p):
                    i = int(pivots[live[e]])
                    out |= {(i, k), (k, i)}
        for run in _runs(keys):  # pivots with one ratio
            for a in run:
                for b in run:
                    if a != b and parallel(null[live[a]], null[live[b]], self._p):
                        out.add((int(pivots[live[a]]), int(pivots[live[b]])))
        return out


def _runs(keys: Ints) -> list[list[int]]:
    """The places of equal keys, where there is more than one."""
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(keys[order][1:] != keys[order][:-1]) + 1
    return [run.tolist() for run in np.split(order, cuts) if len(run) > 1]
