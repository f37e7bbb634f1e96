"""The cells that one number looks at, as a basis: those of its columns, within one cell of each key column.

Over declared cells every declared column is a public weight: what is unknown is how many records a cell has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.base import Weights
from keyhole.basis.bits import Words, pack
from keyhole.basis.cells.domain import FALSE, NULL, TRUE, Domain, Truths
from keyhole.basis.cells.numbers import Range
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import (
    Comparison,
    IsNull,
    Kleene,
    Leaf,
    Like,
    Membership,
    Predicate,
    Truth,
    fold,
    format_predicate,
    quote_name,
)

LARGEST = 2**24  # cells that one question looks at
_VALUES = (FALSE, NULL, TRUE)  # Kleene's order: AND is the minimum, OR the maximum


def _lift(combine: str) -> Truths:
    """A Kleene operation on sets of truth values: what can come out if the parts can say these."""
    table = np.zeros((8, 8), dtype=np.uint8)
    pick = min if combine == "and" else max
    for a, b in product(range(8), repeat=2):
        for x, y in product(_VALUES, repeat=2):
            if a & x and b & y:
                table[a, b] |= pick(x, y)
    return table


AND, OR = _lift("and"), _lift("or")
NOT = np.array(
    [sum(v for v, w in ((TRUE, FALSE), (NULL, NULL), (FALSE, TRUE)) if a & w) for a in range(8)], dtype=np.uint8
)
IS_TRUE = np.array([(TRUE if a & TRUE else 0) | (FALSE if a & (FALSE | NULL) else 0) for a in range(8)], dtype=np.uint8)


def lift_to_cells(leaf: Callable[[Leaf], Truths], dimensions: int) -> Kleene[Truths]:
    """The algebra over arrays of `dimensions` axes, given what the cells can say to a leaf.

    Exact for conditions no bin is cut by; a superset of the truth otherwise, never a subset.
    """

    def constant(value: Truth) -> Truths:
        bit = NULL if value is None else TRUE if value else FALSE
        return np.full((1,) * dimensions, bit, dtype=np.uint8)

    def joined(table: Truths) -> Callable[[Sequence[Truths]], Truths]:
        return lambda parts: reduce(lambda a, b: table[a, b], parts)

    return Kleene(constant, leaf, NOT.__getitem__, IS_TRUE.__getitem__, joined(AND), joined(OR))


@dataclass(slots=True)
class ColumnCache:
    """What the columns of a domain say, asked once for all groups of a statement."""

    truths: dict[tuple[int, str], Truths] = field(default_factory=dict)
    amounts: dict[int, tuple[list[Fraction], Fraction]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of the columns `axes` of a domain, within the cells `keys` of other columns.

    >>> from keyhole.basis.cells.categories import Categories
    >>> ages = Range("age", Fraction(0), Fraction(99), Fraction(10), Fraction(1))
    >>> people = Domain((Categories("sex", ("F", "M")), ages))
    >>> Cells(people, (1,)).select(Comparison("age", "<", 20)).tolist()[:3]
    [True, True, False]
    >>> Cells(people, (1,), ((0, 1),)).select(Comparison("sex", "=", "M")).all()
    np.True_
    >>> Cells(people, (1,)).select(Comparison("age", "<", 25))
    Traceback (most recent call last):
    keyhole.errors.UnsupportedQuery: "age" < 25 cuts through the cell age [20, 30): use the edges of the bins
    """

    domain: Domain
    axes: tuple[int, ...]
    keys: tuple[tuple[int, int], ...] = ()
    cache: ColumnCache = field(default_factory=ColumnCache, compare=False, repr=False)

    @classmethod
    def all(cls, domain: Domain) -> Cells:
        """Every cell of a domain."""
        return cls(domain, tuple(range(len(domain.columns))))

    def __post_init__(self) -> None:
        if self.count > LARGEST:
            sizes = " x ".join(f"{self.domain.columns[a].name} {self.domain.columns[a].size}" for a in self.axes)
            raise UnsupportedQuery(f"this looks at {self.count:.3g} cells ({sizes}); at most 2^24: use wider bins")

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each of the columns looked at."""
        return tuple(self.domain.shape[axis] for axis in self.axes)

    @property
    def count(self) -> int:
        """How many cells."""
        return prod(self.shape)

    def bits(self, where: Predicate) -> Words:
        """The cells that a condition keeps; refused if it cuts through one."""
        return pack(np.broadcast_to(self.select(where), self.shape).ravel())

    def weight(self, sql: str) -> Weights:
        """What a record of each cell adds to the sum of a declared column, or of its square."""
        axis, power = self._summed(sql)
        amounts, half = self._amounts(axis)
        if power == 2 and half:
            name = self.domain.columns[axis].name
            raise UnsupportedQuery(f"the square of {name!r} is not known within its bins: declare a step")
        scaled = Weights.of(a**power for a in amounts)
        if axis not in self.axes:
            cell = dict(self.keys)[axis]
            return Weights(np.full(self.count, scaled.values[cell]), scaled.over)
        shape = [1] * len(self.axes)
        shape[self.axes.index(axis)] = len(amounts)
        return Weights(np.broadcast_to(scaled.values.reshape(shape), self.shape).ravel(), scaled.over)

    def half(self, sql: str) -> Fraction:
        """By how much a record may differ from what its cell adds, at most: half the width of a bin."""
        return self._amounts(self._summed(sql)[0])[1]

    def select(self, where: Predicate) -> NDArray[np.bool_]:
        """Which cells a condition keeps, broadcastable to `shape`; refused if it cuts through a cell."""
        found = self.truths(where)
        cut = (found & TRUE != 0) & (found != TRUE)
        if cut.any():
            at = np.unravel_index(int(np.flatnonzero(cut)[0]), cut.shape)
            columns = [self.domain.columns[axis] for axis in self.axes]
            used = [(c, int(i)) for c, i, size in zip(columns, at, cut.shape, strict=True) if size > 1]
            used += [(self.domain.columns[axis], cell) for axis, cell in self.keys if not used]
            listed = ", ".join(f"{c.name} {c.describe(cell)}" for c, cell in used)
            binned = any(isinstance(c, Range) for c, _ in used)
            cure = "use the edges of the bins" if binned else "name declared values with =, <> or IN"
            raise UnsupportedQuery(f"{format_predicate(where)} cuts through the cell {listed}: {cure}")
        kept: NDArray[np.bool_] = found == TRUE
        return kept

    def truths(self, where: Predicate) -> Truths:
        """For each cell, the set of truth values its records can give: an array that broadcasts to `shape`.

        Cost: one pass over the cells of the columns that are used.
        """
        return fold(where, lift_to_cells(self._leaf, len(self.axes)))

    def _leaf(self, leaf: Leaf) -> Truths:
        if not isinstance(leaf, Comparison | Membership | Like | IsNull):
            raise UnsupportedQuery(
                f"{format_predicate(leaf)} is no condition on cells: compare one column with constants "
                "(=, <>, <, <=, >, >=, IN, BETWEEN)"
            )
        axis = self.domain.axis(leaf.column)
        at = (axis, format_predicate(leaf))
        if at not in self.cache.truths:
            self.cache.truths[at] = self.domain.columns[axis].truths(leaf)
        found = self.cache.truths[at]
        shape = [1] * len(self.axes)
        if axis in self.axes:
            shape[self.axes.index(axis)] = found.size
            return found.reshape(shape)
        cell = dict(self.keys)[axis]
        return found[cell : cell + 1].reshape(shape)

    def _amounts(self, axis: int) -> tuple[list[Fraction], Fraction]:
        if axis not in self.cache.amounts:
            self.cache.amounts[axis] = self.domain.columns[axis].amounts()
        return self.cache.amounts[axis]

    def _summed(self, sql: str) -> tuple[int, int]:
        """The column that a weight is, and its power."""
        for axis in (*self.axes, *(axis for axis, _ in self.keys)):
            name = quote_name(self.domain.columns[axis].name)
            if sql in (name, f"{name} * {name}"):
                return axis, 1 if sql == name else 2
        raise UnsupportedQuery(
            f"{sql}: only declared columns can be summed privately: write min and max under [columns.private.NAME], or "
            "[columns.public.NAME] for a public one, in keyhole.toml"
        )
