"""Which functionals of the private values do the answers determine? The row space of the query matrix, exactly.

A column k (an atom) is determined iff the unit vector e_k lies in the rational row space of A (m x K): iff some
rational combination of the queries is exactly the value of that atom.

    peel                people exposed by one difference, repeated queries       (large matrices; solve/peel.py)
    split               connected components of queries and columns
    factor each         modulo a random prime, dependencies verified over Z      (solve/rowspace_factor.py)
    certify             each determined column by rational weights, verified in integers over all columns

Floats are used only where they are exact (integers below 2^53); nothing here has a tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.certify import Combination
from keyhole.solve.rowspace.factor import Factor, Progress, shadow_columns
from keyhole.solve.rowspace.matrix import RowMatrix
from keyhole.solve.rowspace.parts import Component, split
from keyhole.solve.rowspace.peel import Peeling, peel
from keyhole.solve.rowspace.short import ShortProofs
from keyhole.solve.rowspace.verify import verify

__all__ = ["RowMatrix", "RowSpace", "verify"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Weights = dict[int, Fraction]


class RowSpace:
    """The rational row space of a query matrix: who is determined, and by which weights.

    `rank` is the rank over the rationals and `complete` is True: both are proved, either because the rank modulo the
    prime equals m or because all m - rank dependencies were verified in integers; then nothing but `determined()` is
    determined. (There is no state in which `complete` is False: a prime that is too small for the rank is noticed by
    a dependency that fails, and replaced.) Randomness decides how long it takes, never what is answered; a large
    matrix (over 2^21 cells) has one residual risk: with probability below 2^-21 for each component a random
    combination vanishes by chance and a prime is drawn once more.

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
        self.complete = True
        self._rng = rng if rng is not None else np.random.default_rng()
        self._shadow: Words | None = None
        self._sums: Words | None = None
        self._peeling = self._peel()
        self._known = frozenset(self._peeling.columns.tolist())
        self._parts = split(matrix, self._peeling.rows, self._peeling.columns)
        self._factors = [Factor(part.matrix, self._rng, progress) for part in self._parts]
        self.rank = len(self._peeling.columns) + sum(factor.rank for factor in self._factors)
        self._proofs: dict[int, tuple[Component, Combination] | None] = {int(k): None for k in self._peeling.columns}
        for part, factor in zip(self._parts, self._factors, strict=True):
            local = factor.candidates(*self._shadow_of(part)).tolist()
            for k, proof in factor.certify(local).items():
                self._proofs[int(part.columns[k])] = (part, proof)
        self._left_null: list[Weights] | None = None
        self._short: ShortProofs | None = None

    def _peel(self) -> Peeling:
        A = self.matrix
        if A.is_small:
            return _merge_repeats(A)
        self._shadow = shadow_columns(A.K, self._rng)
        self._sums = A.sums(self._shadow)
        return peel(A, self._shadow[:, 0].copy(), self._sums[:, 0].copy())

    def _shadow_of(self, part: Component) -> tuple[Words | None, Words | None]:
        """The shadow sums of a part that kept all columns, from those of the whole less the known columns."""
        known = self._peeling.columns
        if self._shadow is None or self._sums is None or part.matrix.K != self.matrix.K or len(known) > 1024:
            return None, None
        block = self.matrix.block(part.rows, known, np.dtype(object if part.matrix.general else np.int64))
        wrapped = (block % (1 << 64)).astype(np.uint64) if block.dtype == object else block.astype(np.uint64)
        return self._shadow, self._sums[part.rows] - wrapped @ self._shadow[known]

    def determined(self) -> Ints:
        """All columns k with e_k in the rational row space, ascending; each is certified exactly."""
        return np.array(sorted(self._proofs), dtype=np.int64)

    def weights(self, column: int) -> Weights | None:
        """Weights w with w A = e_column, verified in integers over all columns; None when it is not determined.

        The proof is unique when rank = m. Otherwise proofs by two or three queries are looked for, and a longer one
        is shortened against the dependencies (a heuristic: it is not promised to be the shortest).
        """
        self._check(column)
        if column not in self._proofs:
            return None
        found = self.proof(column)
        if self.rank < self.matrix.m:
            found = self._shorter(found, {column: 1})
        return self._verified(found, {column: 1})

    def proof(self, column: int) -> Weights:
        """The weights of a determined column as they were found: exact, not shortened, not verified once more."""
        entry = self._proofs[column]
        if entry is None:
            return self._peeling.settle({}, {column: 1})
        part, proof = entry
        return self._peeling.settle(part.over_rows(proof.weights()), {column: 1})

    def express(self, target: Mapping[int, int]) -> Weights | None:
        """Weights w with w A = target (any functional over the columns), verified; None when outside the row space.

        >>> RowSpace(RowMatrix.from_dense([[2, 2]])).express({0: 1, 1: 1})
        {0: Fraction(1, 2)}
        """
        for k in target:
            self._check(k)
        wanted = {int(k): int(v) for k, v in target.items() if v}
        rest = {k: v for k, v in wanted.items() if k not in self._known}
        found: Weights = {}
        for part, factor in zip(self._parts, self._factors, strict=True):
            local = part.localise(rest)
            if local:
                proof = factor.express([local])[0]
                if proof is None:
                    return None
                found.update(part.over_rows(proof.weights()))
                rest = {k: v for k, v in rest.items() if part.place(k) < 0}
        if rest:
            return None
        found = self._peeling.settle(found, wanted)
        if self.rank < self.matrix.m:
            found = self._shorter(found, wanted)
        return self._verified(found, wanted)

    def dependencies(self) -> list[Weights]:
        """A basis of the left null space: m - rank exact relations w with w A = 0, each verified in integers.

        >>> RowSpace(RowMatrix.from_dense([[1, 1], [1, 1]])).dependencies()
        [{0: Fraction(1, 1), 1: Fraction(-1, 1)}]
        """
        if self._left_null is None:
            out: list[Weights] = []
            for a, b in zip(self._peeling.dropped.tolist(), self._peeling.kept.tolist(), strict=True):
                start = {a: Fraction(1)} if b < 0 else {a: Fraction(1), b: Fraction(-1)}
                out.append(self._peeling.settle(start, {}))
            for part, factor in zip(self._parts, self._factors, strict=True):
                for i, proof in zip(factor.free_rows.tolist(), factor.dependencies, strict=True):
                    relation = {j: -w for j, w in proof.weights().items()}
                    relation[i] = Fraction(1)
                    out.append(self._peeling.settle(part.over_rows(relation), {}))
            self._left_null = [_oriented(self._verified(w, {})) for w in out]
        return [dict(w) for w in self._left_null]

    def reduced_rows(self, limit: int | None = None) -> Iterator[tuple[Weights, dict[int, int]]]:
        """Rows of a reduced echelon form as (weights, functional), of at most `limit` columns each.

        The functional is an integer vector without common factor, the weights give it exactly; a group total is one
        whose entries are all 1. Determined columns come first, as unit rows.
        """
        for k in self._peeling.columns.tolist():
            yield self._verified(self._peeling.settle({}, {k: 1}), {k: 1}), {k: 1}
        for part, factor in zip(self._parts, self._factors, strict=True):
            for local, functional in factor.reduced_rows(limit):
                wanted = {int(part.columns[k]): v for k, v in functional.items()}
                weights = {i: Fraction(n) for i, n in local.items()}
                yield self._verified(self._peeling.settle(part.over_rows(weights), wanted), wanted), wanted

    def _shorter(self, found: Weights, wanted: dict[int, int]) -> Weights:
        if len(found) <= 2:
            return found
        if self._short is None:
            if self._shadow is None or self._sums is None:
                self._shadow = shadow_columns(self.matrix.K, self._rng)
                self._sums = self.matrix.sums(self._shadow)
            self._short = ShortProofs(self.matrix, self.dependencies, self._shadow, self._sums)
        return self._short.improve(found, wanted)

    def _verified(self, weights: Weights, target: dict[int, int]) -> Weights:
        if not verify(self.matrix, weights, target):
            raise ArithmeticError("a proof that was built exactly failed its verification; please report this")
        return weights

    def _check(self, column: int) -> None:
        if not 0 <= column < self.matrix.K:
            raise IndexError(f"column {column} of a matrix with {self.matrix.K} columns")


