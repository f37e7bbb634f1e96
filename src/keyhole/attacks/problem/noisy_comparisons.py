"""A noisy number that was compared with a constant: between what the yes or the no puts it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from keyhole.model.transcript import Answer, Entry

Ends: TypeAlias = tuple[Fraction | None, Fraction | None]


def number_behind(entry: Entry) -> Answer | None:
    """The answer, a noisy yes or no as the ends of the noisy number that was compared; equality tells no likelihood.

    >>> from decimal import Decimal
    >>> from keyhole.model.query import Aggregate, Query, Term, Threshold
    >>> from keyhole.model.transcript import Noise
    >>> yes = Answer(True, None, None, Noise("gaussian", Fraction(2)))
    >>> above = Query(Aggregate.SUM, (Term("pay"),), test=Threshold(">", Decimal(4)))
    >>> number_behind(Entry("1", "", above, yes)).shown
    (Fraction(4, 1), None)
    """
    answer, test = entry.answer, entry.query.test
    if answer is None or test is None or answer.noise is None or answer.noise.bounded:
        return answer
    at = Fraction(test.value)
    ends: Ends = (None, None)
    if isinstance(answer.value, bool) and test.op not in ("=", "<>"):
        ends = (at, None) if (test.op in (">", ">=")) == answer.value else (None, at)
    return replace(answer, value=None, shown=ends)
