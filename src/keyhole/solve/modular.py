"""Exact linear algebra modulo a prime p in (2^22, 2^22.5), on float64 matrix products.

Residues are kept balanced, |v| <= (p+1)/2 < 2^21.6; a product with inner size 512 stays below 2^9 * 2^43.1 < 2^53,
so every float64 product here is an exact integer and the BLAS does modular arithmetic (the idea of FFLAS-FFPACK,
Dumas, Giorgi, Pernet 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

INNER = 512
LOW, HIGH = 1 << 22, 5931641  # 2^22 .. floor(2^22.5)


def is_prime(n: int) -> bool:
    """Primality below 3.3 * 10^24 by Miller-Rabin to the first 13 prime bases, which is deterministic there.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if n < 2 or any(n % b == 0 for b in bases):
        return n in bases
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for b in bases:
        x = pow(b, d, n)
        if x in (1, n - 1):
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def random_prime(rng: np.random.Generator, low: int = LOW, high: int = HIGH) -> int:
    """A uniformly random prime in (low, high)."""
    while True:
        n = int(rng.integers(low + 1, high)) | 1
        if n < high and is_prime(n):
            return n


class Field:
    """Arithmetic modulo a prime p on balanced residues in float64, with numpy alone.

    >>> F = Field(4194319)
    >>> F.product(np.array([[2.0, -3.0]]), np.array([[3.0], [1.0]])).tolist()
    [[3.0]]
    """

    panel = 48

    def __init__(self, p: int) -> None:
        self.p = p

    def reduce(self, Z: Floats) -> Floats:
        """Z mod p, balanced, in place. Z holds exact integers below 2^53 in magnitude."""
        q = np.multiply(Z, 1.0 / self.p)
        np.rint(q, out=q)
        q *= self.p
        Z -= q
        return Z

    def residues(self, values: NDArray[Any]) -> Floats:
        """Integers of any size (int64 or Python's) mod p, balanced."""
        return self.reduce((values % self.p).astype(np.float64))

    def product(self, X: Floats, Y: Floats) -> Floats:
        """X Y mod p for balanced residues X, Y."""
        inner = X.shape[1]
        Z = self.reduce(X[:, :INNER] @ Y[:INNER])
        for s in range(INNER, inner, INNER):
            Z += self.reduce(X[:, s : s + INNER] @ Y[s : s + INNER])
        return self.reduce(Z) if inner > INNER else Z

    def subtract(self, N: Floats, Z: Floats) -> None:
        """N <- N - Z mod p, in place."""
        N -= Z
        self.reduce(N)

    def inverse(self, S: Floats) -> Floats:
        """The inverse of a non-singular matrix of balanced residues, by Gauss-Jordan elimination.

        >>> Field(4194319).inverse(np.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
        [[-1.0, 1.0], [1.0, 0.0]]
        """
        k, p = len(S), self.p
        W = np.hstack([S, np.eye(k)])
        for c in range(k):
            at = c + int(np.flatnonzero(W[c:, c])[0])
            if at != c:
                W[[c, at]] = W[[at, c]]
            top = self.reduce(W[c] * float(balance(pow(int(W[c, c]) % p, -1, p), p)))
            factor = W[:, c].copy()
            factor[c] = 0.0
            W -= factor[:, None] * top
            W[c] = top
            self.reduce(W)
        return W[:, k:].copy()

    def pivots(self, Y: Floats) -> tuple[Ints, Ints]:
        """Rows and columns of a maximal non-singular square part of Y, by elimination. Y is overwritten."""
        p = self.p
        rows: list[int] = []
        cols: list[int] = []
        free = np.ones(len(Y), dtype=bool)
        for c in range(Y.shape[1]):
            hit = np.flatnonzero((Y[:, c] != 0) & free)
            if not len(hit):
                continue
            at = int(hit[0])
            rows.append(at)
            cols.append(c)
            free[at] = False
            if len(hit) > 1:
                top = self.reduce(Y[at, c:] * float(balance(pow(int(Y[at, c]) % p, -1, p), p)))
                rest = hit[1:]
                Y[rest, c:] = self.reduce(Y[rest, c:] - Y[rest, c, None] * top)
        return np.array(rows, dtype=np.int64), np.array(cols, dtype=np.int64)


