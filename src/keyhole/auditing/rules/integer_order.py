"""Order statistics of a grid in the search over all tables: how many people have each value decides them.

MIN, MAX, MEDIAN and quantiles of the people under a condition, public or private, are functions of the counts
N_v = |{i : condition, x_i = v}|, and counts are totals to which everybody adds 0 or 1. So they are searched together
with sums, quotients and comparisons, exactly as the engine defines them (`keyhole.model.meaning.ranks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

from keyhole.gather.arithmetic import dyadic
from keyhole.gather.evidence import OrderFact
from keyhole.gather.order import SURE
from keyhole.model.meaning import holds, ranks, rounded
from keyhole.model.predicate import Predicate
from keyhole.model.query import CUT, ORDERED, ZERO, Aggregate, Query
from keyhole.model.schema import Column, Kind
from keyhole.model.transcript import Entry

MOST_VALUES = 60  # of a column whose order is asked


@dataclass(frozen=True, slots=True)
class ValueCount:
    """How many people under a condition have a value."""

    column: str
    where: Predicate
    value: Fraction


def is_order(query: Query) -> bool:
    """Is it an order statistic of a column as it is?"""
    term = query.terms[0] if query.terms else None
    return query.aggregate in ORDERED and term is not None and term.weight is None and term.power == 1


@dataclass(frozen=True, slots=True)
class OrderTest:
    """Compares counts of each value, least first, with the answer of an order statistic."""

    entry: Entry
    fact: OrderFact
    values: tuple[Fraction, ...]
    column: Column

    additive = False  # it is no sum of what single people add

    def judge(self, rows: list[tuple[int, ...]]) -> Sequence[bool | None]:
        """True, False or None (perhaps) for each row of counts.

        Where all that may be it come of the same two values, they are it: the engine says the same of each of them.
        """
        said = [self._verdict(row) for row in rows]
        left = {self._between(row) for row, truth in zip(rows, said, strict=True) if truth is not False}
        if len(left) == 1 and None not in left and self._told:
            return [truth is not False for truth in said]
        return said

    @property
    def _told(self) -> bool:
        """Is the answer a number, as the engine prints it?"""
        answer = self.fact.answer
        if self.fact.query.test is not None or answer is None or answer.noise is not None:
            return False
        return isinstance(answer.value, Decimal)

    def _between(self, counts: tuple[int, ...]) -> tuple[Fraction, Fraction, Fraction] | None:
        """The two values that the statistic lies between, and where; None of nobody."""
        if not (n := sum(counts)):
            return None
        j, k, share = ranks(self.fact.query, n)
        return self._at(counts, j), self._at(counts, k), share

    def ends(self) -> Mapping[int, tuple[int | None, int | None]]:
        """Values that nobody has, and the one that somebody has, by their place: of MIN and MAX alone."""
        fact, aggregate = self.fact, self.fact.query.aggregate
        if fact.answer is None or fact.answer.null or fact.query.test is not None:
            return {}
        if aggregate is Aggregate.MAX and fact.hi is not None:
            return {i: (None, 0) for i, v in enumerate(self.values) if v > fact.hi}
        if aggregate is Aggregate.MIN and fact.lo is not None:
            return {i: (None, 0) for i, v in enumerate(self.values) if v < fact.lo}
        return {}

    def _verdict(self, counts: tuple[int, ...]) -> bool | None:
        fact, answer = self.fact, self.fact.answer
        if answer is None or (answer.noise is not None and not answer.noise.bounded):
            return None
        between = self._between(counts)
        if answer.null:
            return between is None
        if between is None:  # a test that is NULL hides a group as one that fails does
            perhaps = answer.value is False if fact.query.test is not None else answer.value is None
            return None if perhaps else False
        low, high, share = between
        found = (1 - share) * low + share * high
        if (fact.lo is not None and found < fact.lo) or (fact.hi is not None and found > fact.hi):
            return False
        return True if fact.exact else self._exactly(found, low, high)

    def _at(self, counts: tuple[int, ...], rank: int) -> Fraction:
        """The value of a rank, from 1."""
        return next(v for v, so_far in zip(self.values, accumulate(counts), strict=True) if so_far >= rank)

    def _exactly(self, found: Fraction, low: Fraction, high: Fraction) -> bool | None:
        """Whether the engine shows this answer for a statistic, where its arithmetic is surely exact."""
        query, answer = self.fact.query, self.fact.answer
        assert answer is not None
        shown, between = found * query.terms[0].factor, low != high
        binary = self.column.kind is Kind.DOUBLE and dyadic(low) and dyadic(high)
        if not (binary or self.column.kind in (Kind.INTEGER, Kind.DECIMAL)) or answer.noise is not None:
            return None
        if query.terms[0].factor.denominator != 1:
            return None
        if between:
            digits = self.column.digits if self.column.kind is Kind.DECIMAL else 0
            plain = query.level == Fraction(1, 2) and abs(query.terms[0].factor) == 1
            if not plain or digits is None or abs(found) * 10**digits >= SURE:
                return None
            if query.aggregate in CUT and self.column.kind is Kind.DECIMAL:
                shown = rounded(shown, ZERO, Fraction(1, 10**digits))
        if query.test is not None:
            told = answer.value
            return holds(shown, query.test.op, Fraction(query.test.value)) is told if isinstance(told, bool) else None
        if not isinstance(answer.value, Decimal):
            return True if answer.value is None and not between else None  # an interval: it is inside
        if query.digits is not None:
            shown = rounded(shown, query.rounding, Fraction(1) / Fraction(10) ** query.digits)
        return shown == Fraction(answer.value)
