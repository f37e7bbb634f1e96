"""Proofs by all tables on a grid, in two ways.

**Tables.** People are split one after the other, and cases with the same totals are merged. What each person adds to
each answer, with each value, is taken from the engine (`counts`); values are all numbers of the declared grid, and of a
column without one some of every cell, which must then add the same. A case is a list of totals; it is closed where an
answer cannot be reached any more. The person of the claim comes last: what he adds must be what the others leave, and
every value with which that is so must be one that the claim allows.

**Every table.** Quotients, comparisons, HAVING and rounded sums are no sums of what single people add. Where what is
declared leaves few tables, each of them is filled in and each statement of the proof is run as it is: a table in
which some answer is another is out. What is left of the person in the tables that remain must be what is claimed. A
statement whose answer is not in the verdict rules nothing out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from .claims import UNSETTLED, Addend, Claimed, number
from .counts import Added, Choice, Counts, allows
from .engine import NOBODY, Cannot, Fails

LIMIT = 100_000  # cases after one person
STEPS = 3_000_000  # of one proof
MOST_TABLES = 1_000  # that are filled in one by one
DUST = Fraction(1, 10**11)  # of a quotient, in whatever order it is added up

Totals = tuple[Fraction, ...]


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
    """Replays proofs by all tables; which tables are left is kept for the claims that follow."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self._left: dict[str, tuple[list[str], list[tuple[Choice, ...]]]] = {}

    def check(self, claim: Claimed, row: int) -> None:
        """Does every table that gives the answers have what is claimed, and is there one?"""
        if claim.status not in ("exposed", "inferred", *UNSETTLED):
            raise Fails("this proof is of a value, or of what a value is not")
        if row in self.counts.engine.null[claim.column]:
            raise Fails("somebody who has no value is said to have one")
        how = claim.certificate
        own = self.counts.own_constants(claim, every=True)
        key = repr((claim.proof, how.get("declared"), how.get("stated"), own))
        if key not in self._left:
            self._left[key] = self._tables(claim)
        names, left = self._left[key]
        if claim.column not in names:
            raise Fails("the statements do not look at this column")
        values = {table[row][names.index(claim.column)] for table in left}
        if not values:
            raise Cannot("the answers contradict each other")
        if not all(allows(claim, value) for value in values):
            raise Fails("there is a table with these answers in which it is not so")
        if claim.status == "exposed" and len(values) != 1:
            raise Fails("there are tables with these answers and different values")

    def _tables(self, claim: Claimed) -> tuple[list[str], list[tuple[Choice, ...]]]:
        """The tables that give all answers of the proof."""
        if not all(c.query or c.fact is not None for c in claim.proof):
            raise Cannot("more than answers is used")
        names, choices = self.counts.choices(claim, every=True, plain=False)
        declared = claim.certificate.get("declared") or {}
        if any(self.counts.cells_sampled(claim, name, declared.get(name) or {}) for name in names):
            raise Cannot("a column has values without end")
        held = [sorted(each) for each in self.counts.start(names, choices, claim.certificate.get("stated") or ())]
        if prod(map(len, held)) > MOST_TABLES:
            raise Cannot(f"it takes more than {MOST_TABLES} tables")
        cited = [c for c in claim.proof if c.answered]
        every = (tuple(choices[i] for i in table) for table in product(*held))
        return names, [table for table in every if self._gives(names, table, cited)]

    def _gives(self, names: Sequence[str], table: Sequence[Choice], cited: Sequence[Addend]) -> bool:
        self.counts.fill(names, table)
        return all(self._same(each) for each in cited)

    def _same(self, cited: Addend) -> bool:
        """Is the answer now what was answered?"""
        if isinstance(cited.answer, bool) and cited.column is None:  # of a HAVING: is the group shown?
            return (self.counts.engine.answer(replace(cited, column=1, test=None)) is not NOBODY) is cited.answer
        said = self.counts.engine.answer(cited)
        if cited.besides is not None:
            return bool((said or 0) == cited.answer)
        if said is NOBODY or said is None or cited.answer is None:  # a group that is not there answers nothing
            return said is None and cited.answer is None
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
    return abs(one - two) <= DUST * max(abs(one), abs(two))
