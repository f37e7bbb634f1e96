"""What an order statistic says of its column: MIN, MAX, MEDIAN and quantiles as intervals.

MIN, MAX and QUANTILE_DISC are values of the column as they are. MEDIAN and QUANTILE_CONT interpolate: a DOUBLE result
is off by dust, and of a DECIMAL column DuckDB cuts the result toward zero to the column's digits (and may cut one unit
too much, since it interpolates in floating point): it lies between what is shown and one unit further from zero.
Values of a DOUBLE column with a declared step lie near its grid, as near as floating point gets (0.1 * 3 is no 0.3):
what is shown is taken for the number of the grid that it is, and comparisons are off by dust.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from keyhole.datasets import Source
from keyhole.gather.answers import ULP, around, around_ends, described, interval
from keyhole.gather.evidence import Notes, OrderFact
from keyhole.model.predicate import Predicate
from keyhole.model.prior import Prior
from keyhole.model.query import CUT, ORDERED, Aggregate, Query
from keyhole.model.schema import Column, Kind
from keyhole.model.transcript import Answer, Entry

Ends = tuple[Fraction | None, Fraction | None, bool]
SURE = 2**50  # half of an integer below this is a DOUBLE


def order_fact(entry: Entry, where: Predicate | None, answer: Answer | None, kind: Kind, prior: Prior) -> OrderFact:
    """An answered order statistic (or a variance, of which no interval is told here)."""
    lo, hi, exact = ends(entry.query, answer, kind, prior)
    return OrderFact(entry.number, entry.query, where, answer, lo, hi, exact)


def ends(query: Query, answer: Answer | None, kind: Kind, prior: Prior) -> Ends:
    """Between what the statistic of the column lies, its factor divided out; and is this all that the answer says?

    >>> from keyhole.model.query import Aggregate, Term
    >>> median = Query(Aggregate.MEDIAN, (Term("pay"),))
    >>> ends(median, Answer.exact(Decimal("1.01")), Kind.DECIMAL, Prior())
    (Fraction(101, 100), Fraction(51, 50), False)
    >>> ends(median, Answer.exact(Decimal("1.5")), Kind.INTEGER, Prior())
    (Fraction(3, 2), Fraction(3, 2), True)
    """
    nothing: Ends = (None, None, False)
    if query.aggregate not in ORDERED or answer is None or answer.null:
        return nothing
    if answer.noise is not None and not answer.noise.bounded:
        return nothing
    lo, hi, exact = _shown(query, answer, kind, prior)
    factor = query.terms[0].factor
    low, high = (None if end is None else end / factor for end in (lo, hi))
    if low is not None and low == high and kind is Kind.DOUBLE:
        low = high = _on_grid(low, prior)
    return (high, low, exact) if factor < 0 else (low, high, exact)


def compare_with_data(
    entry: Entry, source: Source, column: Column | None, prior: Prior, notes: Notes, *, private: bool
) -> None:
    """A given answer of an order statistic or a variance against the data.

    `private`: it is under a private condition. That nobody matches a public one is known without the data.
    """
    query, answer = entry.query, entry.answer
    if answer is None or (answer.noise is not None and not answer.noise.bounded):
        return
    truth = source.evaluate(replace(query, test=None, digits=None))
    if truth is None:
        hidden = query.test is not None and answer.value is False  # compared with no number, a group is hidden
        if not answer.null and not hidden and private:
            said = described(answer)
            notes.contradict(f"Q{entry.number} was answered {said}, but in the data nobody matches it", entry.number)
        return
    if answer.null:
        notes.contradict(f"Q{entry.number} was answered NULL, but the data give {truth}", entry.number)
        return
    value = Fraction(truth)
    slip = max(Fraction(1), abs(value)) / (10**6 if query.aggregate is Aggregate.VAR else 10**9)
    if query.aggregate is Aggregate.VAR:
        said_of_variance = interval(query, answer, slip)
        low, high = said_of_variance.lo, said_of_variance.hi
    else:
        low, high, _ = ends(query, answer, Kind.DOUBLE if column is None else column.kind, prior)
        value /= query.terms[0].factor
        if query.aggregate in CUT and column is not None and column.digits is not None:
            slip += Fraction(1, 10**column.digits)  # engines cut it or do not
    if (low is not None and value < low - slip) or (high is not None and value > high + slip):
        notes.contradict(f"Q{entry.number} was answered {described(answer)}, but the data give {truth}", entry.number)


def _on_grid(value: Fraction, prior: Prior) -> Fraction:
    """A number of DOUBLE as the number of the declared grid that it is, up to dust; as it is if it is none.

    >>> three = Fraction("0.30000000000000004")
    >>> [str(_on_grid(three, Prior(step=Decimal(step)))) for step in ("0.1", "0.2")]
    ['3/10', '7500000000000001/25000000000000000']
    """
    if prior.step is None:
        return value
    base, step = Fraction(prior.lo or 0), Fraction(prior.step)
    near = base + round((value - base) / step) * step
    return near if abs(near - value) <= 8 * ULP * max(abs(value), abs(base), step) else value


def _shown(query: Query, answer: Answer, kind: Kind, prior: Prior) -> Ends:
    """The same of the number that is shown."""
    if query.test is not None:
        factor = abs(query.terms[0].factor)
        whole = kind is Kind.INTEGER and query.aggregate not in CUT and factor.denominator == 1
        said = interval(query, answer, Fraction(0), sure=whole)
        if whole and said.compared is not None:  # MAX(pay) > 70 is 71 at least
            end = said.compared.end(factor)[0]
            return _wider(end if said.compared.above else None, None if said.compared.above else end, Fraction(0))
        slip = (
            Fraction(1)
            if query.aggregate in CUT and kind is Kind.DECIMAL
            else _dust(query, said.lo or said.hi, kind, prior)
        )
        return _wider(said.lo, said.hi, slip)
    cut = query.aggregate in CUT and kind is Kind.DECIMAL
    if not isinstance(answer.value, Decimal):  # how fine it was cut is not seen
        slip = Fraction(1) if cut else _dust(query, answer.lo or answer.hi, kind, prior)
        return _wider(*around_ends(query, answer.lo, answer.hi, Fraction(0)), slip)
    shown = Fraction(answer.value)
    unit = Fraction(1) / 10 ** max(0, -int(answer.value.normalize().as_tuple().exponent))
    if answer.noise is not None and answer.noise.kind != "rounded":
        unit = Fraction(1)
    slip = _dust(query, shown, kind, prior)
    whole = kind is Kind.INTEGER and query.aggregate not in CUT and query.terms[0].factor.denominator == 1
    if whole and query.digits is not None and query.digits >= 0 and answer.noise is None:
        return shown, shown, True  # nothing was rounded
    if query.digits is not None or answer.noise is not None:
        lo, hi = (shown, shown) if query.digits is None else around(query, shown, Fraction(0))
        slip += Fraction(0) if answer.noise is None else answer.noise.scale
        step = Fraction(0) if query.digits is None else Fraction(1) / Fraction(10) ** query.digits
        return _wider(lo, hi, slip + (max(unit, step) if cut else 0))
    if cut:
        return shown - (unit if shown <= 0 else 0) - slip, shown + (unit if shown >= 0 else 0) + slip, False
    return shown - slip, shown + slip, slip == 0


def _wider(lo: Fraction | None, hi: Fraction | None, slip: Fraction) -> Ends:
    return None if lo is None else lo - slip, None if hi is None else hi + slip, False


def _dust(query: Query, shown: Fraction | None, kind: Kind, prior: Prior) -> Fraction:
    """How far floating-point arithmetic may have moved a statistic."""
    factor = query.terms[0].factor
    exact = abs(factor) == 1 or (kind is not Kind.DOUBLE and factor.denominator == 1)
    if query.test is not None and kind is Kind.DOUBLE and prior.step is not None:
        exact = False
    if exact and query.aggregate not in CUT:
        return Fraction(0)
    size = abs(shown or Fraction(0))
    if exact and kind is Kind.INTEGER and query.level == Fraction(1, 2) and size < SURE:
        return Fraction(0)
    if exact and kind is Kind.DECIMAL and query.level == Fraction(1, 2):
        return Fraction(0)
    told = [abs(Fraction(end) * factor) for end in (prior.lo, prior.hi) if end is not None]
    return 8 * ULP * max([size, *told])
