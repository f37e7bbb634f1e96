"""Which ends a single table may reach at once: pushes are packed as long as every row can still be made up for.

Columns are taken in a given order; each wants to go from the centre to a target. A push is taken if in every row of the
basis the load (what all pushes together change) stays below a share of what the columns that are not pushed can give
in return, and, in rows of eight columns or more, if not too many of them are pushed. A heuristic: what comes of it is
for the projection to find and for the row check to accept. Cost: one pass over the non-zeros of the columns tried.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.solve.interval.projection_kernels import Floats, Sparse

Bytes = NDArray[np.int8]
Ints = NDArray[np.int64]

LONG = 8  # columns of a row from which on the share of pushed ones counts


@njit(cache=True, nogil=True)
def room_of(by_column: Sparse, down: Floats, up: Floats, rows: int) -> tuple[Floats, Floats, Ints]:
    """By how much all columns together can lower and raise each row, and how many they are."""
    start, at, entries = by_column
    lower, raised, sizes = np.zeros(rows), np.zeros(rows), np.zeros(rows, dtype=np.int64)
    for j in range(len(start) - 1):
        for e in range(start[j], start[j + 1]):
            a = 1.0 if len(entries) == 0 else entries[e]
            lower[at[e]] += a * down[j] if a > 0 else -a * up[j]
            raised[at[e]] += a * up[j] if a > 0 else -a * down[j]
            sizes[at[e]] += 1
    return lower, raised, sizes


@njit(cache=True, nogil=True)
def packed(
    by_column: Sparse,
    order: Ints,  # ends to try: 2 k for the lower, 2 k + 1 for the upper end of column k
    shift: tuple[Floats, Floats],  # from the centre to the lower and to the upper target
    room: tuple[Floats, Floats],  # from the centre down and up to the bounds
    lower: Floats,
    raised: Floats,
    sizes: Ints,
    limits: tuple[float, float, int],  # share of the room, share of pushed columns, most pushes
) -> Bytes:
    """-1, 0 or 1 for every column; `lower`, `raised` are overwritten."""
    start, at, entries = by_column
    cap, share, most = limits
    side = np.zeros(len(start) - 1, dtype=np.int8)
    load, pushed, taken = np.zeros(len(lower)), np.zeros(len(lower), dtype=np.int64), 0
    for code in order:
        k = code // 2
        if side[k] != 0:
            continue
        delta = shift[1][k] if code % 2 else shift[0][k]
        fits = True
        for e in range(start[k], start[k + 1]):
            a, r = (1.0 if len(entries) == 0 else entries[e]), at[e]
            falls, rises = (room[0][k], room[1][k]) if a > 0 else (room[1][k], room[0][k])
            then = load[r] + a * delta
            give = lower[r] - abs(a) * falls if then > 0 else raised[r] - abs(a) * rises
            if abs(then) > cap * give or (sizes[r] >= LONG and pushed[r] + 1 > share * sizes[r]):
                fits = False
                break
        if not fits:
            continue
        for e in range(start[k], start[k + 1]):
            a, r = (1.0 if len(entries) == 0 else entries[e]), at[e]
            falls, rises = (room[0][k], room[1][k]) if a > 0 else (room[1][k], room[0][k])
            load[r] += a * delta
            lower[r] -= abs(a) * falls
            raised[r] -= abs(a) * rises
            pushed[r] += 1
        side[k] = 1 if code % 2 else -1
        taken += 1
        if taken >= most:
            break
    return side
