"""Proofs by counts: who can match is tried out, person by person and cell by cell, and the answers then rule out.

For every statement cited, f({r with value v}) - f({}) is what person r adds to the answer with value v. It is taken
from the engine for each person alone and for values in every cell that the constants make: at every constant, close to
it on both sides, between, and far out. That answers are sums of what single people add is tried on random tables of
all. Then, as long as something changes: a (weighted) count that is as large as the values still possible allow leaves
everybody only values that make it so; likewise the smallest. What is left of the person's values must be what is
claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import ceil, floor
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .engine import INTEGER, NOBODY, Cannot, Engine, Fails, plain
from .fillings import Maker, Span, constants, plainly
from .rounding import middle

MOST_RUNS = 60_000  # statements run for one proof
RANDOM_TABLES = 8
MOST_VALUES = 2_000  # of a grid that are tried one by one

Choice = tuple[Any, ...]  # a value for every private column that the statements may look at
Added = list[list[Fraction]]  # [person][choice]: what he adds to an answer
Ends = tuple[Fraction, Fraction]  # an answer lies between them


class Counts:
    """Replays proofs by counts; what single people add is kept for the proofs that follow."""

    def __init__(self, engine: Engine, maker: Maker) -> None:
        self.engine = engine
        self.maker = maker
        self._added: dict[tuple[Any, ...], Added] = {}
        self._narrowed: dict[tuple[Any, ...], tuple[list[str], list[Choice], list[set[int]]]] = {}

    def check(self, claim: Claimed, row: int, *, rows: Sequence[Mapping[str, str]]) -> None:
        """`rows`: the sums of counts that are used, each as weights on queries."""
        names, choices, possible = self._possible(claim, rows)
        at = names.index(claim.column) if claim.column in names else -1
        if row in self.engine.null[claim.column]:
            raise Fails("somebody who has no value is said to have one")
        if at < 0:
            raise Fails("the statements do not look at this column")
        left = {choices[i][at] for i in possible[row]}
        if not left:
            raise Cannot("the answers contradict each other")
        hidden = any("having" in (c.sql or "").casefold() for c in claim.proof)  # such a group is not one of nobody
        wrong = Cannot if hidden else Fails
        if claim.status == "inferred" and not tells(claim):
            if left >= {choice[at] for choice in choices}:
                raise wrong("the counts leave the person every value")
            return
        for value in left:
            if not allows(claim, value):
                raise wrong("the counts leave the person a value that is claimed to be impossible")
        if claim.status == "exposed" and len(left) != 1:
            raise wrong("the counts leave the person several values")

    def _possible(
        self, claim: Claimed, rows: Sequence[Mapping[str, str]]
    ) -> tuple[list[str], list[Choice], list[set[int]]]:
        cited = {c.query: c for c in claim.proof if c.query}
        key = (repr(claim.proof), repr(rows), repr(claim.certificate.get("declared")), self.own_constants(claim))
        if key not in self._narrowed:
            names, choices = self.choices(claim)
            start = self.start(names, choices)
            sums = [self._sum(weights, cited, names, choices) for weights in rows]
            self._narrowed[key] = (names, choices, narrowed(sums, start))
        return self._narrowed[key]

    def choices(self, claim: Claimed, *, every: bool = False) -> tuple[list[str], list[Choice]]:
        """Values to try for each private column that the statements name, all combinations of them.

        With `every` all values of a finite grid, else some of each cell.
        """
        plainly(claim.proof, self.engine.private)
        declared = claim.certificate.get("declared") or {}
        texts = [c.sql for c in claim.proof if c.sql is not None]
        words = " ".join(texts).casefold()
        names = [
            name for name in self.engine.private if name.casefold() in words or "*" in words.replace("count(*)", "")
        ]
        pools = []
        for name in names:
            said = declared.get(name) or {}
            cells = self._cells(claim, name, said, every=every)
            whole = every and self._gridded(name, said)
            pools.append([v for c in cells for v in (listed(c) if whole else None) or self.maker.values([c])])
        found = list(product(*pools))
        if len(found) * self.engine.n * max(len(texts), 1) > MOST_RUNS:
            raise Cannot(f"who can match would take {len(found) * self.engine.n * len(texts)} runs of a statement")
        return names, found

    def _cells(self, claim: Claimed, name: str, said: Mapping[str, Any], *, every: bool = False) -> list[Span]:
        texts = [c.sql for c in claim.proof if c.sql is not None]
        own = self.own_constants(claim, every=every) if name == claim.column else ()
        return self.maker.cells(name, *constants(texts, [*keys(claim.proof, name), *own]), said)

    def own_constants(self, claim: Claimed, *, every: bool = False) -> tuple[Any, ...]:
        """Values that the claim itself names and its statements do not: they are tried like those of the statements.

        With `every` none is needed where all values of the column are listed.
        """
        texts = [c.sql for c in claim.proof if c.sql is not None]
        numbers, words = constants(texts, keys(claim.proof, claim.column))
        named = (*claim.excluded, *claim.allowed, claim.value, claim.lo, claim.hi)
        found = [v for v in named if (v not in words if isinstance(v, str) else number(v) is not None)]
        found = [v for v in found if isinstance(v, str) or number(v) not in numbers]
        if not found:
            return ()
        said = (claim.certificate.get("declared") or {}).get(claim.column) or {}
        cells = self.maker.cells(claim.column, numbers, words, said)
        fine = every and self._gridded(claim.column, said) and all(listed(c) is not None for c in cells)
        return () if fine else tuple(dict.fromkeys(found))

    def cells_sampled(self, claim: Claimed, name: str, said: Mapping[str, Any]) -> list[Between]:
        """The cells of a column whose values are too many to be listed."""
        fine = self._gridded(name, said)
        cells = self._cells(claim, name, said, every=True)
        return [Between(c) for c in cells if c.point is None and (not fine or listed(c) is None)]

    def _gridded(self, name: str, said: Mapping[str, Any]) -> bool:
        """Are the values of a column multiples of something: integers, or of a declared step?"""
        return self.engine.types[name] == INTEGER or said.get("step") is not None or "numbers" in said

    def matching(self, cited: Addend, names: Sequence[str], choices: Sequence[Choice]) -> list[Added]:
        """Who matches, with which value, where an answer over nobody is NULL, or not there; nothing for a count."""
        self.engine.fill_singles(self._values(names, [choices[0]]), [0])
        self.engine.pick(-1)
        if self.engine.answer(cited) not in (None, NOBODY):
            return []
        return [self.one(replace(cited, answer=None), names, choices)[0]]

    def start(
        self, names: Sequence[str], choices: Sequence[Choice], stated: Sequence[Mapping[str, Any]] = ()
    ) -> list[set[int]]:
        """Before any answer, all but what facts exclude; of those without a value one choice stands for all."""
        told = [f for f in stated if f["column"] in names]
        facts = [(names.index(f["column"]), f, set(self.engine.condition(f["where"]))) for f in told]
        found = []
        for r in range(self.engine.n):
            seen: dict[Choice, int] = {}
            mine = [(at, f) for at, f, rows in facts if r in rows and r not in self.engine.null[names[at]]]
            for i, choice in enumerate(choices):
                if not all(inside_fact(choice[at], f) for at, f in mine):
                    continue
                held = tuple(None if r in self.engine.null[n] else v for n, v in zip(names, choice, strict=True))
                seen.setdefault(held, i)
            found.append(set(seen.values()))
        return found

    def _sum(
        self, weights: Mapping[str, str], cited: Mapping[str, Addend], names: Sequence[str], choices: Sequence[Choice]
    ) -> tuple[Added, Ends]:
        """What people add to a weighted sum of counts, and between what it lies by the answers."""
        total: Added = [[Fraction(0)] * len(choices) for _ in range(self.engine.n)]
        low = high = Fraction(0)
        for query, text in weights.items():
            if query not in cited:
                raise Fails(f"the certificate uses Q{query}, which the proof does not name")
            weight, one = fraction(text), cited[query]
            added, empty, said = self.one(one, names, choices)
            ends = [weight * (end - empty) for end in said]
            low, high = low + min(ends), high + max(ends)
            for mine, theirs in zip(total, added, strict=True):
                for i, a in enumerate(theirs):
                    mine[i] += weight * a
        return total, (low, high)

    def one(self, cited: Addend, names: Sequence[str], choices: Sequence[Choice]) -> tuple[Added, Fraction, Ends]:
        """What people add to one answer, what it is over nobody, and between what the answer lies."""
        if not cited.answered:
            raise Cannot("the verdict does not have the answers")
        null = cited.answer is None or (cited.besides is not None and cited.answer == 0)
        said = (Fraction(0), Fraction(0)) if null else _told(cited)
        key = (
            cited.sql,
            repr(cited.key),
            cited.column,
            repr(cited.besides),
            null,
            tuple(names),
            tuple(map(str, choices)),
        )
        if key not in self._added:
            self._added[key] = self._try(cited, null, names, choices)
        *added, empty = self._added[key]
        low, high = said
        if low < high and all(a.denominator == 1 for each in (*added, empty) for a in each):
            low, high = Fraction(ceil(low)), Fraction(floor(high))
        return added, empty[0], (low, high)

    def _try(self, cited: Addend, null: bool, names: Sequence[str], choices: Sequence[Choice]) -> Added:
        """One table per person and choice; then random tables of everybody, where the parts must add up."""
        n = self.engine.n
        rows = [r for r in range(n) for _ in choices]
        self.engine.fill_singles(self._values(names, [c for _ in range(n) for c in choices]), rows)
        self.engine.pick(-1)
        empty = self._number(cited, null)
        found: Added = []
        for r in range(n):
            mine = []
            for i in range(len(choices)):
                self.engine.pick(r * len(choices) + i)
                mine.append(self._number(cited, null) - empty)
            found.append(mine)
        for _ in range(RANDOM_TABLES):
            drawn = [self.maker.random.randrange(len(choices)) for _ in range(n)]
            self.engine.fill(self._values(names, [choices[i] for i in drawn]), keep=False)
            parts = sum((found[r][i] for r, i in enumerate(drawn)), Fraction(0))
            whole = self._number(cited, null) - empty
            if (whole > 0) != (parts > 0) if null else whole != parts:
                raise Cannot("the statement is no sum of what single people add")
        return [*found, [empty]]

    def _values(self, names: Sequence[str], chosen: Sequence[Choice]) -> dict[str, list[Any]]:
        made = {}
        for name in self.engine.private:
            if name in names:
                at = names.index(name)
                made[name] = [choice[at] for choice in chosen]
            else:
                made[name] = [self.maker.values(self.maker.cells(name, [], ["a"]))[0]] * len(chosen)
        return made

    def _number(self, cited: Addend, null: bool) -> Fraction:
        """The answer now; where the printed one is NULL: 1 if it is not NULL, that is if anybody matches."""
        said = self.engine.answer(cited)
        if null:
            return Fraction(0 if said is None or said is NOBODY else 1)
        if said is NOBODY or said is None:
            return Fraction(0)  # an absent group counts 0
        found = number(said)
        if found is None:
            raise Cannot("an answer that is no number")
        return found


def _told(cited: Addend) -> Ends:
    """What was answered, with the bound of its noise; or the two ends of an answer."""
    said, off = number(cited.answer), cited.noise
    if isinstance(cited.answer, Mapping):
        said, off = middle(cited.answer)
    if said is None:
        raise Cannot("an answer that is no number")
    return said - off, said + off


def listed(cell: Span) -> list[Any] | None:
    """All values of a cell; None if there are many, or without end."""
    if cell.point is not None:
        return [cell.point]
    low, high = cell.ends
    if low is None or high is None or high - low >= MOST_VALUES:
        return None
    return [cell.at(k) for k in range(low, high + 1)]


@dataclass(frozen=True)
class Between:
    """An open interval as a set of values."""

    cell: Span

    def __contains__(self, value: Any) -> bool:
        at = number(value)
        below = at is not None and (self.cell.lo is None or self.cell.lo < at)
        return below and at is not None and (self.cell.hi is None or at < self.cell.hi)


def keys(proof: Sequence[Addend], name: str) -> list[Any]:
    """Values of a private column that groups are named by."""
    named = [key for c in proof for key in (c.key or {}, *(c.besides or ()))]
    return [v for key in named for k, v in key.items() if v is not None and k.casefold() == name.casefold()]


def narrowed(sums: Sequence[tuple[Added, Ends]], start: Sequence[set[int]]) -> list[set[int]]:
    """What extreme sums leave possible, until nothing changes.

    >>> one = [[Fraction(0), Fraction(1)]] * 2
    >>> narrowed([(one, (2, 3))], [{0, 1}, {0, 1}])
    [{1}, {1}]
    >>> narrowed([(one, (1, 2))], [{0, 1}, {0, 1}])
    [{0, 1}, {0, 1}]
    """
    possible = [set(each) for each in start]
    changed = True
    while changed:
        changed = False
        for added, (low, high) in sums:
            for best, told in ((max, low), (min, high)):
                ends = [best(added[r][i] for i in held) for r, held in enumerate(possible) if held]
                if len(ends) < len(possible) or sum(ends, Fraction(0)) != told:
                    continue
                for r, held in enumerate(possible):
                    after = {i for i in held if added[r][i] == ends[r]}
                    changed |= after != held
                    possible[r] = after
    return possible


def tells(claim: Claimed) -> bool:
    """Does a claim say which values are left, or which are not?"""
    return bool(claim.excluded or claim.allowed) or any(v is not None for v in (claim.value, claim.lo, claim.hi))


def allows(claim: Claimed, value: Any) -> bool:
    """Is a value among those that a claim leaves, by each of its fields?"""
    held = plain(value)
    if claim.status == "exposed" and claim.value is not None:
        return bool(plain(claim.value) == held or _same_text(claim.value, value))
    lo, hi, at = number(claim.lo), number(claim.hi), number(value)
    says = bool(claim.excluded or claim.allowed) or lo is not None or hi is not None
    if not says or any(plain(v) == held for v in claim.excluded):
        return False  # it says nothing, or not this
    if claim.allowed and not any(plain(v) == held for v in claim.allowed):
        return False
    if at is None:
        return lo is None and hi is None
    return (lo is None or lo <= at) and (hi is None or at <= hi)


def _same_text(said: Any, value: Any) -> bool:
    return isinstance(said, str) and said == str(value)


def inside_fact(value: Any, fact: Mapping[str, Any]) -> bool:
    """Does a value lie between the ends of a fact?

    >>> inside_fact(3, {"min": 2, "max": None}), inside_fact(3, {"min": None, "max": 2})
    (True, False)
    """
    held, low, high = number(value), number(fact.get("min")), number(fact.get("max"))
    return held is not None and (low is None or held >= low) and (high is None or held <= high)
