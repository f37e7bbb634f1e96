"""Which functionals of the private values do the answers determine? The row space of the query matrix, exactly.

A column k (an atom) is determined iff the unit vector e_k lies in the rational row space of A (m x K). The screen
works modulo a random prime; whoever is reported carries rational weights that were verified over all columns in
integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.certify import Solution, lift
from keyhole.solve.modular import Echelon, product, random_prime, reduce
from keyhole.solve.rowspace_matrix import RowMatrix, verify, verify_integers

__all__ = ["RowMatrix", "RowSpace", "verify"]

Progress = Callable[[str, int, int], None]
Weights = dict[int, Fraction]


class RowSpace:
    """The rational row space of a query matrix: who is determined, by which weights.

    >>> A = RowMatrix.from_dense([[1, 1, 1], [1, 0, 0], [0, 0, 1]])
    >>> S = RowSpace(A)
    >>> S.rank, S.complete, S.determined().tolist()
    (3, True, [0, 1, 2])
    >>> S.weights(1)
    {0: Fraction(1, 1), 1: Fraction(-1, 1), 2: Fraction(-1, 1)}
    >>> S.express({0: 1, 1: 1})
    {0: Fraction(1, 1), 2: Fraction(-1, 1)}
    """

    def __init__(
        self,
        matrix: RowMatrix,
        *,
        rng: np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.matrix = matrix
        self._rng = rng if rng is not None else np.random.default_rng()
        self._progress = progress
        self._certificates: dict[int, Weights] = {}
        for _ in range(64):
            self._factor()
            dependencies = self._dependencies()
            if dependencies is not None:
                break
        else:
            raise ArithmeticError("64 primes in a row gave too small a rank")
        self._left_null = dependencies
        self.rank = self._echelon.rank
        self.complete = True
        self._screen()

    def _factor(self) -> None:
        A, rng = self.matrix, self._rng
        self._p = p = random_prime(rng)
        self._residues = A.residues(p)
        self._echelon = E = Echelon(A.m, p)
        order = rng.permutation(A.K)
        for s in range(0, A.K, 512):
            if E.rank == A.m:
                break
            E.absorb(order[s : s + 512], self._residues[:, order[s : s + 512]])
        r = E.rank
        g = np.rint(rng.uniform(-p / 2, p / 2, size=(A.K, 2)))
        self._shadow = g
        self._sums = product(self._residues, g, p)
        columns = E.pivot_cols[:r]
        self._pivot_of = {int(k): j for j, k in enumerate(columns)}
        self._B = self._exact_block(E.pivot_rows[:r], columns)
        self._B_inverse = E.inverse_rows()

    def _exact_block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
        """A[rows, columns] over the integers: float64 when products with p stay below 2^53."""
        A = self.matrix
        if A.magnitude() * max(1, len(rows)) < 1 << 30:
            out: NDArray[Any] = np.zeros((len(rows), len(columns)))
        else:
            out = np.zeros((len(rows), len(columns)), dtype=object)
        where = {int(k): j for j, k in enumerate(columns)}
        for at, i in enumerate(rows.tolist()):
            b = A.bit_index(i)
            if b >= 0:
                bits = A.unpack(np.array([b]), 0, A.K)[0][columns]
                out[at] = bits if out.dtype != object else bits.astype(object)
            else:
                for k, v in A.items(i):
                    if k in where:
                        out[at, where[k]] = v
        return out

    def _dependencies(self) -> list[Weights] | None:
        """One verified dependency for each free row, or None when one fails (the prime was unlucky)."""
        E, A = self._echelon, self.matrix
        free = E.free_rows()
        r = E.rank
        targets = self._exact_block(free, E.pivot_cols[:r])
        out: list[Weights] = []
        for i, (numerators, d) in zip(free.tolist(), self._lift(targets), strict=True):
            w = self._over_rows((numerators, d))
            w[i] = -d
            if not verify_integers(A, w, {}):
                return None
            out.append({j: Fraction(-v, d) for j, v in sorted(w.items())})
        return out

    def _lift(self, targets: NDArray[Any]) -> list[Solution]:
        if not len(targets):
            return []
        if targets.dtype == object and self._B.dtype != object:
            return lift(self._B.astype(np.int64).astype(object), self._B_inverse, targets, self._p)
        return lift(self._B, self._B_inverse, targets, self._p)

    def _over_rows(self, solution: Solution) -> dict[int, int]:
        rows = self._echelon.pivot_rows[: self.rank_p].tolist()
        return {i: n for i, n in zip(rows, solution[0], strict=True) if n}

    @property
    def rank_p(self) -> int:
        """The rank modulo the prime."""
        return self._echelon.rank

    def _screen(self) -> None:
        """Candidates are pivots whose random null vectors vanish; certify each."""
        E, p = self._echelon, self._p
        r = E.rank
        if not r:
            return
        z = self._shadow[E.pivot_cols[:r]] - product(self._B_inverse, self._sums[E.pivot_rows[:r]], p)
        candidates = np.flatnonzero(~np.any(reduce(z, p) != 0, axis=1))
        targets = np.zeros((len(candidates), r), dtype=self._B.dtype)
        targets[np.arange(len(candidates)), candidates] = 1
        for j, solution in zip(candidates.tolist(), self._lift(targets), strict=True):
            column = int(E.pivot_cols[j])
            w = self._over_rows(solution)
            if verify_integers(self.matrix, w, {column: solution[1]}):
                self._certificates[column] = {i: Fraction(n, solution[1]) for i, n in sorted(w.items())}

    def determined(self) -> NDArray[np.int64]:
        """All columns k with e_k in the rational row space, ascending, each certified."""
        return np.array(sorted(self._certificates), dtype=np.int64)

    def weights(self, column: int) -> Weights | None:
        """Verified weights w with w A = e_column, or None when the column is not determined."""
        if not 0 <= column < self.matrix.K:
            raise IndexError(f"column {column} of a matrix with {self.matrix.K} columns")
        return self._certificates.get(column)

    def express(self, target: Mapping[int, int]) -> Weights | None:
        """Verified weights w with w A = target, or None when the target is outside the row space."""
        for k in target:
            if not 0 <= k < self.matrix.K:
                raise IndexError(f"column {k} of a matrix with {self.matrix.K} columns")
        E, p = self._echelon, self._p
        r = E.rank
        c = np.zeros(r, dtype=object)
        for k, v in target.items():
            if k in self._pivot_of:
                c[self._pivot_of[k]] = int(v)
        c_p = reduce((c % p).astype(np.float64), p)
        y = product(c_p[None, :], self._B_inverse, p) if r else np.zeros((1, 0))
        have = product(y, self._sums[E.pivot_rows[:r]], p)[0] if r else np.zeros(2)
        cols = np.array(list(target), dtype=np.int64)
        values = np.array([int(v) % p for v in target.values()], dtype=np.float64)
        want = product(reduce(values, p)[None, :], self._shadow[cols], p)[0] if len(cols) else np.zeros(2)
        if np.any(reduce(have - want, p) != 0):
            return None
        numerators, d = self._lift(c[None, :])[0]
        w = self._over_rows((numerators, d))
        if not verify_integers(self.matrix, w, {k: d * int(v) for k, v in target.items() if v}):
            return None
        return {i: Fraction(n, d) for i, n in sorted(w.items())}

    def dependencies(self) -> list[Weights]:
        """A basis of the left null space, m - rank verified dependencies w with w A = 0."""
        return [dict(w) for w in self._left_null]

    def reduced_rows(self, limit: int | None = None) -> Iterator[tuple[Weights, dict[int, int]]]:
        """Rows of the reduced echelon form over the integers, as (weights, functional), of at most `limit` columns."""
        A, E = self.matrix, self._echelon
        r = E.rank
        R = product(self._B_inverse, self._residues[E.pivot_rows[:r]], self._p) if r else np.zeros((0, A.K))
        for j in range(r):
            support = int(np.count_nonzero(R[j]))
            if limit is not None and support > limit:
                continue
            unit = np.zeros((1, r), dtype=self._B.dtype)
            unit[0, j] = 1
            numerators, d = self._lift(unit)[0]
            w = self._over_rows((numerators, d))
            functional: dict[int, int] = {}
            for i, n in w.items():
                for k, v in A.items(i):
                    functional[k] = functional.get(k, 0) + n * v
            functional = {k: v for k, v in sorted(functional.items()) if v}
            if limit is None or len(functional) <= limit:
                yield {i: Fraction(n) for i, n in sorted(w.items())}, functional
