"""Proofs by counts: who can match is tried out, person by person and cell by cell, and the answers then rule out.

For every statement cited, f({r with value v}) - f({}) is what person r adds to the answer with value v. It is taken
from the engine for each person alone and for values in every cell that the constants make: at every constant, close to
it on both sides, between, and far out. That answers are sums of what single people add is tried on random tables of
all. Then, as long as something changes: a (weighted) count that is as large as the values still possible allow leaves
everybody only values that make it so; likewise the smallest. What is left of the person's values must be what is
claimed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod
from typing import Any

from .answers import DUST as LAST_DIGITS
from .answers import same_rows
from .claims import STATUSES, UNSETTLED, Addend, Claimed, fraction, number
from .engine import INTEGER, NOBODY, Cannot, Engine, Fails, Result, exact, plain, read_cell
from .fillings import COMMENTS, Maker, Span, constants, plainly
from .rounding import between, middle

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
        said = (Fraction(0), Fraction(0)) if null else _find_answer_ends(cited)
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


def _find_answer_ends(cited: Addend) -> Ends:
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


# --- tables -----------------------------------------------------------------------------------------------------------
# Proofs by all tables on a grid, in two ways.
# **Tables.** People are split one after the other, and cases with the same totals are merged. What each person adds
# to each answer, with each value, is taken from the engine (`counts`); values are all numbers of the declared grid,
# and of a column without one some of every cell, which must then add the same. A case is a list of totals; it is
# closed where an answer cannot be reached any more. The person of the claim comes last: what he adds must be what the
# others leave, and every value with which that is so must be one that the claim allows.
# **Every table.** Quotients, comparisons, HAVING and rounded sums are no sums of what single people add. Where what
# is declared leaves few tables, each of them is filled in and each statement of the proof is run as it is: a table in
# which some answer is another is out. What is left of the person in the tables that remain must be what is claimed. A
# statement whose answer is not in the verdict rules nothing out.


LIMIT = 100_000  # cases after one person
STEPS = 3_000_000  # of one proof
MOST_TABLES = 10_000  # on which statements are run
DUST = Fraction(1, 10**11)  # of a quotient, in whatever order it is added up

UNNAMED = 4  # fillings of columns that a statement does not name
MEANS_ALL = re.compile(r"\b(?:columns|natural|summarize|describe|pivot|unpivot|table)\b|(?:^|\()\s*from\b")
CUT = re.compile(r"median|quantile|percentile", re.IGNORECASE)

Totals = tuple[Fraction, ...]
Table = tuple[Choice, ...]  # what everybody has in the columns that are looked at


class Tables:
    """Replays proofs by all tables; what single people add is kept by `counts`."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self._left: dict[str, tuple[list[str], list[Choice], dict[int, set[int]]]] = {}

    def check(self, claim: Claimed, row: int) -> None:
        """Does every table that gives the answers have what is claimed, and is there one?"""
        if claim.status not in ("exposed", "inferred", *UNSETTLED):
            raise Fails("this proof is of a value, or of what a value is not")
        if row in self.counts.engine.null[claim.column]:
            raise Fails("somebody who has no value is said to have one")
        names, choices, left = self._possible(claim, row)
        if claim.column not in names:
            raise Fails("the statements do not look at this column")
        at = names.index(claim.column)
        values = {choices[i][at] for i in left[row]}
        if not values:
            raise Cannot("the answers contradict each other")
        if not all(allows(claim, value) for value in values):
            raise Fails("there is a table with these answers in which it is not so")
        if claim.status == "exposed" and len(values) != 1:
            raise Fails("there are tables with these answers and different values")

    def _possible(self, claim: Claimed, row: int) -> tuple[list[str], list[Choice], dict[int, set[int]]]:
        how = claim.certificate
        own = self.counts.own_constants(claim, every=True)
        key = repr((claim.proof, how.get("declared"), how.get("stated"), own))
        if key not in self._left:
            if not all(c.query or c.fact is not None for c in claim.proof):
                raise Cannot("more than answers is used")
            names, choices = self.counts.choices(claim, every=True)
            self._left[key] = (names, choices, {})
        names, choices, left = self._left[key]
        if row not in left:
            left[row] = self._of_one(claim, row, names, choices)
        return names, choices, left

    def _of_one(self, claim: Claimed, row: int, names: Sequence[str], choices: Sequence[Choice]) -> set[int]:
        """The choices of one person that some table has."""
        sums, floors = [], []
        for cited in (c for c in claim.proof if c.query):
            added, empty, (said, most) = self.counts.one(cited, names, choices)
            if said != most:
                raise Cannot("an answer that leaves several numbers")
            sums.append((added, said - empty))
            floors += self._somebody(cited, names, choices)
        stated = claim.certificate.get("stated") or ()
        declared = claim.certificate.get("declared") or {}
        if any(self.counts.cells_sampled(claim, f["column"], declared.get(f["column"]) or {}) for f in stated):
            raise Cannot("a fact about values that are on no finite grid")
        start = self.counts.start(names, choices, stated)
        self._alike(claim, names, choices, [added for added, _ in (*sums, *((f, None) for f in floors))])
        options = [self._options(held, r, sums, floors) for r, held in enumerate(start)]
        target = tuple(told for _, told in sums)
        order = [r for r in range(len(options)) if r != row]
        cases = reached([list(options[r]) for r in order], list(options[row]), target, len(floors))
        found: set[int] = set()
        for adds, held in options[row].items():
            if any(_meets(_plus(case, adds, len(target)), target) for case in cases):
                found |= held
        return found

    def _somebody(self, cited: Addend, names: Sequence[str], choices: Sequence[Choice]) -> list[Added]:
        """A sum that is not NULL says that somebody matches: who would, with which value."""
        if cited.answer is None or cited.besides is not None:
            return []
        return self.counts.matching(cited, names, choices)

    def _options(
        self, held: set[int], r: int, sums: Sequence[tuple[Added, Fraction]], floors: Sequence[Added]
    ) -> dict[Totals, set[int]]:
        """What one person may add to all totals at once, with the choices that do so."""
        found: dict[Totals, set[int]] = {}
        for i in held:
            adds = (*(added[r][i] for added, _ in sums), *(added[r][i] for added in floors))
            found.setdefault(adds, set()).add(i)
        return found

    def _alike(self, claim: Claimed, names: Sequence[str], choices: Sequence[Choice], tables: Sequence[Added]) -> None:
        """Values that stand for a whole cell must add the same as each other, to everything and for everybody."""
        declared: Mapping[str, Any] = claim.certificate.get("declared") or {}
        for at, name in enumerate(names):
            for cell in self.counts.cells_sampled(claim, name, declared.get(name) or {}):
                like: dict[Choice, list[int]] = {}
                for i, choice in enumerate(choices):
                    if choice[at] in cell:
                        like.setdefault((*choice[:at], *choice[at + 1 :]), []).append(i)
                for same in like.values():
                    if any(mine[i] != mine[same[0]] for added in tables for mine in added for i in same):
                        raise Cannot("a sum of values that are on no finite grid")


