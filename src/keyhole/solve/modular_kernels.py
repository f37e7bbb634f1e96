"""Compiled kernels modulo p, for matrices where compiling pays. Imported only when a problem is large.

Same arithmetic as `modular`: balanced residues in float64, products below 2^53, rounding by adding 1.5 * 2^52.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.solve.modular import Field
from keyhole.solve.rowspace.kernels import spread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAGIC = 6755399441055744.0  # 1.5 * 2^52: x + _MAGIC - _MAGIC rounds |x| < 2^51 to the nearest integer


@njit(cache=True, nogil=True)
def reduce_in_place(lo: int, hi: int, Z: Floats, p: float) -> None:
    """Rows lo..hi of Z mod p, balanced."""
    inv = 1.0 / p
    for i in range(lo, hi):
        row = Z[i]
        for j in range(row.shape[0]):
            x = row[j]
            row[j] = x - ((x * inv + _MAGIC) - _MAGIC) * p


@njit(cache=True, nogil=True)
def subtract_reduce(lo: int, hi: int, N: Floats, Z: Floats, p: float) -> None:
    """Rows lo..hi of N <- N - Z mod p, in one pass over memory."""
    inv = 1.0 / p
    for i in range(lo, hi):
        row, other = N[i], Z[i]
        for j in range(row.shape[0]):
            x = row[j] - other[j]
            row[j] = x - ((x * inv + _MAGIC) - _MAGIC) * p


@njit(cache=True, nogil=True)
def _inverse_mod(a: int, p: int) -> int:
    r0, r1, t0, t1 = p, a % p, 0, 1
    while r1 != 0:
        q = r0 // r1
        r0, r1 = r1, r0 - q * r1
        t0, t1 = t1, t0 - q * t1
    return t0 - p if t0 > p // 2 else (t0 + p if t0 < -(p // 2) else t0)


@njit(cache=True, nogil=True)
def pivot_pairs(Y: Floats, p: int) -> tuple[Ints, Ints]:
    """Rows and columns of a maximal non-singular square part of Y, by elimination. Y is overwritten."""
    f, b = Y.shape
    pf = float(p)
    inv_p = 1.0 / pf
    rows = np.empty(min(f, b), dtype=np.int64)
    cols = np.empty(min(f, b), dtype=np.int64)
    free = np.ones(f, dtype=np.bool_)
    k = 0
    for c in range(b):
        at = -1
        for i in range(f):
            if free[i] and Y[i, c] != 0.0:
                at = i
                break
        if at < 0:
            continue
        free[at] = False
        rows[k] = at
        cols[k] = c
        k += 1
        if k == f:
            break
        inv = float(_inverse_mod(int(Y[at, c]), p))
        top = Y[at]
        for i in range(at + 1, f):
            if free[i] and Y[i, c] != 0.0:
                x = Y[i, c] * inv
                h = x - ((x * inv_p + _MAGIC) - _MAGIC) * pf
                row = Y[i]
                for j in range(c + 1, b):
                    x = row[j] - h * top[j]
                    row[j] = x - ((x * inv_p + _MAGIC) - _MAGIC) * pf
    return rows[:k], cols[:k]


@njit(cache=True, nogil=True)
def inverse_in_place(W: Floats, p: int) -> None:
    """Gauss-Jordan on W = [S | I] (k x 2k) mod p; the right half becomes S^-1."""
    k = W.shape[0]
    pf = float(p)
    inv_p = 1.0 / pf
    for c in range(k):
        at = c
        while W[at, c] == 0.0:
            at += 1
        if at != c:
            for j in range(2 * k):
                W[c, j], W[at, j] = W[at, j], W[c, j]
        inv = float(_inverse_mod(int(W[c, c]), p))
        top = W[c]
        for j in range(c, 2 * k):
            x = top[j] * inv
            top[j] = x - ((x * inv_p + _MAGIC) - _MAGIC) * pf
        for i in range(k):
            h = W[i, c]
            if i != c and h != 0.0:
                row = W[i]
                for j in range(c, 2 * k):
                    x = row[j] - h * top[j]
                    row[j] = x - ((x * inv_p + _MAGIC) - _MAGIC) * pf


class CompiledField(Field):
    """`Field` with compiled elimination and one-pass reductions.

    >>> F = CompiledField(4194319)
    >>> F.inverse(np.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [[-1.0, 1.0], [1.0, 0.0]]
    >>> [v.tolist() for v in F.pivots(np.array([[0.0, 2.0], [1.0, 1.0]]))]
    [[1, 0], [0, 1]]
    """

    panel = 96

    def reduce(self, Z: Floats) -> Floats:
        """Z mod p, balanced, in place."""
        rows = Z if Z.ndim == 2 else Z.reshape(1, -1)
        spread(reduce_in_place, len(rows), 1 + (1 << 18) // (1 + rows.shape[1]), rows, float(self.p))
        return Z

    def subtract(self, N: Floats, Z: Floats) -> None:
        """N <- N - Z mod p, in place."""
        spread(subtract_reduce, len(N), 1 + (1 << 18) // (1 + N.shape[1]), N, Z, float(self.p))

    def inverse(self, S: Floats) -> Floats:
        """The inverse of a non-singular matrix of balanced residues."""
        W = np.hstack([S, np.eye(len(S))])
        inverse_in_place(W, self.p)
        return W[:, len(S) :].copy()

    def pivots(self, Y: Floats) -> tuple[Ints, Ints]:
        """Rows and columns of a maximal non-singular square part of Y. Y is overwritten."""
        rows, cols = pivot_pairs(Y, self.p)
        return rows, cols
