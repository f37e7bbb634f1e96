"""Proofs of a range: weighted answers, and bounds for whoever they leave.

The certificate says by public conditions whom each answer adds up, so that the weighted answers are a sum of
coefficients times private values. That is not believed: it is tried on made-up values with the original statements.
Then what the answers leave of everybody, coefficient by coefficient, is put at the declared end that makes it largest
(or smallest), in fractions, and the sum must prove the end that is claimed. Ends are declared, or said by a fact: what
is known beforehand is the verdict's assumption, not its claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .engine import INTEGER, Cannot, Fails
from .order import Ends
from .rounding import radius
from .sums import Sums
from .thresholds import Thresholds

Place = tuple[str, int]  # a private column and a row
SAID_DUST = 16  # times the least that is sure: a verdict may reckon with more
PRINTED_ENDS = Fraction(1, 10**12)  # an end that is no decimal is printed with twelve, rounded outwards


@dataclass(frozen=True)
class Side:
    """One side of a proof, tried: coefficients, what the answers say, and by how much floating point may be off."""

    coefficients: Mapping[Place, Fraction]
    told: Fraction
    dust: Fraction
    used: Counter[tuple[str, Fraction, Fraction]]  # (bound, weight, each) -> people, of everybody
    left: Fraction  # what they add up to
    endless: frozenset[Place]  # who has no such end


class RangeProofs:
    """Replays proofs of ranges; what people of one atom share is tried once."""

    def __init__(self, sums: Sums, thresholds: Thresholds) -> None:
        self.sums = sums
        self.engine = sums.engine
        self.thresholds = thresholds
        self._sides: dict[str, Side] = {}
        self._numbers: dict[tuple[str, str], list[Any]] = {}
        self._learned: Mapping[Place, Ends] = {}

    def check(self, claim: Claimed, row: int, learned: Mapping[Place, Ends]) -> None:
        """Every end that is claimed must be proved, and a value must be the only one between them.

        `learned`: what other rules proved of people's values, by column and row.
        """
        self._learned = learned
        if row in self.engine.null[claim.column] or not self.engine.numeric(claim.column):
            raise Fails("somebody who has no number is said to have one")
        if claim.allowed or claim.excluded:
            raise Fails("a range is proved, and a list of values is claimed")
        proved: dict[str, Fraction] = {}
        for side, said in (("lo", claim.lo), ("hi", claim.hi)):
            if said is None:
                continue
            items = [c for c in claim.proof if c.side == side]
            end = number(said)
            if end is None or not (items or claim.certificate.get("assumed")):
                raise Fails("an end is claimed without a proof")
            proved[side] = self._end(claim, row, side, items)
            slack = self._side(claim, side, items).dust + (PRINTED_ENDS if end.denominator > 10**11 else 0)
            if end > proved["lo"] + slack if side == "lo" else end < proved["hi"] - slack:
                raise Fails("the answers and bounds do not prove the end that is claimed")
        if not proved:
            raise Fails("nothing is claimed")
        if claim.status == "exposed":
            self._sole(claim, proved)

    def _sole(self, claim: Claimed, proved: Mapping[str, Fraction]) -> None:
        value = number(claim.value)
        if value is None or len(proved) < 2:
            raise Fails("a value is claimed, and a range is proved")
        sides = [self._side(claim, s, [c for c in claim.proof if c.side == s]).dust for s in proved]
        if proved["hi"] - proved["lo"] > sum(sides) + 2 * PRINTED_ENDS:
            raise Fails("the range leaves several values")
        if not proved["lo"] - sides[0] - PRINTED_ENDS <= value <= proved["hi"] + sides[1] + PRINTED_ENDS:
            raise Fails("the claimed value lies outside its own range")

    def _end(self, claim: Claimed, row: int, side: str, items: Sequence[Addend]) -> Fraction:
        """What is proved of this person, rounded to what his column can hold."""
        tried, place = self._side(claim, side, items), (claim.column, row)
        own = tried.coefficients.get(place, Fraction(0))
        used, total = tried.used.copy(), tried.told + tried.left
        if tried.endless - {place}:
            raise Fails("somebody whom the answers leave has no such end")
        for weight, sign in ((-own, -1), (1 - own, 1)):  # his own value is not among the others'
            if not weight or (sign < 0 and place in tried.endless):
                continue
            bound, each = self._bound(claim, place, weight, side, items)
            if each is None:
                raise Fails("the person's own value is left, and has no such end")
            used[bound, weight, each] += sign
            total += sign * weight * each
        if not claim.certificate.get("assumed"):  # of ends that were assumed the proof says nothing
            self._named(items, Counter({key: count for key, count in used.items() if count}))
        step, base = self._grid(claim)
        if step is None:
            return total
        count = (total - base) / step
        return base + step * (floor(count) if side == "hi" else ceil(count))

    def _named(self, items: Sequence[Addend], used: Counter[tuple[str, Fraction, Fraction]]) -> None:
        """The bounds that the proof names are those that were put in, and as many."""
        told: Counter[tuple[str, Fraction, Fraction]] = Counter()
        for c in items:
            if c.bound is not None:
                each = number(c.bound.get("each"))
                if each is None:
                    raise Fails("a bound without its number")
                told[str(c.bound["bound"]), c.weight, each] += int(c.bound.get("people", 1))
        if told != used and not (self._learned and _no_tighter(told, used)):
            raise Fails("the bounds that the proof names are not those that it needs")

    def _side(self, claim: Claimed, side: str, items: Sequence[Addend]) -> Side:
        key = repr((side, claim.column, items, sorted(claim.certificate.items(), key=repr)))
        if key not in self._sides:
            self._sides[key] = self._tried(claim, side, items)
        return self._sides[key]

    def _tried(self, claim: Claimed, side: str, items: Sequence[Addend]) -> Side:
        steps = [c for c in items if c.bound is None]
        coefficients = self._coefficients(claim, steps)
        loose = [c for c in steps if c.test is not None or (c.ends is not None and c.fact is None)]
        offset = sum((c.weight * (c.offset if c.test is None else _offset(c)) for c in loose), Fraction(0))
        public = [Addend(Fraction(1), known=offset)] if offset else []
        self._added_up(claim, [*(c for c in steps if c not in loose), *public])
        for c in loose:
            self._loosely(claim, replace(c, weight=Fraction(1)))
        told, dust = Fraction(0), Fraction(0)
        for c in steps:
            end, off = self._told(claim, c, side)
            told, dust = told + c.weight * end, dust + abs(c.weight) * off
        used: Counter[tuple[str, Fraction, Fraction]] = Counter()
        left, endless = Fraction(0), set()
        for place, coefficient in coefficients.items():
            bound, each = self._bound(claim, place, -coefficient, side, items)
            if each is None:
                endless.add(place)
                continue
            used[bound, -coefficient, each] += 1
            left -= coefficient * each
        return Side(coefficients, told, dust, used, left, frozenset(endless))

    def _told(self, claim: Claimed, cited: Addend, side: str) -> tuple[Fraction, Fraction]:
        """The end of an answer that counts, and its dust."""
        if cited.known is not None:
            return cited.known, Fraction(0)
        ends, dust = cited.ends, Fraction(0)
        if cited.fact is None and (
            not cited.answered or isinstance(cited.answer, bool) is not (cited.test is not None)
        ):
            raise Cannot("the verdict does not have the answers")
        if ends is None and cited.fact is None:
            found = self.sums.printed([cited], claim.column)  # weighted
            return found.value / cited.weight, found.dust / abs(cited.weight)
        if ends is None:
            total = number((cited.fact or {}).get("total"))
            ends = (total, total)
        elif isinstance(cited.answer, bool):
            dust = self._compared(claim, cited, ends)
        elif cited.fact is None and not _as_said(cited, ends):
            raise Fails("an answer is not the interval that it is said to be")
        end = ends[1 if (cited.weight > 0) == (side == "hi") else 0]
        if end is None:
            raise Fails("an answer has no such end")
        return end, dust

    def _added_up(self, claim: Claimed, summed: Sequence[Addend]) -> None:
        """Answers that are numbers, and constants, add up to what is said of them, on made-up values."""
        added = self._coefficients(claim, summed)

        def want(made: Mapping[str, Sequence[Any]]) -> list[Fraction]:
            return [sum((c * Fraction(made[name][r]) for (name, r), c in added.items()), Fraction(0))]

        if summed:
            self.sums.holds(summed, want, claim.certificate.get("declared"))

    def _loosely(self, claim: Claimed, cited: Addend) -> None:
        """A yes or no, or a number known between two ends, is about the people it is said to be about."""
        shares = self._coefficients(claim, [cited])
        if cited.test is not None:
            self.thresholds.check(cited, shares)
            return
        rough = replace(cited, rounded=radius(cited))
        self._added_up(claim, [rough, *([Addend(Fraction(-1), known=cited.offset)] if cited.offset else [])])
        self.sums.ends.check(cited, shares, claim.certificate.get("declared") or {})

    def _compared(self, claim: Claimed, cited: Addend, said: Ends) -> Fraction:
        """What is said of a yes or no must not be narrower than what it tells; by how much floating point is off."""
        shares = self._coefficients(claim, [replace(cited, weight=Fraction(1))])
        (lo, hi), dust = self.thresholds.told(cited, shares, claim.certificate.get("declared") or {})
        (low, high) = said
        if (low is not None and (lo is None or low > lo)) or (high is not None and (hi is None or high < hi)):
            raise Fails("an answer is not the interval that it is said to be")
        return SAID_DUST * dust

    def _coefficients(self, claim: Claimed, steps: Sequence[Addend]) -> dict[Place, Fraction]:
        """What the weighted answers add up to, by what the certificate says; nothing of it is believed yet."""
        found: dict[Place, Fraction] = {}
        for c in steps:
            for name, r, share in self._people(claim, c):
                if r not in self.engine.null[name]:
                    found[name, r] = found.get((name, r), Fraction(0)) + c.weight * share
        return {place: c for place, c in found.items() if c}

    def _people(self, claim: Claimed, cited: Addend) -> Iterator[tuple[str, int, Fraction]]:
        if cited.known is not None:
            return
        if cited.fact is not None:
            yield from ((str(cited.fact["column"]), r, Fraction(1)) for r in self._rows(str(cited.fact["where"])))
            return
        for part in claim.certificate["people"][cited.query]:
            name, factor = str(part["column"]), fraction(part["factor"])
            if name not in self.engine.private or not self.engine.numeric(name):
                raise Fails("a column that is not private, or no number, is added up")
            times = self._values(str(part["times"])) if "times" in part else None
            for r in self._rows(str(part["where"])):
                yield name, r, factor * (1 if times is None else times[r])

    def _rows(self, where: str) -> list[int]:
        if ("where", where) not in self._numbers:
            self._numbers["where", where] = self.engine.condition(where)
        return self._numbers["where", where]

    def _values(self, expression: str) -> list[Fraction]:
        if ("value", expression) not in self._numbers:
            self._numbers["value", expression] = [
                number(v) or Fraction(0) for v in self.engine.public_values(expression)
            ]
        return self._numbers["value", expression]

    def _bound(
        self, claim: Claimed, place: Place, weight: Fraction, side: str, items: Sequence[Addend]
    ) -> tuple[str, Fraction | None]:
        """The end of somebody's value that makes a weighted value largest (or smallest): declared, or by a fact."""
        name, row = place
        bound = "max" if (weight > 0) == (side == "hi") else "min"
        ends = [self._declared(claim, name, bound)]
        if place in self._learned:
            ends.append(self._learned[place][0 if bound == "min" else 1])
        for said in (c.bound for c in items if c.bound is not None and "fact" in c.bound):
            if (said["bound"], said["column"]) == (bound, name) and row in self._rows(str(said["where"])):
                ends.append(number(said["each"]))
        known = [end for end in ends if end is not None]
        return bound, (min(known, default=None) if bound == "max" else max(known, default=None))

    def _declared(self, claim: Claimed, name: str, bound: str) -> Fraction | None:
        said = number((claim.certificate.get("declared") or {}).get(name, {}).get(bound))
        prior = self.sums.priors.get(name) if name not in (claim.certificate.get("assumed") or ()) else None
        if prior is not None and number(prior[0 if bound == "min" else 1]) != said:
            raise Fails("what is declared is not what the verdict says beside it")
        return said

    def _grid(self, claim: Claimed) -> tuple[Fraction | None, Fraction]:
        said = (claim.certificate.get("declared") or {}).get(claim.column, {})
        step = number(said.get("step"))
        if step is not None:
            return step, number(said.get("min")) or Fraction(0)
        return (Fraction(1) if self.engine.types[claim.column] == INTEGER else None), Fraction(0)


