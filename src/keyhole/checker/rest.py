"""Proofs by what is left: a sum of people of whom all but one are known.

That scale * answer - offset is the person's value and `times` that of each of the others is tried on made-up values, as
for every sum of answers. What is known of the others was replayed before; the rest is arithmetic of intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .engine import Cannot, Fails
from .order import Ends
from .rounding import ROOM, step_of
from .sums import Sums
from .thresholds import Thresholds


class Rest:
    """Replays proofs that take known values off a sum."""

    def __init__(self, sums: Sums, thresholds: Thresholds) -> None:
        self.sums = sums
        self.thresholds = thresholds

    def check(self, claim: Claimed, row: int, known: Mapping[int, Ends]) -> None:
        """`known`: what was proved of others before, by row."""
        how, engine = claim.certificate, self.sums.engine
        if row in engine.null[claim.column] or not engine.numeric(claim.column):
            raise Fails("somebody who has no value is said to have one")
        times = {int(o["row"]) - 1: fraction(o["times"]) for o in how["others"]}
        if row in times or any(r not in known for r in times):
            raise Fails("somebody is taken off the sum of whom nothing is known")
        if "stated" in how:
            lo, hi = self._stated(claim, {**times, row: Fraction(1)}, how["stated"])
        else:
            lo, hi = self._answered(claim, row, times)
        for r, t in times.items():
            ends = [None if end is None else t * end for end in known[r]]
            least, most = ends if t > 0 else ends[::-1]
            lo = None if lo is None or most is None else lo - most
            hi = None if hi is None or least is None else hi - least
        self.left(claim, lo, hi)

    def _stated(self, claim: Claimed, times: Mapping[int, Fraction], fact: Mapping[str, Any]) -> Ends:
        """A fact about the total of just these people: it is the verdict's assumption."""
        rows = set(self.sums.engine.condition(str(fact["where"]))) - self.sums.engine.null[claim.column]
        if str(fact["column"]) != claim.column or rows != times.keys() or set(times.values()) != {Fraction(1)}:
            raise Fails("a fact is not about the people whom it is said to be about")
        return number(fact.get("min")), number(fact.get("max"))

    def _answered(self, claim: Claimed, row: int, times: Mapping[int, Fraction]) -> Ends:
        """Between what the sum of these people lies by an answer; that it is their sum is tried."""
        how = claim.certificate
        cited = next((c for c in claim.proof if c.query == str(how["query"])), None)
        if cited is None:
            raise Fails("the certificate names a query that the proof does not name")
        scale, offset = fraction(how["scale"]), fraction(how["offset"])

        def want(made: Mapping[str, Sequence[Any]]) -> list[Fraction]:
            values = made[claim.column]
            return [Fraction(values[row]) + sum((t * Fraction(values[r]) for r, t in times.items()), Fraction(0))]

        if cited.test is not None:
            shares = {(claim.column, r): t / scale for r, t in {**times, row: Fraction(1)}.items()}
            self.thresholds.check(cited, shares)
            return self._compared(claim, cited, shares, scale, offset)
        self.sums.holds((replace(cited, weight=scale), Addend(Fraction(-1), known=offset)), want)
        return self._told(claim, cited, scale, offset)

    def _told(self, claim: Claimed, cited: Addend, scale: Fraction, offset: Fraction) -> Ends:
        """scale * answer - offset, as far as the printed answer tells it."""
        if isinstance(cited.answer, Mapping):
            return _times((number(cited.answer.get("lo")), number(cited.answer.get("hi"))), scale, offset)
        said = self.sums.printed([replace(cited, weight=scale)], claim.column)
        return said.value - offset - said.dust, said.value - offset + said.dust

    def _compared(
        self,
        claim: Claimed,
        cited: Addend,
        shares: Mapping[tuple[str, int], Fraction],
        scale: Fraction,
        offset: Fraction,
    ) -> Ends:
        """scale * what was compared - offset."""
        declared = claim.certificate.get("declared") or {}
        return _times(self.thresholds.told(cited, shares, {claim.column: declared})[0], scale, offset)

    def left(self, claim: Claimed, lo: Fraction | None, hi: Fraction | None) -> None:
        """What lies between these ends, on the grid of the column, is what is claimed."""
        declared = claim.certificate.get("declared") or {}
        least, most, step = (number(declared.get(name)) for name in ("min", "max", "step"))
        lo = least if lo is None or (least is not None and least > lo) else lo
        hi = most if hi is None or (most is not None and most < hi) else hi
        base = Fraction(0) if step is None or least is None else least
        step = step or step_of(self.sums.engine, claim.column)
        if step is not None:
            lo = None if lo is None else base + step * ceil((lo - base) / step)
            hi = None if hi is None else base + step * floor((hi - base) / step)
        if lo is not None and hi is not None and lo > hi:
            raise Cannot("the answers contradict each other")
        if claim.status == "exposed":
            value = number(claim.value)
            if value is None or lo is None or hi is None or not value - ROOM <= lo <= hi <= value + ROOM:
                raise Fails("what is known of the others does not leave the claimed value")
            return
        first, last = number(claim.lo), number(claim.hi)
        if (first is None and last is None) or claim.allowed or claim.excluded:
            raise Fails("what is left of a sum is a value or a range")
        if (first is not None and (lo is None or lo < first - ROOM)) or (
            last is not None and (hi is None or hi > last + ROOM)
        ):
            raise Fails("what is known of the others leaves more than is claimed")


def _times(ends: Ends, scale: Fraction, offset: Fraction) -> Ends:
    lo, hi = (None if end is None else scale * end - offset for end in (ends if scale > 0 else ends[::-1]))
    return lo, hi


def narrower(one: Ends, two: Ends) -> Ends:
    """What lies in both ranges.

    >>> narrower((None, Fraction(5)), (Fraction(1), None))
    (Fraction(1, 1), Fraction(5, 1))
    """
    low = max((end for end in (one[0], two[0]) if end is not None), default=None)
    return low, min((end for end in (one[1], two[1]) if end is not None), default=None)