def _merge_repeats(matrix: RowMatrix) -> Peeling:
    """The peeling of a small matrix: empty and repeated rows only; the factorisation does the rest."""
    seen: dict[object, int] = {}
    dropped: list[int] = []
    kept: list[int] = []
    rows: list[int] = []
    for i in range(matrix.m):
        b = matrix.bit_index(i)
        key: object
        if b >= 0:
            key = matrix.bits[b].tobytes()
            empty = not matrix.bits[b].any()
        else:
            cols, values = matrix.general[i]
            key = (tuple(cols.tolist()), tuple(values.tolist()))
            empty = not len(cols)
        if empty or key in seen:
            dropped.append(i)
            kept.append(-1 if empty else seen[key])
        else:
            seen[key] = i
            rows.append(i)
    none = np.zeros(0, dtype=np.int64)
    pair = np.array(dropped, dtype=np.int64), np.array(kept, dtype=np.int64)
    return Peeling(matrix, none, none, none, *pair, np.array(rows, dtype=np.int64))


def _oriented(relation: Weights) -> Weights:
    """Ascending by row, the first weight positive."""
    relation = dict(sorted(relation.items()))
    first = next(iter(relation.values()), Fraction(1))
    return relation if first > 0 else {i: -w for i, w in relation.items()}
