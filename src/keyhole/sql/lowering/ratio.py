"""Aggregates combined by + - * / and constants, while a SELECT item is read: one sum, or one quotient of two sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from keyhole.model.predicate import Predicate
from keyhole.model.query import Term


@dataclass(frozen=True, slots=True)
class Ratio:
    """(sum of `terms` + `constant`) divided by the sum of `per`, if any; `whole`: it can only be an integer.

    NULL if nobody satisfies one of the `needs`: one for each SUM and AVG inside.
    """

    terms: tuple[Term, ...]
    constant: Fraction = Fraction(0)
    per: tuple[Term, ...] = ()
    whole: bool = False
    needs: tuple[Predicate, ...] = ()

    def scaled(self, factor: Fraction) -> Ratio:
        """The value times a constant."""
        terms = tuple(replace(t, factor=t.factor * factor) for t in self.terms) if factor else ()
        return Ratio(terms, self.constant * factor, self.per, self.whole and factor.denominator == 1, self.needs)

    def needing(self, *others: Ratio) -> Ratio:
        """The same value, NULL also where one of the others is."""
        needs = dict.fromkeys((*self.needs, *(need for other in others for need in other.needs)))
        return replace(self, needs=tuple(needs))