def reached(options: Sequence[Sequence[Totals]], last: Sequence[Totals], target: Totals, floors: int) -> set[Totals]:
    """The totals that people can add up to, as far as the last one can still bring them to the target.

    >>> one, half = (Fraction(0),), (Fraction(1),)
    >>> reached([[one, half], [one, half]], [one], (Fraction(2),), 0)
    {(Fraction(2, 1),)}
    """
    width = len(target)
    rest = [list(map(min, zip(*last, strict=True))), list(map(max, zip(*last, strict=True)))]
    suffix = [rest]
    for each in reversed(options):
        low, high = (list(map(best, zip(*each, strict=True))) for best in (min, max))
        before = suffix[-1]
        suffix.append(
            [
                [a + b for a, b in zip(low, before[0], strict=True)],
                [a + b for a, b in zip(high, before[1], strict=True)],
            ]
        )
    suffix.reverse()
    cases: set[Totals] = {tuple([Fraction(0)] * (width + floors))}
    steps = 0
    for n, each in enumerate(options):
        low, high = suffix[n + 1]
        steps += len(cases) * len(each)
        if steps > STEPS:
            raise Cannot(f"it takes more than {STEPS} steps")
        made = {_plus(case, adds, width) for case in cases for adds in each}
        cases = {c for c in made if all(c[i] + low[i] <= target[i] <= c[i] + high[i] for i in range(width))}
        if len(cases) > LIMIT:
            raise Cannot(f"it takes more than {LIMIT} cases")
    return cases


def _plus(case: Totals, adds: Totals, width: int) -> Totals:
    """Totals with what one more person adds; of those who match only matters whether there are any."""
    found = [a + b for a, b in zip(case, adds, strict=True)]
    return (*found[:width], *(min(f, Fraction(1)) for f in found[width:]))


