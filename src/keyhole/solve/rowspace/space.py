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

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.certify import Combination
from keyhole.solve.rowspace.factor import Factor, Progress, shadow_columns
from keyhole.solve.rowspace.matrix import RowMatrix
from keyhole.solve.rowspace.peel import Peeling, peel
from keyhole.solve.rowspace.verify import verify, verify_integers

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


# --- parts ------------------------------------------------------------------------------------------------------------
# Components of the graph of queries and columns: systems that share no unknown are solved apart.


_BUNDLE = 64  # rows


class Component:
    """A sub-matrix with the names its rows and columns have in the whole."""

    def __init__(self, matrix: RowMatrix, rows: Ints, columns: Ints) -> None:
        self.matrix, self.rows, self.columns = matrix, rows, columns

    def place(self, column: int) -> int:
        """Position of a column of the whole in this part, or -1."""
        at = int(np.searchsorted(self.columns, column))
        return at if at < len(self.columns) and self.columns[at] == column else -1

    def localise(self, target: Mapping[int, int]) -> dict[int, int]:
        """The part of a functional that lies in this part's columns."""
        return {self.place(k): v for k, v in target.items() if self.place(k) >= 0}

    def over_rows(self, weights: Mapping[int, Fraction]) -> dict[int, Fraction]:
        """Weights over this part's rows as weights over the rows of the whole."""
        return {int(self.rows[i]): w for i, w in weights.items()}


