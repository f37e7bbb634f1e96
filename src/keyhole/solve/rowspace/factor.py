"""One factorisation modulo a random prime that serves every question about a row space.

    T A[:, pivots] = unit columns (mod p)                       the transform of the reduced echelon form
    z = g - T A g at the pivots                                 a random null vector, g a random shadow column
    column k determined mod p  <=>  k is a pivot with z_k = 0   (up to 1/p a shadow column; two are used)
    its proof = its row of T, lifted to the rationals           verified over all columns in integers
    rows of T without a pivot = dependencies among the queries  likewise lifted and verified

rank mod p <= rank over Q always. When they are equal, whoever is determined over Q is determined mod p, so the screen
has no false negatives. Equality is proved by rank mod p = m, or by verifying all m - r dependencies over the
integers; the constructor does that and takes another prime when one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.certify import Combination, Lifting, exact_dtype
from keyhole.solve.modular import Echelon, Field, random_prime
from keyhole.solve.rowspace.matrix import RowMatrix
from keyhole.solve.rowspace.verify import combine, verify_integers

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Progress = Callable[[str, int, int], None]

_PRIMES = 32  # an unlucky prime has probability below 1/100; this many in a row do not happen
_LANE_BITS = 40  # shadow entries for the screen; fewer when so many columns could overflow 64 bits
_BATCH = 256  # targets lifted together
_SAMPLE = 4096  # columns used to bound the support of a reduced row from below


class UnluckyPrime(ArithmeticError):
    """The rank modulo this prime is smaller than over the rationals."""


class Factor:
    """The factorisation of one query matrix; `rank` is proved to be its rational rank.

    Cost: O(m^2 (m + columns absorbed)) modulo p plus 3 to 5 passes over the bits; memory 8 m r bytes for T, 8 r^2
    for B, and m K / 8 for the transposed bits of a large matrix.

    >>> F = Factor(RowMatrix.from_dense([[1, 1, 0], [0, 1, 0], [1, 2, 0]]), np.random.default_rng(0))
    >>> F.rank, sorted(F.candidates().tolist()), len(F.dependencies)
    (2, [0, 1], 1)
    """

    def __init__(self, matrix: RowMatrix, rng: np.random.Generator, progress: Progress | None = None) -> None:
        self.matrix = matrix
        self._rng = rng
        self._tell = progress if progress is not None else _silent
        for _ in range(_PRIMES):
            self._factor()
            try:
                self.dependencies = self._verified_dependencies()
            except UnluckyPrime:
                continue
            break
        else:
            raise ArithmeticError(f"{_PRIMES} random primes in a row divided the minors of the query matrix")

    def _factor(self) -> None:
        A, rng = self.matrix, self._rng
        p = random_prime(rng)
        self.field = Field(p) if A.is_small else _compiled_field(p)
        E = Echelon(A.m, self.field)
        if A.is_small:
            self._dense = A.residues(p)
            mix = rng.integers(0, 1 << 63, size=A.m, dtype=np.uint64)  # equal columns have equal sums, others hardly
            order = rng.permutation(np.unique(mix @ self._dense.astype(np.uint64), return_index=True)[1])
            width = self.field.panel
            for s in range(0, A.K, width):
                if E.rank == A.m:
                    break
                E.absorb(order[s : s + width], self._dense[:, order[s : s + width]])
        else:
            self._absorb_all(E)
        r = self.rank = E.rank
        self.pivot_rows, self.pivot_cols = E.pivot_rows[:r], E.pivot_cols[:r]
        self._pivot_at = np.full(A.K, -1, dtype=np.int64)
        self._pivot_at[self.pivot_cols] = np.arange(r)
        self._B_inverse = np.ascontiguousarray(E.inverse_rows())
        self.free_rows = E.free_rows()
        # A small matrix keeps the residual of a lifting over all columns: its end is the verification.
        others = np.flatnonzero(self._pivot_at < 0) if A.is_small else np.zeros(0, dtype=np.int64)
        self._order = np.concatenate([self.pivot_cols, others])
        self._lifting = Lifting(self._heads(self.pivot_rows), self._B_inverse, self.field)

    def _heads(self, rows: Ints) -> NDArray[Any]:
        """Rows of A over the integers, on the columns that a lifting sees."""
        A = self.matrix
        if not A.is_small and A.magnitude() < 1 << 20 and len(rows) * 2 > A.m and A.m * len(self._order) < 1 << 26:
            return A.gather(self._order, self.field.p)[rows]  # such small entries are their own residues
        return self.matrix.block(rows, self._order, exact_dtype(self.matrix.m, self.matrix.magnitude()))

    def _absorb_all(self, E: Echelon) -> None:
        """Random columns first; then only columns that a random combination of the free rows does not annihilate."""
        A, p, rng = self.matrix, self.field.p, self._rng
        columns = rng.choice(A.K, size=min(A.K, A.m + 32), replace=False)
        while len(columns):
            for s in range(0, len(columns), 1024):
                E.absorb(columns[s : s + 1024], A.gather(columns[s : s + 1024], p))
                self._tell("screen", E.rank, A.m)
            free = E.free_rows()
            if not len(free):
                return
            mix = rng.integers(1, p, size=len(free))
            combination = np.zeros(A.m, dtype=np.int64)
            combination[free] = mix
            heads = self.field.product(self.field.residues(mix)[None, :], np.ascontiguousarray(E.stored()[free]))[0]
            combination[E.pivot_rows[: E.rank]] = heads.astype(np.int64)
            columns = np.flatnonzero(A.left(combination, p))
            take = len(free) + len(free) // 4 + 16
            if len(columns) > take:
                columns = rng.choice(columns, size=take, replace=False)

    def _verified_dependencies(self) -> list[Combination]:
        """For each free row i, exact weights with w A = 0 and w_i = -1 times the denominator."""
        free = self.free_rows
        out: list[Combination] = []
        for s in range(0, len(free), _BATCH):
            batch = free[s : s + _BATCH]
            for i, found in zip(batch.tolist(), self._solve(self._heads(batch), None), strict=True):
                if found is None:
                    raise UnluckyPrime
                if not self.matrix.is_small:
                    numerators = found.numerators()
                    if not verify_integers(self.matrix, {**numerators, i: -found.denominator}, {}):
                        raise UnluckyPrime
                out.append(found)
            self._tell("dependencies", len(out), len(free))
        return out

    def candidates(self, shadow: Words | None = None, sums: Words | None = None) -> Ints:
        """Pivot columns whose null vectors vanish for two random shadow columns: a superset of the determined ones.

        `shadow` (K, 3) and `sums` = A shadow may be given when they are known already; lanes 1 and 2 are used.
        """
        A, F, r = self.matrix, self.field, self.rank
        if not r:
            return np.zeros(0, dtype=np.int64)
        if A.is_small:  # all of the reduced rows, so that no chance is left
            R = F.product(self._B_inverse, self._dense[self.pivot_rows][:, self._order[r:]])
            return self.pivot_cols[~R.any(axis=1)]
        if shadow is None or sums is None:
            shadow = shadow_columns(A.K, self._rng)
            sums = A.sums(shadow)
        z = self._null_vector(shadow, sums)
        return self.pivot_cols[~z.any(axis=1)]

    def _null_vector(self, shadow: Words, sums: Words) -> NDArray[np.float64]:
        """z = g - T A g at the pivots, (r, 2), for lanes 1 and 2 of `shadow`."""
        A, F, p = self.matrix, self.field, self.field.p
        g = (shadow[:, 1:] % np.uint64(p)).astype(np.float64)
        s = F.reduce((sums[:, 1:] % np.uint64(p)).astype(np.float64))
        F.reduce(g)
        for i, (cols, values) in A.general.items():
            s[i] = F.product(F.residues(values)[None, :], g[cols])[0]
        return F.reduce(g[self.pivot_cols] - F.product(self._B_inverse, s[self.pivot_rows]))

    def certify(self, columns: Sequence[int]) -> dict[int, Combination]:
        """Verified proofs of e_k for those of `columns` that are determined."""
        out: dict[int, Combination] = {}
        for s in range(0, len(columns), _BATCH):
            batch = list(columns[s : s + _BATCH])
            for k, found in zip(batch, self.express([{k: 1} for k in batch]), strict=True):
                if found is not None:
                    out[k] = found
            self._tell("certify", min(len(columns), s + _BATCH), len(columns))
        return out

    def express(self, targets: Sequence[Mapping[int, int]]) -> list[Combination | None]:
        """For each functional {column: entry}: verified weights, or None when it is outside the row space."""
        magnitude = max((abs(v) for t in targets for v in t.values()), default=0)
        dtype = exact_dtype(self.matrix.m, max(magnitude, self.matrix.magnitude()))
        at = self._pivot_at if not self.matrix.is_small else np.argsort(self._order)
        heads = np.zeros((len(targets), len(self._order)), dtype=dtype)
        for e, target in enumerate(targets):
            for k, v in target.items():
                if at[k] >= 0:
                    heads[e, at[k]] = v
        return self._solve(heads, targets)

    def _solve(self, heads: NDArray[Any], targets: Sequence[Mapping[int, int]] | None) -> list[Combination | None]:
        """Lift; for a large matrix the lifting sees the pivot columns only, so verify over all columns after."""
        if not self.rank:
            return [
                None if head.any() or (targets is not None and any(targets[e].values())) else self._empty()
                for e, head in enumerate(heads)
            ]
        found: list[Combination | None] = [None] * len(heads)
        hard = np.arange(len(heads))
        if not self.matrix.is_small and heads.dtype == np.float64:
            found, hard = self._small_multiples(heads, targets)
        if len(hard):
            lifting = self._lifting
            if heads.dtype != lifting.A.dtype:
                exact = lifting.A if lifting.A.dtype == object else lifting.A.astype(np.int64).astype(heads.dtype)
                heads = heads.astype(exact.dtype)
                lifting = Lifting(exact, self._B_inverse, self.field)
            for e, solution in zip(hard.tolist(), lifting.solve(heads[hard], self.pivot_rows), strict=True):
                if solution is not None and (self._verified(solution, targets, e)):
                    found[e] = solution
        return found

    def _small_multiples(
        self, heads: NDArray[Any], targets: Sequence[Mapping[int, int]] | None
    ) -> tuple[list[Combination | None], Ints]:
        """Proofs whose d-fold, d = 1..12, is a vector of small integers modulo p: no lifting is needed."""
        F = self.field
        found: list[Combination | None] = [None] * len(heads)
        W = self._lifting.weights_mod_p(F.reduce(heads.copy()))
        open_ = np.ones(len(heads), dtype=bool)
        for d in range(1, 13):
            scaled = F.reduce(W * d)
            small = open_ & (np.abs(scaled).max(axis=1) < 1024)
            for e in np.flatnonzero(small):
                digits = scaled[e : e + 1].astype(np.int32)
                solution = Combination(digits, F.p, d, self.pivot_rows)
                if self._verified(solution, targets, int(e)):
                    found[e] = solution
                    open_[e] = False
        return found, np.flatnonzero(open_)

    def _verified(self, solution: Combination, targets: Sequence[Mapping[int, int]] | None, e: int) -> bool:
        if targets is None or self.matrix.is_small:
            return True
        d = solution.denominator
        return verify_integers(self.matrix, solution.numerators(), {k: d * v for k, v in targets[e].items() if v})

    def _empty(self) -> Combination:
        return Combination(np.zeros((1, 0), dtype=np.int32), self.field.p, 1, self.pivot_rows)

    def reduced_rows(self, limit: int | None) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
        """Reduced echelon rows of at most `limit` columns as (weights, functional), both integers, no common factor.

        A sample of columns bounds the support from below, so that long rows of a large matrix cost nothing.
        """
        A, F = self.matrix, self.field
        if not self.rank:
            return
        if A.is_small:
            block = self._dense[self.pivot_rows][:, self._order[self.rank :]]
        else:
            others = np.flatnonzero(self._pivot_at < 0)
            if len(others) > _SAMPLE:
                others = np.sort(self._rng.choice(others, size=_SAMPLE, replace=False))
            block = A.gather(others, F.p)[self.pivot_rows]
        support = 1 + np.count_nonzero(F.product(self._B_inverse, block), axis=1)
        short = np.arange(self.rank) if limit is None else np.flatnonzero(support <= limit)
        for j in short.tolist():
            head = np.zeros((1, self.rank), dtype=self._lifting.A.dtype)
            head[0, j] = 1
            lifting = Lifting(self._lifting.A[:, : self.rank], self._B_inverse, F)
            solution = lifting.solve(head, self.pivot_rows)[0]
            if solution is None:
                continue
            numerators = solution.numerators()
            functional = combine(A, numerators)
            if limit is None or len(functional) <= limit:
                factor = gcd(*numerators.values(), *functional.values())
                yield (
                    {i: n // factor for i, n in sorted(numerators.items())},
                    {k: v // factor for k, v in sorted(functional.items())},
                )


def shadow_columns(K: int, rng: np.random.Generator) -> Words:
    """(K, 3): a 64-bit lane for hashing rows and two lanes for the screen whose sums cannot overflow."""
    out = rng.integers(0, 1 << 64, size=(K, 3), dtype=np.uint64)
    out[:, 1:] >>= np.uint64(64 - min(_LANE_BITS, 63 - K.bit_length()))
    return out


def _compiled_field(p: int) -> Field:
    from keyhole.solve.modular_kernels import CompiledField

    return CompiledField(p)


def _silent(stage: str, done: int, total: int) -> None:
    pass