def _meets(totals: Totals, target: Totals) -> bool:
    return totals[: len(target)] == target and all(totals[len(target) :])


class EveryTable:
    """Replays claims by every table of a finite domain; what each statement answers on each of them is kept."""

    def __init__(self, engine: Engine, maker: Maker) -> None:
        self.engine, self.maker = engine, maker
        self._made: dict[str, list[Table]] = {}
        self._ran: dict[tuple[str, str], dict[int, Result]] = {}
        self._left: dict[str, tuple[list[str], list[Table]]] = {}
        self._pools: dict[str, list[Any]] = {}
        self._nothing: set[str] = set()

    def check(
        self,
        claim: Claimed,
        rows: Sequence[int],
        proof: Sequence[Addend],
        domains: Mapping[str, Mapping[str, Any]],
        facts: Sequence[Mapping[str, Any]],
    ) -> None:
        """Does every table with the answers that are cited have what is claimed, and is there one?"""
        if claim.status not in ("group", *STATUSES):
            raise Fails("this proof is of a value, or of what a value is not")
        if any(r in self.engine.null[claim.column] for r in rows):
            raise Fails("somebody who has no value is said to have one")
        names, left = self.left(claim, proof, domains, facts)
        self.compare(claim, rows, names, left, len(self.choices(claim.column, claim, domains, proof)))

    def compare(
        self, claim: Claimed, rows: Sequence[int], names: Sequence[str], left: Sequence[Table], assumed: int
    ) -> None:
        """Is it so in each of these tables? `assumed`: how many values are possible without an answer."""
        at = names.index(claim.column)
        if not left:
            raise Cannot("the answers contradict each other")
        if len(rows) > 1 or claim.status == "group":
            totals = {sum((number(table[r][at]) or Fraction(0) for r in rows), Fraction(0)) for table in left}
            if totals != {number(claim.value)}:
                raise Fails("there is a table with these answers in which it is not so")
            return
        values = {table[rows[0]][at] for table in left}
        if (claim.assumed or claim.status == "inferred") and not tells(claim):
            if claim.status == "exposed" or len(values) == assumed:
                raise Fails("the answers leave every value that was assumed")
            return
        if not all(allows(claim, value) for value in values):
            raise Fails("there is a table with these answers in which it is not so")
        if claim.status == "exposed" and len(values) != 1:
            raise Fails("there are tables with these answers and different values")

    def left(
        self,
        claim: Claimed,
        proof: Sequence[Addend],
        domains: Mapping[str, Mapping[str, Any]],
        facts: Sequence[Mapping[str, Any]],
    ) -> tuple[list[str], list[Table]]:
        """The private columns that are looked at, and the tables that give all answers of a proof."""
        cited = [c for c in proof if c.query and c.answered]
        return self.possible(claim, cited, domains, facts, [(c.sql or "", self._matches(c)) for c in cited])

    def possible(
        self,
        claim: Claimed | None,
        proof: Sequence[Addend],
        domains: Mapping[str, Mapping[str, Any]],
        facts: Sequence[Mapping[str, Any]],
        answers: Sequence[tuple[str, Callable[[Result], bool]]],
    ) -> tuple[list[str], list[Table]]:
        """The same of statements with what their answers must be; the column of a claim is looked at in any case."""
        names = self._looked_at(None if claim is None else claim.column, [sql for sql, _ in answers], facts)
        pools = {name: self.choices(name, claim, domains, proof) for name in names}
        made = repr((pools, facts))
        key = repr((made, proof, [sql for sql, _ in answers]))
        if key not in self._left:
            tables = self._every(made, pools, facts)
            left: Sequence[int] = range(len(tables))
            looked = {sql: self._looked_at(None, [sql], ()) for sql, _ in answers}
            for sql in sorted(looked, key=lambda each: len(looked[each])):
                same = alike(tables, [names.index(name) for name in looked[sql]])
                ran = self._run(made, names, tables, sql, sorted({same[k] for k in left}))
                mine = [test for text, test in answers if text == sql]
                fits = {k: all(test(ran[k]) for test in mine) for k in {same[k] for k in left}}
                left = [k for k in left if fits[same[k]]]
            self._true_among(pools, tables, left)
            self._left[key] = names, [tables[k] for k in left]
        return self._left[key]

    def _matches(self, cited: Addend) -> Callable[[Result], bool]:
        """May a table with this answer have given the one that is cited? A group that the data hide stays hidden."""
        hidden: bool | None = None
        if self.engine.real and not cited.answer:
            self.engine.fill(None)
            hidden = self.engine.answer(cited) is NOBODY
        return lambda result: answers_as(cited, read_cell(cited, *result), hidden=hidden)

    def _looked_at(self, column: str | None, texts: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> list[str]:
        """The private columns on which an answer may depend: those that are named, or all."""
        folded = [COMMENTS.sub(" ", sql).casefold() for sql in texts]
        every = any("*" in text.replace("count(*)", "") or MEANS_ALL.search(text) for text in folded)
        named = {column, *(str(fact["column"]) for fact in facts)}
        words = {n: re.compile(rf"(?<!\w){re.escape(n.casefold())}(?!\w)") for n in self.engine.private}
        found = [n for n in words if every or n in named or any(map(words[n].search, folded))]
        others = [name for name in self.engine.private if name not in found]
        if others and not all(self._says_nothing_of(others, sql) for sql in texts):
            return list(self.engine.private)
        return found

    def _says_nothing_of(self, names: Sequence[str], sql: str) -> bool:
        """Does a statement answer the same whatever is in columns that it does not name?"""
        key = repr((names, sql))
        if key not in self._nothing:
            one = self.maker.small()
            for _ in range(UNNAMED):
                other = self.maker.small()
                answers = []
                for made in (one, one | {name: other[name] for name in names}):
                    self.engine.fill(made, keep=False)
                    answers.append(self.engine.run(sql))
                if not same_rows(answers[0][1], answers[1][1], LAST_DIGITS, ordered=True):
                    return False
            self._nothing.add(key)
        return True

    def choices(
        self, name: str, claim: Claimed | None, domains: Mapping[str, Mapping[str, Any]], proof: Sequence[Addend]
    ) -> list[Any]:
        """All values of a column; of texts without a list those that are named, and one that is not."""
        said, own = domains.get(name) or {}, claim if claim is not None and claim.column == name else None
        listless = not self.engine.numeric(name) and self.engine.types[name] != "BOOLEAN" and said.get("values") is None
        if listless:
            plainly(proof, self.engine.private)
        told = () if own is None else tuple(v for v in (own.value, *_lists(own)) if isinstance(v, str))
        words = constants([c.sql for c in proof if c.sql is not None], (*keys(proof, name), *told))[1]
        key = repr((name, said, words if listless else ()))
        if key not in self._pools:
            found: list[Any] = []
            for cell in self.maker.cells(name, [], words, said):
                gridded = self.engine.types[name] == INTEGER or "numbers" in said or said.get("step") is not None
                values = listed(cell) if gridded or cell.point is not None else None
                if values is None:
                    raise Cannot("a column has values without end")
                found += values
            self._pools[key] = found
        return self._pools[key]

    def _every(self, key: str, pools: Mapping[str, Sequence[Any]], facts: Sequence[Mapping[str, Any]]) -> list[Table]:
        """All tables with these values that are as the facts say."""
        if key not in self._made:
            names = list(pools)
            told = [(names.index(str(f["column"])), f, set(self.engine.condition(str(f["where"])))) for f in facts]
            held: list[list[Choice]] = []
            for r in range(self.engine.n):
                mine = [(at, f) for at, f, rows in told if r in rows and r not in self.engine.null[names[at]]]
                pool = [[None] if r in self.engine.null[name] else pools[name] for name in names]
                held.append([c for c in product(*pool) if all(inside_fact(c[at], f) for at, f in mine)])
            if prod(map(len, held)) > MOST_TABLES:
                raise Cannot(f"it takes more than {MOST_TABLES} tables")
            self._made[key] = [t for t in product(*held) if all(_adds_up(t, at, f, rows) for at, f, rows in told)]
        return self._made[key]

    def _run(
        self, key: str, names: Sequence[str], tables: Sequence[Table], sql: str, left: Sequence[int]
    ) -> Mapping[int, Result]:
        """What a statement answers on each of the tables that are left."""
        ran = self._ran.setdefault((key, sql), {})
        wanted = [k for k in left if k not in ran]
        if wanted and not self.engine.has_tables(key):
            self._fill(key, names, tables)
        absent = any(t.startswith("DECIMAL") and n not in self.engine.columns for n, t in self.engine.types.items())
        if absent and CUT.search(sql):
            raise Cannot("an engine cuts it to the decimals of the column, which the data do not have")
        for k in wanted:
            self.engine.pick(k)
            ran[k] = self.engine.run(sql)
        return ran

    def _fill(self, key: str, names: Sequence[str], tables: Sequence[Table]) -> None:
        """All tables beside each other; columns that no statement names are the same in each."""
        filled = []
        other = {n: [self.maker.values(self.maker.cells(n, [], ["a"]))[0]] * self.engine.n for n in self.engine.private}
        for table in tables:
            filled.append(other | {name: [choice[at] for choice in table] for at, name in enumerate(names)})
        self.engine.fill_tables(filled, key)

    def _true_among(self, pools: Mapping[str, Sequence[Any]], tables: Sequence[Table], left: Sequence[int]) -> None:
        """Cannot, where the real table is not one of those that are left: then the answers are read in another way."""
        if not all(name in self.engine.columns for name in pools):
            return
        values = []
        for name, pool in pools.items():
            held = {exact(v): exact(v) for v in pool}
            other = exact(pool[-1]) if self.engine.types[name] == "VARCHAR" else None  # of texts that nobody names
            values.append([v if v is None else held.get(v, other) for v in map(exact, self.engine.real_values(name))])
        real = tuple(zip(*values, strict=True))
        if not any(tuple(tuple(exact(v) for v in choice) for choice in tables[k]) == real for k in left):
            raise Cannot("the data do not give the answers that are cited")


def alike(tables: Sequence[Table], places: Sequence[int]) -> list[int]:
    """For each table the first one that is the same in these columns.

    >>> alike([((1, 2),), ((1, 3),), ((4, 2),)], [0])
    [0, 0, 2]
    """
    first: dict[tuple[Choice, ...], int] = {}
    return [first.setdefault(tuple(tuple(c[p] for p in places) for c in table), k) for k, table in enumerate(tables)]


def _lists(claim: Claimed) -> tuple[Any, ...]:
    return (*claim.allowed, *claim.excluded)


def _adds_up(table: Table, at: int, fact: Mapping[str, Any], rows: set[int]) -> bool:
    """Is the total of these people between the ends of a fact?"""
    low, high = number(fact.get("sum_min")), number(fact.get("sum_max"))
    if low is None and high is None:
        return True
    total = sum((number(table[r][at]) or Fraction(0) for r in rows), Fraction(0))
    return (low is None or total >= low) and (high is None or total <= high)


def answers_as(cited: Addend, said: Any, *, hidden: bool | None = None) -> bool:
    """Is the cell that a statement gives one that may have been answered so? `hidden`: its group is not shown.

    >>> one = Addend(Fraction(1), answer={"lo": 1, "hi": None}, noise=Fraction(1))
    >>> answers_as(one, 0), answers_as(one, -1), answers_as(replace(one, answer=None), NOBODY)
    (True, False, True)
    >>> answers_as(replace(one, answer=0, noise=Fraction(0)), NOBODY, hidden=False)
    False
    """
    if (cited.test or {}).get("shown") or (isinstance(cited.answer, bool) and isinstance(said, bool)):
        return said is cited.answer
    if isinstance(cited.answer, bool) and cited.column is None:  # of a HAVING: is the group shown?
        return (said is not NOBODY) is cited.answer
    if said is NOBODY or hidden:  # a group that is not there counts nobody
        return hidden is not False and not isinstance(cited.answer, bool) and not cited.answer and said in (NOBODY, 0)
    if said is None or cited.answer is None:
        return said is None and (cited.answer is None or (cited.besides is not None and not cited.answer))
    if isinstance(cited.answer, Mapping) or cited.noise:
        low, high = between(cited)
        off, at = (cited.noise if isinstance(cited.answer, Mapping) else Fraction(0)), number(said)
        dust = DUST * max(Fraction(1), *(abs(end) for end in (low, high, at) if end is not None))
        return at is not None and (low is None or at >= low - off - dust) and (high is None or at <= high + off + dust)
    return _equal(said, cited.answer if cited.exactly is None else cited.exactly)


def _equal(said: Any, answer: Any) -> bool:
    """Are two answers the same, up to dust?

    >>> from decimal import Decimal
    >>> _equal(0.1 + 0.2, Decimal("0.3")), _equal(True, True), _equal(1, Decimal("1.01")), _equal("flu", "cold")
    (True, True, False, False)
    """
    if isinstance(said, bool) or isinstance(answer, bool):
        return said is answer
    one, two = number(said), number(answer)
    if one is None or two is None:
        return str(said) == str(answer)
    return abs(one - two) <= DUST * max(Fraction(1), abs(one), abs(two))
