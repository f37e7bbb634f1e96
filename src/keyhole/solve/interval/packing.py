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


# --- forcing ----------------------------------------------------------------------------------------------------------
# Packing with propagation: a push takes along whatever the short rows then force.
# To reach an end inside a row of two or three columns the others must give all they have, so the packing by loads
# never tries it. Here the end is fixed, its consequences are propagated through all short rows (work list, trail),
# and the push is taken back if some column is left no value, or if a long row could no longer be made up for. Columns
# that end up with one value are pushed to it too. A heuristic, as `packing`: nothing rests on it. Cost: the short
# rows that pushes touch.


Box = tuple[Floats, Floats]

SLIP = 1e-9  # widths are about 1
MOST_MOVES = 20_000  # of ends, for one push


@njit(cache=True, nogil=True)
def _moved(box: Box, j: int, low: float, high: float, trail: tuple[Ints, Floats, Floats], at: int) -> int:
    """Narrow a column and note what it was; the new length of the trail, -1 if no value is left, -2 if it is full."""
    if low <= box[0][j] + SLIP and high >= box[1][j] - SLIP:
        return at
    if at >= len(trail[0]):
        return -2
    trail[0][at], trail[1][at], trail[2][at] = j, box[0][j], box[1][j]
    box[0][j], box[1][j] = max(low, box[0][j]), min(high, box[1][j])
    if box[0][j] > box[1][j]:
        if box[0][j] > box[1][j] + 10 * SLIP:
            box[0][j], box[1][j] = trail[1][at], trail[2][at]
            return -1
        box[0][j] = box[1][j]
    return at + 1


@njit(cache=True, nogil=True)
def _through(
    short: Sparse, ends: Box, i: int, box: Box, trail: tuple[Ints, Floats, Floats], at: int
) -> tuple[int, bool]:
    """What a row says of its columns; the length of the trail, and whether it clashed."""
    start, columns, entries = short
    plain = len(entries) == 0
    least = most = 0.0
    for e in range(start[i], start[i + 1]):
        a, j = (1.0 if plain else entries[e]), columns[e]
        least += a * (box[0][j] if a > 0 else box[1][j])
        most += a * (box[1][j] if a > 0 else box[0][j])
    if least > ends[1][i] + 10 * SLIP or most < ends[0][i] - 10 * SLIP:
        return at, True
    above, below = ends[1][i] - least, most - ends[0][i]  # what is left to give
    for e in range(start[i], start[i + 1]):
        a, j = (1.0 if plain else entries[e]), columns[e]
        low, high = box[0][j], box[1][j]
        if abs(a) * (high - low) <= min(above, below) + SLIP:
            continue
        if a > 0:
            then = _moved(box, j, high - below / a, low + above / a, trail, at)
        else:
            then = _moved(box, j, high + above / a, low - below / a, trail, at)
        if then < 0:
            return at, True
        at = then
    return at, False


@njit(cache=True, nogil=True)
def _spread(
    short: Sparse, by_column: Sparse, ends: Box, box: Box, trail: tuple[Ints, Floats, Floats], at: int, queued: Ints
) -> tuple[int, bool]:
    """Propagate from the columns on the trail until nothing moves."""
    start, rows, _ = by_column
    waiting = [0]
    waiting.pop()
    seen, clash = 0, False
    while not clash and (seen < at or len(waiting) > 0):
        while seen < at:
            j = trail[0][seen]
            for e in range(start[j], start[j + 1]):
                if queued[rows[e]] == 0:
                    queued[rows[e]] = 1
                    waiting.append(int(rows[e]))
            seen += 1
        if len(waiting) > 0:
            i = waiting.pop()
            queued[i] = 0
            at, clash = _through(short, ends, i, box, trail, at)
    for i in waiting:
        queued[i] = 0
    return at, clash


@njit(cache=True, nogil=True)
def _charged(
    long: Sparse, j: int, delta: float, room: Box, books: tuple[Floats, Floats, Floats, Floats], sign: float
) -> None:
    """Book a pushed column into the long rows (sign 1) or out of them (-1)."""
    start, rows, entries = long
    load, lower, raised, pushed = books
    for e in range(start[j], start[j + 1]):
        a, r = (1.0 if len(entries) == 0 else entries[e]), rows[e]
        load[r] += sign * a * delta
        lower[r] -= sign * abs(a) * (room[0][j] if a > 0 else room[1][j])
        raised[r] -= sign * abs(a) * (room[1][j] if a > 0 else room[0][j])
        pushed[r] += sign


@njit(cache=True, nogil=True)
def _bearable(
    long: Sparse, j: int, books: tuple[Floats, Floats, Floats, Floats], sizes: Ints, limits: tuple[float, float]
) -> bool:
    start, rows, _ = long
    load, lower, raised, pushed = books
    for e in range(start[j], start[j + 1]):
        r = rows[e]
        give = lower[r] if load[r] > 0 else raised[r]
        if abs(load[r]) > limits[0] * give + SLIP or pushed[r] > limits[1] * sizes[r]:
            return False
    return True


@njit(cache=True, nogil=True)
def forced(
    short: tuple[Sparse, Sparse],  # by rows, by columns
    ends: Box,  # of the short rows
    long: Sparse,  # by columns
    order: Ints,
    targets: Box,
    box: Box,  # overwritten
    centre: Floats,
    books: tuple[
        Floats, Floats, Floats, Floats
    ],  # load, what can be lowered and raised, how many are pushed: overwritten
    sizes: Ints,
    limits: tuple[float, float, int],  # share of the room, share of pushed columns, most pushes
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """-1, 0 or 1 for every end that is aimed at, and the columns that are left one value in `box`."""
    K = len(centre)
    side, settled = np.zeros(K, dtype=np.int8), box[1] - box[0] <= SLIP
    room = centre - box[0], box[1] - centre
    trail = np.zeros(MOST_MOVES, dtype=np.int64), np.zeros(MOST_MOVES), np.zeros(MOST_MOVES)
    queued, taken = np.zeros(len(ends[0]), dtype=np.int64), 0
    for code in order:
        k, up = code // 2, code % 2 == 1
        goal = targets[1][k] if up else targets[0][k]
        if side[k] != 0 or settled[k] or goal > box[1][k] + SLIP or goal < box[0][k] - SLIP:
            continue
        at = _moved(box, k, goal if up else -np.inf, np.inf if up else goal, trail, 0)
        at, clash = _spread(short[0], short[1], ends, box, trail, max(at, 0), queued)
        newly = [k]
        for s in range(at):
            j = trail[0][s]
            if not clash and not settled[j] and j != k and box[1][j] - box[0][j] <= SLIP:
                settled[j] = True
                newly.append(j)
        fits = not clash
        for j in newly:
            _charged(long, j, (goal if j == k else box[0][j]) - centre[j], room, books, 1.0)
        for j in newly:
            fits = fits and _bearable(long, j, books, sizes, (limits[0], limits[1]))
        if fits:
            settled[k], side[k], taken = True, 1 if up else -1, taken + 1
            if taken >= limits[2]:
                break
            continue
        for j in newly:
            _charged(long, j, (goal if j == k else box[0][j]) - centre[j], room, books, -1.0)
            settled[j] = False
        for s in range(at - 1, -1, -1):
            box[0][trail[0][s]], box[1][trail[0][s]] = trail[1][s], trail[2][s]
    return side, settled
