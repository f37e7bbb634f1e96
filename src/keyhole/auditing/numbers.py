"""Numbers of proofs and ranges as they are written: ends rounded outwards; how narrow a range must be (`--within`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.errors import ConfigError, NumberError
from keyhole.model.numbers import expand_fraction, find_simplest_decimal, read_decimal, shift_point


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


DIGITS = 12  # of an end that is no decimal


@dataclass(frozen=True, slots=True)
class Within:
    """How narrow a range must be to count as inferred: a width, or a share of the larger of its ends.

    >>> Within.parse("5%").width(Fraction(90), Fraction(100)), Within.parse("0.5").width(None, None)
    (Fraction(5, 1), Fraction(1, 2))
    """

    amount: Fraction
    relative: bool = False

    @classmethod
    def parse(cls, text: str) -> Within:
        """`0.5`, or `5%`."""
        try:
            amount = Fraction(read_decimal(text.strip().removesuffix("%")))
        except NumberError as error:
            raise ConfigError(f"--within: {error}") from None
        except (ValueError, OverflowError):
            raise ConfigError(
                f"--within {text!r} is no width: write a number, such as 0.5, or a share, such as 5%"
            ) from None
        if amount < 0:
            raise ConfigError(f"--within {text!r} is below 0")
        relative = text.strip().endswith("%")
        return cls(amount / 100 if relative else amount, relative)

    def width(self, *ends: Fraction | None) -> Fraction:
        """The widest range that counts, between these ends."""
        return (
            self.amount * max((abs(e) for e in ends if e is not None), default=Fraction(0))
            if self.relative
            else self.amount
        )

    def holds(self, lo: Fraction | None, hi: Fraction | None) -> bool:
        """Is a range narrow enough to count?"""
        return lo is not None and hi is not None and hi - lo <= self.width(lo, hi)


def written(lo: Fraction | None, hi: Fraction | None) -> tuple[Decimal | None, Decimal | None]:
    """The ends of a range as decimals: exactly where they end, else rounded outwards.

    >>> [str(end) for end in written(Fraction(1, 3), Fraction(5, 2))]
    ['0.333333333333', '2.5']
    """
    return None if lo is None else _end(lo, floor), None if hi is None else _end(hi, ceil)


def _end(end: Fraction, outwards: Callable[[Fraction], int]) -> Decimal:
    exact = expand_fraction(end)
    return shift_point(outwards(end * 10**DIGITS), DIGITS) if exact is None else exact
