"""Compiled kernels of the online row space, for many records."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.solve.rowspace.kernels import byte_tables, spread

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def masked_sums(mask: NDArray[np.bool_], g: Ints) -> Ints:
    """The sums of the lanes of g over the records of the mask; residues below 2^31, so no overflow."""
    if g.shape[1] != 3:
        total = np.zeros(g.shape[1], dtype=np.int64)
        for k in range(mask.shape[0]):
            if mask[k]:
                for lane in range(g.shape[1]):
                    total[lane] += g[k, lane]
        return total
    a = b = c = 0
    for k in range(mask.shape[0]):
        if mask[k]:
            a += g[k, 0]
            b += g[k, 1]
            c += g[k, 2]
    return np.array([a, b, c])


@njit(cache=True, nogil=True)
def sum_rows(T: NDArray[np.float64], chosen: Ints, r: int) -> NDArray[np.float64]:
    """The sum of the chosen rows of T[:r, :r]. One thread, no BLAS: steady on a busy machine."""
    out = np.zeros(r)
    for i in chosen:
        row = T[i]
        for j in range(r):
            out[j] += row[j]
    return out


@njit(cache=True, nogil=True)
def sum_columns(T: NDArray[np.float64], chosen: NDArray[np.float64], r: int) -> NDArray[np.float64]:
    """T[:r, :r] @ chosen for a 0/1 vector, exact; four sums at a time."""
    out = np.zeros(r)
    for i in range(r):
        row = T[i]
        a = b = c = d = 0.0
        j = 0
        while j + 4 <= r:
            a += row[j] * chosen[j]
            b += row[j + 1] * chosen[j + 1]
            c += row[j + 2] * chosen[j + 2]
            d += row[j + 3] * chosen[j + 3]
            j += 4
        while j < r:
            a += row[j] * chosen[j]
            j += 1
        out[i] = (a + b) + (c + d)
    return out


@njit(cache=True, nogil=True)
def border(T: NDArray[np.float64], r: int, u: Ints, bottom: Ints, p: int) -> None:
    """T <- [[T - u bottom[:r], -u bottom[r]], [bottom]] mod p, in place.

    The quotient of a product below 2^62 by p is guessed in float64 (off by at most one) and corrected.
    """
    inv = 1.0 / p
    for i in range(r):
        a = u[i]
        if a == 0:
            continue
        row = T[i]
        for j in range(r + 1):
            prod = a * bottom[j]
            x = int(row[j]) - (prod - int(float(prod) * inv) * p)
            if x < 0:
                x += p
            if x < 0:
                x += p
            if x >= p:
                x -= p
            row[j] = float(x)
    for j in range(r + 1):
        T[r, j] = float(bottom[j])


@njit(cache=True, nogil=True)
def _add_block(lo: int, hi: int, block: Words, tables: Ints, out: Ints) -> None:
    byte = np.uint64(255)
    for k in range(lo, hi):
        x = block[k]
        b = 0
        total = 0
        while x != 0:
            total += tables[b, x & byte]
            x >>= np.uint64(8)
            b += 1
        out[k] += total


def combined_everywhere(blocks: list[Words], y: Ints, n: int) -> Ints:
    """y A for all records, over the integers: residues below 2^31, at most 2^32 of them."""
    out = np.zeros(n, dtype=np.int64)
    tables = [byte_tables(y[64 * w : 64 * w + 64]) for w in range(len(blocks))]

    def some_records(lo: int, hi: int) -> None:
        for block, table in zip(blocks, tables, strict=True):
            _add_block(lo, hi, block, table, out)

    spread(some_records, n, 8192)
    return out
