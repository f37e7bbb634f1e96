"""Proofs by squares: nobody differs from the average, all are zero, or two people up to their order.

The certificate names the people by a public condition, and says which query is their sum and which their sum of squares
(or their variance). Both are tried on made-up values: they must be the sum, and factor * squares + plain * sum, of
exactly these people. The rest is arithmetic with the printed answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .engine import Cannot, Fails
from .sums import Sums


class Moments:
    """Replays proofs by squares."""

    def __init__(self, sums: Sums) -> None:
        self.sums = sums
        self._same: dict[str, tuple[int, ...]] = {}

    def check(self, claim: Claimed, row: int) -> None:
        """By the kind of the certificate: equal, zero or roots."""
        how = claim.certificate
        cited = {c.query: c for c in claim.proof if c.query}
        rows = self._people(claim, cited)
        if row not in rows:
            raise Fails("the person is not among those whose squares are added up")
        one = replace(cited[how["squares"]], weight=Fraction(1), squares=None, form="")
        squares = self.sums.printed([one], claim.column).value - fraction(how.get("shift", "0"))
        if how["kind"] == "zero":
            if squares != 0 or fraction(how["plain"]):
                raise Fails("the squares do not add up to zero")
            self._is(claim, [Fraction(0)])
            return
        said = self.sums.printed([replace(cited[how["sum"]], weight=Fraction(1))], claim.column)
        total = fraction(how["scale"]) * said.value - fraction(how["offset"])
        if how.get("variance"):
            if how["kind"] == "roots":
                whole = self.sums.printed([replace(cited[how["squares"]], weight=Fraction(1))], claim.column).value
                self._roots_of(claim, rows, total, len(rows) * whole - total * total)
                return
            if squares != 0 or how["kind"] != "equal":
                raise Fails("the variance is not zero")
            self._is(claim, [total / len(rows)], abs(fraction(how["scale"])) * said.dust / len(rows))
            return
        summed = (squares - fraction(how["plain"]) * total) / fraction(how["factor"])
        left = len(rows) * summed - total * total
        if how["kind"] == "equal":
            if left != 0:
                raise Fails("the sum and the squares do not say that all are equal")
            self._is(claim, [total / len(rows)])
        else:
            self._roots_of(claim, rows, total, left)

    def _roots_of(self, claim: Claimed, rows: tuple[int, ...], total: Fraction, left: Fraction) -> None:
        if len(rows) != 2 or left <= 0:
            raise Fails("the sum and the squares do not leave two values")
        self._roots(claim, total, left)

    def _people(self, claim: Claimed, cited: Mapping[str, Addend]) -> tuple[int, ...]:
        """Those whom the condition names, once the queries are seen to be their sum and their squares."""
        how = claim.certificate
        key = repr((claim.proof, sorted(how.items(), key=str), claim.column))
        if key in self._same:
            return self._same[key]
        null = self.sums.engine.null[claim.column]
        rows = tuple(r for r in self.sums.engine.condition(how["where"]) if r not in null)
        used = [how["squares"], *([how["sum"]] if "sum" in how else [])]
        if not rows or any(q not in cited for q in used):
            raise Fails("the certificate names nobody, or a query that the proof does not name")
        scale, offset = fraction(how.get("scale", "1")), fraction(how.get("offset", "0"))

        def values(made: Mapping[str, Sequence[Any]]) -> list[Fraction]:
            return [Fraction(made[claim.column][r]) for r in rows]

        if "sum" in how:
            known = Addend(Fraction(-1), known=offset)
            self.sums.holds(
                (replace(cited[how["sum"]], weight=scale), known), lambda made: [sum(values(made), Fraction(0))]
            )
        factor, plain, shift = (fraction(how.get(name, "0")) for name in ("factor", "plain", "shift"))
        if factor == 0 and not how.get("variance"):
            raise Fails("no squares are added up")

        def squares(made: Mapping[str, Sequence[Any]]) -> list[Fraction]:
            held = values(made)
            total = sum(held, Fraction(0))
            if how.get("variance"):
                return [sum((v * v for v in held), Fraction(0))]
            return [factor * sum((v * v for v in held), Fraction(0)) + plain * total + shift]

        self.sums.quadratic((replace(cited[how["squares"]], weight=Fraction(1)),), squares)
        self._same[key] = rows
        return rows

    def _is(self, claim: Claimed, values: Sequence[Fraction], dust: Fraction = Fraction(0)) -> None:
        said = number(claim.value)
        if claim.status != "exposed" or said is None:
            raise Cannot("the claim names no value")
        room = dust + Fraction(1, 10**12) * max(abs(said), Fraction(1))
        if not any(abs(said - v) <= room for v in values):
            raise Fails("the claimed value is not what the answers give")

    def _roots(self, claim: Claimed, total: Fraction, left: Fraction) -> None:
        """2 x = total -+ sqrt(left); both are said, or the range between them, which another proof rests on."""
        ends = (claim.lo, claim.hi)
        if claim.excluded or len(claim.allowed) not in (0, 2):
            raise Fails("two values, or the range between them, are all that is proved")
        said = sorted(v for v in map(number, claim.allowed or ends) if v is not None)
        if claim.status == "exposed" or len(said) != 2:
            raise Fails("two values are known up to their order only")
        for v, sign in zip(said, (-1, 1), strict=True):
            gap = (2 * v - total) * sign
            if gap < 0 or abs(gap * gap - left) > Fraction(1, 10**8) * max(Fraction(1), left):
                raise Fails("the claimed values are not the two roots")
        low, high = map(number, ends)
        if (low is not None and low > said[0]) or (high is not None and high < said[1]):
            raise Fails("the claimed range leaves out a root")
