"""Variances: with the sum of the same people each is an equation for their squares, n VAR_POP + S^2 / n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.datasets import Source
from keyhole.gather.answers import ULP, double, dust_of, squared
from keyhole.gather.evidence import Constraint, Equal, Notes
from keyhole.gather.quotients import Quotients
from keyhole.gather.totals import Totals
from keyhole.model.forms import Part, has_private_condition
from keyhole.model.query import DOUBTFUL, Aggregate, Term
from keyhole.model.transcript import NULL_ANSWER, Answer, Entry


@dataclass(frozen=True, slots=True)
class Variance:
    """A variance, and the SUM or AVG of the same people."""

    entry: Entry
    partner: Entry

    @property
    def squares(self) -> Term:
        """The term whose value it tells."""
        return replace(self.entry.query.terms[0], power=2)


def variances(entries: Sequence[Entry], secret: frozenset[str]) -> list[Variance]:
    """Variances of a set whose SUM or AVG was asked too: each with that query."""
    plain = [e for e in entries if e.query.digits is None and e.query.test is None and len(e.query.terms) == 1]
    shown = {e.query.terms[0]: e for e in plain if e.query.aggregate is Aggregate.SUM and e.certainty not in DOUBTFUL}
    every = {e.query.terms[0]: e for e in plain if e.query.aggregate is Aggregate.SUM} | shown
    found = []
    for e in plain:
        sums = (
            every if e.certainty in DOUBTFUL else shown
        )  # what was shown is not read with the help of what may not have been
        if (
            e.query.aggregate is Aggregate.VAR
            and e.query.terms[0] in sums
            and not has_private_condition(e.query, secret)
        ):
            found.append(Variance(e, sums[e.query.terms[0]]))
    return found


def square_constraint(
    asked: Variance,
    parts: tuple[Part, ...],
    totals: Totals,
    source: Source | None,
    by_number: Mapping[str, Constraint],
    notes: Notes,
    quotients: Quotients,
) -> tuple[Constraint | None, Equal | None]:
    """The sum of squares that a variance tells; and that all are equal, if it is zero."""
    e = asked.entry
    if len({p.where for p in parts}) > 1:
        notes.leave(e, "a variance of people whom a private condition tells apart")
        return None, None
    n = totals.evaluate(parts).matched
    answer = e.answer
    if answer is None and source is not None and n:
        value = source.evaluate(e.query)
        answer = NULL_ANSWER if value is None else double(Fraction(value), Decimal(value))
        notes.answers[e.number] = answer
    known = by_number.get(asked.partner.number)
    if n == 0 or (answer is not None and answer.null):
        return None, None  # a variance of nobody, or the sample variance of one person, says nothing
    if known is None:
        notes.leave(e, "a variance whose sum was not judged")
        return None, None
    said = answer is not None and answer.value is not None and answer.noise is None
    exact = known.exact and (answer is None or said)
    why = "" if exact else "a variance of which the answer, or the sum, is a range"
    if answer is None or None in (answer.lo, answer.hi, known.lo, known.hi):
        return Constraint(e.number, parts, Fraction(0), Fraction(0), None, None, None, exact, why), None
    lo, hi = _ends(e, answer, known, n)
    if answer.noise is None and answer.hi is not None and answer.hi < -(1 + hi / n) / 10**6:  # more than dust
        notes.contradict(f"Q{e.number} is a variance and was answered below zero", e.number)
        return None, None
    if exact and quotients.whole(parts) and ceil(lo) == floor(hi):
        lo = hi = Fraction(ceil(lo))  # squares of integers add up to one
    equal = None
    if exact and answer is not None and answer.value == 0:
        equal = Equal(e.number, asked.partner.number, asked.squares.column or "", parts[0].where)
    return Constraint(e.number, parts, Fraction(0), Fraction(0), lo, hi, None, exact, why), equal


def _ends(entry: Entry, answer: Answer, known: Constraint, n: int) -> tuple[Fraction, Fraction]:
    """Between what the sum of squares lies: an engine computes a variance in DOUBLE, n terms of that size."""
    assert answer.lo is not None
    assert answer.hi is not None
    assert known.lo is not None
    assert known.hi is not None
    sums = squared(known.lo, known.hi)
    ends = (max(answer.lo, Fraction(0)), max(answer.hi, Fraction(0)))
    if entry.query.label.startswith("STDDEV"):
        ends = squared(*ends)
    spread = n if "POP" in entry.query.label else n - 1
    slack = (n + 2) * (ULP * (ends[1] * spread + sums[1] / n) + dust_of(ends[1]))
    return ends[0] * spread + sums[0] / n - slack, ends[1] * spread + sums[1] / n + slack
