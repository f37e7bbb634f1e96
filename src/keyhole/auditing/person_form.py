"""A sum over several records of one person that the answers determine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from keyhole.auditing.base import Proof, Status
from keyhole.model.predicate import Scalar


@dataclass(frozen=True, slots=True)
class PersonForm:
    """A sum over several records of one person that is determined: row -> how often it counts."""

    rows: tuple[int, ...]
    column: str
    coefficients: Mapping[int, Fraction]
    value: Scalar | None
    lo: Decimal | None
    hi: Decimal | None
    status: Status
    proof: Proof

    @property
    def form(self) -> str:
        """In words.

        >>> once = {0: Fraction(1), 1: Fraction(1)}
        >>> PersonForm((0, 1), "pay", once, None, None, None, Status.EXPOSED, Proof(0, {})).form
        'total pay of 2 records'
        """
        return sum_in_words(self.column, self.coefficients)


def sum_in_words(column: str, coefficients: Mapping[int, Fraction]) -> str:
    """A sum over records of one person: row -> how often it counts.

    >>> sum_in_words("pay", {0: Fraction(1), 4: Fraction(-2)}), sum_in_words("pay", {4: Fraction(1)})
    ('pay: record 1 - 2 × record 5', 'pay of record 5')
    """
    if len(coefficients) == 1 and set(coefficients.values()) == {1}:
        return f"{column} of record {next(iter(coefficients)) + 1}"
    if all(c == 1 for c in coefficients.values()):
        return f"total {column} of {len(coefficients)} records"
    parts = [
        f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c)} × '}record {r + 1}"
        for r, c in coefficients.items()
    ]
    return f"{column}: {' '.join(parts).removeprefix('+ ')}"
