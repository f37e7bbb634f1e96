"""An answer as an interval that holds the truth: rounding, thresholds, and the dust of floating-point sums."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.errors import LogError
from keyhole.gather.evidence import GIVEN, ROUNDED
from keyhole.model.meaning import compare_value, invert_rounding, round_number
from keyhole.model.numbers import find_simplest_decimal, shift_point, shorten_fraction
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Query, Threshold
from keyhole.model.schema import Kind, Schema
from keyhole.model.transcript import NULL_ANSWER, Answer, Given, Noise, parse_answer

ULP = Fraction(1, 2**52)
TINY = Fraction(1, 2**1022)  # below it a DOUBLE has fewer digits the smaller it is: 0 may be printed as 5E-324
THRESHOLD = "a threshold question"
NOISY = "a noisy answer"
_NAME = re.compile(r'"((?:[^"]|"")+)"')
_PLAIN = re.compile(r"[\d\s.+*()-]*")


@dataclass(frozen=True, slots=True)
class Interval:
    """lo <= true answer <= hi (None: unbounded); `exact`: an equation up to a stated radius, else `why` not.

    Inside the ends by more than `edge` a number is surely answered so; None: on them too. `compared` is what a yes or
    no says, for whoever knows which numbers are possible.
    """

    lo: Fraction | None
    hi: Fraction | None
    exact: bool
    why: str = ""
    edge: Fraction | None = Fraction(0)
    compared: OneSided | None = None


def interval(query: Query, answer: Answer | None, radius: Fraction, *, sure: bool = False) -> Interval:
    """What an answer says of the true value; `radius` is how far a printed or compared number may lie from it.

    `sure`: a number that is compared with a constant is that constant where the true one is.
    """
    if answer is None:
        why = THRESHOLD if query.test is not None else ROUNDED if query.digits is not None else ""
        return Interval(None, None, not why, why)
    if query.test is not None:
        return _threshold(query, answer, radius, sure=sure)
    lo, hi = answer.lo, answer.hi
    if query.digits is not None and answer.noise is None:
        if isinstance(answer.value, Decimal):
            lo, hi = around(query, Fraction(answer.value), radius)
            return Interval(lo, hi, False, ROUNDED, 2 * _rounding_dust(query, radius, answer.value))
        farthest = max((abs(end) for end in (lo, hi) if end is not None), default=Fraction(0))
        why, edge = ROUNDED if answer.value is not None else GIVEN, 2 * _rounding_dust(query, radius, farthest)
        return Interval(*around_ends(query, lo, hi, radius), False, why, edge)
    if answer.noise is not None and answer.noise.bounded and isinstance(answer.value, Decimal):
        shown, off = Fraction(answer.value), answer.noise.scale + radius
        lo, hi = (shown, shown) if query.digits is None else around(query, shown, radius)
        return Interval(lo - off, hi + off, False, ROUNDED, 2 * _rounding_dust(query, radius, shown) + 2 * radius)
    if answer.noise is not None and not answer.noise.bounded:
        return Interval(None, None, False, NOISY)  # what is shown of a noisy number proves nothing of the true one
    if answer.noise is not None:
        lo, hi = around_ends(query, lo, hi, radius)
        low, high = (None if lo is None else lo - radius), (None if hi is None else hi + radius)
        return Interval(low, high, False, NOISY, 2 * radius)
    if answer.value is None:  # its ends may be numbers that an engine printed
        low, high = (None if lo is None else lo - radius), (None if hi is None else hi + radius)
        return Interval(low, high, lo is not None and lo == hi, GIVEN)
    if lo is not None and lo == hi:
        lo, hi = lo - radius, lo + radius
    return Interval(lo, hi, True)


def given_answer(query: Query, given: Given, law: Noise | None) -> Answer:
    """What a log gives as the answer to one query: yes or no to a comparison, a number or a range to all else.

    Engines without a BOOLEAN say 1 and 0. Any other number was not compared, and a yes is no number.

    >>> from keyhole.model.query import Aggregate, Term, Threshold
    >>> given_answer(Query(Aggregate.SUM, (Term("pay"),), test=Threshold(">", Decimal(4))), 1, None).value
    True
    """
    if isinstance(given, bool) != (query.test is not None) and given is not None:
        if query.test is None:
            raise LogError(
                "a number was asked for, and the answer is a truth value: write a number, or null for SQL NULL"
            )
        if isinstance(given, dict) or given not in (0, 1):
            raise LogError("the answer to a comparison is true or false (1 or 0, null for SQL NULL)")
        given = bool(given)
    rounds_off = law is not None and law.kind == "rounded"  # a yes or no is not rounded when it is printed
    return parse_answer(given, None if rounds_off and isinstance(given, bool) else law)


def around(query: Query, shown: Fraction, radius: Fraction) -> tuple[Fraction, Fraction]:
    """Between what a number lies that is shown rounded; a DOUBLE may round the other way next to a half.

    >>> from keyhole.model.query import Aggregate, Term
    >>> around(Query(Aggregate.SUM, (Term("pay"),), digits=2), Fraction(5), Fraction(0))
    (Fraction(999, 200), Fraction(1001, 200))
    """
    assert query.digits is not None
    below, above = invert_rounding(query.rounding, shown, Fraction(1) / Fraction(10) ** query.digits)
    dust = _rounding_dust(query, radius, shown)
    return shown - below - dust, shown + above + dust


def largest_end(answer: Answer | None) -> Fraction | None:
    """The end of a number, or of a range of it, that is the larger one without its sign; None if there is none.

    >>> largest_end(Answer(None, Fraction(-3), Fraction(2)))
    Fraction(-3, 1)
    """
    ends = () if answer is None or isinstance(answer.value, bool) else (answer.lo, answer.hi)
    return max((end for end in ends if end is not None), key=abs, default=None)


def around_ends(
    query: Query, lo: Fraction | None, hi: Fraction | None, radius: Fraction
) -> tuple[Fraction | None, Fraction | None]:
    """The same where what is shown is only said to lie between two ends."""
    if query.digits is None:
        return lo, hi
    return None if lo is None else around(query, lo, radius)[0], None if hi is None else around(query, hi, radius)[1]


def _rounding_dust(query: Query, radius: Fraction, shown: Fraction | Decimal) -> Fraction:
    """How far beyond a half a number may lie that was rounded to the number shown."""
    return radius + 4 * ULP * abs(Fraction(shown)) if radius or query.per else Fraction(0)


def _threshold(query: Query, answer: Answer, radius: Fraction, *, sure: bool) -> Interval:
    assert query.test is not None
    at, op = Fraction(query.test.value), query.test.op
    if not isinstance(answer.value, bool):
        return Interval(answer.lo, answer.hi, False, THRESHOLD)
    if answer.noise is not None and not answer.noise.bounded:
        return Interval(None, None, False, NOISY)  # any number may have been pushed across
    noise = Fraction(0) if answer.noise is None else noise_compared(query.test, answer.noise.scale)
    off, exact = radius + noise, answer.noise is None
    if op in ("=", "<>"):
        equal = answer.value == (op == "=")
        why = "" if exact else NOISY
        return Interval(at - off, at + off, exact, why) if equal else Interval(None, None, False, THRESHOLD)
    above = (op in (">", ">=")) == answer.value
    pushed = at - noise if above else at + noise
    said = OneSided.of(op, pushed, answer.value, radius, sure=sure and exact)
    end, edge = said.end(Fraction(1) if _counts(query) else None)
    if _counts(query) and not above and end <= 0:  # a whole number, 0 at least
        return Interval(Fraction(0), Fraction(0), True)
    return Interval(end if above else None, None if above else end, False, THRESHOLD, edge, said)


def noise_compared(test: Threshold, scale: Fraction) -> Fraction:
    """How far noise may push a number across the constant: added before it is rounded, or after.

    >>> str(noise_compared(Threshold(">=", Decimal(6), Fraction(1)), Fraction(1, 2)))
    '5/2'
    """
    return scale + 2 * (test.unit or 0)


def _counts(query: Query) -> bool:
    """Does a query count people?"""
    if query.aggregate is Aggregate.PEOPLE:
        return True
    return not query.per and all(t.column is None and t.weight is None and t.factor == 1 for t in query.terms)


def radius(
    query: Query,
    value: Fraction,
    matched: int,
    schema: Schema,
    knowledge: Knowledge,
    beside: Fraction = Fraction(0),
) -> Fraction:
    """How far a printed answer may lie from the truth, whatever the order in which an engine summed.

    Sums of integers and decimals are exact, and their averages are rounded once. A DOUBLE sum of n terms is off by at
    most n ulp of the sum of absolute values; that sum is taken from the declared range, or from the answer itself and
    `beside`: what is known to be added up and may cancel. Averages of groups are DOUBLEs, which are added up again.
    """
    kinds = {column.kind for name in query.columns if (column := schema.find(name)) is not None}
    weights = {t.weight for t in (*query.terms, *query.per) if t.weight is not None}
    divided = any(t.factor.denominator != 1 for t in (*query.terms, *query.per))
    if not query.roundings and Kind.DOUBLE not in kinds and all(exact_weight(weight, schema) for weight in weights):
        if not divided or len(query.terms) == 1:
            return 2 * ULP * abs(value) + dust_of(value) if query.per or divided else dust_of(value)
    elif matched <= 1 and not beside and not query.per and not query.roundings and not weights and _as_it_is(query):
        return dust_of(value)  # the number of one person, which nothing was added to
    size = abs(value) + beside
    for name in query.columns:
        prior = knowledge.prior(name)
        if prior.lo is not None and prior.hi is not None:
            most = max(abs(Fraction(prior.lo)), abs(Fraction(prior.hi)))
            size = max(size, most if query.per else most * matched)
    return (matched + query.roundings + 2) * (ULP * size + TINY)


def _as_it_is(query: Query) -> bool:
    """Is one column summed, its numbers as they are?"""
    return len(query.terms) == 1 and abs(query.terms[0].factor) == 1 and query.terms[0].power == 1


def dust_of(value: Fraction) -> Fraction:
    """How far a printed number that is next to 0 may lie from it; any other is what it is.

    >>> dust_of(Fraction(1, 2**1074)) == TINY, dust_of(Fraction(0)), dust_of(Fraction(1))
    (True, Fraction(0, 1), Fraction(0, 1))
    """
    return TINY if 0 < abs(value) < TINY else Fraction(0)


def exact_weight(weight: str, schema: Schema) -> bool:
    """Is an expression over public columns surely no DOUBLE: integers and decimals, added and multiplied?"""
    for name in _NAME.findall(weight):
        column = schema.find(name.replace('""', '"'))
        if column is None or column.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.BOOLEAN):
            return False
    return _PLAIN.fullmatch(_NAME.sub("", weight)) is not None


def finish(value: Fraction | None, spread: Fraction, query: Query) -> Answer:
    """A true value as the answer to a query: with its ROUND and its threshold applied."""
    if value is None:
        return NULL_ANSWER
    if query.test is not None:
        return Answer(compare_value(query, value), None, None)
    if query.digits is not None:
        step = Fraction(1) / Fraction(10) ** query.digits
        shown = round_number(value, query.rounding, step)
        return Answer(shift_point(int(shown / step), query.digits), *around(query, shown, spread))
    near = min(spread, abs(value) / 10**9)  # dust is not printed, but a wide radius does not round the answer
    return Answer(find_simplest_decimal(value - near, value + near), value - spread, value + spread)


def squared(lo: Fraction, hi: Fraction) -> tuple[Fraction, Fraction]:
    """The range of x^2 for x in [lo, hi].

    >>> squared(Fraction(-2), Fraction(1))
    (Fraction(0, 1), Fraction(4, 1))
    """
    low = Fraction(0) if lo <= 0 <= hi else min(lo * lo, hi * hi)
    return low, max(lo * lo, hi * hi)


def double(value: Fraction, shown: Decimal) -> Answer:
    """A number that an engine printed as DOUBLE after a few roundings."""
    off = 4 * ULP * abs(value) + dust_of(value)
    return Answer(shown, value - off, value + off)


def described(answer: Answer) -> str:
    """An answer in words, for messages.

    >>> described(Answer(None, Fraction(1, 250), Fraction(1, 2)))
    'between 0.004 and 0.5'
    """
    if answer.value is not None:
        return str(answer.value)
    lo, hi = (None if end is None else shorten_fraction(end) for end in (answer.lo, answer.hi))
    return f"between {lo} and {hi}" if lo != hi else str(lo)


# --- comparisons ------------------------------------------------------------------------------------------------------
# What a yes or no says of a number that was compared: from where on it lies, and which tables surely give the answer.
# An engine compares a number V' that is within `dust` of the true V. Of V on a grid the answer says that it is the
# next possible number or beyond; without a grid, that it is no further than `dust` on the other side. A table gives
# the same answer for sure only where V is beyond the constant by more than `dust`, or where V' is the very constant
# (`sure`).


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
