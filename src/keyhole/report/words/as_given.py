"""An answer in a proof's words, as it was given: a number, a number and its error, or two ends."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from keyhole.auditing.width import written
from keyhole.model.numbers import shorten_fraction
from keyhole.report.plain import Cited
from keyhole.report.words.digits import digits


def as_given(cited: Cited) -> str:
    """What a proof may take an inexact answer for; empty where the answer is a number and no more.

    >>> from keyhole.model.transcript import Answer, Noise
    >>> from keyhole.report.documents.verdict import ProofItem
    >>> noise = Noise("uniform", Fraction(1, 4))
    >>> noisy = Answer(Decimal("4.2"), Fraction("3.95"), Fraction("4.45"), noise)
    >>> as_given(Cited("2", Fraction(1), None, answer=noisy, replayed=ProofItem(ends=("3.95", "4.45"))))
    'Q2 = 4.2 ± 0.25'
    >>> as_given(Cited("3", Fraction(1), None, replayed=ProofItem(ends=("1", "2"))))
    'Q3 lies in [1, 2]'
    >>> as_given(Cited("4", Fraction(1), None))
    ''
    """
    ends = cited.replayed.ends
    if ends is None or _dust(ends):
        return ""
    answer = cited.answer
    if answer is not None and isinstance(answer.value, Decimal) and answer.noise is not None and answer.noise.bounded:
        scale = answer.noise.scale
        return f"{cited.name} = {digits(answer.value)} ± {digits(shorten_fraction(scale))}"
    low, high = written(*(None if end is None else Fraction(end) for end in ends))
    return f"{cited.name} lies in [{'-∞' if low is None else digits(low)}, {'∞' if high is None else digits(high)}]"


def _dust(ends: Sequence[str | None]) -> bool:
    """Are they apart by the radius of floating-point sums only?"""
    low, high = (None if end is None else Fraction(end) for end in ends)
    return low is not None and high is not None and high - low <= max(abs(low), abs(high)) / 10**9
