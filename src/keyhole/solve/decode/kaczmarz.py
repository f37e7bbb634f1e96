"""Kaczmarz projections over bit-packed rows, many questions per pass over memory.

One question moves x onto its hyperplane: x += (y - a x)/|a|^2 a. Done one at a time each question reads x and writes
it back: two passes over n numbers. But the residuals of k questions in a row depend on x only through a_j x and the
overlaps a_i a_j, so a block needs one pass for all k dot products, k^2/2 popcounts, and one pass for all k updates:

    r_j = y_j - a_j x - sum_{i<j} c_i <a_j, a_i>,   c_j = relaxation r_j / (|a_j|^2 + softness_j),   x += sum_j c_j a_j

which is what k single steps give, in exact arithmetic.

References: Kaczmarz 1937; Strohmer and Vershynin 2009 (rows drawn by squared norm); Zouzias and Freris 2013 (extended).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from keyhole.solve.decode.bitrows import Floats, Words, axpy, dot, overlaps, popcount
from keyhole.solve.decode.csr import Columns, Starts

_FAST = {"reassoc", "contract", "nsz"}
BLOCK = 16  # rows that share a pass over memory
_TILE = 32  # words: 2,048 numbers of x, 16 kB, stay in the first-level cache while every row of the block reads them


@njit(cache=True, fastmath=_FAST, nogil=True)
def block_dots(words: Words, X: Floats) -> Floats:
    """Dot products of every row with every vector of X (V, 64 W): one pass over X."""
    k, w = words.shape
    V = X.shape[0]
    out = np.zeros((V, k))
    for first in range(0, w, _TILE):
        last = min(w, first + _TILE)
        for v in range(V):
            x = X[v, 64 * first : 64 * last]
            for j in range(k):
                out[v, j] += dot(words[j, first:last], x)
    return out


@njit(cache=True, fastmath=_FAST, nogil=True)
def block_update(words: Words, C: Floats, X: Floats) -> None:
    """X[v] += sum_j C[v, j] a_j in place: one pass over X."""
    k, w = words.shape
    V = X.shape[0]
    for first in range(0, w, _TILE):
        last = min(w, first + _TILE)
        for v in range(V):
            x = X[v, 64 * first : 64 * last]
            for j in range(k):
                if C[v, j] != 0.0:
                    axpy(words[j, first:last], C[v, j], x)


@njit(cache=True, nogil=True)
def _sequential(
    dots: Floats, G: Floats, lo: Floats, hi: Floats, softness: Floats, relaxation: float
) -> tuple[Floats, Floats]:
    """Coefficients of the k steps taken one after the other, and the residual each step met."""
    V, k = dots.shape
    C = np.zeros((V, k))
    R = np.zeros((V, k))
    for v in range(V):
        for j in range(k):
            at = dots[v, j]
            for i in range(j):
                at += C[v, i] * G[j, i]
            r = 0.0
            if at < lo[v, j]:
                r = lo[v, j] - at
            elif at > hi[v, j]:
                r = hi[v, j] - at
            R[v, j] = r
            if G[j, j] > 0:
                C[v, j] = relaxation * r / (G[j, j] + softness[j])
    return C, R


def sweep(words: Words, lo: Floats, hi: Floats, X: Floats, softness: Floats, relaxation: float = 1.0) -> Floats:
    """Take the rows in order, each moving every vector of X onto lo <= a x <= hi; X changes in place.

    `softness` is 0 for a full projection, noise^2/variance for a damped one. Gives the residual each step met, (V, k).
    lo and hi are (V, k); equal for an equation, infinite for no limit.
    Cost: two passes over X and k^2 n / 128 word operations.

    >>> from keyhole.solve.decode.bitrows import pack, padded
    >>> X = padded(np.zeros(3))[None, :]
    >>> y = np.array([[3.0, 1.0]])
    >>> sweep(pack(np.array([[1, 1, 1], [1, 0, 0]])), y, y, X, np.zeros(2))
    array([[3., 0.]])
    >>> X[0, :3]
    array([1., 1., 1.])
    """
    return _sweep(words, lo, hi, X, softness, relaxation)


@njit(cache=True, nogil=True)
def _sweep(words: Words, lo: Floats, hi: Floats, X: Floats, softness: Floats, relaxation: float) -> Floats:
    k = words.shape[0]
    R = np.zeros((X.shape[0], k))
    for s in range(0, k, BLOCK):
        e = min(k, s + BLOCK)
        G = overlaps(words[s:e]).astype(np.float64)
        C, met = _sequential(block_dots(words[s:e], X), G, lo[:, s:e], hi[:, s:e], softness[s:e], relaxation)
        block_update(words[s:e], C, X)
        R[:, s:e] = met
    return R


@njit(cache=True, nogil=True)
def sweep_in_box(
    words: Words,
    lo: Floats,
    hi: Floats,
    x: Floats,
    softness: Floats,
    relaxation: float,
    lower: Floats,
    upper: Floats,
) -> Floats:
    """The same for one vector, whose moved entries are put back between `lower` and `upper` after every row."""
    R = np.zeros(words.shape[0])
    for j in range(words.shape[0]):
        row = words[j]
        at, norm = dot(row, x), 0.0
        for i in range(len(row)):
            norm += popcount(row[i])
        R[j] = _missed(at, lo[j], hi[j])
        if norm > 0.0 and R[j] != 0.0:
            c = relaxation * R[j] / (norm + softness[j])
            for i in range(len(row)):
                word = row[i]
                if word:
                    for k in range(64 * i, 64 * i + 64):
                        moved = x[k] + (c if (word >> np.uint64(k & 63)) & np.uint64(1) else 0.0)
                        x[k] = min(max(moved, lower[k]), upper[k])
    return R


@njit(cache=True, nogil=True)
def _missed(at: float, lo: float, hi: float) -> float:
    """How far lo..hi is from a value, with its sign."""
    return lo - at if at < lo else hi - at if at > hi else 0.0


@njit(cache=True, nogil=True)
def sweep_sparse(
    starts: Starts,
    columns: Columns,
    values: Floats,
    lo: Floats,
    hi: Floats,
    X: Floats,
    softness: Floats,
    relaxation: float,
    lower: Floats,
    upper: Floats,
) -> Floats:
    """The same for sparse rows: each touches its own entries alone. The first vector stays in the box, if there is one.

    Cost: O(entries) for each vector.
    """
    k, V = len(starts) - 1, X.shape[0]
    R = np.zeros((V, k))
    for j in range(k):
        a, b = starts[j], starts[j + 1]
        norm = 0.0
        for e in range(a, b):
            norm += values[e] * values[e]
        for v in range(V):
            at = 0.0
            for e in range(a, b):
                at += values[e] * X[v, columns[e]]
            R[v, j] = _missed(at, lo[v, j], hi[v, j])
            if norm > 0.0 and R[v, j] != 0.0:
                c = relaxation * R[v, j] / (norm + softness[j])
                for e in range(a, b):
                    X[v, columns[e]] += c * values[e]
        if len(lower):
            for e in range(a, b):
                at_ = columns[e]
                X[0, at_] = min(max(X[0, at_], lower[at_]), upper[at_])
    return R


@njit(cache=True, nogil=True)
def soften_steps(norms: Floats, noise: Floats, ends: Floats, variance: float, n: int) -> tuple[Floats, float]:
    """noise^2 / v of every row, and the variance v that is left per record after them: v <- v (1 - gain / n).

    Where v is not known yet (infinite), the first noisy answer gives its size.
    """
    found = np.zeros(len(norms))
    for j in range(len(norms)):
        if noise[j] > 0 and norms[j] > 0:
            if np.isinf(variance):
                variance = max((ends[j] / norms[j]) ** 2, noise[j] ** 2 / norms[j])
            found[j] = noise[j] ** 2 / variance
            variance *= 1 - norms[j] / (norms[j] + found[j]) / n
    return found, variance


def sweep_dense(A: Floats, lo: Floats, hi: Floats, X: Floats, softness: Floats, relaxation: float = 1.0) -> Floats:
    """The same for rows with weights: A is (k, columns of X), dense.

    >>> X = np.zeros((1, 2))
    >>> y = np.array([[2.0]])
    >>> sweep_dense(np.array([[1.0, -1.0]]), y, y, X, np.zeros(1)).tolist(), X.tolist()
    ([[2.0]], [[1.0, -1.0]])
    """
    C, R = _sequential(X @ A.T, A @ A.T, lo, hi, softness, relaxation)
    X += C @ A
    return np.asarray(R)
