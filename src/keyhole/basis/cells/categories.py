"""Columns with a list of values."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from keyhole.basis.cells.domain import FALSE, NULL, TRUE, Truths
from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.model.predicate import (
    Comparison,
    IsNull,
    Leaf,
    Membership,
    Scalar,
    evaluate_leaf,
    format_literal,
    quote_name,
)


@dataclass(frozen=True, slots=True)
class Categories:
    """A column with a list of values, a cell for everything else unless `other` is off, and a NULL cell.

    Without `other`, values that are not listed count as NULL; with `missing`, both count as that value, and there is
    no other cell: whatever a table holds has one.

    >>> sex = Categories("sex", ("F", "M"))
    >>> sex.size, sex.truths(Comparison("sex", "=", "F")).tolist()  # F, M, other, NULL
    (4, [4, 1, 1, 2])
    """

    name: str
    values: tuple[Scalar, ...]
    other: bool = True
    missing: Scalar | None = None

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise ConfigError(f"column {self.name!r}: values = [...] needs at least one value and none twice")
        if self.missing is not None and (self.other or self.missing not in self.values):
            raise ConfigError(f"column {self.name!r}: missing = {self.missing!r} must be one of its values")

    @property
    def size(self) -> int:
        """Values, the `other` cell, the NULL cell."""
        return len(self.values) + (self.other + 1 if self.missing is None else 0)

    def truths(self, leaf: Leaf) -> Truths:
        """Each declared value is asked; `other` can say both unless only declared values are compared with."""
        try:
            said = [_bit(evaluate_leaf(leaf, value)) for value in self.values]
        except TypeError:
            raise UnsupportedQuery(f"{self.name!r} cannot be compared with that constant: the kinds differ") from None
        if self.other:
            said.append(self._other(leaf))
        elif (odd := self._undeclared(leaf)) is not None:
            raise self._outside(odd)
        if self.missing is None:
            said.append(TRUE if isinstance(leaf, IsNull) else NULL)
        return np.array(said, dtype=np.uint8)

    def _undeclared(self, leaf: Leaf) -> Scalar | None:
        asked: tuple[Scalar, ...] = ()
        if isinstance(leaf, Membership):
            asked = leaf.values
        elif isinstance(leaf, Comparison) and leaf.op in ("=", "<>"):
            asked = (leaf.value,)
        return next((v for v in asked if v not in self.values), None)

    def _outside(self, odd: Scalar) -> UnsupportedQuery:
        known = ", ".join(format_literal(v) for v in self.values[:20]) + (", ..." if len(self.values) > 20 else "")
        return UnsupportedQuery(f"{format_literal(odd)} is not a declared value of {self.name!r}; declared are {known}")

    def _other(self, leaf: Leaf) -> int:
        if isinstance(leaf, IsNull):
            return FALSE
        if isinstance(leaf, Membership) or (isinstance(leaf, Comparison) and leaf.op in ("=", "<>")):
            if (odd := self._undeclared(leaf)) is not None:
                raise self._outside(odd)
            return TRUE if isinstance(leaf, Comparison) and leaf.op == "<>" else FALSE
        return FALSE | TRUE

    def keys(self) -> tuple[Scalar, ...]:
        """The declared values; `other` and NULL are nobody's key."""
        return self.values

    def amounts(self) -> tuple[list[Fraction], Fraction]:
        """Numbers add up; an `other` cell has no bounds, so its column has no SUM."""
        if self.other or any(isinstance(v, bool) or not isinstance(v, int | Decimal) for v in self.values):
            raise UnsupportedQuery(
                f"{self.name!r} has no bounds to sum within: declare min, max and step or width for it"
            )
        numbers = [Fraction(v) for v in self.values if isinstance(v, int | Decimal)]
        return [*numbers, *([Fraction(0)] if self.missing is None else [])], Fraction(0)

    def describe(self, cell: int) -> str:
        """The value, "any other value" or "NULL"."""
        if cell < len(self.values):
            return format_literal(self.values[cell])
        return "any other value" if self.other and cell == len(self.values) else "NULL"

    def code(self) -> str:
        """A chain of comparisons."""
        name = quote_name(self.name)
        arms = " ".join(f"WHEN {name} = {format_literal(v)} THEN {i}" for i, v in enumerate(self.values))
        null = self.size - 1 if self.missing is None else self.values.index(self.missing)
        return f"CASE WHEN {name} IS NULL THEN {null} {arms} ELSE {len(self.values) if self.other else null} END"


def _bit(truth: bool | None) -> int:
    return NULL if truth is None else TRUE if truth else FALSE
