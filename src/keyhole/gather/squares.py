"""Variances: with the sum of the same people each is an equation for their squares, n VAR_POP + S^2 / n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from keyhole.evidence import Constraint, Equal
from keyhole.forms import Part, conditional
from keyhole.gather.answers import ULP, double, squared
from keyhole.gather.notes import Notes
from keyhole.gather.totals import Totals
from keyhole.query import Aggregate, Term
from keyhole.tables import Source
from keyhole.transcript import NULL_ANSWER, Answer, Entry


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
    sums = {e.query.terms[0]: e for e in plain if e.query.aggregate is Aggregate.SUM}
    return [
        Variance(e, sums[e.query.terms[0]])
        for e in plain
        if e.query.aggregate is Aggregate.VAR and e.query.terms[0] in sums and not conditional(e.query, secret)
    ]


def square_constraint(
    asked: Variance,
    parts: tuple[Part, ...],
    totals: Totals,
    source: Source | None,
    by_number: Mapping[str, Constraint],
    notes: Notes,
) -> tuple[Constraint | None, Equal | None]:
    """The sum of squares that a variance tells; and that all are equal, if it is zero."""
    e, term = asked.entry, asked.squares
    n = totals.evaluate(parts).matched
    answer = e.answer
    if answer is None and source is not None and n:
        value = source.evaluate(e.query)
        answer = NULL_ANSWER if value is None else double(Fraction(value), Decimal(value))
        notes.answers[e.number] = answer
    known = by_number.get(asked.partner.number)
    if n == 0 or known is None:
        return None, None
    lo = hi = equal = None
    if answer is not None and answer.lo is not None and answer.hi is not None and known.lo is not None:
        lo, hi = _ends(e, answer, known, n)
        if answer.value == 0:
            equal = Equal(e.number, asked.partner.number, term.column or "", parts[0].where)
    return Constraint(e.number, parts, Fraction(0), Fraction(0), lo, hi), equal


def _ends(entry: Entry, answer: Answer, known: Constraint, n: int) -> tuple[Fraction, Fraction]:
    """Between what the sum of squares lies."""
    assert answer.lo is not None
    assert answer.hi is not None
    assert known.lo is not None
    assert known.hi is not None
    sums = squared(known.lo, known.hi)
    ends = (answer.lo, answer.hi)
    if entry.query.label.startswith("STDDEV"):
        ends = squared(max(ends[0], Fraction(0)), ends[1])
    if answer.value == 0:
        ends = (Fraction(0), Fraction(0))
    spread = n if "POP" in entry.query.label else n - 1
    slack = (n + 2) * ULP * (abs(ends[1]) * spread + sums[1] / n) if ends[1] else Fraction(0)
    return ends[0] * spread + sums[0] / n - slack, ends[1] * spread + sums[1] / n + slack
