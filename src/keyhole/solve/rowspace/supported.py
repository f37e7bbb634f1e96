"""Forms on a few columns that the rows determine: vectors of the row space that vanish everywhere else.

A form on the columns C is in the row space iff it is orthogonal to the null space, so iff the rows C of a null-space
basis N satisfy it: there is one iff rank(N[C]) < |C|, that is iff rank(A) > rank(A without C). Computed modulo a prime
below 2^31; if the rank modulo the prime is the rational one, no form is missed. What is found is only proposed: whoever
uses it expresses it over the rows in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.certify import common_denominator

Ints = NDArray[np.int64]
PRIME = 2_147_483_629


def null_space(matrix: NDArray[Any], prime: int = PRIME) -> tuple[int, Ints]:
    """(rank, a basis of the null space as columns), modulo the prime.

    >>> rank, N = null_space(np.array([[1, 1, 0], [0, 1, 1]]))
    >>> rank, ((np.array([[1, 1, 0], [0, 1, 1]]) @ N) % PRIME).tolist()
    (2, [[0], [0]])
    """
    a = np.array(matrix % prime, dtype=np.int64)
    m, k = a.shape
    pivots: list[int] = []
    row = 0
    for column in range(k):
        if row == m:
            break
        at = np.flatnonzero(a[row:, column])
        if not len(at):
            continue
        a[[row, row + at[0]]] = a[[row + at[0], row]]
        a[row] = a[row] * pow(int(a[row, column]), -1, prime) % prime
        others = np.flatnonzero(a[:, column])
        others = others[others != row]
        a[others] = (a[others] - a[others, column][:, None] * a[row][None, :]) % prime
        pivots.append(column)
        row += 1
    free = [c for c in range(k) if c not in set(pivots)]
    basis = np.zeros((k, len(free)), dtype=np.int64)
    basis[free, np.arange(len(free))] = 1
    basis[pivots] = (-a[: len(pivots)][:, free]) % prime
    return len(pivots), basis


def forms_on(basis: Ints, columns: Sequence[int], prime: int = PRIME) -> tuple[list[list[int]], bool]:
    """Integer forms on some columns that are orthogonal to the null space, in reduced shape; and are these all?

    >>> _, N = null_space(np.array([[1, 1, 0, 0], [0, 0, 2, 1]]))
    >>> forms_on(N, [0, 1]), forms_on(N, [0, 2]), forms_on(N, [2, 3])
    (([[1, 1]], True), ([], True), ([[2, 1]], True))
    """
    part = basis[list(columns)]
    draw = np.random.default_rng(0).integers(1, prime, size=(part.shape[1], len(columns) + 2))
    mixed = np.zeros((len(columns), draw.shape[1]), dtype=np.int64)
    for j in range(part.shape[1]):  # products of residues fit 62 bits, their sums do not
        mixed = (mixed + part[:, j][:, None] * draw[j][None, :]) % prime
    rank, kept = null_space(mixed.T, prime)
    if rank == len(columns):
        return [], True
    found: list[list[int]] = []
    for vector in kept.T.tolist():
        below = common_denominator(vector, prime)
        if below is None:
            continue
        whole = [(v * below) % prime for v in vector]
        form = [v - prime if v > prime // 2 else v for v in whole]
        sign = next((-1 if v < 0 else 1 for v in form if v), 1)
        found.append([sign * v for v in form])
    return found, len(found) == len(columns) - rank
