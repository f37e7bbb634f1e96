"""Bit-packed 0/1 rows: one bit per record, 64 records to a word, and the compiled passes over them.

A log of m subset questions about n records is an m x n matrix of bits. Packed it takes m*n/8 bytes, so a log of
4,000 questions about a million people is half a gigabyte, and the passes below run at the speed of memory.

Row j is `words[j]`, a vector of ceil(n/64) unsigned 64-bit words; record i is bit i % 64 of word i // 64; the bits
past n are 0. Vectors that the kernels read or write are padded to a whole number of words (`padded`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

# Sums may be reassociated (that is what makes them vector code); no value here is ever NaN or infinite.
_FAST = {"reassoc", "contract", "nsz"}
_ONE = np.uint64(1)


def words_for(n: int) -> int:
    """How many 64-bit words hold n bits.

    >>> words_for(0), words_for(64), words_for(65)
    (0, 1, 2)
    """
    return (n + 63) // 64


def pack(rows: NDArray[Any]) -> Words:
    """Pack an (m, n) array of 0/1 into (m, ceil(n/64)) words. O(mn).

    >>> pack(np.array([[1, 0, 1]])).tolist()
    [[5]]
    """
    rows = np.atleast_2d(np.asarray(rows))
    m, n = rows.shape
    data = np.zeros((m, 8 * words_for(n)), dtype=np.uint8)
    data[:, : (n + 7) // 8] = np.packbits(rows.astype(bool), axis=1, bitorder="little")
    return data.view(np.uint64)


def unpack(words: Words, n: int) -> NDArray[np.bool_]:
    """The inverse of `pack` for n records.

    >>> unpack(pack(np.array([[1, 0, 1]])), 3).astype(int).tolist()
    [[1, 0, 1]]
    """
    words = np.ascontiguousarray(words)
    return np.unpackbits(words.view(np.uint8), axis=1, count=n, bitorder="little").astype(bool)


@njit(cache=True, nogil=True)
def gathered(words: Words, of: NDArray[np.int32], width: int) -> Words:
    """Bit `of[i]` of every row, for all i: the rows over records from those over their groups."""
    out = np.zeros((words.shape[0], width), dtype=np.uint64)
    for j in range(words.shape[0]):
        for i in range(len(of)):
            k = np.uint64(of[i])
            out[j, i >> 6] |= ((words[j, k >> np.uint64(6)] >> (k & np.uint64(63))) & _ONE) << np.uint64(i & 63)
    return out


def padded(x: NDArray[Any]) -> Floats:
    """A float copy of x with zeros up to a whole number of words, as the kernels want it.

    >>> padded(np.ones(3)).shape
    (64,)
    """
    x = np.asarray(x)
    out = np.zeros(64 * words_for(len(x)), dtype=np.float64)
    out[: len(x)] = x
    return out


@njit(cache=True, fastmath=_FAST, nogil=True)
def dot(row: Words, x: Floats) -> float:
    """Sum of x over the set bits of one row: one pass over x."""
    total = 0.0
    for i in range(row.shape[0]):
        word = row[i]
        for k in range(64):
            total += x[64 * i + k] if (word >> np.uint64(k)) & _ONE else 0.0
    return total


@njit(cache=True, fastmath=_FAST, nogil=True)
def axpy(row: Words, c: float, x: Floats) -> None:
    """x += c over the set bits of one row, in place."""
    for i in range(row.shape[0]):
        word = row[i]
        for k in range(64):
            x[64 * i + k] += c if (word >> np.uint64(k)) & _ONE else 0.0


@njit(cache=True, fastmath=_FAST, nogil=True)
def matvec(words: Words, x: Floats) -> Floats:
    """A x: one entry per row. Tiled so that a slice of x stays in cache for all rows."""
    m, w = words.shape
    out = np.zeros(m)
    for j in range(m):
        total = 0.0
        for i in range(w):
            word = words[j, i]
            if word:
                for k in range(64):
                    total += x[64 * i + k] if (word >> np.uint64(k)) & _ONE else 0.0
        out[j] = total
    return out


@njit(cache=True, fastmath=_FAST, nogil=True)
def rmatvec(words: Words, r: Floats) -> Floats:
    """A^T r over padded records: each thread owns whole words of the output, so no two ever write the same entry."""
    m, w = words.shape
    out = np.zeros(64 * w)
    tile = 16
    for block in range((w + tile - 1) // tile):
        for j in range(m):
            c = r[j]
            for i in range(block * tile, min(w, block * tile + tile)):
                word = words[j, i]
                if word:
                    for k in range(64):
                        out[64 * i + k] += c if (word >> np.uint64(k)) & _ONE else 0.0
    return out


@njit(cache=True)
def popcount(word: np.uint64) -> np.uint64:
    """Set bits of a word (LLVM recognises the pattern and emits the vector instruction where there is one)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True, nogil=True)
def overlaps(words: Words) -> NDArray[np.int64]:
    """A A^T in exact integers: entry (i, j) is how many records rows i and j share. O(m^2 n / 64) word operations."""
    m, w = words.shape
    out = np.zeros((m, m), dtype=np.int64)
    for i in range(m):
        for j in range(i + 1):
            total = np.uint64(0)
            for k in range(w):
                total += popcount(words[i, k] & words[j, k])
            out[i, j] = np.int64(total)
            out[j, i] = np.int64(total)
    return out


def transpose(words: Words, n: int) -> Words:
    """The n x m matrix of the same bits: columns packed over rows.

    >>> unpack(transpose(pack(np.array([[1, 0, 1], [0, 0, 1]])), 3), 2).astype(int).tolist()
    [[1, 0], [0, 0], [1, 1]]
    """
    m = words.shape[0]
    out = np.zeros((n, words_for(m)), dtype=np.uint64)
    for start in range(0, n, 4096):  # a slice of columns at a time: never the whole matrix unpacked
        first, last = start // 64, words_for(min(n, start + 4096))
        bits = unpack(words[:, first:last], min(n - start, 4096))
        out[start : start + bits.shape[1]] = pack(np.ascontiguousarray(bits.T))
    return out
