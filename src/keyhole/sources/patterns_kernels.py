"""Compiled kernels that group records exactly. Imported only for tables that are large.

A hash only says where to look: two records share a class after all their bits were compared.
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
Rows = NDArray[np.int32]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    cores = max(1, min(8, cores))
    return ThreadPoolExecutor(cores, thread_name_prefix="keyhole-patterns"), cores


def spread(kernel: Callable[..., Any], count: int, grain: int, *args: Any) -> None:
    """kernel(lo, hi, *args) over 0..count on all cores, in ranges that are multiples of `grain`."""
    pool, cores = _pool()
    step = -(-count // (4 * cores * grain)) * grain if count else grain
    for job in [pool.submit(kernel, lo, min(count, lo + step), *args) for lo in range(0, count, step)]:
        job.result()


@njit(cache=True, nogil=True)
def hash_rows(lo: int, hi: int, rows: Words, out: Words) -> None:
    """A hash of each row of words."""
    for r in range(lo, hi):
        h = np.uint64(0)
        for w in range(rows.shape[1]):
            h = (h ^ rows[r, w]) * _MIX
            h ^= h >> _HALF
        out[r] = h


@njit(cache=True, nogil=True)
def _grown(table: Rows, hashes: Words, first: Ints, count: int) -> Rows:
    """The table of twice the size with the classes 0..count in it."""
    out = np.full(2 * table.shape[0], -1, dtype=np.int32)
    mask = np.uint64(out.shape[0] - 1)
    for k in range(count):
        at = hashes[first[k]] & mask
        while out[at] >= 0:
            at = (at + np.uint64(1)) & mask
        out[at] = k
    return out


@njit(cache=True, nogil=True)
def classes_of_rows(rows: Words, hashes: Words, of: Rows, first: Ints) -> int:
    """Number the distinct rows by first appearance; returns how many. `first` has room for all."""
    n, width = rows.shape
    table = np.full(1024, -1, dtype=np.int32)
    mask = np.uint64(table.shape[0] - 1)
    count = 0
    for r in range(n):
        at = hashes[r] & mask
        while True:
            k = table[at]
            if k < 0:
                break
            other = first[k]
            same = True
            for w in range(width):
                if rows[r, w] != rows[other, w]:
                    same = False
                    break
            if same:
                break
            at = (at + np.uint64(1)) & mask
        if k < 0:
            k = count
            first[k] = r
            table[at] = k
            count += 1
            if 2 * count > table.shape[0]:
                table = _grown(table, hashes, first, count)
                mask = np.uint64(table.shape[0] - 1)
        of[r] = k
    return count


@njit(cache=True, nogil=True)
def decode(lo: int, hi: int, keys: Words, fields: Ints, starts: Ints, out: Rows) -> None:
    """out[r, j] = row of table j that the keys of row r point to.

    A line (j, word, shift, mask, stride) of `fields` adds stride * ((keys[r, word] >> shift) & mask) to entry j.
    """
    for r in range(lo, hi):
        for j in range(out.shape[1]):
            out[r, j] = starts[j]
        for f in range(fields.shape[0]):
            code = (keys[r, fields[f, 1]] >> np.uint64(fields[f, 2])) & np.uint64(fields[f, 3])
            out[r, fields[f, 0]] += fields[f, 4] * np.int64(code)


@njit(cache=True, nogil=True)
def hash_patterns(lo: int, hi: int, at: Rows, tables: Words, extra: Words, multipliers: Words, out: Words) -> None:
    """A hash of each pattern (the AND of its table rows) and its extra words."""
    words = tables.shape[1]
    buffer = np.empty(words, dtype=np.uint64)
    for r in range(lo, hi):
        h = np.uint64(0)
        for w in range(extra.shape[1]):
            h = (h ^ extra[r, w]) * _MIX
            h ^= h >> _HALF
        row = tables[at[r, 0]]
        for w in range(words):
            buffer[w] = row[w]
        for j in range(1, at.shape[1]):
            row = tables[at[r, j]]
            for w in range(words):
                buffer[w] &= row[w]
        for w in range(words):
            h += (buffer[w] ^ (buffer[w] >> _HALF)) * multipliers[w]
        h = (h ^ (h >> _HALF)) * _MIX
        out[r] = h ^ (h >> _HALF)


@njit(cache=True, nogil=True)
def _same_pattern(r: int, s: int, at: Rows, tables: Words, extra: Words) -> bool:
    for w in range(extra.shape[1]):
        if extra[r, w] != extra[s, w]:
            return False
    parts = at.shape[1]
    for w in range(tables.shape[1]):
        left = tables[at[r, 0], w]
        right = tables[at[s, 0], w]
        for j in range(1, parts):
            left &= tables[at[r, j], w]
            right &= tables[at[s, j], w]
        if left != right:
            return False
    return True


@njit(cache=True, nogil=True)
def classes_of_patterns(at: Rows, tables: Words, extra: Words, hashes: Words, of: Rows, first: Ints) -> int:
    """Number the distinct patterns by first appearance; returns how many. Every match is confirmed bit by bit."""
    table = np.full(1024, -1, dtype=np.int32)
    mask = np.uint64(table.shape[0] - 1)
    count = 0
    for r in range(at.shape[0]):
        h = hashes[r]
        slot = h & mask
        while True:
            k = table[slot]
            if k < 0 or (hashes[first[k]] == h and _same_pattern(r, first[k], at, tables, extra)):
                break
            slot = (slot + np.uint64(1)) & mask
        if k < 0:
            k = count
            first[k] = r
            table[slot] = k
            count += 1
            if 2 * count > table.shape[0]:
                table = _grown(table, hashes, first, count)
                mask = np.uint64(table.shape[0] - 1)
        of[r] = k
    return count


@njit(cache=True, nogil=True)
def _transpose(block: Words) -> None:
    """64 x 64 bits in place, bit i of word j to bit j of word i (Hacker's Delight, 7-3)."""
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


@njit(cache=True, nogil=True)
def write_bits(lo: int, hi: int, chosen: Ints, at: Rows, tables: Words, out: Words) -> None:
    """out[t] = bit t of the patterns `chosen`, 64 of them a word, for the words lo..hi."""
    block = np.empty(64, dtype=np.uint64)
    count = chosen.shape[0]
    for b in range(lo, hi):
        filled = min(64, count - 64 * b)
        for w in range(tables.shape[1]):
            for i in range(filled):
                r = chosen[64 * b + i]
                word = tables[at[r, 0], w]
                for j in range(1, at.shape[1]):
                    word &= tables[at[r, j], w]
                block[i] = word
            for i in range(filled, 64):
                block[i] = np.uint64(0)
            _transpose(block)
            for i in range(min(64, out.shape[0] - 64 * w)):
                out[64 * w + i, b] = block[i]


@njit(cache=True, nogil=True)
def transpose_bits(lo: int, hi: int, bits: Words, out: Words) -> None:
    """out[k, p // 64] bit p % 64 = bits[p, k // 64] bit k % 64, for the words lo..hi of a row of bits."""
    block = np.empty(64, dtype=np.uint64)
    for b in range(lo, hi):
        for w in range(out.shape[1]):
            for i in range(64):
                block[i] = bits[64 * w + i, b] if 64 * w + i < bits.shape[0] else np.uint64(0)
            _transpose(block)
            for i in range(min(64, out.shape[0] - 64 * b)):
                out[64 * b + i, w] = block[i]