def split(matrix: RowMatrix, rows: Ints, known: Ints) -> list[Component]:
    """The components of `matrix` restricted to `rows` and without the columns `known`.

    A small matrix is left in one piece: its dense factorisation costs less than looking. Columns in no query belong
    to no component. Cost O(non-zeros) at worst; a matrix in one piece is noticed in one pass over its words.
    """
    if matrix.is_small:
        if not len(rows):
            return []
        return [Component(matrix.restricted(rows, known), rows, np.arange(matrix.K))]
    if not len(rows):
        return []
    open_matrix = matrix.restricted(rows, known)
    labels = _labels(open_matrix)
    names, sizes = np.unique(labels, return_counts=True)
    if len(names) == 1 and len(known) * 2 < matrix.K:
        return [Component(open_matrix, rows, np.arange(matrix.K))]
    order = np.argsort(labels, kind="stable")
    out: list[Component] = []
    ends = np.cumsum(sizes)
    # tiny components are bundled, block-diagonal, to spare the fixed cost of a factorisation each
    cuts = [
        int(e) for e, last in zip(ends, np.append(-_BUNDLE, ends[:-1]) // _BUNDLE, strict=True) if e // _BUNDLE > last
    ]
    for members in np.split(order, cuts):
        if not len(members):
            continue
        piece, columns = open_matrix.restricted(members, known[:0]).squeeze()
        out.append(Component(piece, rows[members], columns))
    return out


def _labels(matrix: RowMatrix) -> Ints:
    """A component label for each row."""
    from keyhole.solve.rowspace import peel_kernels as kernels

    support = matrix.support_bits()
    member = np.zeros(matrix.m, dtype=bool)
    sample = support[:, :: max(1, support.shape[1] // 512)]
    densest = int(np.argmax(np.bitwise_count(sample).sum(axis=1, dtype=np.int64)))
    kernels.sweep(support, densest, member)
    labels = np.full(matrix.m, matrix.m, dtype=np.int64)
    rest = np.flatnonzero(~member)
    if len(rest):
        labels[rest] = kernels.link(support, rest, matrix.K)
    return labels


# --- short ------------------------------------------------------------------------------------------------------------
# Shorter proofs when the queries are dependent: two- and three-query proofs by hashing, then greedy exchange.


_TRIPLES_UP_TO = 1200  # rows; the table of pair sums has 2 m^2 words
_RELATIONS = 256  # dependencies used in an exchange, the shortest ones


class ShortProofs:
    """Looks for proofs of at most three queries with weights +-1, else exchanges against dependencies.

    With a secret shadow column g and h = A g (mod 2^64), "Q_a - Q_b = target" is a look-up of h_a - h_b; three
    queries take a sorted table of pair sums. Hits are verified over all columns. The search for three is complete
    up to `_TRIPLES_UP_TO` rows, the exchange is a heuristic. Cost O(m log m) a target for pairs and triples after
    O(m^2 log m) once.

    >>> A = RowMatrix.from_dense([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]])
    >>> relation = {0: Fraction(1), 1: Fraction(1), 2: Fraction(-1)}
    >>> g = np.random.default_rng(0).integers(0, 1 << 64, size=(4, 3), dtype=np.uint64)
    >>> S = ShortProofs(A, lambda: [relation], g, A.sums(g))
    >>> S.improve({0: Fraction(-1), 1: Fraction(0), 3: Fraction(1)}, {3: 1})
    {0: Fraction(-1, 1), 3: Fraction(1, 1)}
    """

    def __init__(self, matrix: RowMatrix, relations: Callable[[], list[Weights]], shadow: Words, sums: Words) -> None:
        self._matrix = matrix
        self._relations = relations
        self._shortest: list[Weights] | None = None
        self._shadow = shadow[:, 0]
        h = sums[:, 0]
        signed = np.concatenate([h, np.uint64(0) - h])  # entry j < m is +row j, entry m + j is -row j
        self._signed = signed
        self._order = np.argsort(signed, kind="stable")
        self._sorted = signed[self._order]
        self._pair_sums: Words | None = None

    def improve(self, weights: Weights, wanted: Mapping[int, int]) -> Weights:
        """The shortest proof found; never longer than `weights`. Exact whenever `weights` is."""
        weights = {i: w for i, w in sorted(weights.items()) if w}
        if len(weights) <= 1:
            return weights
        total = sum((int(self._shadow[k]) * v for k, v in wanted.items()), 0)
        goal = np.uint64(total % (1 << 64))
        for length, search in ((1, self._one), (2, self._two), (3, self._three)):
            if length >= len(weights):
                return weights
            for found in search(goal):
                if verify_integers(self._matrix, found, wanted):
                    return {i: Fraction(c) for i, c in sorted(found.items())}
        return self._exchange(weights)

    def _one(self, goal: np.uint64) -> list[dict[int, int]]:
        return [self._proof(j) for j in self._hits(np.array([goal]))[1].tolist()]

    def _two(self, goal: np.uint64) -> list[dict[int, int]]:
        asked, hits = self._hits(goal - self._signed)
        return [self._proof(a, b) for a, b in zip(asked.tolist(), hits.tolist(), strict=True) if a < b][:8]

    def _three(self, goal: np.uint64) -> list[dict[int, int]]:
        m = self._matrix.m
        if m > _TRIPLES_UP_TO:
            return []
        if self._pair_sums is None:
            signed = self._signed
            self._pair_sums = np.sort(np.concatenate([signed[j] + signed[j + 1 :] for j in range(2 * m)]))
        asked = goal - self._signed
        at = np.minimum(np.searchsorted(self._pair_sums, asked), len(self._pair_sums) - 1)
        out: list[dict[int, int]] = []
        for c in np.flatnonzero(self._pair_sums[at] == asked)[:64].tolist():
            # only the sums were sorted, which is quick; the few hits find their pair again
            first, second = self._hits(asked[c] - self._signed)
            for a, b in zip(first.tolist(), second.tolist(), strict=True):
                proof = self._proof(a, b, c)
                if len(proof) == 3:
                    out.append(proof)
                    break
        return out[:8]

    def _hits(self, asked: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(position in `asked`, signed row) for one signed row that matches each asked sum."""
        at = np.minimum(np.searchsorted(self._sorted, asked), len(self._sorted) - 1)
        hit = np.flatnonzero(self._sorted[at] == asked)
        return hit, self._order[at[hit]]

    def _proof(self, *signed: int) -> dict[int, int]:
        m = self._matrix.m
        out: dict[int, int] = {}
        for j in signed:
            out[j % m] = out.get(j % m, 0) + (1 if j < m else -1)
        return {i: c for i, c in out.items() if c}

    def _exchange(self, weights: Weights) -> Weights:
        """Add multiples of dependencies as long as the support shrinks."""
        if self._shortest is None:
            self._shortest = sorted(self._relations(), key=len)[:_RELATIONS]
        for _ in range(8):
            best, best_size = None, len(weights)
            for relation in self._shortest:
                ratios = Counter(weights[i] / v for i, v in relation.items() if i in weights)
                if not ratios:
                    continue
                factor, gone = ratios.most_common(1)[0]
                size = len(weights.keys() | relation.keys()) - gone
                if size < best_size:
                    best, best_size = (relation, factor), size
            if best is None:
                break
            relation, factor = best
            mixed = dict(weights)
            for i, v in relation.items():
                mixed[i] = mixed.get(i, Fraction(0)) - factor * v
            weights = {i: w for i, w in sorted(mixed.items()) if w}
        return weights


# --- screen -----------------------------------------------------------------------------------------------------------
# Which of many functionals can lie in a row space: all of them screened at once.


def plausible(
    space: RowSpace, label: NDArray[np.int64], count: int, *, rng: np.random.Generator | None = None
) -> NDArray[np.bool_]:
    """For each of `count` targets, the sum of the columns that carry its label (-1: none): may it be in the row space?

    A functional in the row space vanishes on every null vector. Two random null vectors are drawn per component, modulo
    its prime: a target that is in the row space always passes, one that is not passes with probability about 1/p^2 (p
    about 2^22), and is then rejected by `RowSpace.express`. Cost: O(K) after the factorisation.

    >>> from keyhole.solve.rowspace import RowMatrix
    >>> S = RowSpace(RowMatrix.from_dense([[1, 1, 0], [0, 0, 0]]))
    >>> plausible(S, np.array([0, 0, 1]), 2).tolist()
    [True, False]
    """
    chosen = rng if rng is not None else np.random.default_rng()
    settled = np.zeros(space.matrix.K, dtype=np.bool_)
    known = list(space._known)
    settled[known] = True
    label = label.copy()
    label[known] = -1  # determined alone: they vanish on every null vector
    found = np.ones(count, dtype=np.bool_)
    for part, factor in zip(space._parts, space._factors, strict=True):
        settled[part.columns] = True
        p = factor.field.p
        shadow = shadow_columns(factor.matrix.K, chosen)
        z = (shadow[:, 1:] % np.uint64(p)).astype(np.float64)
        if factor.rank:
            z[factor.pivot_cols] = factor._null_vector(shadow, factor.matrix.sums(shadow)) % p
        here = label[part.columns]
        use = here >= 0
        for lane in range(2):
            total = np.bincount(
                here[use], weights=z[use, lane], minlength=count
            )  # below 2**53: fewer than 2**30 columns
            found &= total % p == 0
    loose = label[~settled]
    found[loose[loose >= 0]] = False
    return found
