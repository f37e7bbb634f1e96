"""Between which numbers an answer lies whatever the data are, from declarations and public n alone.

COUNT of n people lies in [0, n]. A SUM of a column declared in [a, b] adds at most n numbers of [min(a, 0), max(b, 0)],
because a condition or NULL may leave anybody out. An average, a quantile, a MIN or MAX lies in [a, b]; a number of
different values between 0 and the number of values declared. An end that nobody declared is None. Private columns are
clamped to what is declared before anything is computed, so no answer lies outside. Cost: a step a term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from keyhole.basis.cells.numbers import Cuts, Range
from keyhole.model.query import Aggregate, Query, Term

Ends = tuple[Fraction | None, Fraction | None]
UNKNOWN: Ends = (None, None)


@dataclass(frozen=True, slots=True)
class PossibleRange:
    """What an answer can be, its ends included; None: not known.

    >>> told = PossibleRange(Fraction(0), Fraction(100))
    >>> told.clamp(Fraction(-20), Fraction(35)), told.clamp(Fraction(90), Fraction(30)), told.share(Fraction(25))
    ((Fraction(0, 1), Fraction(15, 1)), (Fraction(90, 1), Fraction(30, 1)), Fraction(1, 4))
    """

    lo: Fraction | None = None
    hi: Fraction | None = None

    def clamp(self, value: Fraction, bar: Fraction) -> tuple[Fraction, Fraction]:
        """The nearest possible number, and how far the truth may be from it: both for showing alone.

        The truth lies within `bar` of the raw value and in this range, so it is not farther from the nearest end than
        the bar reaches into the range. Where bar and range do not meet, the end is shown with the bar cut to the range.
        """
        near = value if self.lo is None else max(value, self.lo)
        near = near if self.hi is None else min(near, self.hi)
        reach = max(bar - abs(value - near), Fraction(0)) if near != value else bar
        reach = reach or bar  # bar and range do not meet: the bar's own half-width
        if self.lo is not None and self.hi is not None:
            reach = min(reach, max(self.hi - near, near - self.lo))
        return near, reach

    def share(self, bar: Fraction) -> Fraction | None:
        """The bar as a share of the range; above a half nothing is answered. None where an end is not known."""
        if self.lo is None or self.hi is None or self.hi <= self.lo:
            return None
        return min(bar / (self.hi - self.lo), Fraction(1))


def find_possible_ranges(
    queries: Iterable[Query], columns: Mapping[str, object], n: int | None
) -> tuple[PossibleRange, ...]:
    """The range of each number of a SELECT list. `columns` are the declared ones; `n` where it is public."""
    return tuple(PossibleRange(*_find_ends(query, columns, n)) for query in queries)


def _find_ends(query: Query, columns: Mapping[str, object], n: int | None) -> Ends:
    if query.test is not None or query.digits is not None:
        return UNKNOWN  # a yes or no, or a number that rounding may push over an end
    if query.aggregate is Aggregate.PEOPLE:
        return Fraction(0), None if n is None else Fraction(n)
    if query.aggregate not in (Aggregate.SUM, Aggregate.VAR, Aggregate.PUBLIC):
        return _declared_ends(query.terms[0], columns) if len(query.terms) == 1 else UNKNOWN
    if query.aggregate is not Aggregate.SUM:
        return UNKNOWN
    if query.per:
        one = len(query.terms) == len(query.per) == 1 and query.per[0].column is None
        term = query.terms[0]
        plain = one and term.power == 1 and term.weight is None and term.factor == query.per[0].factor
        return _declared_ends(term, columns) if plain and term.column is not None else UNKNOWN
    lo: Fraction | None = Fraction(0)
    hi: Fraction | None = Fraction(0)
    for term in query.terms:
        low, high = _ends_of_sum(term, columns, n)
        lo = None if lo is None or low is None else lo + low
        hi = None if hi is None or high is None else hi + high
    return lo, hi


def _declared_ends(term: Term, columns: Mapping[str, object]) -> Ends:
    """Between what the values of a column lie."""
    column = columns.get(term.column or "")
    if term.power != 1 or term.weight is not None:
        return UNKNOWN
    if isinstance(column, Range):
        return column.lo, column.hi
    if isinstance(column, Cuts):
        return column.lo, column.lo + column.step * column.steps
    return UNKNOWN


def _ends_of_sum(term: Term, columns: Mapping[str, object], n: int | None) -> Ends:
    """What one addend can be; a person whom its condition leaves out adds nothing."""
    if term.weight is not None or term.power != 1:
        return UNKNOWN
    low, high = (Fraction(1), Fraction(1)) if term.column is None else _declared_ends(term, columns)
    if low is None or high is None:
        return UNKNOWN
    low, high = sorted((term.factor * min(low, Fraction(0)), term.factor * max(high, Fraction(0))))
    if n is None:
        return (Fraction(0) if low == 0 else None), (Fraction(0) if high == 0 else None)
    return n * low, n * high
