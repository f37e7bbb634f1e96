"""Numbers for people: every digit that is known, and no exponent."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

LONGEST = 40  # places; a number that needs more keeps its exponent


def digits(value: object) -> str:
    """A value as a person writes it: a number in full, a text as it is.

    >>> digits(Decimal("1E+5")), digits(Decimal("5.20")), digits("flu"), digits(Decimal("1E+400"))
    ('100000', '5.20', 'flu', '1E+400')
    """
    if not isinstance(value, Decimal) or not value.is_finite() or abs(value.adjusted()) > LONGEST:
        return str(value)
    return f"{value:f}"


def rounded(value: float | Fraction, bar: float | Fraction | None = None) -> str:
    """An estimate with the digits that its bar leaves: two of the bar's; six if it is infinite, twelve without one.

    >>> rounded(1234567.891), rounded(66653.0423, 12.5), rounded(66653.0423, 1000), rounded(0.1 + 0.2), rounded(2e-9)
    ('1234567.891', '66653', '66700', '0.3', '0.000000002')
    >>> rounded(31 / 6, math.inf)
    '5.16667'
    """
    number = float(value)
    if not math.isfinite(number) or abs(number) >= 10.0**LONGEST:
        return f"{number:g}"
    places = 12 - _size(number)
    if bar is not None and float(bar) > 0:
        places = 5 - _size(number) if math.isinf(bar) else min(places, 1 - _size(float(bar)))
    found = round(number, places)
    return np.format_float_positional(found + 0.0, trim="-") if found else "0"


def with_bar(value: float | Fraction, bar: float | Fraction) -> tuple[str, str]:
    """An estimate and its bar for people: the estimate cut to the bar's third digit, the bar rounded up to two digits,
    with what the cut took. What is shown says no more than what is known.

    >>> with_bar(21842, 109.26), with_bar(5.84213, 0.0631), with_bar(7, 0), with_bar(0.5, 12)
    (('21842', '110'), ('5.8421', '0.064'), ('7', '0'), ('0.5', '12'))
    """
    exact, wide = Fraction(value), Fraction(bar)
    if not wide:
        return rounded(value), "0"
    step = Fraction(10) ** (_size(float(wide)) - 2)
    cut = step * round(exact / step)
    wide += abs(cut - exact)
    coarse = Fraction(10) ** (_size(float(wide)) - 1)
    return rounded(cut), rounded(coarse * math.ceil(wide / coarse))


def _size(number: float) -> int:
    """The place of the first digit: 2 for 123, -1 for 0.1."""
    return math.floor(math.log10(abs(number))) if number else 0
