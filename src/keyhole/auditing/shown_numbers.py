"""Numbers of proofs as decimals: the simplest one of a value, ends of a range rounded outwards."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.model.numbers import find_simplest_decimal, shift_point


def shown_value(ends: tuple[Fraction, Fraction] | None) -> Decimal | None:
    """The value of a proof as a decimal."""
    return None if ends is None else find_simplest_decimal(*ends)


def outward(lo: Fraction, hi: Fraction) -> tuple[Decimal, Decimal]:
    """An interval as decimals of nine digits, rounded outwards.

    >>> outward(Fraction(1, 3), Fraction(2, 3))
    (Decimal('0.333333333'), Decimal('0.666666667'))
    """
    return _short(floor(lo * 10**9)), _short(ceil(hi * 10**9))


def _short(units: int) -> Decimal:
    """So many billionths, without zeros at the end."""
    number = shift_point(units, 9)
    whole = number.to_integral_value()
    return whole if number == whole else number.normalize()
