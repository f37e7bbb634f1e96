"""What all columns of numbers share: a condition over their cells, and numbers as the engine writes them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.declared import FALSE, NULL, TRUE, Truths
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import Comparison, IsNull, Leaf, Membership, Scalar, literal

Either: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # can a record of each cell say yes; can it say no


class NumberCells(Protocol):
    """Numbers in `bins` cells; where `size` is one more, the last cell is NULL."""

    @property
    def name(self) -> str:
        """The column."""

    @property
    def bins(self) -> int:
        """Cells of numbers."""

    @property
    def size(self) -> int:
        """Cells."""

    def below(self, op: str, value: Fraction) -> Either:
        """Can a record of the cell be < or <= a value, and can it not be?"""

    def among(self, values: Sequence[Fraction]) -> Either:
        """Can a record of the cell be one of the values, and can it be none of them?"""


def number_truths(column: NumberCells, leaf: Leaf) -> Truths:
    """What a condition can say in each cell: one that it cuts through can say both. All six operators follow from
    `below` and `among`."""
    if isinstance(leaf, IsNull):
        can_true, can_false = np.zeros(column.bins, dtype=np.bool_), np.ones(column.bins, dtype=np.bool_)
    elif isinstance(leaf, Comparison):
        can_true, can_false = _compare(column, leaf.op, number_in(column.name, leaf.value))
    elif isinstance(leaf, Membership):
        can_true, can_false = column.among([number_in(column.name, v) for v in leaf.values])
    else:
        raise UnsupportedQuery(f"LIKE on the number {column.name!r}: compare with <, <=, =, >= or > instead")
    said = np.empty(column.size, dtype=np.uint8)
    said[column.bins :] = TRUE if isinstance(leaf, IsNull) else NULL
    said[: column.bins] = can_true * np.uint8(TRUE) + can_false * np.uint8(FALSE)
    return said


def _compare(column: NumberCells, op: str, value: Fraction) -> Either:
    if op in ("=", "<>"):
        inside, outside = column.among([value])
        return (inside, outside) if op == "=" else (outside, inside)
    if op in (">", ">="):
        can_false, can_true = column.below("<=" if op == ">" else "<", value)
        return can_true, can_false
    return column.below(op, value)


def number_in(name: str, value: Scalar) -> Fraction:
    """A constant that a column is compared with, as a number.

    >>> number_in("age", 40)
    Fraction(40, 1)
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise UnsupportedQuery(f"{name!r} is a number and {literal(value)} is not")
    return Fraction(value)


def outside_domain(
    name: str, value: Fraction, ends: tuple[Fraction, Fraction], step: Fraction | None
) -> UnsupportedQuery:
    """That a number is none of a column."""
    grid = "" if step is None else f" in steps of {float(step):g}"
    return UnsupportedQuery(
        f"{float(value):g} is outside the domain of {name!r}: {float(ends[0]):g} to {float(ends[1]):g}{grid}"
    )


def as_scalar(value: Fraction) -> Scalar:
    """A number as a key of a group.

    >>> as_scalar(Fraction(3)), as_scalar(Fraction(1, 2))
    (3, Decimal('0.5'))
    """
    return int(value) if value.denominator == 1 else Decimal(value.numerator) / Decimal(value.denominator)


def in_sql(value: Fraction) -> str:
    """A number as SQL text.

    >>> in_sql(Fraction(1, 8))
    '0.125'
    """
    return f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
