"""How an engine computes what it compares with a constant: exactly, or up to the dust of floating point.

Integers and decimals are added exactly. DOUBLEs are off by at most n units of rounding of the absolute values that are
added; next to the constant these are no more than the constant itself where nothing cancels, so that nothing is lost
next to 0. They are exact in any order where all of them are multiples of one power of two and their sum has at most 53
bits. A division rounds once more. `/` makes DOUBLEs of whole numbers, so that a factor 1/10 counts as one.
Reference: Higham, Accuracy and Stability of Numerical Algorithms, 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, isfinite, lcm

import numpy as np
from numpy.typing import NDArray

from keyhole.gather.answers import TINY, ULP, exact_weight
from keyhole.model.grid import Grid
from keyhole.model.prior import Knowledge
from keyhole.model.query import Query
from keyhole.model.schema import Kind, Schema

BITS = 2**53
MORE = 4  # roundings of one addend besides the additions: its own, its weight, its factor


@dataclass(frozen=True, slots=True)
class SummedPart:
    """`factor * SUM(weight * column ** power)`; no column: weights alone, or people.

    `records` that may be added, the absolute values of their weights added up (`heavy`; without weight, the records),
    and what every weight is a multiple of (`weight_unit`; None: not known).
    """

    column: str | None
    factor: Fraction
    power: int
    records: int
    heavy: Fraction
    weight: str | None = None
    weight_unit: Fraction | None = Fraction(1)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The engine's number is within `dust` of the true one; `sure`: where that is the constant, so is the engine's."""

    dust: Fraction = Fraction(0)
    sure: bool = True


EXACT = Arithmetic()


def lowest_bit(values: NDArray[np.float64]) -> Fraction | None:
    """The largest power of two of which all these numbers are multiples; None if all are 0.

    >>> lowest_bit(np.array([1.5, -4.0, 0.0])), lowest_bit(np.array([0.1])) == Fraction(1, 2**55)
    (Fraction(1, 2), True)
    """
    mantissas, exponents = np.frexp(values[values != 0])
    if not len(mantissas):
        return None
    whole = np.abs(np.ldexp(mantissas, 53)).astype(np.int64)
    trailing = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    return Fraction(2) ** int((exponents.astype(np.int64) - 53 + trailing).min())


