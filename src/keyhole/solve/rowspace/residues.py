"""Small linear algebra modulo a prime p below 2^31, on int64 residues: many small problems at once.

Products of two residues stay below 2^62. Used by the online row spaces, whose evidence is a few null vectors a column.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def dot(v: Ints, M: Ints, p: int) -> Ints:
    """v M mod p for residues, M (len(v), lanes).

    >>> dot(np.array([2, 3]), np.array([[1, 0], [4, 5]]), 7).tolist()
    [0, 1]
    """
    out: Ints = (v[:, None] * M % p).sum(axis=0) % p
    return out


def inverse(values: Ints, p: int) -> Ints:
    """Inverses mod p (0 stays 0), as a^(p-2) on the whole vector.

    >>> inverse(np.array([0, 1, 3]), 7).tolist()
    [0, 1, 5]
    """
    result = np.ones_like(values)
    base, power = values % p, p - 2
    while power:
        if power & 1:
            result = result * base % p
        base = base * base % p
        power >>= 1
    return result


def ratios(points: Ints, p: int) -> Ints:
    """z1 / z2 mod p, and p for z2 = 0.

    >>> ratios(np.array([[6, 3], [1, 0]]), 7).tolist()
    [2, 7]
    """
    return np.where(points[:, 1] == 0, p, points[:, 0] * inverse(points[:, 1], p) % p)


def parallel(a: Ints, b: Ints, p: int) -> bool:
    """Whether two non-zero vectors mod p are proportional.

    >>> parallel(np.array([1, 2, 3]), np.array([3, 6, 2]), 7), parallel(np.array([1, 2, 3]), np.array([3, 6, 3]), 7)
    (True, False)
    """
    x, y = [int(v) for v in a], [int(v) for v in b]
    return all((x[s] * y[t] - x[t] * y[s]) % p == 0 for s in range(len(x)) for t in range(s))


def ranks(blocks: Ints, p: int) -> Ints:
    """The rank mod p of each of many small matrices, (count, rows, lanes). Cost O(count rows^2 lanes).

    >>> ranks(np.array([[[1, 2], [2, 4]], [[1, 2], [2, 5]], [[0, 0], [0, 3]]]), 7).tolist()
    [1, 2, 1]
    """
    count, rows, _ = blocks.shape
    if rows == 1:
        return np.array(blocks[:, 0].any(axis=1), dtype=np.int64)
    work, found, each = blocks % p, np.zeros(count, dtype=np.int64), np.arange(count)
    for t in range(rows):
        row = work[:, t]
        lane = (row != 0).argmax(axis=1)
        lead = row[each, lane]
        found += lead != 0
        if t + 1 < rows:
            row = row * inverse(lead, p)[:, None] % p
            factor = work[each, t + 1 :, lane]
            work[:, t + 1 :] = (work[:, t + 1 :] - factor[:, :, None] * row[:, None, :] % p) % p
    return found


def reduced_by(blocks: Ints, basis: Ints, p: int) -> Ints:
    """Each row of the blocks (..., lanes) less a combination of the rows of `basis`: 0 iff it lies in their span.

    >>> reduced_by(np.array([[[2, 4, 6], [1, 0, 0]]]), np.array([[1, 2, 3], [2, 4, 6]]), 7).tolist()
    [[[0, 0, 0], [0, 5, 4]]]
    """
    work, left = blocks % p, basis % p
    while len(left):
        row, left = left[0], left[1:]
        lane = int((row != 0).argmax())
        if row[lane]:
            row = row * pow(int(row[lane]), -1, p) % p
            left = (left - left[:, lane, None] * row % p) % p
            work = (work - work[..., lane, None] * row % p) % p
    return work


def minors(blocks: Ints, lanes: int, p: int) -> dict[tuple[int, ...], Ints]:
    """All minors of full height in the first lanes of blocks (count, rows, at least `lanes`), by the lanes they use.

    Expanded row by row, so that every smaller minor is computed once.

    >>> {T: m.tolist() for T, m in minors(np.array([[[1, 2, 3], [0, 1, 5]]]), 3, 7).items()}
    {(0, 1): [1], (0, 2): [5], (1, 2): [0]}
    """
    count, rows, _ = blocks.shape
    found: dict[tuple[int, ...], Ints] = {(): np.ones(count, dtype=np.int64)}
    for t in range(rows):
        wider: dict[tuple[int, ...], Ints] = {}
        for T in combinations(range(lanes), t + 1):
            total = np.zeros(count, dtype=np.int64)
            for at, lane in enumerate(T):
                part = blocks[:, t, lane] * found[T[:at] + T[at + 1 :]] % p
                total = (total - part if (t - at) % 2 else total + part) % p
            wider[T] = total
        found = wider
    return found


def zero_products(left: Ints, right: Ints, p: int) -> tuple[Ints, Ints]:
    """(i, k) with left[:, i] . right[:, k] = 0 mod p, for columns of residues. Cost O(len(left)) for each of all pairs.

    >>> zero_products(np.array([[1, 3], [2, 1]]), np.array([[2, 5], [6, 1]]), 7)
    (array([0, 0]), array([0, 1]))
    """
    found: list[tuple[Ints, Ints]] = []
    step = max(1, (1 << 18) // max(1, right.shape[1]))
    for start in range(0, left.shape[1], step):
        total = np.zeros((min(step, left.shape[1] - start), right.shape[1]), dtype=np.int64)
        for lane in range(len(left)):
            total += left[lane, start : start + step, None] * right[lane]  # two products and a residue are below 2^63
            if lane % 2 or lane == len(left) - 1:
                total %= p
        i, k = np.nonzero(total == 0)
        found.append((i + start, k))
    return np.concatenate([i for i, _ in found]), np.concatenate([k for _, k in found])
