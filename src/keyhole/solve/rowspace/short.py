"""Shorter proofs when the queries are dependent: two- and three-query proofs by hashing, then greedy exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace.matrix import RowMatrix
from keyhole.solve.rowspace.verify import verify_integers

Words = NDArray[np.uint64]
Weights = dict[int, Fraction]

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
