"""Proofs by order: MIN, MAX, MEDIAN and quantiles of people named by a public condition.

That a statement is the order statistic it is said to be, of exactly these people, is tried on made-up values: each of
them alone in the table must be the answer, people outside the condition change nothing however large or small they are,
and on random tables of all the answer is what the ranks say, to as much as it is said to be rounded. Then bounds of
single people are narrowed, here and anew: the j-th smallest of n is at most hi iff j of them are, the k-th at least lo
iff n - k + 1 are; who must be there, is. What is left of the person must be what is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .engine import INTEGERS, NOBODY, Cannot, Engine, Fails
from .fillings import COMMENTS, WORDS, Maker
from .rounding import middle, step_of
from .sums import ULP

MOST_RUNS = 60_000
RANDOM_TABLES = 12
MOST_FAR = 200
FAR = 10**9
CUT = 1  # more than a DECIMAL is cut by, whatever its digits

Ends = tuple[Fraction | None, Fraction | None]


@dataclass(frozen=True)
class Statistic:
    """The (1 - share) j-th and share k-th of the values of these rows, times a factor, lies in [lo, hi].

    `rounded`: how far the printed answer may lie from it.
    """

    rows: tuple[int, ...]
    j: int
    k: int
    share: Fraction
    factor: Fraction
    rounded: Fraction = Fraction(0)
    lo: Fraction | None = None
    hi: Fraction | None = None

    def of(self, values: Sequence[Any]) -> Fraction:
        """What it is on these values."""
        held = sorted(Fraction(values[r]) for r in self.rows)
        return self.factor * ((1 - self.share) * held[self.j - 1] + self.share * held[self.k - 1])


class Order:
    """Replays proofs by order; what a statement was seen to be is kept for the proofs that follow."""

    def __init__(self, engine: Engine, maker: Maker) -> None:
        self.engine = engine
        self.maker = maker
        self._tried: set[str] = set()
        self._runs = 0

    def check(self, claim: Claimed, row: int, known: Mapping[int, Ends]) -> None:
        """`known`: what was proved of single people before, by row."""
        self.everybody(claim, row, known)

    def everybody(self, claim: Claimed, row: int, known: Mapping[int, Ends]) -> dict[int, Ends]:
        """The same; and what the statistics leave everybody whom they are about, by row."""
        if row in self.engine.null[claim.column]:
            raise Fails("somebody who has no value is said to have one")
        if not self.engine.numeric(claim.column):
            raise Fails("an order statistic is judged of numbers")
        cited = {c.query: c for c in claim.proof if c.query}
        facts = [self._statistic(claim, how, cited) for how in claim.certificate["facts"]]
        if not facts:
            raise Fails("no order statistic is named")
        step, base, start = self._declared(claim)
        bounds = {r: list(start) for f in facts for r in f.rows}
        bounds.setdefault(row, list(start))
        for at, ends in (*self._stated(claim), *known.items()):
            if at in bounds:
                bounds[at] = [_most(bounds[at][0], ends[0], max), _most(bounds[at][1], ends[1], min)]
        narrowed(facts, bounds, step, base)
        value = number(claim.value)
        if claim.certificate.get("cases") and claim.status == "exposed" and value is not None:
            held = [Held(f.rows, f.j, f.k, *_snapped(f, step, base)) for f in facts]
            if not sole(row, value, held, bounds, step):
                raise Fails("some table with these answers gives the person another value")
            return {row: (value, value)}
        self._left(claim, row, bounds, facts)
        return {r: (ends[0], ends[1]) for r, ends in bounds.items() if r not in self.engine.null[claim.column]}

    def _left(
        self, claim: Claimed, row: int, bounds: Mapping[int, Sequence[Fraction | None]], facts: Sequence[Statistic]
    ) -> None:
        """What is left of the person is what is claimed."""
        lo, hi = bounds[row]
        if claim.status == "exposed":
            value = number(claim.value)
            if value is None or lo is None or lo != hi:
                raise Fails("the order statistics leave the person several values")
            if abs(lo - value) > (abs(lo) / 10**11 if lo.denominator > 10**11 else 0):
                raise Fails("the order statistics leave the person another value")
            return
        least, most = number(claim.lo), number(claim.hi)
        if claim.allowed:
            two = sorted(v for v in map(number, claim.allowed) if v is not None)
            if len(claim.allowed) != 2 or claim.excluded or not _pair(row, two, bounds, facts):
                raise Fails("the order statistics do not leave two people these two values")
            if (least is not None and least > two[0]) or (most is not None and most < two[1]):
                raise Fails("the claimed range leaves out a value that is possible")
            return
        if (least is None and most is None) or claim.excluded:
            raise Fails("an order statistic proves a value or a range")
        if (least is not None and (lo is None or lo < least)) or (most is not None and (hi is None or hi > most)):
            raise Fails("the order statistics leave the person more than is claimed")

    # --- what is declared --------------------------------------------------------------------------------------------

    def _declared(self, claim: Claimed) -> tuple[Fraction | None, Fraction, list[Fraction | None]]:
        """The step of the column, where its steps start, and its declared ends."""
        said = claim.certificate.get("declared") or {}
        lo, hi, step = (number(said.get(name)) for name in ("min", "max", "step"))
        base = Fraction(0) if step is None or lo is None else lo
        return step or step_of(self.engine, claim.column), base, [lo, hi]

    def _stated(self, claim: Claimed) -> list[tuple[int, Ends]]:
        found: list[tuple[int, Ends]] = []
        for fact in claim.certificate.get("stated") or ():
            ends = (number(fact.get("min")), number(fact.get("max")))
            found += [(r, ends) for r in self.engine.condition(fact["where"])]
        return found

    # --- what a statement is -----------------------------------------------------------------------------------------

    def _statistic(self, claim: Claimed, how: Mapping[str, Any], cited: Mapping[str, Addend]) -> Statistic:
        one = cited.get(str(how["query"]))
        if one is None:
            raise Fails("the certificate names a query that the proof does not name")
        null = self.engine.null[claim.column]
        rows = tuple(r for r in self.engine.condition(how["where"]) if r not in null)
        j, k = (int(each) for each in how["ranks"])
        share, factor = fraction(how.get("share", "0")), fraction(how.get("factor", "1"))
        if not (1 <= j <= k <= len(rows) and 0 <= share < 1 and factor and k - j == (1 if share else 0)):
            raise Fails("the ranks of an order statistic are not possible")
        rounded = fraction(how.get("rounded", "0"))
        if not 0 <= rounded <= Fraction(1, 2):
            raise Cannot("an order statistic that is rounded to more than units")
        found = Statistic(rows, j, k, share, factor, rounded)
        self._try(claim, one, found)
        lo, hi = self._shown(claim.column, one, found)
        lo, hi = sorted((lo / factor, hi / factor))
        return replace(found, lo=lo, hi=hi)

    def _shown(self, column: str, cited: Addend, found: Statistic) -> tuple[Fraction, Fraction]:
        """Between what the statistic lies, by the printed answer."""
        if not cited.answered:
            raise Cannot("the verdict does not have the answers")
        shown, noise = number(cited.answer), cited.noise
        if isinstance(cited.answer, Mapping):
            shown, noise = middle(cited.answer)
        if shown is None:
            raise Cannot("an answer that is no number")
        if cited.exactly is not None:
            shown = cited.exactly
        held = self.engine.columns.get(column, "DOUBLE")
        whole = held in INTEGERS and found.factor.denominator == 1
        off = noise + (Fraction(0) if whole and not found.share else found.rounded)  # whole numbers are not rounded
        if whole and (not found.share or (found.share == Fraction(1, 2) and abs(shown) < 2**50)):
            return shown - off, shown + off
        if not found.share and abs(found.factor) == 1:
            return shown - off, shown + off
        dust = 8 * ULP * max(abs(shown), self.engine.largest(column)) + off
        if not found.share or held in INTEGERS:
            return shown - dust, shown + dust
        if isinstance(cited.answer, Mapping):
            return shown - CUT - dust, shown + CUT + dust
        digits = -int(Decimal(str(cited.answer)).normalize().as_tuple().exponent)
        unit = Fraction(1, 10 ** max(digits, 0))  # of a DECIMAL column it is cut toward zero
        if off:
            unit = max(unit, 2 * off, Fraction(CUT if cited.noise else 0))
            return shown - unit - dust, shown + unit + dust
        return shown - (unit if shown <= 0 else 0) - dust, shown + (unit if shown >= 0 else 0) + dust

    def _try(self, claim: Claimed, cited: Addend, found: Statistic) -> None:
        key = repr((cited.sql, cited.key, cited.column, found, claim.column))
        if key in self._tried:
            return
        if conditional(cited.sql or "", self.engine.private):
            raise Cannot("a condition on private values, or a function of them")
        self._runs += len(found.rows)
        if self._runs > MOST_RUNS:
            raise Cannot(f"whom the statements are about would take more than {MOST_RUNS} runs of one")
        self._each_alone(claim.column, cited, found)
        outside = [r for r in range(self.engine.n) if r not in set(found.rows)]
        for far in (-FAR, FAR) if outside else ():
            self._compare(claim.column, cited, found, dict.fromkeys(outside, far))
        for k in range(RANDOM_TABLES):
            self._compare(claim.column, cited, found, {}, few=k % 3)
        self._tried.add(key)

    def _each_alone(self, column: str, cited: Addend, found: Statistic) -> None:
        """Alone in the table, each of them is the answer."""
        drawn = [self.maker.random.randint(-1000, 1000) for _ in found.rows]
        made = self._others(column, len(drawn)) | {column: drawn}
        self.engine.fill_singles(made, found.rows)
        for k, value in enumerate(drawn):
            self.engine.pick(k)
            said = number(self.engine.answer(cited))
            if said is None:  # a group of one may be hidden
                self._each_far(column, cited, found)
                return
            if abs(said - found.factor * value) > 4 * ULP * 1000 + found.rounded:
                raise Fails("a statement is not about all the people that it is said to be about")

    def _each_far(self, column: str, cited: Addend, found: Statistic) -> None:
        """In a whole table, each of them far above and far below all others moves the answer as the ranks say."""
        if len(found.rows) > MOST_FAR:
            raise Cannot("whom a statement with HAVING is about would take too many runs")
        for row in found.rows:
            for far in (-FAR, FAR):
                self._compare(column, cited, found, {row: far})

    def _others(self, column: str, n: int) -> dict[str, list[Any]]:
        made = {}
        for name in self.engine.private:
            if name != column:
                made[name] = [self.maker.values(self.maker.cells(name, [], ["a"]))[0]] * n
        return made

    def _compare(self, column: str, cited: Addend, found: Statistic, fixed: Mapping[int, int], few: int = 1) -> None:
        """On a random table the answer is what the ranks say; `few` values make ties."""
        most = (3, 1000, FAR)[few]
        drawn: list[Any] = [self.maker.random.randint(-most, most) for _ in range(self.engine.n)]
        if found.rounded and most < FAR:
            drawn = [v + part for v, part in zip(drawn, self._parts_of_one(column), strict=True)]
        drawn = [fixed.get(r, v) for r, v in enumerate(drawn)]
        self.engine.fill(self._others(column, self.engine.n) | {column: drawn}, keep=False)
        said = self.engine.answer(cited)
        told = None if said is NOBODY else number(said)
        want = found.of(drawn)
        unit = Fraction(1, 10**6) if found.share and self.engine.types[column].startswith("DECIMAL") else 0
        off = unit + found.rounded + 16 * ULP * most * (1 + abs(found.factor))
        if told is None or abs(told - want) > off:
            raise Fails("a statement is not the order statistic that it is said to be")

    def _parts_of_one(self, column: str) -> list[Any]:
        """Something between 0 and 1 for everybody, as fine as the column is: rounding is then seen."""
        held, draw = self.engine.types[column], self.maker.random
        if held in INTEGERS:
            return [0] * self.engine.n
        step = step_of(self.engine, column)
        if step is not None:
            return [Decimal(draw.randrange(step.denominator)) / step.denominator for _ in range(self.engine.n)]
        return [draw.randrange(2**20) / 2**20 for _ in range(self.engine.n)]


def conditional(sql: str, private: Sequence[str]) -> bool:
    """Does a private column stand anywhere but in the list of what is asked?

    >>> conditional("SELECT MAX(x) FROM t WHERE x < 5", ["x"]), conditional("SELECT g, MAX(x) FROM t GROUP BY g", ["x"])
    (True, False)
    >>> conditional("SELECT SUM(x * CASE id WHEN 1 THEN 0.5 ELSE 2 END) > 1 FROM t", ["x"])
    False
    """
    words = [w.casefold().strip('"') for w in WORDS.findall(COMMENTS.sub(" ", sql))]
    names = {name.casefold() for name in private}
    words = _without_public_cases(words, names)
    if {"case", "if", "iff", "distinct", "with", "columns"} & set(words) or words.count("select") != 1:
        return True
    start = next((i for i, w in enumerate(words) if w in ("from", "filter")), len(words))
    return bool(names & set(words[start:]))


def _without_public_cases(words: list[str], names: set[str]) -> list[str]:
    """The words without each CASE ... END that looks at no private column, inside of the one SUM that is asked for.

    >>> " ".join(_without_public_cases("select sum ( x * case id when 1 then 2 end ) from t".split(), {"x"}))
    'select sum ( x * 0 ) from t'
    """
    depth, found = 0, list[str]()
    for i, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if words[:2] != ["select", "sum"] or (word in (",", "as") and not depth):
            return words  # another item, or a name that may be an alias of a private column
        if word == "from" and not depth:
            return found + words[i:]
        found.append(word)
        if word == "end" and depth and "case" in found:
            start = len(found) - 1 - found[::-1].index("case")
            if not names & set(found[start:]):
                found[start:] = ["0"]
    return words


def _most(one: Fraction | None, other: Fraction | None, best: Any) -> Fraction | None:
    return other if one is None else one if other is None else best(one, other)


def narrowed(
    facts: Sequence[Statistic], bounds: dict[int, list[Fraction | None]], step: Fraction | None, base: Fraction
) -> None:
    """Narrow the bounds of all rows until nothing changes.

    >>> one = Statistic((0, 1), 2, 2, Fraction(0), Fraction(1), lo=Fraction(9), hi=Fraction(9))
    >>> two = {0: [None, None], 1: [None, Fraction(8)]}
    >>> narrowed([one], two, Fraction(1), Fraction(0)); two[0] == [9, 9]
    True
    """
    changed = True
    while changed:
        changed = False
        for fact in facts:
            lo, hi = fact.lo, fact.hi
            if step is not None:
                lo = None if lo is None else base + step * ceil((lo - base) / step)
                hi = None if hi is None else base + step * floor((hi - base) / step)
            up = [r for r in fact.rows if lo is None or _high(bounds[r]) >= lo]
            down = [r for r in fact.rows if hi is None or _low(bounds[r]) <= hi]
            if len(up) < len(fact.rows) - fact.k + 1 or len(down) < fact.j:
                raise Cannot("the answers contradict each other")
            among = [r for r in up if r in set(down)] if not fact.share else []
            raised = up if len(up) == len(fact.rows) - fact.k + 1 else among if len(among) == 1 else []
            lowered = down if len(down) == fact.j else among if len(among) == 1 else []
            for r in raised:
                if lo is not None and _low(bounds[r]) < lo:
                    bounds[r][0], changed = lo, True
            for r in lowered:
                if hi is not None and _high(bounds[r]) > hi:
                    bounds[r][1], changed = hi, True
    if any(_low(b) > _high(b) for b in bounds.values()):
        raise Cannot("the answers contradict each other")


def _snapped(fact: Statistic, step: Fraction | None, base: Fraction) -> tuple[tuple[Any, int], tuple[Any, int]]:
    """The ends of a statistic as values of the column."""
    lo, hi = fact.lo, fact.hi
    if step is not None:
        lo = None if lo is None else base + step * ceil((lo - base) / step)
        hi = None if hi is None else base + step * floor((hi - base) / step)
    return NOTHING if lo is None else (lo, 0), EVERYTHING if hi is None else (hi, 0)


def _low(ends: Sequence[Fraction | None]) -> Fraction | float:
    return -float("inf") if ends[0] is None else ends[0]


def _high(ends: Sequence[Fraction | None]) -> Fraction | float:
    return float("inf") if ends[1] is None else ends[1]


def _pair(
    row: int, values: Sequence[Fraction], bounds: Mapping[int, Sequence[Fraction | None]], facts: Sequence[Statistic]
) -> bool:
    """Two people can have the greatest value of a group, and the same two the least of one, and these differ."""
    if len(values) != 2 or values[0] == values[1]:
        return False
    least = [
        {r for r in f.rows if _low(bounds[r]) <= values[0]} for f in facts if f.k == 1 and f.lo == f.hi == values[0]
    ]
    most = [
        {r for r in f.rows if _high(bounds[r]) >= values[1]}
        for f in facts
        if f.j == len(f.rows) and f.lo == f.hi == values[1]
    ]
    return any(one == two and len(one) == 2 and row in one for one in least for two in most)


# --- cases ------------------------------------------------------------------------------------------------------------
# Is a value the only one, by cases: people are split at the answers until each branch is closed.
# A number is a pair: itself, and whether it is meant just above (1) or just below (-1) it, so that "less than 5" is
# at most (5, -1). A branch is closed if some order statistic cannot hold there; if all surely hold, there is a table,
# and the value is not the only one.


DEEP = 400  # splits one after the other
LIMIT = 100_000  # branches of one proof

Near = tuple[Any, int]  # a number (or infinity), and on which side of it
NOTHING, EVERYTHING = (-float("inf"), 0), (float("inf"), 0)


@dataclass(frozen=True)
class Held:
    """Of these rows the j-th smallest is at most hi, the k-th at least lo."""

    rows: tuple[int, ...]
    j: int
    k: int
    lo: Near
    hi: Near


class Branches:
    """Looks for a table in which all hold; at most LIMIT branches."""

    def __init__(self, facts: Sequence[Held], step: Fraction | None) -> None:
        self.facts = facts
        self.step = step
        self.left = LIMIT

    def below(self, value: Fraction) -> Near:
        """The greatest number less than a value."""
        return (value, -1) if self.step is None else (value - self.step, 0)

    def above(self, value: Fraction) -> Near:
        """The least number greater than a value."""
        return (value, 1) if self.step is None else (value + self.step, 0)

    def table(self, low: Mapping[int, Near], high: Mapping[int, Near], depth: int = 0) -> bool:
        """Is there a table between these bounds?"""
        self.left -= 1
        if self.left < 0 or depth > DEEP:
            raise Cannot(f"it takes more than {LIMIT} cases")
        lo, hi = dict(low), dict(high)
        if not self._narrow(lo, hi):
            return False
        at = self._split(lo, hi)
        if at is None:
            return True
        row, last, first = at
        return self.table(lo | {row: first}, hi, depth + 1) or self.table(lo, hi | {row: last}, depth + 1)

    def _narrow(self, lo: dict[int, Near], hi: dict[int, Near]) -> bool:
        changed = True
        while changed:
            changed = False
            if any(lo[r] > hi[r] for r in lo):
                return False
            for f in self.facts:
                up, down = [r for r in f.rows if hi[r] >= f.lo], [r for r in f.rows if lo[r] <= f.hi]
                needed = len(f.rows) - f.k + 1
                if len(up) < needed or len(down) < f.j:
                    return False
                for r in up:
                    if len(up) == needed and lo[r] < f.lo:
                        lo[r], changed = f.lo, True
                for r in down:
                    if len(down) == f.j and hi[r] > f.hi:
                        hi[r], changed = f.hi, True
        return True

    def _split(self, lo: Mapping[int, Near], hi: Mapping[int, Near]) -> tuple[int, Near, Near] | None:
        """Somebody to split: he is at most the first number, or at least the second. None if everything holds."""
        for f in self.facts:
            if sum(lo[r] >= f.lo for r in f.rows) < len(f.rows) - f.k + 1:
                return next((r, self.below(f.lo[0]), f.lo) for r in f.rows if lo[r] < f.lo <= hi[r])
            if sum(hi[r] <= f.hi for r in f.rows) < f.j:
                return next((r, f.hi, self.above(f.hi[0])) for r in f.rows if lo[r] <= f.hi < hi[r])
        return None


def sole(
    row: int, value: Fraction, facts: Sequence[Held], bounds: Mapping[int, Sequence[Any]], step: Fraction | None
) -> bool:
    """Has the person this value in every table, and is there one?

    >>> one, two = Held((0, 1), 1, 1, (5, 0), (5, 0)), Held((0, 1), 2, 2, (5, 0), (5, 0))
    >>> sole(0, Fraction(5), [one, two], {0: [None, None], 1: [None, None]}, None)
    True
    >>> sole(0, Fraction(5), [one], {0: [None, None], 1: [None, None]}, None)
    False
    """
    branches = Branches(facts, step)
    low = {r: NOTHING if ends[0] is None else (ends[0], 0) for r, ends in bounds.items()}
    high = {r: EVERYTHING if ends[1] is None else (ends[1], 0) for r, ends in bounds.items()}
    less, more = min(high[row], branches.below(value)), max(low[row], branches.above(value))
    if branches.table(low, high | {row: less}) or branches.table(low | {row: more}, high):
        return False
    if not branches.table(low | {row: (value, 0)}, high | {row: (value, 0)}):
        raise Cannot("the answers contradict each other")
    return True
