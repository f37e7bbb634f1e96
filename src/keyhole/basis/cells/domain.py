"""The finite domain of private answering: declared columns, each cut into cells, and their product.

Whatever a table holds has a cell: numbers outside their range are clamped into it and rounded to the step, undeclared
values have a cell of their own or count as NULL, and NULL has one or counts as a declared value. So nothing about the
data can make loading or a question fail.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.model.predicate import Leaf, Scalar

Truths = NDArray[np.uint8]
FALSE, NULL, TRUE = 1, 2, 4  # a cell's truth is the set of what its records can say: these bits, or'ed together


class DeclaredColumn(Protocol):
    """One declared column, cut into cells; the NULL cell is the last."""

    @property
    def name(self) -> str:
        """The column's name, as the table spells it."""

    @property
    def size(self) -> int:
        """How many cells, the NULL cell included."""

    def truths(self, leaf: Leaf) -> Truths:
        """For each cell, the set of truth values that records in it can give to a condition on this column."""

    def keys(self) -> tuple[Scalar, ...]:
        """The declared values, in cell order; refused where a cell holds several."""

    def amounts(self) -> tuple[list[Fraction], Fraction]:
        """What each cell adds to a SUM, and by how much a record in it may differ from that at most."""

    def describe(self, cell: int) -> str:
        """A cell in words."""

    def code(self) -> str:
        """An SQL expression that gives a record's cell number."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The product of declared columns: cell numbers run over the last column fastest. It may be far too large to hold:
    a question looks at the columns it names, and at no others.

    >>> from fractions import Fraction
    >>> from keyhole.basis.cells.categories import Categories
    >>> from keyhole.basis.cells.numbers import Range
    >>> age = Range("age", Fraction(0), Fraction(99), Fraction(50), Fraction(1))
    >>> domain = Domain((Categories("sex", ("F", "M"), other=False), age))
    >>> domain.shape, domain.cells, domain.describe(4)
    ((3, 3), 9, "sex 'M', age [50, 100)")
    """

    columns: tuple[DeclaredColumn, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigError(
                "no column has a finite domain: declare [columns.public.NAME] or [columns.private.NAME] with values, "
                "or with min, max and width"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each column."""
        return tuple(c.size for c in self.columns)

    @property
    def cells(self) -> int:
        """Cells in all."""
        return math.prod(self.shape)

    def axis(self, name: str) -> int:
        """The position of a declared column; an undeclared one is refused."""
        for axis, column in enumerate(self.columns):
            if column.name == name:
                return axis
        known = ", ".join(c.name for c in self.columns)
        raise UnsupportedQuery(
            f"column {name!r} has no declared domain, so it cannot be answered about privately; declared are {known}"
        )

    def describe(self, cell: int) -> str:
        """A cell in words."""
        places = np.unravel_index(cell, self.shape)
        return ", ".join(f"{c.name} {c.describe(int(i))}" for c, i in zip(self.columns, places, strict=True))

    def fingerprint(self) -> str:
        """A digest of the declaration."""
        return hashlib.blake2b(repr(self.columns).encode(), digest_size=16).hexdigest()

    def code(self, axes: Iterable[int] | None = None) -> str:
        """An SQL expression that gives a record's cell number, over some of the columns."""
        text = "0"
        for column in self.columns if axes is None else (self.columns[axis] for axis in axes):
            text = f"({text}) * {column.size} + ({column.code()})"
        return text
