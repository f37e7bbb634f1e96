"""Which numbers a column can hold: its kind and its declared step, inside its declared range."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, lcm

from keyhole.model.prior import Prior
from keyhole.model.schema import Kind

_WHOLE = (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP)  # days, and the smallest unit of time


@dataclass(frozen=True, slots=True)
class Grid:
    """The numbers base + k * step from `lo` to `hi` (None: unbounded); without a step all numbers between.

    >>> whole = Grid.of(Kind.INTEGER, Prior())
    >>> whole.between(Fraction(50), Fraction(52), open=True), whole.sole(Fraction(50), Fraction(52), open=True)
    ((Fraction(51, 1), Fraction(51, 1)), Fraction(51, 1))
    """

    step: Fraction | None
    base: Fraction = Fraction(0)
    lo: Fraction | None = None
    hi: Fraction | None = None

    @classmethod
    def of(cls, kind: Kind, prior: Prior, digits: int | None = None) -> Grid:
        """Of a column: integers are whole, decimals have the `digits` of their type; else a step must be declared."""
        lo, hi = (None if end is None else Fraction(end) for end in (prior.lo, prior.hi))
        if prior.step is not None:
            return cls(Fraction(prior.step), lo or Fraction(0), lo, hi)
        if kind is Kind.DECIMAL and digits is not None:
            return cls(Fraction(1, 10**digits), Fraction(0), lo, hi)
        return cls(Fraction(1) if kind in _WHOLE else None, Fraction(0), lo, hi)

    @property
    def parts(self) -> int | None:
        """Every number is a multiple of one over this; None where there is no step."""
        return None if self.step is None else lcm(self.step.denominator, self.base.denominator)

    def between(
        self,
        low: Fraction | None,
        high: Fraction | None,
        *,
        open: bool = False,  # noqa: A002 - the word of mathematics
    ) -> tuple[Fraction | None, Fraction | None] | None:
        """The least and the greatest number between the ends (None: unbounded), or None if there is none.

        Without a step the ends of an open interval are given for it.
        """
        shut_low, shut_high = open, open
        if self.lo is not None and (low is None or self.lo > low):
            low, shut_low = self.lo, False
        if self.hi is not None and (high is None or self.hi < high):
            high, shut_high = self.hi, False
        if self.step is not None:
            if low is not None:
                count = (low - self.base) / self.step
                low = self.base + self.step * (floor(count) + 1 if shut_low else ceil(count))
            if high is not None:
                count = (high - self.base) / self.step
                high = self.base + self.step * (ceil(count) - 1 if shut_high else floor(count))
        elif low is not None and low == high and (shut_low or shut_high):
            return None
        return None if low is not None and high is not None and low > high else (low, high)

    def sole(self, low: Fraction | None, high: Fraction | None, *, open: bool = False) -> Fraction | None:  # noqa: A002
        """The one number between the ends; None if there are several, or none."""
        found = self.between(low, high, open=open)
        return found[0] if found is not None and found[0] == found[1] else None
