"""Compiled kernels over bit-packed rows and columns. Imported only when a problem is large.

Every kernel works on a range of its outer loop and releases the interpreter lock; `spread` runs the ranges on all
cores. (Threads of our own rather than numba's: its spinning workers fight those of the BLAS.)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

_ONE = np.uint64(1)


def _pool() -> tuple[ThreadPoolExecutor, int]:
    return _pool_of(os.getpid())  # a forked child must not wait for its parent's threads


@cache
def _pool_of(pid: int) -> tuple[ThreadPoolExecutor, int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    cores = max(1, min(8, cores))
    return ThreadPoolExecutor(cores, thread_name_prefix="keyhole-rowspace"), cores


def spread(kernel: Callable[..., Any], count: int, grain: int, *args: Any) -> None:
    """kernel(lo, hi, *args) over 0..count in ranges that are multiples of `grain`, on all cores."""
    if not count:
        return
    pool, cores = _pool()
    pieces = min(4 * cores, max(1, count // grain))
    step = -(-count // pieces)
    step = -(-step // grain) * grain
    starts = range(0, count, step)
    if len(starts) == 1:
        kernel(0, count, *args)
        return
    for job in [pool.submit(kernel, s, min(count, s + step), *args) for s in starts]:
        job.result()


@njit(cache=True, nogil=True)
def transpose_words(lo: int, hi: int, bits: Words, K: int, out: Words) -> None:
    """out[k, i // 64] bit i % 64 = bits[i, k // 64] bit k % 64, for column words lo..hi: 64 x 64 blocks."""
    m = bits.shape[0]
    block = np.empty(64, dtype=np.uint64)
    for w in range(lo, hi):
        for s in range((m + 63) // 64):
            for i in range(64):
                block[i] = bits[s * 64 + i, w] if s * 64 + i < m else np.uint64(0)
            # Hacker's Delight 7-3, for 64 rows and the little-endian order of bits
            j = 32
            mask = np.uint64(0x00000000FFFFFFFF)
            while j:
                k = 0
                while k < 64:
                    t = ((block[k] >> np.uint64(j)) ^ block[k + j]) & mask
                    block[k + j] ^= t
                    block[k] ^= t << np.uint64(j)
                    k = (k + j + 1) & ~j
                j >>= 1
                mask ^= mask << np.uint64(j)
            for i in range(min(64, K - w * 64)):
                out[w * 64 + i, s] = block[i]


@njit(cache=True, nogil=True)
def byte_tables(weights: Ints) -> Ints:
    """(8 * words, 256) sums of weights over the set bits of a byte: table[b][v] = sum of weights[8 b + bit]."""
    count = (weights.shape[0] + 63) // 64 * 8
    out = np.zeros((count, 256), dtype=np.int64)
    for b in range(count):
        for bit in range(8):
            i = 8 * b + bit
            w = weights[i] if i < weights.shape[0] else 0
            for v in range(1 << bit):
                out[b, v + (1 << bit)] = out[b, v] + w
    return out


@njit(cache=True, nogil=True)
def left_product(lo: int, hi: int, patterns: Words, tables: Ints, out: Ints) -> None:
    """out[k] = sum of weights over the rows that hold column k, by one table look-up for eight rows."""
    words = patterns.shape[1]
    byte = np.uint64(255)
    for k in range(lo, hi):
        total = 0
        for s in range(words):
            x = patterns[k, s]
            if x == 0:
                continue
            b = 8 * s
            total += (
                tables[b, x & byte]
                + tables[b + 1, (x >> np.uint64(8)) & byte]
                + tables[b + 2, (x >> np.uint64(16)) & byte]
                + tables[b + 3, (x >> np.uint64(24)) & byte]
                + tables[b + 4, (x >> np.uint64(32)) & byte]
                + tables[b + 5, (x >> np.uint64(40)) & byte]
                + tables[b + 6, (x >> np.uint64(48)) & byte]
                + tables[b + 7, x >> np.uint64(56)]
            )
        out[k] = total


@njit(cache=True, nogil=True)
def _row_sums(lo: int, hi: int, bits: Words, G: Words, out: Words) -> None:
    m = bits.shape[0]
    tables = np.empty((64, 256, 4), dtype=np.uint64)
    byte = np.uint64(255)
    for start in range(lo, hi, 8):  # one cache line of a row, 512 columns, at a time
        stop = min(hi, start + 8)
        for b in range((stop - start) * 8):
            for lane in range(3):
                tables[b, 0, lane] = 0
            for bit in range(8):
                k = start * 64 + 8 * b + bit
                for v in range(1 << bit):
                    for lane in range(3):
                        g = G[k, lane] if k < G.shape[0] else np.uint64(0)
                        tables[b, v + (1 << bit), lane] = tables[b, v, lane] + g
        for i in range(m):
            a0 = a1 = a2 = np.uint64(0)
            for w in range(start, stop):
                x = bits[i, w]
                b = (w - start) * 8
                while x != 0:
                    v = x & byte
                    a0 += tables[b, v, 0]
                    a1 += tables[b, v, 1]
                    a2 += tables[b, v, 2]
                    x >>= np.uint64(8)
                    b += 1
            out[i, 0] += a0
            out[i, 1] += a1
            out[i, 2] += a2


def row_sums(bits: Words, G: Words) -> Words:
    """(m, 3): the sums of the three lanes of G over the columns of each row, in 64-bit wrap-around."""
    pool, cores = _pool()
    W = bits.shape[1]
    step = max(64, -(-W // cores // 8) * 8)
    starts = range(0, W, step)
    parts = [np.zeros((len(bits), 3), dtype=np.uint64) for _ in starts]
    jobs = [pool.submit(_row_sums, s, min(W, s + step), bits, G, part) for s, part in zip(starts, parts, strict=True)]
    for job in jobs:
        job.result()
    total = np.zeros((len(bits), 3), dtype=np.uint64)
    for part in parts:
        total += part
    return total


@njit(cache=True, nogil=True)
def gather(columns: Ints, patterns: Words, out: NDArray[np.float64], bit_rows: Ints) -> None:
    """out[bit_rows[b], j] = bit b of patterns[columns[j]]."""
    for j in range(columns.shape[0]):
        k = columns[j]
        for s in range(patterns.shape[1]):
            x = patterns[k, s]
            b = 64 * s
            while x != 0:
                if x & _ONE:
                    out[bit_rows[b], j] = 1.0
                x >>= _ONE
                b += 1


@njit(cache=True, nogil=True)
def _add_plane(planes: Words, first: int, carry: Words, width: int) -> None:
    """Ripple-carry: planes += carry * 2^first, bit-sliced over `width` words."""
    for level in range(first, planes.shape[0]):
        alive = np.uint64(0)
        row = planes[level]
        for s in range(width):
            t = row[s] & carry[s]
            row[s] ^= carry[s]
            carry[s] = t
            alive |= t
        if alive == 0:
            return


@njit(cache=True, nogil=True)
def combination_is(bits: Words, rows: Ints, weights: Ints, spots: Ints, values: Ints, levels: int) -> bool:
    """Whether sum_j weights[j] * bits[rows[j]] is `values` at columns `spots` and 0 elsewhere.

    Bit-sliced ripple-carry counters, 64 columns a word: positive and negative parts are counted apart in `levels`
    bit planes each (2^levels exceeds both sums, so nothing is lost) and compared. `spots` ascend.
    """
    W = bits.shape[1]
    strip = 64
    plus = np.zeros((levels, strip), dtype=np.uint64)
    minus = np.zeros((levels, strip), dtype=np.uint64)
    carry = np.zeros(strip, dtype=np.uint64)
    at = 0
    for start in range(0, W, strip):
        width = min(strip, W - start)
        plus[:] = 0
        minus[:] = 0
        for j in range(rows.shape[0]):
            w = weights[j]
            side = plus if w > 0 else minus
            w = abs(w)
            level = 0
            while w:
                if w & 1:
                    line = bits[rows[j]]
                    some = np.uint64(0)
                    for s in range(width):
                        carry[s] = line[start + s]
                        some |= carry[s]
                    if some != 0:
                        _add_plane(side, level, carry, width)
                w >>= 1
                level += 1
        while at < spots.shape[0] and spots[at] < (start + width) * 64:
            value = values[at]
            side = minus if value > 0 else plus
            value = abs(value)
            k = spots[at] - start * 64
            level = 0
            while value:
                if value & 1:
                    carry[:width] = 0
                    carry[k >> 6] = _ONE << np.uint64(k & 63)
                    _add_plane(side, level, carry, width)
                value >>= 1
                level += 1
            at += 1
        for level in range(levels):
            for s in range(width):
                if plus[level, s] != minus[level, s]:
                    return False
    return True
