"""Small linear algebra modulo a prime p below 2^31, on int64 residues: many small problems at once.

Products of two residues stay below 2^62. Used by the online row spaces, whose evidence is a few null vectors a column.
"""

from __future__ import annotations

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


def annihilators(blocks: Ints, p: int, rng: np.random.Generator) -> tuple[Ints, NDArray[np.bool_]]:
    """(h, ok): for each block (count, rows, lanes) a random h with row . h = 0 for its rows, where `ok`.

    A vector outside the span of the rows has product 0 with h with probability 1/p. Blocks whose first `rows` lanes
    are singular (one in p of random ones, and those of lower rank) are not ok. Needs rows < lanes.

    >>> h, ok = annihilators(np.array([[[1, 2, 3]], [[0, 1, 1]]]), 7, np.random.default_rng(0))
    >>> ok.tolist(), int(h[0] @ np.array([1, 2, 3]) % 7)
    ([True, False], 0)
    """
    count, rows, lanes = blocks.shape
    work, ok = blocks % p, np.ones(count, dtype=bool)
    for t in range(rows):
        lead = work[:, t, t]
        ok &= lead != 0
        row = work[:, t] * inverse(lead, p)[:, None] % p
        work = (work - work[:, :, t, None] * row[:, None, :] % p) % p
        work[:, t] = row
    free = rng.integers(1, p, size=(count, lanes - rows))
    head = (work[:, :, rows:] * free[:, None, :] % p).sum(axis=2) % p
    return np.concatenate([(p - head) % p, free], axis=1), ok


def zero_products(left: Ints, right: Ints, p: int) -> tuple[Ints, Ints]:
    """(i, k) with left[i] . right[k] = 0 mod p, for rows of lanes. Cost O(lanes) for each of all pairs.

    >>> zero_products(np.array([[1, 2], [3, 1]]), np.array([[2, 6], [5, 1]]), 7)
    (array([0, 0]), array([0, 1]))
    """
    found: list[tuple[Ints, Ints]] = []
    step = max(1, (1 << 20) // max(1, len(right)))
    for start in range(0, len(left), step):
        some = left[start : start + step]
        total = np.zeros((len(some), len(right)), dtype=np.int64)
        for lane in range(left.shape[1]):
            total = (total + some[:, lane, None] * right[None, :, lane]) % p
        i, k = np.nonzero(total == 0)
        found.append((i + start, k))
    return np.concatenate([i for i, _ in found]), np.concatenate([k for _, k in found])
