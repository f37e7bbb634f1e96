"""Does a table give an answer? Exactly, with NULL, HAVING and ROUND, and with the dust of DOUBLE where there is some.

`model.meaning` says what SQL answers over given totals. Here that is compared with what was told: yes, no, or perhaps
(a quotient near the printed one, a number at the edge of a rounding, a hidden group whose sum may have been NULL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from keyhole.auditing.known import Known
from keyhole.gather.answers import interval, largest_end, noise_compared, radius
from keyhole.gather.arithmetic import EXACT, Arithmetic
from keyhole.gather.evidence import ROUNDED
from keyhole.model.meaning import OVER_ZERO, Value, holds, value
from keyhole.model.transcript import Entry


@dataclass(frozen=True, slots=True)
class AnswerTest:
    """Compares the totals of one query with its answer: rows are (top, per, one for each need), `scales` times them."""

    entry: Entry
    scales: tuple[int, ...]
    known: Known
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
        return value(self.entry.query, top, per, met=all(needs))

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
            return holds(v, query.test.op, at) is answer.value
        return self._number(v)

    def _number(self, v: Fraction) -> bool | None:
        answer = self.entry.answer
        assert answer is not None
        told = Fraction(answer.value) if isinstance(answer.value, Decimal) else largest_end(answer)
        dust = Fraction(0) if told is None else self._dust(told)  # ends may be numbers that an engine printed
        said = interval(self.entry.query, answer, dust)
        if (said.lo is not None and v < said.lo) or (said.hi is not None and v > said.hi):
            return False
        if said.exact and isinstance(answer.value, Decimal):
            return True if v == said.lo == said.hi else None
        if said.why == ROUNDED:
            near = dust + abs(v) / 10**9
            inside = said.lo is not None and said.hi is not None and said.lo + near < v < said.hi - near
            return True if inside else None
        inside = (said.lo is None or v >= said.lo + 2 * dust) and (said.hi is None or v <= said.hi - 2 * dust)
        return True if answer.value is None and inside else None

    def _dust(self, at: Fraction) -> Fraction:
        return radius(self.entry.query, at, self.known.evidence.n, self.known.schema, self.known.knowledge)

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
        said = interval(query, answer, self._dust(Fraction(answer.value)))
        times = self.scales[0] * (per if query.per and per is not None else Fraction(1))
        if said.lo is None or said.hi is None:
            return None, None
        low, high = sorted((said.lo * times, said.hi * times))
        return ceil(low), floor(high)
