"""Proofs of a range: weighted answers, and bounds for whoever they leave.

The certificate says by public conditions whom each answer adds up, so that the weighted answers are a sum of
coefficients times private values. That is not believed: it is tried on made-up values with the original statements.
Then what the answers leave of everybody, coefficient by coefficient, is put at the declared end that makes it largest
(or smallest), in fractions, and the sum must prove the end that is claimed. Ends are declared, or said by a fact: what
is known beforehand is the verdict's assumption, not its claim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from operator import eq, ge, gt, le, lt, ne
from random import Random
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .engine import INTEGER, NOBODY, Cannot, Fails
from .fillings import COMMENTS, WORDS
from .order import Ends, conditional
from .rounding import ROOM, radius, step_of
from .sums import ULP, Sums

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
            end, off = self._find_end(claim, c, side)
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

    def _find_end(self, claim: Claimed, cited: Addend, side: str) -> tuple[Fraction, Fraction]:
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
        (lo, hi), dust = self.thresholds.find_ends(cited, shares, claim.certificate.get("declared") or {})
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


# --- rest -------------------------------------------------------------------------------------------------------------
# Proofs by what is left: a sum of people of whom all but one are known.
# That scale * answer - offset is the person's value and `times` that of each of the others is tried on made-up
# values, as for every sum of answers. What is known of the others was replayed before; the rest is arithmetic of
# intervals.


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
        return self._scale_printed(claim, cited, scale, offset)

    def _scale_printed(self, claim: Claimed, cited: Addend, scale: Fraction, offset: Fraction) -> Ends:
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
        return _times(self.thresholds.find_ends(cited, shares, {claim.column: declared})[0], scale, offset)

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


# --- thresholds -------------------------------------------------------------------------------------------------------
# Yes-or-no questions: SUM(x) > 100 of people named by public conditions.
# That a statement compares offset + sum of coefficient * value with a constant is tried on made-up values, without
# reading it: everybody gets random numbers, then one person's is chosen so that the sum lies just below the constant,
# and just above (where sums are exact also on it). The answer must change there, each time, and be as it should far
# off. A statement about others, or with other weights, would have to hit the same narrow gap by chance.


OPERATIONS = {">": gt, ">=": ge, "<": lt, "<=": le, "=": eq, "<>": ne}
DRAWN_BITS = 40
# in a HAVING, words by which it may be more than one comparison of sums, or hide groups by something else
HIDING = {"filter", "where", "select", "distinct", "columns", "limit", "offset", "qualify", "fetch"}
BENT = {"case", "if", "iff", "or", "not", "in", "between", "is", "coalesce", "ifnull", "nullif", "abs", "%"}


class Thresholds:
    """Replays comparisons; what was seen of a statement is kept."""

    def __init__(self, sums: Sums) -> None:
        self.sums = sums
        self._tried: set[str] = set()

    def check(self, cited: Addend, coefficients: Mapping[Place, Fraction]) -> None:
        """The statement compares these coefficients times values with its constant; Fails if not."""
        key = repr((cited.sql, cited.key, cited.column, cited.test, sorted(coefficients.items())))
        if key in self._tried:
            return
        if not coefficients or self._conditional(cited):
            raise Cannot("a comparison under a condition on private values, or of nobody")
        sure, k = 0.0, 0
        while sure < self.sums.bits or k < 4:
            gained = self._once(cited, coefficients, 1 - 2 * (k % 2))
            if gained < 1:
                raise Cannot("floating point blurs the made-up sums too much")
            sure, k = sure + gained, k + 1
        self._tried.add(key)

    def _conditional(self, cited: Addend) -> bool:
        """Is it asked under a condition on private values? One comparison that HAVING asks of a whole group is none."""
        text, private = cited.sql or "", self.sums.engine.private
        words = [w.casefold().strip('"') for w in WORDS.findall(COMMENTS.sub(" ", text))]
        if not (cited.test or {}).get("shown") or words.count("having") != 1:
            return conditional(text, private)
        at, names = words.index("having"), {name.casefold() for name in private}
        ends = [i for i in range(at, len(words)) if words[i] in ("having", "and")]
        parts = [words[i:j] for i, j in zip(ends, [*ends[1:], len(words)], strict=True)]
        looks = sum(not names.isdisjoint(part) for part in parts)
        return looks != 1 or not (HIDING | BENT).isdisjoint(words[at:]) or conditional(_joined(words[:at]), private)

    def find_ends(
        self, cited: Addend, coefficients: Mapping[Place, Fraction], declared: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Ends, Fraction]:
        """Between what the number lies that was compared, by the answer, and its dust; wider by the bound of its noise.

        `declared`: min, max and step of each column.
        """
        op, at, offset, noise = _test(cited)
        if not isinstance(cited.answer, bool):
            raise Cannot("the verdict does not have the answers")
        held = {name: self._read_column(name, declared.get(name) or {}) for name, _ in coefficients}
        said = ComparedSum(at, offset, coefficients, held)
        if op in ("=", "<>"):
            off = said.dust + noise
            return ((at - off, at + off) if cited.answer is (op == "=") else (None, None)), said.dust
        above = (op in (">", ">=")) is cited.answer
        strict = op in ((">", "<=") if above else ("<", ">=")) and not noise
        said = replace(said, at=at - noise if above else at + noise)
        end = said.end(above=above, strict=strict, asked=lambda table: self._answer_with(cited, table) is cited.answer)
        return ((end, None) if above else (None, end)), said.dust

    def _read_column(self, name: str, said: Mapping[str, Any]) -> ColumnValues:
        engine = self.sums.engine
        least, most, step = (number(said.get(end)) for end in ("min", "max", "step"))
        base = Fraction(0) if step is None or least is None else least
        whole = Fraction(1) if engine.types[name] == INTEGER else step_of(engine, name)
        return ColumnValues(least, most, step or whole, base, engine.types[name] == "DOUBLE")

    def _answer_with(self, cited: Addend, table: Mapping[Place, Fraction]) -> Any:
        """What the statement answers of these people; all others as made up."""
        made, _ = self.sums.maker.large(1, DRAWN_BITS)
        for (name, row), value in table.items():
            made[name][row] = value
        self.sums.engine.fill(made, keep=False)
        return self.sums.engine.answer(cited)

    def _once(self, cited: Addend, coefficients: Mapping[Place, Fraction], sign: int) -> float:
        maker, engine, (op, at, offset, _) = self.sums.maker, self.sums.engine, _test(cited)
        made, most = maker.large(sign, DRAWN_BITS)
        name, row = place = maker.random.choice(sorted(coefficients))
        share, step = coefficients[place], maker.step(name)
        others = {p: c * Fraction(made[p[0]][p[1]]) for p, c in coefficients.items() if p != place}
        rest = offset + sum(others.values())
        size = abs(at) + abs(offset) + abs(at - rest) + sum(map(abs, others.values()))
        exact = all(c.denominator == 1 and engine.types[p[0]] != "DOUBLE" for p, c in coefficients.items())
        blur = Fraction(0) if exact and offset.denominator == 1 else 4 * (engine.n + 2) * ULP * size / abs(share)
        turn = (at - rest) / share
        on = () if blur else (step * math.floor(turn / step), step * math.ceil(turn / step))
        near = (step * (math.floor((turn - blur) / step) - 1), step * (math.ceil((turn + blur) / step) + 1))
        drawn = Fraction(made[name][row])
        for value in (
            *(() if abs(drawn - turn) <= 2 * blur else (drawn,)),
            *near,
            *on,
        ):  # far off, just below, above, on
            made[name][row] = value
            engine.fill(made, keep=False)
            said = engine.answer(cited)  # of a HAVING: is the group shown?
            if said is None or said is NOBODY:
                raise Cannot("the statement answers NULL, or does not show the group")
            if not isinstance(said, bool):
                raise Fails("a statement is no yes-or-no question")
            if said is not OPERATIONS[op](rest + share * value, at):
                raise Fails("a statement does not compare what it is said to compare")
        return math.log2(most) - math.log2(float(4 + 2 * blur / step))


def _joined(words: Sequence[str]) -> str:
    """Words as a text again; what is no plain word in quotes."""
    return " ".join(w if w.isidentifier() or not w[:1].isalpha() else f'"{w}"' for w in words)


def _test(cited: Addend) -> tuple[str, Fraction, Fraction, Fraction]:
    said: Mapping[str, Any] = cited.test or {}
    if said.get("op") not in OPERATIONS:
        raise Cannot("a comparison without its constant")
    at, offset, noise = (fraction(said.get(name, "0")) for name in ("value", "offset", "noise"))
    return str(said["op"]), at, offset, noise


# --- compared ---------------------------------------------------------------------------------------------------------
# What a yes or no says of a sum: no further than the dust of floating point beyond the constant, and on the grid.
# With values base + step * m, m whole, the sum offset + sum of share * value is start + unit * m. Of DOUBLEs an
# engine adds up something next to it: within n units of rounding of all that is added, which next to the constant is
# no more than the constant where nothing cancels; exactly, where all of it has one power of two as a unit and 53 bits
# hold it. Where neither says whether the engine sees the constant itself when the sum is the constant, it is asked:
# on tables of the grid that have this sum.


Table = Mapping[Place, Fraction]
BITS = 2**53
TRIES = 6


@dataclass(frozen=True)
class ColumnValues:
    """What a column can hold: base + step * m between its ends; `floating`: as DOUBLE."""

    least: Fraction | None
    most: Fraction | None
    step: Fraction | None
    base: Fraction
    floating: bool


@dataclass(frozen=True)
class ComparedSum:
    """offset + sum of shares * values, compared with `at`."""

    at: Fraction
    offset: Fraction
    shares: Mapping[Place, Fraction]
    held: Mapping[str, ColumnValues]

    @property
    def whole(self) -> bool:
        """Integers and decimals, whole times each?"""
        plain = all(share.denominator == 1 for share in (*self.shares.values(), self.offset))
        return plain and not any(self.held[name].floating for name, _ in self.shares)

    @property
    def dust(self) -> Fraction:
        """How far the engine's number may lie from the sum, next to the constant."""
        if self.whole or self._dyadic:
            return Fraction(0) if _two_power(self.at.denominator) or self.whole else ULP * abs(self.at)
        if not any(self.held[name].floating for name, _ in self.shares):
            return 2 * ULP * abs(self.at)
        size = abs(self.at)
        if not self._one_sign:
            sizes = [self._size(place) for place in self.shares]
            size += abs(self.offset) + sum((s for s in sizes if s is not None), Fraction(0))
        return (len(self.shares) + 2) * ULP * size

    @property
    def grid(self) -> tuple[Fraction, Fraction] | None:
        """(start, unit); None where some column has no step."""
        start, steps = self.offset, [Fraction(0)]
        for (name, _), share in self.shares.items():
            held = self.held[name]
            if held.step is None:
                return None
            start += share * held.base
            steps.append(share * held.step)
        over = lcm(*(s.denominator for s in steps))
        unit = Fraction(gcd(*(int(s * over) for s in steps)), over)
        return (start, unit) if unit else None

    def end(self, *, above: bool, strict: bool, asked: Callable[[Table], bool]) -> Fraction:
        """Where the sums begin (or end) that may be answered so.

        `asked`: what the engine says of a table. `strict`: it would say no of the constant itself.
        """
        if not above:
            turned = ComparedSum(-self.at, -self.offset, {p: -s for p, s in self.shares.items()}, self.held)
            return -turned.end(above=True, strict=strict, asked=asked)
        found = self.grid
        if found is None:
            return self.at - self.dust
        start, unit = found
        first = start + unit * ceil((self.at - self.dust - start) / unit)
        if first == self.at and strict and self._sees(asked):
            first += unit
        return first

    def _sees(self, asked: Callable[[Table], bool]) -> bool:
        """Does the engine say no where the sum is the constant?"""
        if self.whole or self._dyadic or (not self.at and self._one_sign):
            return True
        found = [table for seed in range(10 * TRIES) if (table := self._table(Random(seed))) is not None]
        return len(found) >= TRIES and not any(asked(table) for table in found[:TRIES])

    def _table(self, random: Random) -> Table | None:
        """A table on the grid whose sum is the constant: everybody at the end that makes it least, then raised."""
        left, table = self.at - self.offset, {}
        for (name, row), share in self.shares.items():
            held = self.held[name]
            if held.least is None or held.most is None or held.step is None:
                return None
            top = held.base + held.step * floor((held.most - held.base) / held.step)
            table[name, row] = held.base if share > 0 else top
            left -= share * table[name, row]
        for name, row in random.sample(sorted(table), len(table)):
            held, share = self.held[name], self.shares[name, row]
            assert held.most is not None
            assert held.step is not None
            room = floor((held.most - held.base) / held.step)
            steps = max(0, min(room, floor(left / abs(share) / held.step)))
            table[name, row] += (1 if share > 0 else -1) * steps * held.step
            left -= abs(share) * steps * held.step
        return None if left else table

    @property
    def _dyadic(self) -> bool:
        over, total = self.offset.denominator, abs(self.offset)
        for place, share in self.shares.items():
            held, size = self.held[place[0]], self._size(place)
            if held.step is None or size is None:
                return False
            over = lcm(over, *(f.denominator for f in (share, share * held.step, share * held.base)))
            over = lcm(over, share.denominator * lcm(held.step.denominator, held.base.denominator))
            total += size
        return _two_power(over) and total * over < BITS

    @property
    def _one_sign(self) -> bool:
        signs = {self.offset > 0} if self.offset else set()
        for (name, _), share in self.shares.items():
            held = self.held[name]
            if held.least is not None and held.least >= 0:
                signs.add(share > 0)
            elif held.most is not None and held.most <= 0:
                signs.add(share < 0)
            elif len(self.shares) > 1 or self.offset:
                return False
        return len(signs) <= 1

    def _size(self, place: Place) -> Fraction | None:
        held = self.held[place[0]]
        if held.least is None or held.most is None:
            return None
        return abs(self.shares[place]) * max(abs(held.least), abs(held.most))


def _two_power(n: int) -> bool:
    return n & (n - 1) == 0
