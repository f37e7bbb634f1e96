"""One weighted SUM for all: weights that grow faster than what the others can add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from keyhole.attacks.design.base import Number, Queries, Secrets, as_fractions, check_records
from keyhole.errors import ContradictionError, ModelError


@dataclass(frozen=True, slots=True)
class Superincreasing:
    """All n values of a grid lo, lo + step, .. hi from one SUM of value times weight, weights B^0, B^1, ..

    B = (hi - lo) / step + 1 is the number of values; (answer - lo * sum of weights) / step has the values as its digits
    in base B. One query is fewest. It needs a public column with such weights, or arithmetic on one:
    `SUM(POWER(2, id) * smoker)`; the answer has n log2 B bits, more than a DOUBLE holds from 53 on.
    Reference: merkle1978.

    >>> d = Superincreasing(3, Fraction(3), Fraction(4), Fraction(1, 2))
    >>> d.queries.tolist()
    [[1, 3, 9]]
    >>> d.decode([Fraction(7, 2) * 1 + 3 * 3 + 4 * 9])
    {0: Fraction(7, 2), 1: Fraction(3, 1), 2: Fraction(4, 1)}
    """

    n: int
    lo: Fraction = Fraction(0)
    hi: Fraction = Fraction(1)
    step: Fraction = Fraction(1)
    needs: ClassVar[Secrets] = Secrets.GRID

    def __post_init__(self) -> None:
        check_records(self.n)
        if self.step <= 0 or self.hi <= self.lo or (self.hi - self.lo) % self.step:
            raise ModelError(f"{self.lo} .. {self.hi} in steps of {self.step} is no grid")

    @property
    def base(self) -> int:
        """How many values there are."""
        return int((self.hi - self.lo) / self.step) + 1

    @property
    def queries(self) -> Queries:
        """One row of Python integers."""
        row = np.empty((1, self.n), dtype=object)
        row[0] = [self.base**j for j in range(self.n)]
        return row

    @property
    def exposes(self) -> tuple[int, ...]:
        """Everybody."""
        return tuple(range(self.n))

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Fraction]:
        """The digits of the answer."""
        [answer] = as_fractions(answers, 1)
        B = self.base
        digits = (answer - self.lo * ((B**self.n - 1) // (B - 1))) / self.step
        if digits.denominator != 1 or not 0 <= digits < B**self.n:
            raise ContradictionError("no values of this grid give this answer")
        found, left = {}, int(digits)
        for i in range(self.n):
            left, digit = divmod(left, B)
            found[i] = self.lo + digit * self.step
        return found
