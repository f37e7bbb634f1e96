"""Compiled passes over the non-zeros of a sparse matrix by columns. Imported only when a part is large.

Column j has `entries[start[j]:start[j+1]]` in `rows[...]`, ascending; no `entries` at all means that all are one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sparse = tuple[NDArray[np.int64], NDArray[Any], Floats]  # start, rows or columns, entries

_FAST = {"reassoc", "contract"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def gram(matrix: Sparse, weight: Floats, out: Floats) -> None:
    """The lower triangle of A W A', added to `out`."""
    start, rows, entries = matrix
    plain = len(entries) == 0
    for j in range(len(start) - 1):
        w = weight[j]
        if w == 0.0:
            continue
        for a in range(start[j], start[j + 1]):
            line = out[rows[a]]
            share = w if plain else w * entries[a]
            if plain:
                for b in range(start[j], a + 1):
                    line[rows[b]] += share
            else:
                for b in range(start[j], a + 1):
                    line[rows[b]] += share * entries[b]


@njit(cache=True, nogil=True)
def as_bits(matrix: Sparse, place: NDArray[np.int64], words: int) -> NDArray[np.uint64]:
    """The rows of a matrix by rows as bits: where they have the columns whose `place` is not negative."""
    start, columns, _ = matrix
    out = np.zeros((len(start) - 1, words), dtype=np.uint64)
    for i in range(len(start) - 1):
        for e in range(start[i], start[i + 1]):
            at = place[columns[e]]
            if at >= 0:
                out[i, at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    return out


@njit(cache=True, nogil=True, fastmath=_FAST)
def product(matrix: Sparse, weight: Floats, p: Floats, out: Floats) -> None:
    """out = A W A' p in one pass; columns of weight 0 are skipped."""
    start, rows, entries = matrix
    plain = len(entries) == 0
    out[:] = 0.0
    for j in range(len(start) - 1):
        w = weight[j]
        if w == 0.0:
            continue
        s = 0.0
        if plain:
            for e in range(start[j], start[j + 1]):
                s += p[rows[e]]
            s *= w
            for e in range(start[j], start[j + 1]):
                out[rows[e]] += s
        else:
            for e in range(start[j], start[j + 1]):
                s += p[rows[e]] * entries[e]
            s *= w
            for e in range(start[j], start[j + 1]):
                out[rows[e]] += s * entries[e]


@njit(cache=True, nogil=True, fastmath=_FAST)
def gathered(matrix: Sparse, y: Floats) -> Floats:
    """A'y of a matrix by columns; A x of one by rows."""
    start, rows, entries = matrix
    plain = len(entries) == 0
    out = np.zeros(len(start) - 1)
    for j in range(len(start) - 1):
        s = 0.0
        if plain:
            for e in range(start[j], start[j + 1]):
                s += y[rows[e]]
        else:
            for e in range(start[j], start[j + 1]):
                s += y[rows[e]] * entries[e]
        out[j] = s
    return out


@njit(cache=True, nogil=True)
def clipped(
    matrix: Sparse, z: Floats, weight: Floats, moved: Floats, low: Floats, high: Floats, rows_of: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """x = clip(z + W moved, low, high): x, the weights of columns strictly inside, A x and the diagonal of A W F A'."""
    start, rows, entries = matrix
    plain = len(entries) == 0
    K = len(start) - 1
    x, free, said, diagonal = np.empty(K), np.zeros(K), np.zeros(rows_of), np.zeros(rows_of)
    for j in range(K):
        v = z[j] + weight[j] * moved[j]
        inside = low[j] < v < high[j]
        v = min(max(v, low[j]), high[j])
        x[j] = v
        f = weight[j] if inside else 0.0
        free[j] = f
        for e in range(start[j], start[j + 1]):
            a = 1.0 if plain else entries[e]
            said[rows[e]] += a * v
            diagonal[rows[e]] += a * a * f
    return x, free, said, diagonal


@njit(cache=True, nogil=True)
def along(z: Floats, weight: Floats, moved: Floats, step: Floats, low: Floats, high: Floats, t: float) -> float:
    """step . clip(z + W (moved + t step), low, high)."""
    total = 0.0
    for j in range(len(z)):
        v = z[j] + weight[j] * (moved[j] + t * step[j])
        total += step[j] * min(max(v, low[j]), high[j])
    return total


@njit(cache=True, nogil=True)
def transposed(matrix: Sparse, K: int, out: NDArray[Any]) -> Sparse:
    """The same matrix by the other direction; `out` takes its numbers, in the type that is wanted."""
    start, columns, entries = matrix
    begin, made = np.zeros(K + 1, dtype=np.int64), np.empty(len(entries))
    for k in columns:
        begin[k + 1] += 1
    for k in range(K):
        begin[k + 1] += begin[k]
    place = begin[:-1].copy()
    for i in range(len(start) - 1):
        for e in range(start[i], start[i + 1]):
            k = columns[e]
            out[place[k]] = i
            if len(entries):
                made[place[k]] = entries[e]
            place[k] += 1
    return begin, out, made


# --- connected --------------------------------------------------------------------------------------------------------
# Connected components of rows and columns: union-find over the entries. Compiled, imported only when they are many.
# Every row joins its columns to its first one; a column points to one with a smaller or equal number, and looking up
# halves the way. Cost: nearly one step an entry. Reference: [tarjan1984].


Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _root(parent: Ints, k: int) -> int:
    while parent[k] != k:
        parent[k] = parent[parent[k]]
        k = parent[k]
    return k


@njit(cache=True, nogil=True)
def connected(start: Ints, columns: Ints, K: int) -> Ints:
    """For each column the least column that rows connect it to.

    >>> connected(np.array([0, 2, 4, 5]), np.array([3, 1, 1, 4, 2]), 5).tolist()
    [0, 1, 2, 1, 1]
    """
    parent = np.arange(K)
    for i in range(len(start) - 1):
        if start[i] == start[i + 1]:
            continue
        a = _root(parent, columns[start[i]])
        for e in range(start[i] + 1, start[i + 1]):
            b = columns[e]
            if parent[b] == a:
                continue
            b = _root(parent, b)
            if b < a:
                parent[a] = b
                a = b
            elif a < b:
                parent[b] = a
    for k in range(K):
        parent[k] = _root(parent, k)
    return parent
