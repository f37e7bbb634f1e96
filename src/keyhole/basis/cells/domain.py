"""The finite domain of private answering: the product of the declared columns' cells."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from keyhole.basis.cells.declared import Declared
from keyhole.errors import ConfigError, UnsupportedQuery


@dataclass(frozen=True, slots=True)
class Domain:
    """The product of declared columns: cell numbers run over the last column fastest. It may be far too large to hold:
    a question looks at the columns it names, and at no others.

    >>> from fractions import Fraction
    >>> from keyhole.basis.cells.categories import Categories
    >>> from keyhole.basis.cells.ranges import Range
    >>> age = Range("age", Fraction(0), Fraction(99), Fraction(50), Fraction(1))
    >>> domain = Domain((Categories("sex", ("F", "M"), other=False), age))
    >>> domain.shape, domain.cells, domain.describe(4)
    ((3, 3), 9, "sex 'M', age [50, 100)")
    """

    columns: tuple[Declared, ...]

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