@dataclass(frozen=True, slots=True)
class Computed:
    """Sums as an engine computes them, of columns of these kinds within what is declared."""

    schema: Schema
    knowledge: Knowledge

    def arithmetic(
        self,
        query: Query,
        top: Sequence[SummedPart],
        per: Sequence[SummedPart] = (),
        below: Fraction = Fraction(1),
        seen: Fraction = Fraction(0),
    ) -> Arithmetic:
        """Of a comparison of top, or top / per, with a constant.

        `below`: the quotient's denominator is at least this; `seen`: the data are known to be off by so much. Columns
        without a declared range count with what is next to the constant.
        """
        assert query.test is not None
        at = abs(Fraction(query.test.value))
        if not query.per and self._exactly(top):
            return EXACT
        if query.test.unit not in (None, 1):  # ROUND to digits multiplies and divides
            plain = replace(query, test=replace(query.test, unit=None))
            found = self.arithmetic(plain, top, per, below, seen)
            return Arithmetic(found.dust + 4 * ULP * at, sure=False)
        private_per = any(s.column is not None or s.weight is not None for s in per)
        n = sum(s.records for s in (*top, *(per if private_per else ()))) + MORE
        if not private_per and (self._exactly(top) or self._dyadic(top)):
            return self._exact_sum(query, top, at, below)
        if self._one_sign(top) and (not private_per or self._one_sign(per)):
            near = 4 * at
        else:
            size = self._size(top)
            near = at if size is None else at + size / below
            under = self._size(per) if private_per else None
            near += 0 if under is None else at * under / below
        dust = max(n * ULP * near, seen) + (n * TINY / below if self._underflows(query, top) else 0)
        return Arithmetic(dust, sure=not dust)

    def unit(self, summands: Sequence[SummedPart]) -> Fraction | None:
        """What every possible sum is a multiple of; None where a column has no step."""
        found = Fraction(0)
        for s in summands:
            each = self._step(s)
            if each is None or s.weight_unit is None:
                return None
            found = common_unit(found, s.factor * each * s.weight_unit)
        return found or None

    def adds_exactly(self, query: Query, values: Callable[[str], NDArray[np.float64] | None], n: int) -> bool:
        """Is a sum of DOUBLEs, or a quotient of such sums, exact in whatever order an engine adds n records up?

        All that is added must be multiples of one power of two, with at most 53 bits in the sum of absolute values: on
        the declared grid, or without one by the `values` of a column (None: not at hand).
        """
        for terms in (query.terms, query.per):
            unit, total = Fraction(0), Fraction(0)
            for term in terms:
                if term.weight is not None or not _two_power(term.factor.denominator):
                    return False
                if term.column is None:
                    step, most = Fraction(1), Fraction(n)
                else:
                    size = self._step_and_size(term.column, term.power, values, n)
                    if size is None or not _two_power(size[0].denominator):
                        return False
                    step, most = size
                unit = common_unit(unit, step * term.factor)
                total += most * abs(term.factor)
            if unit and total / unit >= BITS:
                return False
        return True

    def cancelled_dust(
        self, query: Query, values: Callable[[str], NDArray[np.float64] | None], n: int
    ) -> Fraction | None:
        """How far a sum may be off because numbers of both signs cancel in it; 0 if none do, None if that is not known.

        Weighted sums are left out: the rows of a system know how large what they add up is.
        """
        signs, size = set(), Fraction(0)
        for term in query.terms:
            if term.weight is not None:
                continue
            if term.column is None:
                least, most = Fraction(1), Fraction(1)
            else:
                grid, held = self._grid(SummedPart(term.column, term.factor, 1, n, Fraction(n))), values(term.column)
                low, high = (grid.lo, grid.hi) if held is None else (held.min(initial=0), held.max(initial=0))
                if low is None or high is None:
                    return None
                least, most = Fraction(low) ** term.power, Fraction(high) ** term.power
            signs |= {(end > 0) == (term.factor > 0) for end in (least, most) if end}
            size += n * max(abs(least), abs(most)) * abs(term.factor)
        return (n + MORE) * ULP * size if len(signs) > 1 else Fraction(0)

    def _step_and_size(
        self, column: str, power: int, values: Callable[[str], NDArray[np.float64] | None], n: int
    ) -> tuple[Fraction, Fraction] | None:
        """What all values of a column are multiples of, and how much their absolute values add up to at most."""
        part = SummedPart(column, Fraction(1), power, n, Fraction(n))
        step, most = self._step(part), self._most(part)
        if step is not None and most is not None:
            return step, most * n
        held = values(column)
        if held is None:
            return None
        if step is None:
            lowest = lowest_bit(held)
            step = Fraction(1) if lowest is None else lowest**power
        if most is None:
            with np.errstate(over="ignore"):
                added = float(np.sum(np.abs(held) ** power))
            return None if not isfinite(added) else (step, Fraction(added) * (1 + n * ULP))
        return step, most * n

    def _exact_sum(self, query: Query, top: Sequence[SummedPart], at: Fraction, below: Fraction) -> Arithmetic:
        """A sum without dust: what is left is the constant, and a division by a count."""
        if query.per:
            kinds = {self._kind(s) for s in top if s.column is not None}
            once = len(top) == 1 and all(map(_two_power, top[0].factor.as_integer_ratio()))
            sure = not at or (once and kinds <= {Kind.INTEGER, Kind.DOUBLE} and at * below < BITS)
            return Arithmetic(4 * ULP * at, sure)
        whole = _two_power(at.denominator) and at.numerator < BITS
        return Arithmetic(Fraction(0) if whole else ULP * at)

    def _exactly(self, summands: Sequence[SummedPart]) -> bool:
        """Integers and decimals, added and multiplied."""
        kinds = {self._kind(s) for s in summands if s.column is not None}
        weights = (s.weight for s in summands if s.weight is not None)
        whole = all(s.factor.denominator == 1 for s in summands)
        return whole and Kind.DOUBLE not in kinds and all(exact_weight(w, self.schema) for w in weights)

    def _dyadic(self, summands: Sequence[SummedPart]) -> bool:
        """Multiples of one power of two, too few to round in any order."""
        over, total = 1, Fraction(0)
        for s in summands:
            step, most = self._step(s), self._most(s)
            if step is None or most is None or s.weight_unit is None:
                return False
            if not all(_two_power(f.denominator) for f in (step, s.weight_unit, s.factor)):
                return False
            over = lcm(over, step.denominator * s.weight_unit.denominator * s.factor.denominator)
            total += abs(s.factor) * s.heavy * most
        return max((s.factor.denominator for s in summands), default=1) * total * over < BITS

    def _one_sign(self, summands: Sequence[SummedPart]) -> bool:
        """Is nothing that is added of another sign than the rest, so that nothing cancels?"""
        if len(summands) == 1 and summands[0].records <= 1:
            return True
        signs = set()
        for s in summands:
            if s.weight is not None:
                return False
            grid = self._grid(s)
            if s.column is None or s.power == 2 or (grid.lo is not None and grid.lo >= 0):
                signs.add(s.factor > 0)
            elif grid.hi is not None and grid.hi <= 0:
                signs.add(s.factor < 0)
            else:
                return False
        return len(signs) <= 1

    def _size(self, summands: Sequence[SummedPart]) -> Fraction | None:
        """How much is added up at most, in absolute values; None where no range is declared."""
        total = Fraction(0)
        for s in summands:
            most = self._most(s)
            if most is None:
                return None
            total += abs(s.factor) * s.heavy * most
        return total

    def _underflows(self, query: Query, top: Sequence[SummedPart]) -> bool:
        """May a product or a quotient be so small that it is lost? No multiple of a step is."""
        plain = not query.per and all(s.weight is None and abs(s.factor) >= 1 and s.power == 1 for s in top)
        return not plain and any(self._step(s) is None for s in top)

    def _most(self, s: SummedPart) -> Fraction | None:
        if s.column is None:
            return Fraction(1)
        grid = self._grid(s)
        return None if grid.lo is None or grid.hi is None else max(abs(grid.lo), abs(grid.hi)) ** s.power

    def _step(self, s: SummedPart) -> Fraction | None:
        """What every value is a multiple of."""
        if s.column is None:
            return Fraction(1)
        grid = self._grid(s)
        return None if grid.step is None else common_unit(grid.step, grid.base) ** s.power

    def _kind(self, s: SummedPart) -> Kind:
        column = self.schema.find(s.column or "")
        return Kind.DOUBLE if column is None else column.kind

    def _grid(self, s: SummedPart) -> Grid:
        column, prior = self.schema.find(s.column or ""), self.knowledge.prior(s.column or "")
        return Grid.of(self._kind(s), prior, None if column is None else column.digits)


def common_unit(one: Fraction, two: Fraction) -> Fraction:
    """The largest number of which both are multiples: the greatest common divisor of fractions.

    >>> common_unit(Fraction(3, 2), Fraction(1)), common_unit(Fraction(0), Fraction(-5))
    (Fraction(1, 2), Fraction(5, 1))
    """
    over = lcm(one.denominator, two.denominator)
    return Fraction(gcd(int(one * over), int(two * over)), over)


def dyadic(number: Fraction) -> bool:
    """Is a number a DOUBLE as it is, and its half, and the sum of two of them?

    >>> dyadic(Fraction(3, 4)), dyadic(Fraction(1, 10))
    (True, False)
    """
    return _two_power(number.denominator) and abs(number.numerator) < 2**40 and number.denominator < 2**10


def _two_power(n: int) -> bool:
    return abs(n) & (abs(n) - 1) == 0


__all__ = ["EXACT", "Arithmetic", "Computed", "SummedPart", "common_unit", "dyadic", "lowest_bit"]
