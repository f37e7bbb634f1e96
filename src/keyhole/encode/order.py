"""Order statistics as rows: how many of a group are at most the answer, and how many at least.

The j-th least of n is at most hi iff n - j or fewer are above hi; the k-th is at least lo iff n - k + 1 or more are at
least lo. A quantile between two values ties two people besides: a choice of who they are, for groups of at most
`MIDDLE` people; of larger ones the two rows are said, and that it is not all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.gather.arithmetic import dyadic
from keyhole.gather.evidence import OrderFact
from keyhole.gather.order import SURE
from keyhole.model.grid import Grid
from keyhole.model.meaning import compare_numbers, find_ranks, round_number
from keyhole.model.query import CUT, ORDERED, ZERO, Query
from keyhole.model.schema import Column, Kind

MIDDLE = 30  # people of a group whose two middle ones are chosen


@dataclass(frozen=True, slots=True)
class Ranked:
    """An order statistic of n people: (1 - share) times the j-th least plus share times the k-th."""

    fact: OrderFact
    column: str
    atoms: frozenset[int]
    n: int
    j: int
    k: int
    share: Fraction

    @classmethod
    def of(cls, fact: OrderFact, column: Column, grid: Grid, atoms: frozenset[int], n: int) -> Ranked:
        """Of n people of some atoms."""
        j, k, share = find_ranks(fact.query, n)
        if j == k:
            fact = sharpen_comparison(sharpened(fact, column), column, grid)
        return cls(fact, column.name, atoms, n, j, k, share)

    @property
    def chosen(self) -> bool:
        """Are the two people in the middle chosen?"""
        return self.j != self.k and self.n <= MIDDLE

    def given_by(self, values: Sequence[Fraction], column: Column) -> bool:
        """Does the statistic of these values surely have the answer?"""
        held = sorted(values)
        low, high, fact = held[self.j - 1], held[self.k - 1], self.fact
        found = (1 - self.share) * low + self.share * high
        if (fact.lo is not None and found < fact.lo) or (fact.hi is not None and found > fact.hi):
            return False
        return (
            fact.exact
            or is_shown(fact, column, found, between=low != high, dyadic_ends=dyadic(low) and dyadic(high)) is True
        )


def is_order(query: Query) -> bool:
    """Is it an order statistic of a column as it is?"""
    term = query.terms[0] if query.terms else None
    return query.aggregate in ORDERED and term is not None and term.weight is None and term.power == 1


def sharpened(fact: OrderFact, column: Column) -> OrderFact:
    """A statistic that is one person's value: nothing was interpolated, so no digit was cut and no dust is on it.

    >>> from keyhole.model.query import Aggregate, Query, Term
    >>> from keyhole.model.transcript import Answer
    >>> median = OrderFact("1", Query(Aggregate.MEDIAN, (Term("pay"),)), None, Answer.exact(Decimal("5.2")))
    >>> pay = Column("pay", Kind.DECIMAL, digits=1)
    >>> sharpened(median, pay).lo, sharpened(median, pay).exact
    (Fraction(26, 5), True)
    """
    query, answer = fact.query, fact.answer
    plain = query.test is None and query.digits is None and query.terms[0].factor.denominator == 1
    if not plain or answer is None or answer.noise is not None or not isinstance(answer.value, Decimal):
        return fact
    if column.kind not in (Kind.INTEGER, Kind.DECIMAL):
        return fact
    value = Fraction(answer.value) / query.terms[0].factor
    return replace(fact, lo=value, hi=value, exact=True)


def sharpen_comparison(fact: OrderFact, column: Column, grid: Grid) -> OrderFact:
    """A yes or no about one person's value, on a grid that the engine holds exactly: MAX(x) > 4 is 5 at least.

    >>> from keyhole.model.query import Aggregate, Query, Term, Threshold
    >>> from keyhole.model.transcript import Answer
    >>> asked = Query(Aggregate.MAX, (Term("x"),), test=Threshold(">", Decimal(4)))
    >>> fact = OrderFact("1", asked, None, Answer(True, Decimal(4), None), lo=Fraction(4))
    >>> sharpen_comparison(fact, Column("x", Kind.DOUBLE), Grid(Fraction(1))).lo
    Fraction(5, 1)
    """
    query, answer = fact.query, fact.answer
    test, step = query.test, grid.step
    if test is None or step is None or test.unit is not None or query.digits is not None:
        return fact
    if answer is None or answer.noise is not None or not isinstance(answer.value, bool):
        return fact
    held = column.kind in (Kind.INTEGER, Kind.DECIMAL) or (dyadic(step) and dyadic(grid.base))
    at = Fraction(test.value)
    if not held or query.terms[0].factor != 1 or abs(at) >= SURE * min(step, Fraction(1)):
        return fact
    steps, closed = (at - grid.base) / step, (test.op in (">=", "<=")) is answer.value
    above = (test.op in (">", ">=")) is answer.value
    if test.op not in (">", ">=", "<", "<="):
        return fact
    if above:
        least = grid.base + (ceil(steps) if closed else floor(steps) + 1) * step
        return replace(fact, lo=least if fact.lo is None else max(fact.lo, least))
    most = grid.base + (floor(steps) if closed else ceil(steps) - 1) * step
    return replace(fact, hi=most if fact.hi is None else min(fact.hi, most))


def cut_ends(fact: OrderFact, column: Column) -> tuple[Fraction, Fraction] | None:
    """Between what a median of DECIMALs lies that was cut toward zero: the answer itself, and a unit that is outside.

    The first end is the answer (of 0 both are outside); None where it is no such median, or not surely cut exactly.
    """
    query, answer = fact.query, fact.answer
    if query.aggregate not in CUT or query.level != Fraction(1, 2) or abs(query.terms[0].factor) != 1:
        return None
    if column.kind is not Kind.DECIMAL or column.digits is None or query.test is not None or query.digits is not None:
        return None
    if answer is None or answer.noise is not None or not isinstance(answer.value, Decimal):
        return None
    shown, unit = Fraction(answer.value) / query.terms[0].factor, Fraction(1, 10**column.digits)
    if abs(shown) >= SURE * unit:
        return None
    return (shown, shown + unit if shown > 0 else shown - unit) if shown else (-unit, unit)


def is_shown(fact: OrderFact, column: Column, found: Fraction, *, between: bool, dyadic_ends: bool) -> bool | None:
    """Whether the engine shows this answer for a statistic; None where its arithmetic is not surely exact.

    `between`: it lies between two values; `dyadic_ends`: these are halves, quarters and so on.
    """
    query, answer = fact.query, fact.answer
    assert answer is not None
    shown = found * query.terms[0].factor
    binary = column.kind is Kind.DOUBLE and dyadic_ends
    if not (binary or column.kind in (Kind.INTEGER, Kind.DECIMAL)) or answer.noise is not None:
        return None
    if query.terms[0].factor.denominator != 1:
        return None
    if between:
        digits = column.digits if column.kind is Kind.DECIMAL else 0
        plain = query.level == Fraction(1, 2) and abs(query.terms[0].factor) == 1
        if not plain or digits is None or abs(found) * 10**digits >= SURE:
            return None
        if query.aggregate in CUT and column.kind is Kind.DECIMAL:
            shown = round_number(shown, ZERO, Fraction(1, 10**digits))
    if query.test is not None:
        told = answer.value
        return (
            compare_numbers(shown, query.test.op, Fraction(query.test.value)) is told
            if isinstance(told, bool)
            else None
        )
    if not isinstance(answer.value, Decimal):
        if answer.value is not None or between or query.digits is not None:
            return None
        return (answer.lo is None or shown >= Fraction(answer.lo)) and (
            answer.hi is None or shown <= Fraction(answer.hi)
        )
    if query.digits is not None:
        shown = round_number(shown, query.rounding, Fraction(1) / Fraction(10) ** query.digits)
    return shown == Fraction(answer.value)
