"""Atoms: classes of records that every query of a log treats alike, and the common refinement of two partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.base import Weights
from keyhole.basis.bits import Words, has_bit, pack, unpack
from keyhole.model.predicate import Predicate, format_predicate


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Records grouped by (matches, public weights).

    `of[r]` is the atom of record r, `sizes[k]` how many records it has, `first[k]` one of them. Bit k of `table[p]`
    says whether atom k satisfies condition p; `weights[j][k]` is the value of weight j there. `named` says which
    condition and weight stands where; two conditions are one if their SQL is.

    Where the records are in another engine, `of` is fetched when it is first asked for; `recipe` is how that engine
    finds the atom of a record again.
    """

    of_records: NDArray[np.int32] | Callable[[], NDArray[np.int32]]
    sizes: NDArray[np.int64]
    first: NDArray[np.int64]
    table: Words
    weights: tuple[Weights, ...] = ()
    conditions: Mapping[str, int] = field(default_factory=dict)
    expressions: Mapping[str, int] = field(default_factory=dict)
    recipe: object = None

    @property
    def of(self) -> NDArray[np.int32]:
        """The atom of each record."""
        return self.of_records() if callable(self.of_records) else self.of_records

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the literature
        """How many atoms."""
        return len(self.sizes)

    @property
    def count(self) -> int:
        """How many atoms."""
        return len(self.sizes)

    def named(self, predicates: Iterable[Predicate], weights: Iterable[str]) -> Atoms:
        """The same atoms, with the conditions and weights that they were made for."""
        asked = {format_predicate(p): i for i, p in enumerate(predicates)}
        return replace(self, conditions=asked, expressions={sql: j for j, sql in enumerate(weights)})

    def number(self, where: Predicate) -> int:
        """The place of a condition in `table`."""
        return self.conditions[format_predicate(where)]

    def bits(self, where: Predicate) -> Words:
        """Which atoms satisfy a condition, packed."""
        found: Words = self.table[self.number(where)]
        return found

    def weight(self, sql: str) -> Weights:
        """The value of a public weight on each atom."""
        return self.weights[self.expressions[sql]]

    def mask(self, where: Predicate) -> NDArray[np.bool_]:
        """Which atoms satisfy a condition."""
        return unpack(self.bits(where), self.K)

    def holds(self, where: Predicate, k: int) -> bool:
        """Does atom k satisfy a condition?"""
        return has_bit(self.bits(where), k)

    def records(self, where: Predicate) -> NDArray[np.int64]:
        """The records that satisfy a condition."""
        return np.flatnonzero(self.mask(where)[self.of])

    def join(self, other: Atoms) -> Atoms:
        """Atoms that tell apart what either tells apart, with the conditions and weights of both."""
        made = refine_partitions(self.of, other.of)
        tables: list[Words] = []
        weights: list[Weights] = []
        conditions: dict[str, int] = {}
        expressions: dict[str, int] = {}
        for atoms, whence in ((self, made.left), (other, made.right)):
            fresh = [sql for sql in atoms.conditions if sql not in conditions]
            at = [atoms.conditions[sql] for sql in fresh]
            tables.append(pack(unpack(atoms.table[at], atoms.K)[:, whence]))
            conditions |= {sql: len(conditions) + i for i, sql in enumerate(fresh)}
            for sql, j in atoms.expressions.items():
                if sql not in expressions:
                    expressions[sql] = len(weights)
                    weights.append(atoms.weights[j].at(whence))
        table = np.vstack(tables)
        return Atoms(made.of, made.sizes, made.first, table, tuple(weights), conditions, expressions)


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """The classes of two partitions that meet: `of[r]` is the class of record r, `left[k]` and `right[k]` whence it is.

    `first[k]` is the first record of class k, `sizes[k]` how many it has.
    """

    of: NDArray[np.int32]
    sizes: NDArray[np.int64]
    first: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]


def refine_partitions(left: NDArray[np.int32], right: NDArray[np.int32]) -> Refinement:
    """The coarsest partition that is finer than both. O(n log n).

    >>> made = refine_partitions(np.array([0, 0, 1], dtype=np.int32), np.array([0, 1, 1], dtype=np.int32))
    >>> made.of.tolist(), made.left.tolist(), made.right.tolist()
    ([0, 1, 2], [0, 0, 1], [0, 1, 1])
    """
    pairs = left.astype(np.int64) * (int(right.max(initial=0)) + 1) + right
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    of, leaders = rank[inverse.ravel()], first[order].astype(np.int64)
    sizes = np.bincount(of, minlength=len(leaders)).astype(np.int64)
    return Refinement(of, sizes, leaders, left[leaders].astype(np.int64), right[leaders].astype(np.int64))
