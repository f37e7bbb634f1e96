"""What a yes or no says of a number that was compared: from where on it lies, and which tables surely give the answer.

An engine compares a number V' that is within `dust` of the true V. Of V on a grid the answer says that it is the next
possible number or beyond; without a grid, that it is no further than `dust` on the other side. A table gives the same
answer for sure only where V is beyond the constant by more than `dust`, or where V' is the very constant (`sure`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor


@dataclass(frozen=True, slots=True)
class OneSided:
    """V lies above (or below) `at`, as an engine saw it; `strict`: an engine that sees `at` itself would say no."""

    at: Fraction
    above: bool
    strict: bool
    dust: Fraction = Fraction(0)
    sure: bool = True

    @classmethod
    def of(cls, op: str, at: Fraction, held: bool, dust: Fraction, *, sure: bool) -> OneSided:
        """By the operator, one of > >= < <=, and its answer.

        >>> OneSided.of(">", Fraction(3), False, Fraction(0), sure=True)
        OneSided(at=Fraction(3, 1), above=False, strict=False, dust=Fraction(0, 1), sure=True)
        """
        above = (op in (">", ">=")) is held
        return cls(at, above, op in ((">", "<=") if above else ("<", ">=")), dust, sure)

    def times(self, scale: Fraction, offset: Fraction) -> OneSided:
        """The same of V * scale - offset."""
        above = self.above is (scale > 0)
        return OneSided(self.at * scale - offset, above, self.strict, self.dust * abs(scale), self.sure)

    def end(self, unit: Fraction | None) -> tuple[Fraction, Fraction | None]:
        """(from where on V lies, edge): V a multiple of `unit` (None: any number).

        A table surely gives the answer if its V is inside the end by more than `edge`; None: on the end too.

        >>> def ends(comparison: OneSided) -> list[str]:
        ...     return [str(n) for unit in (None, Fraction(1)) for n in comparison.end(unit)]
        >>> ends(OneSided(Fraction(3), above=True, strict=True))
        ['3', '0', '4', 'None']
        >>> ends(OneSided(Fraction(3), above=False, strict=True, dust=Fraction(1, 8), sure=False))
        ['25/8', '1/4', '3', '0']
        """
        if not self.above:
            end, edge = OneSided(-self.at, True, self.strict, self.dust, self.sure).end(unit)
            return -end, edge
        if unit is None:
            if self.sure and not self.dust:
                return self.at, Fraction(0) if self.strict else None
            return self.at - self.dust, 2 * self.dust
        first, safe = ceil((self.at - self.dust) / unit), floor((self.at + self.dust) / unit) + 1
        if self.sure and (self.at / unit).denominator == 1 and self.dust < unit:
            first = safe = int(self.at / unit) + self.strict
        return first * unit, None if safe <= first else (safe - 1 - first) * unit


__all__ = ["OneSided"]
