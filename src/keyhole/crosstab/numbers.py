"""Numbers as tables print them: their digits, and how far off the truth each may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from keyhole.errors import DataError

PLAIN = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
GROUPED = re.compile(r"[-+]?\d{1,3}([, '\u00a0\u202f]\d{3})+(\.\d+)?")
COMMA = re.compile(r"[-+]?\d+,\d+")
DUST = 15  # significant digits from which a number is a printed double
LONGEST = 100  # digits of a number that anybody publishes


def read_number(text: str, delimiter: str = ",") -> Decimal | None:
    """A printed number, or None: `1234.5`, `1 234.5`, `1,234.5`, and `12,5` in a file separated by semicolons.

    >>> read_number("1,234.50"), read_number("12,5", ";"), read_number("x")
    (Decimal('1234.50'), Decimal('12.5'), None)
    """
    if len(text) > LONGEST:
        return None
    if PLAIN.fullmatch(text):
        found = Decimal(text)
        return found if abs(found.adjusted()) < LONGEST else None
    if delimiter == ";" and COMMA.fullmatch(text):
        if GROUPED.fullmatch(text):
            raise DataError(
                f"{text!r} may be {text.replace(',', '.')} or {text.replace(',', '')}: write it without comma"
            )
        return Decimal(text.replace(",", "."))
    return Decimal(re.sub("[, '\u00a0\u202f]", "", text)) if GROUPED.fullmatch(text) else None


def count_digits(number: Decimal) -> int:
    """Decimals shown.

    >>> count_digits(Decimal("44475.4973")), count_digits(Decimal("7"))
    (4, 0)
    """
    return max(0, -int(number.as_tuple().exponent))


def is_dusty(number: Decimal) -> bool:
    """Does it look like a printed double: 2305598.5354999998?"""
    return len(number.as_tuple().digits) >= DUST and count_digits(number) > 0


def count_decimals(numbers: Iterable[Decimal]) -> int:
    """The decimals that a table is printed with: the most of any number that is no printed double."""
    return max((count_digits(n) for n in numbers if not is_dusty(n)), default=0)


def sweep_dust(number: Decimal, digits: int) -> Fraction:
    """A number without the dust of doubles.

    >>> sweep_dust(Decimal("2305598.5354999998"), 4)
    Fraction(4611197071, 2000)
    """
    exact = Fraction(number)
    if not is_dusty(number) or count_digits(number) <= digits:
        return exact
    near = Fraction(round(exact * 10**digits), 10**digits)
    return near if abs(near - exact) <= abs(exact) / 10**13 else exact
