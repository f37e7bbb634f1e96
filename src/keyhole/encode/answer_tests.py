"""Does a table give an answer? Compared in the search over all tables, as SQL computes it.

`model.meaning` says what SQL answers over given totals. Here that is compared with what was told: yes, no, or perhaps
(a quotient near the printed one, a number at the edge of a rounding, a hidden group whose sum may have been NULL).
MIN, MAX, MEDIAN and quantiles of the people under a condition, public or private, are functions of the counts
N_v = |{i : condition, x_i = v}|, and counts are totals to which everybody adds 0 or 1. So they are searched together
with sums, quotients and comparisons, exactly as the engine defines them (`keyhole.model.meaning.find_ranks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor

from keyhole.encode.order import is_shown
from keyhole.gather.answers import interval, largest_end, noise_compared
from keyhole.gather.arithmetic import EXACT, Arithmetic, dyadic
from keyhole.gather.evidence import ROUNDED, OrderFact
from keyhole.model.meaning import OVER_ZERO, Value, compare_numbers, compute_value, find_ranks
from keyhole.model.predicate import Predicate
from keyhole.model.query import Aggregate
from keyhole.model.schema import Column
from keyhole.model.transcript import Entry


@dataclass(frozen=True, slots=True)
class AnswerTest:
    """Compares the totals of one query with its answer: rows are (top, per, one for each need), `scales` times them."""

    entry: Entry
    scales: tuple[int, ...]
    dust: Callable[[Fraction], Fraction]  # of a printed number: how far it may lie from the true one
    arithmetic: Arithmetic = EXACT  # of what is compared with a constant

    def judge(self, rows: list[tuple[int, ...]]) -> Sequence[bool | None]:
        """True, False or None (perhaps) for each row; one number alone that may be it is it."""
        found = [self._value(row) for row in rows]
        said = [self._verdict(v) for v in found]
        left = {v for v, truth in zip(found, said, strict=True) if truth is not False}
        if len(left) == 1 and self.told and next(iter(left)) is not OVER_ZERO:
            return [truth is not False for truth in said]
        return said

    @property
    def told(self) -> bool:
        """Is the answer a number, as it is?"""
        query, answer = self.entry.query, self.entry.answer
        plain = query.test is None and query.digits is None
        return plain and answer is not None and answer.noise is None and isinstance(answer.value, Decimal)

    @property
    def null(self) -> bool:
        """Is it NULL?"""
        return self.entry.answer is not None and self.entry.answer.null

    @property
    def additive(self) -> bool:
        """Is it a sum of what single people add, as it is printed?"""
        return not self.entry.query.per and (self.told or (self.null and len(self.entry.query.needs) == 1))

    def _value(self, row: tuple[int, ...]) -> Value:
        top, per, *needs = (Fraction(n, s) for n, s in zip(row, self.scales, strict=True))
        return compute_value(self.entry.query, top, per, met=all(needs))

    def _verdict(self, v: Value) -> bool | None:
        query, answer = self.entry.query, self.entry.answer
        if answer is None or v is OVER_ZERO or (answer.noise is not None and not answer.noise.bounded):
            return None
        if answer.null:
            return v is None
        if v is None:  # a test that is NULL hides a group as one that fails does
            perhaps = answer.value is False if query.test is not None else answer.value is None
            return None if perhaps else False
        assert isinstance(v, Fraction)
        if query.test is not None:
            at, computed = Fraction(query.test.value), self.arithmetic
            noise = Fraction(0) if answer.noise is None else noise_compared(query.test, answer.noise.scale)
            unsure = not computed.sure if v == at and not noise else abs(v - at) <= computed.dust + noise
            if not isinstance(answer.value, bool) or unsure:
                return None
            return compare_numbers(v, query.test.op, at) is answer.value
        return self._number(v)

    def _number(self, v: Fraction) -> bool | None:
        answer = self.entry.answer
        assert answer is not None
        told = Fraction(answer.value) if isinstance(answer.value, Decimal) else largest_end(answer)
        dust = Fraction(0) if told is None else self.dust(told)  # ends may be numbers that an engine printed
        said = interval(self.entry.query, answer, dust)
        if (said.lo is not None and v < said.lo) or (said.hi is not None and v > said.hi):
            return False
        if said.exact and isinstance(answer.value, Decimal):
            return True if v == said.lo == said.hi else None
        if said.why == ROUNDED:
            near = max(dust + abs(v) / 10**9, said.edge or Fraction(0))
            inside = said.lo is not None and said.hi is not None and said.lo + near < v < said.hi - near
            return True if inside else None
        inside = (said.lo is None or v >= said.lo + 2 * dust) and (said.hi is None or v <= said.hi - 2 * dust)
        return True if answer.value is None and inside else None

    def ends(self, per: Fraction | None) -> tuple[int | None, int | None]:
        """Between what the first total lies surely; `per` is the second one if it is public."""
        query, answer = self.entry.query, self.entry.answer
        if (
            answer is None
            or answer.noise is not None
            or query.test is not None
            or not isinstance(answer.value, Decimal)
        ):
            return None, None
        if query.per and not per:
            return None, None
        said = interval(query, answer, self.dust(Fraction(answer.value)))
        times = self.scales[0] * (per if query.per and per is not None else Fraction(1))
        if said.lo is None or said.hi is None:
            return None, None
        low, high = sorted((said.lo * times, said.hi * times))
        return ceil(low), floor(high)


MOST_VALUES = 60  # of a column whose order is asked


@dataclass(frozen=True, slots=True)
class ValueCount:
    """How many people under a condition have a value."""

    column: str
    where: Predicate
    value: Fraction


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
        j, k, share = find_ranks(self.fact.query, n)
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
        if fact.exact:
            return True
        return is_shown(fact, self.column, found, between=low != high, dyadic_ends=dyadic(low) and dyadic(high))

    def _at(self, counts: tuple[int, ...], rank: int) -> Fraction:
        """The value of a rank, from 1."""
        return next(v for v, so_far in zip(self.values, accumulate(counts), strict=True) if so_far >= rank)


@dataclass(frozen=True, slots=True)
class WeightCount:
    """How many records under a condition have a public number that is beyond another one, or is it (None: any)."""

    weight: str
    where: Predicate
    op: str = ""
    at: Fraction | None = None

    @classmethod
    def of(cls, entry: Entry) -> Iterator[WeightCount]:
        """Those that the least or the greatest public number of some people is about."""
        query, answer, term = entry.query, entry.answer, entry.query.terms[0]
        if answer is None or answer.null or answer.lo is None:
            yield cls(term.weight or "", term.where)
            return
        above = (query.aggregate is Aggregate.MAX) == (term.factor > 0)
        for op in (">" if above else "<", "="):
            yield cls(term.weight or "", term.where, op, Fraction(answer.lo) / term.factor)

    def counts(self, number: Fraction) -> bool:
        """Does a record with this number count?"""
        return self.at is None or compare_numbers(number, self.op, self.at)


@dataclass(frozen=True, slots=True)
class ExtremeTest:
    """MIN or MAX of a public number under private conditions: nobody is beyond it, somebody has it."""

    entry: Entry

    additive = False

    def judge(self, rows: list[tuple[int, ...]]) -> Sequence[bool | None]:
        """True or False for each row of counts: NULL is over nobody."""
        return [row[0] == 0 and (len(row) == 1 or row[1] > 0) for row in rows]

    def ends(self) -> Mapping[int, tuple[int | None, int | None]]:
        """Nobody is beyond it."""
        return {0: (None, 0)}
