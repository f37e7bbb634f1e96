"""A weighted sum as a person writes it: `2 × Q1 - Q2`."""

from __future__ import annotations

from fractions import Fraction

from keyhole.model.numbers import shorten_fraction
from keyhole.report.words.digits import digits


def added_up(parts: list[tuple[Fraction, str]], constant: Fraction) -> str:
    """A weighted sum in words.

    >>> added_up([(Fraction(2), "Q1"), (Fraction(-1), "Q2")], Fraction(3))
    '2 × Q1 - Q2 + 3'
    """
    text = ""
    for weight, name in parts:
        size = abs(weight)
        factor = (
            "" if size == 1 else f"{size} × " if size.denominator == 1 else f"{size.numerator}/{size.denominator} × "
        )
        name = f"({name})" if name.startswith("-") and (text or weight < 0) else name
        sign = ("-" if weight < 0 else "") if not text else (" - " if weight < 0 else " + ")
        text += f"{sign}{factor}{name}"
    if constant:
        sign = ("-" if constant < 0 else "") if not text else (" - " if constant < 0 else " + ")
        text += f"{sign}{digits(shorten_fraction(abs(constant)))}"
    return text or "0"
