"""Which quotient a printed number stands for: a DOUBLE is near many fractions, and seldom only one is possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from keyhole.gather.answers import ULP, Interval
from keyhole.model.forms import ONE, Feature, Form, Part
from keyhole.model.grid import Grid
from keyhole.model.prior import Knowledge
from keyhole.model.query import Term
from keyhole.model.schema import Kind, Schema


@dataclass(frozen=True, slots=True)
class Quotients:
    """What the sums of a system can be: whole multiples of something, and how large."""

    features: Sequence[Feature]
    schema: Schema
    knowledge: Knowledge
    n: int

    def whole(self, parts: Iterable[Part]) -> bool:
        """Is a sum of parts an integer, whatever the private values are?"""
        return all(p.weight is None and p.factor.denominator == 1 and self._parts(p) == 1 for p in parts)

    def sole(self, form: Form, said: Interval) -> Fraction | None:
        """The one quotient in an interval that `form` can be; None if there may be several.

        A sum of numbers with a step, over a count or a bounded sum, is a fraction whose denominator is bounded by some
        D, and two of these are 1 / D^2 apart. Decimals and doubles without a declared step have no such bound.
        """
        assert said.lo is not None
        assert said.hi is not None
        over, largest = self.over(form.top), self._largest(form.per)
        under = self.over(form.per)
        if over is None or under is None or largest is None:
            return None
        most = int(largest * under) * over
        middle = (said.lo + said.hi) / 2
        width = max(said.hi - said.lo, 8 * ULP * abs(middle))  # a DOUBLE is what anybody was told
        if most < 1 or width * most * most >= 1:
            return None
        found = middle.limit_denominator(most)
        return found if abs(found - middle) <= width / 2 else None

    def largest(self, below: Sequence[Term]) -> Fraction | None:
        """How large a sum of terms can be, whatever the private values are; None if no range is declared."""
        if len(below) == 1 and below[0].column is None and below[0].weight is None:
            return abs(below[0].factor) * self.n
        total = Fraction(0)
        for term in below:
            size = Fraction(1)
            if term.column is not None:
                column = self.schema.find(term.column)
                prior = self.knowledge.prior(term.column)
                grid = Grid.of(Kind.DOUBLE if column is None else column.kind, prior)
                if grid.lo is None or grid.hi is None:
                    return None
                size = max(abs(grid.lo), abs(grid.hi)) ** term.power
            if term.weight is not None:
                return None
            total += abs(term.factor) * size * self.n
        return total

    def over(self, parts: Iterable[Part]) -> int | None:
        """A number by which a sum of parts becomes an integer."""
        found = 1
        for p in parts:
            each = self._parts(p)
            if each is None or p.weight is not None:
                return None
            found = lcm(found, each * p.factor.denominator)
        return found

    def _largest(self, parts: Iterable[Part]) -> Fraction | None:
        """How large a sum of parts can be."""
        total = Fraction(0)
        for p in parts:
            size, feature = Fraction(1), None if p.feature == ONE else self.features[p.feature]
            if feature is not None and feature.column is not None:
                grid = self._grid(p)
                if grid.lo is None or grid.hi is None:
                    return None
                size = max(abs(grid.lo), abs(grid.hi)) ** feature.power
            total += abs(p.factor) * size * self.n
        return total

    def _parts(self, part: Part) -> int | None:
        """Every value of the feature is a multiple of one over this."""
        feature = None if part.feature == ONE else self.features[part.feature]
        if feature is None or feature.column is None:
            return 1
        each = self._grid(part).parts
        return None if each is None else each**feature.power

    def _grid(self, part: Part) -> Grid:
        feature = None if part.feature == ONE else self.features[part.feature]
        if feature is None or feature.column is None:
            return Grid(Fraction(1))
        column = self.schema.find(feature.column)
        kind = Kind.DOUBLE if column is None else column.kind
        return Grid.of(kind, self.knowledge.prior(feature.column))