def _offset(cited: Addend) -> Fraction:
    return fraction((cited.test or {}).get("offset", "0"))


def _as_said(cited: Addend, ends: Ends) -> bool:
    """Do these ends hold all that lies between those of the answer, or all that a noisy number may be?"""
    shown, off = number(cited.answer), cited.noise
    if isinstance(cited.answer, Mapping):
        lo, hi = (number(cited.answer.get(end)) for end in ("lo", "hi"))
    elif shown is None:
        return False
    elif not off:
        return True  # its rounding is tried
    else:
        lo, hi = shown - off, shown + off
    below = ends[0] is None or (lo is not None and ends[0] <= lo)
    return below and (ends[1] is None or (hi is not None and ends[1] >= hi))


def _no_tighter(told: Counter[tuple[str, Fraction, Fraction]], used: Counter[tuple[str, Fraction, Fraction]]) -> bool:
    """Are as many people named by weight, at bounds that are together no tighter than those that hold of them?"""
    sums: dict[tuple[str, Fraction], list[Fraction]] = {}
    for sign, each in ((1, told), (-1, used)):
        for (bound, weight, at), people in each.items():
            found = sums.setdefault((bound, weight), [Fraction(0), Fraction(0)])
            found[0] += sign * people
            found[1] += sign * people * at
    return all(people == 0 and (at >= 0 if bound == "max" else at <= 0) for (bound, _), (people, at) in sums.items())
