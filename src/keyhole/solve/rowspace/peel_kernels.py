"""Compiled kernels of peeling and of the split into components. Imported only when a problem is large."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def _low_bit(x: np.uint64) -> int:
    n = 0
    while x & np.uint64(255) == 0:
        x >>= np.uint64(8)
        n += 8
    while x & _ONE == 0:
        x >>= _ONE
        n += 1
    return n


@njit(cache=True, nogil=True)
def forget(bits: Words, fresh: Words, shadow: Words, hashes: Words, sizes: Ints, alive: Bools) -> None:
    """Take the columns of the mask `fresh` out of the shadow sums and sizes of all rows that are alive."""
    words = np.flatnonzero(fresh)
    for i in range(bits.shape[0]):
        if not alive[i]:
            continue
        for w in words:
            x = bits[i, w] & fresh[w]
            while x != 0:
                k = w * 64 + _low_bit(x)
                hashes[i] -= shadow[k]
                sizes[i] -= 1
                x &= x - _ONE


@njit(cache=True, nogil=True)
def same_but(bits: Words, known: Words, a: int, b: int) -> int:
    """The one open column in which row a is 1 and row b is 0; -1 if they are equal, -2 if they differ otherwise."""
    column = -1
    for w in range(bits.shape[1]):
        x = (bits[a, w] ^ bits[b, w]) & ~known[w]
        if x != 0:
            if column >= 0 or x & (x - _ONE) != 0 or x & bits[a, w] == 0:
                return -2
            column = w * 64 + _low_bit(x)
    return column


@njit(cache=True, nogil=True)
def first_open(bits: Words, known: Words, a: int) -> int:
    """The first column of row a that is not known, or -1."""
    for w in range(bits.shape[1]):
        x = bits[a, w] & ~known[w]
        if x != 0:
            return w * 64 + _low_bit(x)
    return -1


@njit(cache=True, nogil=True)
def differing_pairs(
    order: Ints, sizes: Ints, hashes: Words, sieve: NDArray[np.uint8], shift: int, bits: Words, known: Words, most: int
) -> Ints:
    """(a, b, k): rows that differ in the open column k alone, k in a; at most `most` of them.

    `order` lists rows by ascending size, and only neighbouring sizes are compared. Bit v of `sieve` says whether the
    shadow of some column starts with v: nearly all pairs end after this one look. The bits decide.
    """
    out = np.empty((most, 3), dtype=np.int64)
    found = 0
    n = order.shape[0]
    low = 0
    while low < n:
        mid = low
        while mid < n and sizes[order[mid]] == sizes[order[low]]:
            mid += 1
        high = mid
        while high < n and sizes[order[high]] == sizes[order[low]] + 1:
            high += 1
        for i in range(mid, high):
            h = hashes[order[i]]
            for j in range(low, mid):
                v = (h - hashes[order[j]]) >> np.uint64(shift)
                if (sieve[v >> np.uint64(3)] >> np.uint8(v & np.uint64(7))) & np.uint8(1):
                    column = same_but(bits, known, order[i], order[j])
                    if column >= 0:
                        out[found, 0] = order[i]
                        out[found, 1] = order[j]
                        out[found, 2] = column
                        found += 1
                        if found == most:
                            return out
        low = mid
    return out[:found]


@njit(cache=True, nogil=True)
def sweep(bits: Words, seed: int, member: Bools) -> None:
    """Mark all rows connected to row `seed` through shared columns."""
    mask = bits[seed].copy()
    member[seed] = True
    changed = True
    while changed:
        changed = False
        for i in range(bits.shape[0]):
            if member[i]:
                continue
            for w in range(bits.shape[1]):
                if bits[i, w] & mask[w] != 0:
                    member[i] = True
                    changed = True
                    for v in range(bits.shape[1]):
                        mask[v] |= bits[i, v]
                    break


@njit(cache=True, nogil=True)
def _root(parent: Ints, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True, nogil=True)
def link(bits: Words, rows: Ints, K: int) -> Ints:
    """A component label for each of `rows` (union-find over the rows, through the first row seen in each column)."""
    parent = np.arange(rows.shape[0])
    first = np.full(K, -1, dtype=np.int64)
    for a in range(rows.shape[0]):
        for w in range(bits.shape[1]):
            x = bits[rows[a], w]
            while x != 0:
                k = w * 64 + _low_bit(x)
                x &= x - _ONE
                if first[k] < 0:
                    first[k] = a
                else:
                    r, s = _root(parent, a), _root(parent, first[k])
                    if r != s:
                        parent[r] = s
    for a in range(rows.shape[0]):
        parent[a] = _root(parent, a)
    return parent


@njit(cache=True, nogil=True)
def squeeze(bits: Words, rows: Ints, place: Ints, width: int) -> Words:
    """Rows `rows` with column k moved to place[k]; columns with place -1 are dropped."""
    out = np.zeros((rows.shape[0], width), dtype=np.uint64)
    for a in range(rows.shape[0]):
        for w in range(bits.shape[1]):
            x = bits[rows[a], w]
            while x != 0:
                k = place[w * 64 + _low_bit(x)]
                x &= x - _ONE
                if k >= 0:
                    out[a, k >> 6] |= _ONE << np.uint64(k & 63)
    return out
