"""The finite domain of private answering: the product of the declared columns' cells."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from keyhole.basis.cells.declared import Declared
from keyhole.errors import ConfigError, UnsupportedQuery

LARGEST_DOMAIN = 2**24


@dataclass(frozen=True, slots=True)
class Domain:
    """The product of declared columns: cell numbers run over the last column fastest.

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
        if self.cells > LARGEST_DOMAIN:
            sizes = " x ".join(f"{c.name} {c.size}" for c in self.columns)
            raise ConfigError(f"the domain has {self.cells:.3g} cells ({sizes}); at most 2^24: use wider bins")

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

    def code(self) -> str:
        """An SQL expression that gives a record's cell number."""
        text = "0"
        for column in self.columns:
            text = f"({text}) * {column.size} + ({column.code()})"
        return text
