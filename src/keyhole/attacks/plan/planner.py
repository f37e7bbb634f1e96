"""Fewest queries on a real roster: for one person, or everybody, a plan or the proof that there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np

from keyhole.attacks.plan.allowed_questions import AllowedQuestions, ExhaustiveSearch, Way
from keyhole.attacks.plan.cells import TableCells
from keyhole.attacks.plan.profiles import Bools, Profiles
from keyhole.attacks.plan.question import Question
from keyhole.attacks.plan.reach import Reach

Stop = Callable[[], bool]
SEARCHED = 200  # profiles up to which the fewest questions are searched for everybody
STOPPED = "the search was stopped before the row space was known"


class How(StrEnum):
    """How somebody is given away, or why not."""

    DIRECT = "asked about alone"
    DIFFERENCE = "a difference of two questions"
    TRACKER = "a tracker"
    CHAIN = "a chain: others first, then this one"
    ROW_SPACE = "a combination of many groups"
    SEARCH = "the fewest of all questions"
    NO_VALUE = "has no value to find out"
    SHARED = "shares all public columns with others"
    OUTSIDE = "outside the row space of all questions"
    UNDECIDED = "undecided"

    @property
    def exposed(self) -> bool:
        """Is there a plan?"""
        return self in (How.DIRECT, How.DIFFERENCE, How.TRACKER, How.CHAIN, How.ROW_SPACE, How.SEARCH)


@dataclass(frozen=True, slots=True, eq=False)
class QueryPlan:
    """What to ask about one profile, with weights; or why it cannot be done.

    `fewest`: no plan with fewer questions exists, proved. `witness`: how much each profile's total changes in a second
    table that answers every question alike. `reason` says what was not decided. `at_large`: the proof that it cannot be
    done is about any questions on so many columns, whatever their operators and groups, not only the allowed ones.
    """

    profile: int
    how: How
    weights: Mapping[Question, Fraction]
    fewest: bool = False
    witness: Mapping[int, int] | None = None
    reason: str = ""
    at_large: bool = False


class Planner:
    """Plans over a roster's profiles in a language of questions.

    Guarantee: every plan adds up to exactly one person, checked in integers over all profiles; every "cannot" names who
    shares all public columns, or a second table that agrees on every question of at most so many columns, whatever its
    operators and group sizes, checked likewise. What is neither is undecided, and says why.
    """

    def __init__(self, profiles: Profiles, ways: AllowedQuestions, stop: Stop = lambda: False) -> None:
        self.profiles, self.ways, self._stop = profiles, ways, stop
        self.small = ExhaustiveSearch(ways) if ExhaustiveSearch.fits(ways) else None
        self.cells = TableCells.of(profiles, ways.most)
        self._costs = self.cells.padded_costs(ways.least, equal="=" in ways.operators, padded="<>" in ways.operators)
        self._more = bool(ways.operators - {"=", "<>"})
        self._written: dict[int, Way] = {}
        self._looked = np.zeros(self.cells.count, dtype=np.bool_)
        self.allowed = Reach.of(self.cells, self.cost, stop)

    def cost(self, cell: int) -> int:
        """How few questions give a cell; 0: no allowed ones do."""
        if self._more and not self._looked[cell] and (not self._costs[cell] or self._costs[cell] > 2):
            way = self.ways.of(self.cells.conditions(cell))
            self._costs[cell] = 0 if way is None else len(way)
            self._looked[cell] = True
        return int(self._costs[cell])

    @cached_property
    def _every(self) -> bool:
        """Do allowed questions give every cell?"""
        return all(self.cost(c) for c in range(self.cells.count))

    @cached_property
    def all_cells(self) -> Reach:
        """The most that can be told: from all cells, allowed or not, or from the allowed ones if they are the language.

        Any question about so few columns is a sum of cells; with = alone the allowed questions are the large cells.
        """
        if self._every or self.ways.operators == {"="}:
            return self.allowed
        return Reach.of(self.cells, lambda _cell: 1, self._stop)

    def how(self, profile: int) -> How:
        """In a word, without writing the plan."""
        unknowns = int(self.profiles.unknowns[profile])
        if unknowns != 1:
            return How.SHARED if unknowns else How.NO_VALUE
        if self.small is not None and self.profiles.count <= SEARCHED:
            return self.plan(profile).how
        if self.allowed.chain.via[profile] >= 0:
            return self._by_cell(profile)
        if self.outside[profile]:
            return How.OUTSIDE
        if self.allowed.space.express(profile) is not None:
            return How.ROW_SPACE
        return self.plan(profile).how

    @cached_property
    def outside(self) -> Bools:
        """Profiles that one second table changes, all at once: they are proved to be outside the row space."""
        found = np.zeros(self.profiles.count, dtype=np.bool_)
        change = self.all_cells.generic()
        if change:
            first = next(iter(change))
            self._witnessed(QueryPlan(first, How.OUTSIDE, {}, witness=change))
            found[list(change)] = True
        return found

    def price(self, profile: int) -> int:
        """How many questions it takes, a question that serves twice in a chain counted twice; 0: not by a chain."""
        if self.small is not None and self.profiles.count <= SEARCHED:
            return len(self.plan(profile).weights)
        return int(self.allowed.chain.cost[profile])

    def _by_cell(self, profile: int) -> How:
        chain = self.allowed.chain
        alone = len(self.cells.members(int(chain.via[profile]))) == 1
        if not alone:
            return How.CHAIN
        return {1: How.DIRECT, 2: How.DIFFERENCE}.get(int(chain.cost[profile]), How.TRACKER)

    def plan(self, profile: int) -> QueryPlan:
        """The plan for the one person of a profile. Cost: milliseconds once the planner is there."""
        unknowns = int(self.profiles.unknowns[profile])
        if unknowns != 1:
            return QueryPlan(profile, How.SHARED if unknowns else How.NO_VALUE, {}, at_large=True)
        searched = None if self.small is None else self.small.fewest(profile)
        cells = self.allowed.weights(profile)
        if cells is not None:
            how = self._by_cell(profile) if self.allowed.chain.via[profile] >= 0 else How.ROW_SPACE
            found = self.questions(cells)
            if searched is None or len(searched) >= len(found):
                shown = searched is not None and len(searched) == len(found) and self._proved(profile)
                return self._checked(QueryPlan(profile, how, found, shown or self._obviously(len(found))))
        if searched is not None:
            how = {1: How.DIRECT, 2: How.DIFFERENCE}.get(len(searched), How.SEARCH)
            return self._checked(QueryPlan(profile, how, searched, self._proved(profile)))
        return self._cannot(profile)

    def _obviously(self, count: int) -> bool:
        """One is fewest; two are where no group of one may be asked about, and nobody in a group is without a value."""
        alone = self.ways.least > 1 and bool((self.profiles.people == self.profiles.unknowns).all())
        return count == 1 or (count == 2 and alone)

    def _proved(self, profile: int) -> bool:
        return self.small is not None and self.small.proved(profile)

    def questions(self, cells: Mapping[int, Fraction]) -> dict[Question, Fraction]:
        """Weighted cells as weighted questions."""
        found: dict[Question, Fraction] = {}
        for cell, weight in cells.items():
            if cell not in self._written:
                way = self.ways.of(self.cells.conditions(cell))
                assert way is not None, "a cell that was counted as allowed"
                self._written[cell] = way
            for sign, question in self._written[cell]:
                found[question] = found.get(question, Fraction(0)) + sign * weight
        return {q: w for q, w in found.items() if w}

    def _cannot(self, profile: int) -> QueryPlan:
        if not self.allowed.complete:
            return QueryPlan(profile, How.UNDECIDED, {}, reason=STOPPED)
        witness = self.all_cells.witness(profile)
        if witness is not None:
            wide = self._every or self.all_cells is not self.allowed
            return self._witnessed(QueryPlan(profile, How.OUTSIDE, {}, witness=witness, at_large=wide))
        if not self.all_cells.complete:
            return QueryPlan(profile, How.UNDECIDED, {}, reason=STOPPED)
        if self.small is not None and self.small.whole:
            return QueryPlan(profile, How.OUTSIDE, {}, reason="every allowed question was looked at")
        return QueryPlan(
            profile,
            How.UNDECIDED,
            {},
            reason=f"it follows from groups of fewer than {self.ways.least} people, and no allowed questions were "
            "found that give their totals",
        )

    def _checked(self, plan: QueryPlan) -> QueryPlan:
        """The weighted questions are the one profile and nothing else, and each is large enough; in integers."""
        scale = lcm(*(w.denominator for w in plan.weights.values()))
        total = np.zeros(self.profiles.count, dtype=object)
        for question, weight in plan.weights.items():
            mask = self.profiles.mask(question)
            if int(self.profiles.people[mask].sum()) < self.ways.least:
                raise ArithmeticError("a planned question is about too few people; please report this")
            total[mask] += int(weight * scale)
        total[self.profiles.unknowns == 0] = 0
        total[plan.profile] -= scale
        if total.any():
            raise ArithmeticError("a plan that was built exactly failed its verification; please report this")
        return plan

    def _witnessed(self, plan: QueryPlan) -> QueryPlan:
        """Every cell of the tables (those that may be asked, where only those count) sums the changes to 0."""
        assert plan.witness is not None
        change = np.zeros(self.profiles.count, dtype=object)
        change[list(plan.witness)] = list(plan.witness.values())
        at = np.flatnonzero(change)
        for j in range(len(self.cells.sets)):
            sums: dict[int, int] = {}
            for c, v in zip(self.cells.cell[j, at].tolist(), change[at].tolist(), strict=True):
                sums[c] = sums.get(c, 0) + v
            alone = self.all_cells is self.allowed and not self._every
            if any(v and (not alone or self.cost(c)) for c, v in sums.items()):
                raise ArithmeticError("a second table that was built exactly failed its verification; please report")
        if not change[plan.profile] or (self.profiles.unknowns[at] == 0).any():
            raise ArithmeticError("a second table that does not change the target; please report this")
        return plan