def balance(a: int, p: int) -> int:
    """a mod p in (-p/2, p/2]."""
    a %= p
    return a - p if a > p // 2 else a


class Echelon:
    """The transform T of a growing reduced echelon form mod p: T A is the identity on the pivots.

    After absorbing columns, `pivot_rows[j]`, `pivot_cols[j]` (j < rank) are a non-singular part B of A, and
    T = [[B^-1, 0], [-C B^-1, I]] in the order (pivot rows, free rows), where C is A on free rows and pivot columns.
    Only the first r columns of T are stored: 8 m r bytes. Absorbing everything costs O(m r^2) in matrix products.

    >>> E = Echelon(2, Field(4194319))
    >>> E.absorb(np.array([0, 1]), np.array([[1.0, 1.0], [1.0, 1.0]]))
    1
    >>> E.rank, E.free_rows().tolist()
    (1, [1])
    """

    def __init__(self, m: int, field: Field) -> None:
        self.m, self.field = m, field
        self.rank = 0
        self.pivot_rows = np.zeros(m, dtype=np.int64)
        self.pivot_cols = np.zeros(m, dtype=np.int64)
        self.is_free = np.ones(m, dtype=bool)
        self._N = np.zeros((m, min(m, 64)), dtype=np.float64)

    def free_rows(self) -> Ints:
        """Rows without a pivot."""
        return np.flatnonzero(self.is_free)

    def stored(self) -> Floats:
        """The stored columns of T: (m, rank)."""
        return self._N[:, : self.rank]

    def inverse_rows(self) -> Floats:
        """B^-1 (rank x rank): row j holds the weights, over `pivot_rows`, that give the j-th pivot column."""
        return self._N[self.pivot_rows[: self.rank], : self.rank]

    def transform(self, block: Floats) -> Floats:
        """T @ block mod p for a block (m, b) of columns."""
        r = self.rank
        Y = self.field.product(self._N[:, :r], block[self.pivot_rows[:r]]) if r else np.zeros(block.shape)
        Y[self.is_free] += block[self.is_free]
        return self.field.reduce(Y)

    def absorb(self, columns: Ints, block: Floats) -> int:
        """Take in columns (m, b) of A, balanced mod p; returns by how much the rank grew."""
        before = self.rank
        width = self.field.panel
        for s in range(0, len(columns), width):
            if self.rank == self.m:
                break
            self._absorb_panel(columns[s : s + width], block[:, s : s + width])
        return self.rank - before

    def _absorb_panel(self, columns: Ints, block: Floats) -> None:
        field, r = self.field, self.rank
        Y = self.transform(block)
        free = self.free_rows()
        at, which = field.pivots(Y[free])
        k = len(at)
        if not k:
            return
        rows = free[at]
        self._reserve(r + k)
        S = field.inverse(Y[rows][:, which])
        top = np.hstack([field.product(S, self._N[rows, :r]) if r else np.zeros((k, 0)), S])
        factor = Y[:, which].copy()
        factor[rows] = 0.0
        N = self._N[:, : r + k]
        field.subtract(N, factor @ top)  # inner size k <= panel: exact
        N[rows] = top
        self.pivot_rows[r : r + k] = rows
        self.pivot_cols[r : r + k] = columns[which]
        self.is_free[rows] = False
        self.rank = r + k

    def _reserve(self, columns: int) -> None:
        have = self._N.shape[1]
        if columns > have:
            wider = np.zeros((self.m, min(self.m, max(columns, 2 * have))), dtype=np.float64)
            wider[:, : self.rank] = self._N[:, : self.rank]
            self._N = wider
