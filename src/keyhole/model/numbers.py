"""Numbers as text and back.

`read_decimal`, `read_fraction` and `read_int` read what comes from outside, with every digit and within limits that
keep a short text from filling the memory. The others turn exact fractions into decimals: with all their digits
(`expand_fraction`), with so many significant ones (`round_fraction`), or with as few as say the same
(`find_simplest_decimal`, `shorten_fraction`).
"""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction

from keyhole.errors import LARGEST_POWER, MOST_DIGITS, NumberError

PLACES = 40  # decimal places with which an exact number is still written in full


def read_decimal(given: str | float | Decimal) -> Decimal:
    """A number from outside, with all its digits: the one way in which settings, answers and options are read.

    Raises `NumberError` at 10^400 and beyond and for more than 10,000 digits before and behind the point (1e-10001 is
    as long as 1e10001), ValueError for what is no number. NaN and infinities are left to the caller.

    >>> read_decimal("0.10"), read_decimal(12)
    (Decimal('0.10'), Decimal('12'))
    >>> read_decimal("1e999999999")
    Traceback (most recent call last):
    keyhole.errors.NumberError: the number 1e999999999 is too large or too long: numbers are read below 10^400, \
with at most 10,000 digits
    """
    if isinstance(given, str) and len(given) > MOST_DIGITS + 20:
        raise NumberError(given)
    if isinstance(given, int) and given.bit_length() > LARGEST_POWER * 10 / 3:
        raise NumberError(f"of {given.bit_length()} bits")
    try:
        number = Decimal(repr(given) if isinstance(given, float) else given)
    except InvalidOperation:
        raise ValueError(f"{given!r} is not a number") from None
    if number.is_finite():
        _, digits, exponent = number.as_tuple()
        if number and (number.adjusted() >= LARGEST_POWER or max(len(digits), -int(exponent)) > MOST_DIGITS):
            raise NumberError(str(given))
        if not number and abs(int(exponent)) > MOST_DIGITS:
            return Decimal(0)
    return number


def read_fraction(given: str | float | Decimal) -> Fraction:
    """The same as a fraction; p/q is read too. ValueError for NaN and infinities.

    >>> read_fraction("1/3"), read_fraction("0.25")
    (Fraction(1, 3), Fraction(1, 4))
    """
    above, slash, below = given.partition("/") if isinstance(given, str) else (given, "", "1")
    numbers = [read_decimal(part) for part in (above, below or "1")]
    if not all(number.is_finite() for number in numbers) or (slash and not numbers[1]):
        raise ValueError(f"{given!r} is not a number")
    fraction = Fraction(numbers[0]) / Fraction(numbers[1])
    if abs(fraction) >= 10**LARGEST_POWER:
        raise NumberError(str(given))
    return fraction


def read_int(text: str) -> int:
    """A whole number of JSON or TOML, as far as numbers are read.

    >>> read_int("12")
    12
    """
    return int(read_decimal(text))


def shift_point(units: int, digits: int) -> Decimal:
    """units / 10**digits with every digit: arithmetic of decimals would keep 28 of them.

    >>> shift_point(52, 1), shift_point(10**30 + 1, 1)
    (Decimal('5.2'), Decimal('100000000000000000000000000000.1'))
    """
    return Decimal(units * 10**-digits) if digits <= 0 else Decimal(f"{units}E-{digits}")


def expand_fraction(value: Fraction, places: int = PLACES) -> Decimal | None:
    """The decimal that a fraction is, with all its digits; None if it needs more decimal places than these.

    >>> expand_fraction(Fraction(5, 8)), expand_fraction(Fraction(12000)), expand_fraction(Fraction(1, 3))
    (Decimal('0.625'), Decimal('12000'), None)
    """
    if 10**places % value.denominator:
        return None
    digits = next(d for d in range(places + 1) if 10**d % value.denominator == 0)
    return shift_point(int(value * 10**digits), digits)


def round_fraction(value: Fraction, digits: int = 28) -> Decimal:
    """A fraction as a decimal of at most so many significant digits: exactly if these are enough, else rounded.

    >>> round_fraction(Fraction(1, 8)), round_fraction(Fraction(2, 3), 4), round_fraction(Fraction(1, 10**45))
    (Decimal('0.125'), Decimal('0.6667'), Decimal('1E-45'))
    """
    return Context(prec=digits).divide(Decimal(value.numerator), Decimal(value.denominator))


def find_simplest_decimal(lo: Fraction, hi: Fraction) -> Decimal:
    """The decimal with the fewest digits in [lo, hi]: how a value known up to rounding is shown.

    >>> find_simplest_decimal(Fraction("5.1999999999"), Fraction("5.2000000001"))
    Decimal('5.2')
    >>> find_simplest_decimal(Fraction(1, 3), Fraction(1, 3))
    Decimal('0.333333333333')
    """
    middle = (lo + hi) / 2
    for digits in range(13):
        scaled = round(middle * 10**digits)
        if lo <= Fraction(scaled, 10**digits) <= hi:
            return shift_point(scaled, digits)
    exact = expand_fraction(middle) if lo == hi else None
    if exact is not None:  # an exact decimal with many digits is shown in full
        return exact
    units = round(middle * 10**12)
    zeros = next((z for z in range(12) if units % 10 ** (z + 1)), 12)
    return shift_point(units // 10**zeros, 12 - zeros)


def shorten_fraction(value: Fraction) -> Decimal:
    """A fraction as a decimal for people: exactly if it has at most 40 decimal places, else rounded to 12 of them.

    >>> shorten_fraction(Fraction(5, 2)), shorten_fraction(Fraction(2, 3))
    (Decimal('2.5'), Decimal('0.666666666667'))
    """
    return find_simplest_decimal(value, value)


def fraction_to_scalar(value: Fraction) -> int | Decimal:
    """A fraction as SQL writes it: a whole number if it is one, else a decimal of 28 digits.

    >>> fraction_to_scalar(Fraction(3)), fraction_to_scalar(Fraction(1, 2))
    (3, Decimal('0.5'))
    """
    return value.numerator if value.denominator == 1 else round_fraction(value)


def simplify_fraction(value: Fraction) -> int | Decimal:
    """A fraction as a whole number if it is one, else as a decimal for people.

    >>> simplify_fraction(Fraction(4, 2)), simplify_fraction(Fraction(5, 2))
    (2, Decimal('2.5'))
    """
    return int(value) if value.denominator == 1 else shorten_fraction(value)


def format_fraction(value: Fraction) -> str:
    """A fraction as people write it: a decimal without an exponent, exactly or to 12 decimal places.

    >>> format_fraction(Fraction(10**9)), format_fraction(Fraction(1, 4)), format_fraction(Fraction(1, 3))
    ('1000000000', '0.25', '0.333333333333')
    """
    return f"{shorten_fraction(value):f}"
