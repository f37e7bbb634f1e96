"""Proofs by a sum of answers: the value itself, a value in its cell, an indicator, a square, the total of a group."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .claims import Addend, Claimed, fraction, item, number
from .engine import NOBODY, Cannot, CastOverflow, Engine, Fails
from .fillings import Maker, Span, constants, never, plainly, public_only, strange, trials
from .rounding import Blurred, PrintedEnds, elsewhere, middle, sole, whole, within

ULP = Fraction(1, 2**52)
MOST_TRIALS = 2000
ROUNDINGS = 24
PRINTED = Fraction(1, 10**12)  # a number that has no end is printed with twelve decimals
LARGE, LEAST = 50, 24  # bits of made-up sums: CAST(SUM(x) AS DECIMAL(12, 2)) takes 33
KEPT = 2_000_000  # made-up values up to which proofs share their fillings

Made = tuple[dict[str, list[Any]], int]  # private values, and up to which number they were drawn
Wanted = Callable[[Mapping[str, Sequence[Any]]], Sequence[Fraction]]  # private values -> what may be answered then
Declared = Mapping[str, Mapping[str, Any]] | None  # column -> min, max, step, values


class Unmet(Exception):
    """On these made-up values a statement answers NULL, or does not show the group: nothing is said of them."""


class Sums:
    """Replays sums of answers on made-up values."""

    def __init__(self, engine: Engine, maker: Maker, bits: int, priors: Mapping[str, tuple[Any, Any]]) -> None:
        self.engine = engine
        self.maker = maker
        self.bits = bits
        self.priors = priors
        self.ends = PrintedEnds(engine, maker)
        self._made: dict[Hashable, Made] = {}

    # --- fillings ----------------------------------------------------------------------------------------------------

    def public(self, proof: Sequence[Addend]) -> bool:
        """Are all statements of a proof plainly without private conditions?"""
        return not any(strange(c.sql, self.engine.private) for c in proof if c.sql is not None) and all(
            public_only(c.sql, self.engine.private) for c in proof if c.sql is not None
        )

    def cells(self, proof: Sequence[Addend], declared: Declared) -> dict[str, list[Span]]:
        """The cells of each private column that the constants of the cited statements make."""
        numbers, words = constants(c.sql for c in proof if c.sql is not None)
        texts = " ".join((c.sql or "") for c in proof).casefold()
        found = {}
        for name in self.engine.private:
            used = name.casefold() in texts or "*" in texts.replace("count(*)", "")
            cells = self.maker.cells(name, numbers, words, (declared or {}).get(name))
            found[name] = cells if used else [Span(None, None, self._any(name))]
        return found

    def _any(self, name: str) -> Any:
        return self.maker.values(self.maker.cells(name, [], ["a"]))[0]

    # --- what a proof adds up ----------------------------------------------------------------------------------------

    def weighted(self, proof: Sequence[Addend]) -> Blurred:
        """The weighted answers of a proof on what is filled in now."""
        total, dust = Fraction(0), Fraction(0)
        for cited in proof:
            found = self._addend(cited)
            total += cited.weight * found.value
            dust += abs(cited.weight) * found.dust
        return Blurred(total, dust)

    def _addend(self, cited: Addend) -> Blurred:
        if cited.known is not None:
            return Blurred(cited.known)
        if cited.fact is not None:
            if "where" not in cited.fact or "column" not in cited.fact:
                raise Cannot("a fact without its condition")
            return Blurred(number(self.engine.total(cited.fact["column"], cited.fact["where"])) or Fraction(0))
        if cited.form and cited.squares is None:
            if cited.answered and cited.answer is None:
                if self.engine.answer(cited) not in (None, NOBODY):
                    raise Unmet
                return Blurred(Fraction(0))  # nobody matched: the number of people is 0
            raise Cannot("a quotient of private sums has no certificate")
        if cited.squares is not None:
            return self._squares(cited)
        found = self.read(cited)
        return Blurred(found.value, found.dust + (cited.rounded or 0))

    def read(self, cited: Addend) -> Blurred:
        """The number in a cell of a statement."""
        said = self.engine.answer(cited)
        if said is None or said is NOBODY:
            raise Unmet
        value = number(said)
        if value is None:
            raise Cannot("a yes or no is no number to add up")
        return Blurred(value, self._dust(value) if isinstance(said, float) else Fraction(0))

    def _dust(self, value: Fraction) -> Fraction:
        doubles = any(kind == "DOUBLE" for kind in (*self.engine.types.values(), *self.engine.columns.values()))
        return (self.engine.n + 2 if doubles else 4) * ULP * abs(value)

    def _squares(self, cited: Addend) -> Blurred:
        """A variance as the sum of squares that it tells: times * answer^power + (scale * sum - offset)^2 / people."""
        how = cited.squares or {}
        spread = self.read(cited)
        partner = item({**how["sum"], "weight": "1"})
        summed = fraction(how["scale"]) * self.read(partner).value - fraction(how["offset"])
        around = fraction(how["times"]) * spread.value ** int(how["power"])
        value = around + summed**2 / fraction(how["people"])
        return Blurred(value, (self.engine.n + 2) * 8 * ULP * (abs(value) + summed**2))

    # --- the made-up check -------------------------------------------------------------------------------------------

    def holds(self, proof: Sequence[Addend], want: Wanted, declared: Declared = None) -> None:
        """On all made-up values the weighted answers are what `want` says of them (one of several); Fails if not."""
        if self.public(proof):
            self._publicly(proof, want)
        else:
            self._privately(proof, want, declared)

    def _publicly(self, proof: Sequence[Addend], want: Wanted, bits: int = LARGE) -> None:
        sure, unmet, k = 0.0, 0, 0
        over = math.lcm(*(c.weight.denominator for c in proof))
        while sure < self.bits or k < 2:  # at least once with each sign
            made, most = self._large(k, bits)
            k += 1
            try:
                dust = self._compare(proof, made, want)
            except CastOverflow:
                if bits == LEAST:
                    raise
                self._publicly(proof, want, LEAST)
                return
            except Unmet:
                unmet += 1
                if unmet > 40:
                    raise never(proof) from None
                continue
            step = min(self.maker.step(name) for name in self.engine.private if self.engine.numeric(name))
            gained = math.log2(most) - math.log2(float(2 * dust / step * over + over + 1))
            if gained < 1:
                raise Cannot("floating point blurs the made-up sums too much")
            sure += gained
        met = False
        for k in range(4):
            try:
                self._compare(proof, self._small(k), want)
                met = True
            except Unmet:
                continue
        if not met:
            raise Cannot("no small values let the statements answer")

    def _privately(self, proof: Sequence[Addend], want: Wanted, declared: Declared) -> None:
        plainly(proof, self.engine.private)
        cells = self.cells(proof, declared)
        wanted = trials(cells, self.bits)
        if wanted > MOST_TRIALS:
            raise Cannot(f"the private conditions make so many cells that {wanted} fillings would be needed")
        met, key = 0, tuple((name, tuple(each)) for name, each in cells.items())
        few = 2 * wanted * self.engine.n <= KEPT
        for k in range(2 * wanted):
            made = self._kept(key, k, lambda: (self.maker.mixed(cells), 0))[0] if few else self.maker.mixed(cells)
            try:
                self._compare(proof, made, want, keep=few)
                met += 1
            except Unmet:
                pass
            if met >= wanted:
                return
        if not met:
            raise never(proof)
        raise Cannot("too few made-up values let the statements answer as they did")

    def _compare(
        self,
        proof: Sequence[Addend],
        made: Mapping[str, Sequence[Any]],
        want: Wanted,
        *,
        keep: bool = True,
    ) -> Fraction:
        self.engine.fill(made, keep=keep)
        found = self.weighted(proof)
        off = min(abs(found.value - w) for w in want(made))
        if off > found.dust:
            raise Fails("on made-up values the weighted answers are not what is claimed")
        return found.dust

    def _large(self, k: int, bits: int) -> Made:
        return self._kept(bits, k, lambda: self.maker.large(1 - 2 * (k % 2), bits))

    def _small(self, k: int) -> dict[str, list[Any]]:
        return self._kept("small", k, lambda: (self.maker.small(1 - 2 * (k % 2)), 0))[0]

    def _kept(self, name: Hashable, k: int, make: Callable[[], Made]) -> Made:
        """Proofs share their fillings, each of which is random and unknown to whoever wrote the verdict."""
        if (name, k) not in self._made:
            self._made[name, k] = make()
        return self._made[name, k]

    # --- the answers of the verdict ----------------------------------------------------------------------------------

    def printed(self, proof: Sequence[Addend], column: str) -> Blurred:
        """The weighted sum of the answers that the verdict gives, with the dust of floating point."""
        total, dust = Fraction(0), Fraction(0)
        for cited in proof:
            if cited.known is not None:
                total += cited.weight * cited.known
                continue
            if cited.fact is not None:
                said = number(cited.fact.get("total"))
                if said is None:
                    raise Cannot("a fact without its total")
                total += cited.weight * said
                continue
            found = self._answered(cited, column)
            total += cited.weight * found.value
            dust += abs(cited.weight) * found.dust
        return Blurred(total, dust)

    def _answered(self, cited: Addend, column: str) -> Blurred:
        if not cited.answered:
            raise Cannot("the verdict does not have the answers")
        if cited.answer is None:
            if cited.form and cited.squares is None:
                return Blurred(Fraction(0))
            raise Fails("it adds up an answer that is NULL")
        value, apart = number(cited.answer), Fraction(0)
        if isinstance(cited.answer, Mapping):
            value, apart = middle(cited.answer)
        if value is None:
            raise Cannot("an answer that is no number")
        if cited.exactly is not None and abs(cited.exactly - value) > PRINTED:
            raise Fails("an answer is not what it is said to be exactly")
        value = value if cited.exactly is None else cited.exactly
        if cited.squares is None:
            return Blurred(value, self._blur(column, value) + apart + cited.noise + (cited.rounded or 0))
        how = cited.squares
        partner = self._answered(item({**how["sum"], "weight": "1"}), column)
        summed = fraction(how["scale"]) * partner.value - fraction(how["offset"])
        whole = fraction(how["times"]) * value ** int(how["power"]) + summed**2 / fraction(how["people"])
        return Blurred(whole, (self.engine.n + 2) * 8 * ULP * (abs(whole) + summed**2))

    def _blur(self, column: str, value: Fraction) -> Fraction:
        """How far a printed answer may lie from the true one: DOUBLE sums in any order; averages are rounded once."""
        if self.engine.types.get(column) != "DOUBLE":
            return 4 * ULP * abs(value)
        ends = [abs(e) for end in self.priors.get(column, ()) if (e := number(end)) is not None]
        size = max([abs(value), self.engine.n * self.engine.largest(column), *(self.engine.n * e for e in ends)])
        return (self.engine.n + 2) * 2 * ULP * size

    # --- kinds of claims ---------------------------------------------------------------------------------------------

    def identity(self, claim: Claimed, rows: Sequence[int], *, part: bool = False) -> None:
        """The weighted answers are the person's value (`part`: or 0 outside a cell), and what is claimed."""

        def want(made: Mapping[str, Sequence[Any]]) -> list[Fraction]:
            if any(r in self.engine.null[claim.column] for r in rows):
                raise Fails("somebody who has no value is said to have one")
            total = sum((Fraction(made[claim.column][r]) for r in rows), Fraction(0))
            return [total, Fraction(0)] if part else [total]

        if not self.engine.numeric(claim.column):
            raise Fails("a sum of answers is no value of a column of this kind")
        proof = self._as_rounded(claim, () if part else rows, want)
        if claim.status == "inferred":
            said = self.printed(proof, claim.column)
            elsewhere(said, part=part)
            within(claim, said, self.priors.get(claim.column, (None, None)))
            return
        value = number(claim.value)
        if claim.value is None:
            if any(c.answered for c in claim.proof) and claim.status != "exposed":
                raise Cannot("nothing is claimed of the value")
            return
        if value is None:
            raise Fails("the claimed value is no number")
        proof = [whole(c, claim.column, self.engine) for c in proof]
        said = self.printed(proof, claim.column)
        blurred = any(c.rounded or c.noise or isinstance(c.answer, Mapping) for c in proof)
        if blurred and not sole(claim, value, said, self.engine):
            raise Cannot("the rounded answers alone leave several values")
        elsewhere(said, part=part)
        if abs(said.value - value) > said.dust + (PRINTED if value.denominator > 10**11 else 0):
            raise Fails("the answers of the verdict do not add up to the claimed value")
        lo, hi = number(claim.lo), number(claim.hi)
        if (lo is not None and lo > value) or (hi is not None and hi < value):
            raise Fails("the claimed value lies outside its own range")

    def _as_rounded(self, claim: Claimed, rows: Sequence[int], want: Wanted) -> Sequence[Addend]:
        """The proof as it holds: with its answers as they are if rounding changes none, else within their rounding."""
        declared = claim.certificate.get("declared")
        plain = [replace(c, rounded=None) for c in claim.proof]
        if not any(c.rounded for c in claim.proof):
            self.holds(plain, want, declared)
            return plain
        try:
            self.holds(plain, want, declared)
        except (Fails, Cannot):
            self.holds(claim.proof, want, declared)
            if not (rows and self.public(claim.proof) and self.ends.is_one_rounded_answer(claim, rows)):
                self._roundings(claim.proof, want)
            return claim.proof
        return plain

    def _roundings(self, proof: Sequence[Addend], want: Wanted) -> None:
        """Many more values: of some a radius that is said to be smaller than it is holds by chance."""
        for k in range(ROUNDINGS):
            with suppress(Unmet):
                self._compare(proof, self.maker.large(1 - 2 * (k % 2), 24)[0], want, keep=False)

    def square(self, claim: Claimed, row: int) -> None:
        """The weighted answers are the square of the person's value."""
        if row in self.engine.null[claim.column]:
            raise Fails("somebody who has no value is said to have one")

        def want(made: Mapping[str, Sequence[Any]]) -> list[Fraction]:
            return [Fraction(made[claim.column][row]) ** 2]

        self.quadratic(claim.proof, want, claim.certificate.get("declared"))
        said = self.printed(claim.proof, claim.column)
        values = [v for v in (number(claim.value), *map(number, claim.allowed)) if v is not None]
        if not values:
            raise Cannot("the claim names no root")
        room = said.dust + Fraction(1, 10**9) * max(Fraction(1), abs(said.value))
        if any(abs(v * v - said.value) > room for v in values):
            raise Fails("the claimed value is no root of the square")
        if claim.status == "exposed":
            if values[0] and not self._signed(claim, values[0]):
                raise Fails("the square does not say which of the two roots it is")
            return
        if {v < 0 for v in values if v} not in ({True, False}, set()):
            raise Fails("the other root is left out")
        lo, hi = number(claim.lo), number(claim.hi)
        if claim.excluded or (lo is not None and lo > min(values)) or (hi is not None and hi < max(values)):
            raise Fails("the claimed range leaves out a root")

    def _signed(self, claim: Claimed, value: Fraction) -> bool:
        ends = self.priors.get(claim.column, (None, None))
        if claim.column in (claim.certificate.get("assumed") or ()):
            assumed = (claim.certificate.get("declared") or {}).get(claim.column, {})
            ends = (assumed.get("min"), assumed.get("max"))
        lo, hi = map(number, ends)
        return (lo is not None and lo >= 0 and value > 0) or (hi is not None and hi <= 0 and value < 0)

    def quadratic(self, proof: Sequence[Addend], want: Wanted, declared: Declared = None) -> None:
        """As `holds`, on smaller values, since squares of large ones are blurred.

        A wrong form of degree 2 in a person's value has at most two roots, so it passes with probability at most
        2 (2 T / R + 1) / R each time.
        """
        if not self.public(proof):
            self._privately(proof, want, declared)
            return
        sure, most_bits = 0.0, 24 + self.engine.n.bit_length()
        for k in range(60):
            made, most = self._large(k, most_bits)
            try:
                dust = self._compare(proof, made, want)
            except Unmet:
                continue
            step = min(self.maker.step(name) for name in self.engine.private if self.engine.numeric(name))
            sure += max(0.0, math.log2(most) - 1 - math.log2(float(2 * dust / (most * step * step) + 1)))
            if sure >= self.bits and k:
                self._compare(proof, self._small(0), want)
                return
        raise Cannot("floating point blurs the made-up squares too much")

    def slack(self, claim: Claimed) -> Fraction:
        """How far floating point may have moved what a claim says."""
        try:
            return self.printed(claim.proof, claim.column).dust
        except (Cannot, Fails):
            return Fraction(0)

    def real(self, proof: Sequence[Addend], column: str) -> bool:
        """Are the answers of the verdict those that the data give? Only then must a claim be true of the data."""
        if not self.engine.real:
            return False
        self.engine.fill(None)
        for cited in proof:
            if cited.known is not None or cited.sql is None:
                continue
            if cited.fact is not None or not cited.answered:
                return False
            try:
                found = self.engine.answer(cited)
            except Cannot:
                return False
            given, said = number(cited.answer), number(found)
            if given is None or said is None:
                if not (cited.answer is None and found in (None, NOBODY)):
                    return False
                continue
            if abs(given - said) > max(self._blur(column, given), self._dust(given)) + Fraction(1, 10**9):
                return False
        return True


# --- moments ----------------------------------------------------------------------------------------------------------
# Proofs by squares: nobody differs from the average, all are zero, or two people up to their order.
# The certificate names the people by a public condition, and says which query is their sum and which their sum of
# squares (or their variance). Both are tried on made-up values: they must be the sum, and factor * squares + plain *
# sum, of exactly these people. The rest is arithmetic with the printed answers.


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
