"""What SQL answers, in one place: a number, NULL, no number at all, shown or hidden.

Everything that says what an answer is (computed answers of an audit, the check of a reading against the engine) asks
here. A SUM over nobody is NULL, and so is whatever is added to it; COALESCE and ELSE change that (`Query.needs`);
COUNT is never NULL; a quotient over 0 is no number (engines say infinity, NaN or NULL); a comparison with NULL is NULL;
HAVING shows a group only if its test is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from math import ceil, floor
from operator import eq, ge, gt, le, lt, ne
from typing import Final, Literal, TypeAlias

from keyhole.model.predicate import Truth, kleene_and, kleene_or
from keyhole.model.query import CEIL, FLOOR, HALF, ORDERED, Aggregate, AllOf, AnyOf, Query, Test

NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
OPERATIONS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class NoNumber(Enum):
    """What comes of a division by zero."""

    OVER_ZERO = "a quotient over 0"


OVER_ZERO: Final = NoNumber.OVER_ZERO
Value: TypeAlias = Fraction | Literal[NoNumber.OVER_ZERO] | None


def compute_value(query: Query, top: Fraction, per: Fraction, *, met: bool) -> Value:
    """What a query of sums comes to, before ROUND and comparison.

    `top` and `per` are the totals of its terms; `met`: somebody satisfies each of its `needs`.

    >>> from keyhole.model.query import Aggregate, Term
    >>> pay = Query(Aggregate.SUM, (Term("pay"),))
    >>> compute_value(pay, Fraction(0), Fraction(0), met=False), compute_value(pay, Fraction(5), Fraction(0), met=True)
    (None, Fraction(5, 1))
    """
    if not met:
        return None
    if not query.per:
        return top
    return top / per if per else OVER_ZERO


def find_ranks(query: Query, n: int) -> tuple[int, int, Fraction]:
    """Which of n sorted values an order statistic is: (1 - f) times the j-th and f times the k-th, as (j, k, f).

    QUANTILE_DISC(q) is the max(1, ceil(q n))-th; MEDIAN and QUANTILE_CONT(q) interpolate at (n - 1) q.

    >>> from keyhole.model.query import Aggregate, Term
    >>> find_ranks(Query(Aggregate.MEDIAN, (Term("pay"),)), 4), find_ranks(Query(Aggregate.MAX, (Term("pay"),)), 4)
    ((2, 3, Fraction(1, 2)), (4, 4, Fraction(0, 1)))
    """
    assert query.aggregate in ORDERED
    if query.aggregate in (Aggregate.MIN, Aggregate.MAX):
        k = 1 if query.aggregate is Aggregate.MIN else n
    elif query.aggregate is Aggregate.QUANTILE_DISC:
        k = max(1, ceil(query.level * n))
    else:
        at = (n - 1) * query.level
        j = floor(at) + 1
        return (j, j, Fraction(0)) if at.denominator == 1 else (j, j + 1, at - floor(at))
    return k, k, Fraction(0)


def compute_quantile(values: Sequence[Fraction], query: Query) -> Fraction:
    """The order statistic of sorted values, before an engine cuts its digits."""
    j, k, f = find_ranks(query, len(values))
    return (1 - f) * values[j - 1] + f * values[k - 1]


def invert_rounding(rounding: str, printed: Fraction, step: Fraction) -> tuple[Fraction, Fraction]:
    """How far a number may lie below and above what is shown of it, rounded to multiples of `step`; ends included.

    ROUND and CAST go to the nearest one (a half away from zero), FLOOR down, CEIL up, TRUNC toward zero.

    >>> invert_rounding(HALF, Fraction(5), Fraction(1)), invert_rounding(FLOOR, Fraction(5), Fraction(1))
    ((Fraction(1, 2), Fraction(1, 2)), (Fraction(0, 1), Fraction(1, 1)))
    """
    none = Fraction(0)
    if rounding == HALF:
        return step / 2, step / 2
    if rounding in (FLOOR, CEIL):
        return (none, step) if rounding == FLOOR else (step, none)
    return (step if printed <= 0 else none), (step if printed >= 0 else none)


def round_number(number: Fraction, rounding: str, step: Fraction) -> Fraction:
    """A number as it is shown, rounded to a multiple of `step`.

    >>> [str(round_number(Fraction(-5, 2), how, Fraction(1))) for how in (HALF, FLOOR, CEIL, "zero")]
    ['-3', '-3', '-2', '-2']
    """
    units = number / step
    if rounding == FLOOR:
        return floor(units) * step
    if rounding == CEIL:
        return ceil(units) * step
    size = floor(abs(units) + (Fraction(1, 2) if rounding == HALF else 0))
    return (size if number >= 0 else -size) * step


def compare_value(query: Query, found: Value) -> Truth:
    """The truth of a yes/no question about a value; NULL if that is no number."""
    assert query.test is not None
    return compare_numbers(found, query.test.op, Fraction(query.test.value)) if isinstance(found, Fraction) else None


def compare_numbers(left: Fraction, op: str, right: Fraction) -> bool:
    """A comparison of exact numbers.

    >>> compare_numbers(Fraction(1, 3), "<", Fraction(1, 2))
    True
    """
    return bool(OPERATIONS[op](left, right))


def evaluate_test(test: Test, truth: Callable[[Query], Truth]) -> Truth:
    """The truth of a HAVING test, given that of each of its questions; the group is shown if it is True."""
    if isinstance(test, Query):
        return truth(test)
    parts = [evaluate_test(part, truth) for part in test.parts]
    return kleene_and(parts) if isinstance(test, AllOf) else kleene_or(parts)


def compare_on_nobody(query: Query) -> Truth:
    """The truth of a yes/no question about a group that nobody is in."""
    return compare_value(query, compute_value(query, Fraction(0), Fraction(0), met=not query.needs))


def negate_test(test: Test) -> Test:
    """NOT of a test: of a comparison the opposite one, since NULL stays NULL."""
    if isinstance(test, AllOf | AnyOf):
        parts = tuple(map(negate_test, test.parts))
        return AnyOf(parts) if isinstance(test, AllOf) else AllOf(parts)
    assert test.test is not None
    opposite = replace(test, test=replace(test.test, op=NEGATED[test.test.op]))
    return replace(opposite, label=opposite.canonical() if test.aggregate is not Aggregate.VAR else test.label)
