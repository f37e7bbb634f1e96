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
    """A hash of each row of words; of one word it is a bijection (odd multiples and shifts can be undone)."""
    for r in range(lo, hi):
        h = np.uint64(0)
        for w in range(rows.shape[1]):
            h = (h ^ rows[r, w]) * _MIX
            h ^= h >> _HALF
        out[r] = h


@njit(cache=True, nogil=True)
def partition(hashes: Words, bits: int, starts: Ints, order: Rows, sorted_hashes: Words) -> None:
    """Rows by the leading bits of their hash, in their old order within a bucket: one pass to count, one to move."""
    shift = np.uint64(64 - bits)
    for r in range(hashes.shape[0]):
        b = np.int64(hashes[r] >> shift) if bits else np.int64(0)
        starts[b + 1] += 1
    for k in range(1, starts.shape[0]):
        starts[k] += starts[k - 1]
    at = starts[:-1].copy()
    for r in range(hashes.shape[0]):
        b = np.int64(hashes[r] >> shift) if bits else np.int64(0)
        order[at[b]] = r
        sorted_hashes[at[b]] = hashes[r]
        at[b] += 1


@njit(cache=True, nogil=True)
def _room(count: int) -> NDArray[np.int64]:
    size = 16
    while size < 2 * count:
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@njit(cache=True, nogil=True)
def row_leaders(lo: int, hi: int, starts: Ints, order: Rows, hashes: Words, rows: Words, leader: Rows) -> None:
    """leader[r] = the first row equal to row r, for the buckets lo..hi."""
    width = rows.shape[1]
    for b in range(lo, hi):
        table = _room(starts[b + 1] - starts[b])
        mask = np.uint64(table.shape[0] - 1)
        for i in range(starts[b], starts[b + 1]):
            r = order[i]
            slot = hashes[i] & mask
            leader[r] = r
            while table[slot] >= 0:
                j = table[slot]
                if hashes[j] == hashes[i]:
                    same = True
                    # the hash of a single word can be inverted, so equal hashes are equal words
                    if width > 1:
                        for w in range(width):
                            if rows[r, w] != rows[order[j], w]:
                                same = False
                                break
                    if same:
                        leader[r] = order[j]
                        break
                slot = (slot + np.uint64(1)) & mask
            if leader[r] == r:
                table[slot] = i


@njit(cache=True, nogil=True)
def number(leader: Rows, of: Rows, first: Ints) -> int:
    """Number the leaders from 0 in their order; returns how many."""
    count = 0
    for r in range(leader.shape[0]):
        if leader[r] == r:
            of[r] = count
            first[count] = r
            count += 1
        else:
            of[r] = of[leader[r]]
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
def pattern_leaders(
    lo: int, hi: int, starts: Ints, order: Rows, hashes: Words, at: Rows, tables: Words, extra: Words, leader: Rows
) -> None:
    """leader[r] = the first pattern equal to pattern r, every match confirmed bit by bit, for the buckets lo..hi."""
    for b in range(lo, hi):
        table = _room(starts[b + 1] - starts[b])
        mask = np.uint64(table.shape[0] - 1)
        for i in range(starts[b], starts[b + 1]):
            r = order[i]
            slot = hashes[i] & mask
            leader[r] = r
            while table[slot] >= 0:
                j = table[slot]
                if hashes[j] == hashes[i] and _same_pattern(r, order[j], at, tables, extra):
                    leader[r] = order[j]
                    break
                slot = (slot + np.uint64(1)) & mask
            if leader[r] == r:
                table[slot] = i


def classes(hashes: Words, leaders: Callable[..., Any], *args: Any) -> tuple[Rows, Ints]:
    """Number classes by first appearance: the class of each row, the first row of each class.

    Equal rows have equal hashes, so they meet in one bucket; `leaders` settles each bucket, small enough for the
    cache, by comparison. A bad hash costs time, never a class.
    """
    n = len(hashes)
    bits = min(12, max(0, (n >> 12).bit_length()))
    starts = np.zeros((1 << bits) + 1, dtype=np.int64)
    order, sorted_hashes = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.uint64)
    partition(hashes, bits, starts, order, sorted_hashes)
    leader = np.empty(n, dtype=np.int32)
    spread(leaders, 1 << bits, 1, starts, order, sorted_hashes, *args, leader)
    del order, sorted_hashes
    of, first = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64)
    return of, first[: number(leader, of, first)].copy()


@njit(cache=True, nogil=True, inline="always")
def _swap(block: Words, step: int, mask: int) -> None:
    for base in range(0, 64, 2 * step):
        for i in range(base, base + step):
            t = ((block[i] >> np.uint64(step)) ^ block[i + step]) & np.uint64(mask)
            block[i + step] ^= t
            block[i] ^= t << np.uint64(step)


@njit(cache=True, nogil=True)
def _transpose(block: Words) -> None:
    """64 x 64 bits in place, bit i of word j to bit j of word i: swap ever smaller squares off the diagonal."""
    _swap(block, 32, 0x00000000FFFFFFFF)
    _swap(block, 16, 0x0000FFFF0000FFFF)
    _swap(block, 8, 0x00FF00FF00FF00FF)
    _swap(block, 4, 0x0F0F0F0F0F0F0F0F)
    _swap(block, 2, 0x3333333333333333)
    _swap(block, 1, 0x5555555555555555)


@njit(cache=True, nogil=True)
def write_bits(lo: int, hi: int, chosen: Ints, at: Rows, tables: Words, out: Words) -> None:
    """out[t] = bit t of the patterns `chosen`, 64 of them a word, for the words lo..hi.

    Eight words at a time, so that each row of `out` is touched once for every cache line of it.
    """
    words = tables.shape[1]
    rows = np.zeros((512, words), dtype=np.uint64)
    block = np.empty(64, dtype=np.uint64)
    lines = np.empty((64, 8), dtype=np.uint64)
    for start in range(lo, hi, 8):
        count = min(8, hi - start)
        filled = min(64 * count, chosen.shape[0] - 64 * start)
        for i in range(filled):
            r = chosen[64 * start + i]
            row = rows[i]
            more = tables[at[r, 0]]
            for w in range(words):
                row[w] = more[w]
            for j in range(1, at.shape[1]):
                more = tables[at[r, j]]
                for w in range(words):
                    row[w] &= more[w]
        rows[filled:] = np.uint64(0)
        for w in range(words):
            for b in range(count):
                for i in range(64):
                    block[i] = rows[64 * b + i, w]
                _transpose(block)
                for i in range(64):
                    lines[i, b] = block[i]
            for i in range(min(64, out.shape[0] - 64 * w)):
                for b in range(count):
                    out[64 * w + i, start + b] = lines[i, b]


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
