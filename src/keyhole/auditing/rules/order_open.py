"""Who is open where the least and the greatest values of groups are told: a second table with the same answers.

MAX alone: put everybody at his upper bound; who is not the only one to reach some answer may be lower. MIN alone the
other way round. Both: every MAX needs somebody at his upper bound (a witness), every MIN somebody at his lower bound,
and nobody is at both. Such a choice of witnesses is a table; who is no witness may have any value between his bounds,
and who is one is open if another choice does without him. Finding a choice is hard in general (it is satisfiability);
the search is greedy, and where it finds none nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.ranks import RankBounds, Ranked

MOST = 64  # people who are looked at as witnesses of one answer
CRITICAL = 500  # people for whom another choice of witnesses is looked for

Choice = dict[int, int]  # class -> how many of it are witnesses


@dataclass(frozen=True, slots=True)
class Need:
    """An answer that needs a witness, among these classes: at the upper end, or at the lower."""

    top: bool
    among: tuple[int, ...]


def everybody_open(bounds: RankBounds, facts: Sequence[Ranked]) -> bool:
    """Has everybody with more than one value left another value in a second table?

    Guarantee: True only if it is shown. For MAX alone, or MIN alone, it always is.
    """
    if any(f.j != f.k or f.k not in (1, f.n) for f in facts):
        return False
    needs = [need for f in facts if f.n > 1 and (need := _need(bounds, f)) is not None]
    if len({n.top for n in needs}) < 2:
        return True
    cover = Cover(bounds.sizes, bounds.low < bounds.high, needs)
    first = cover.chosen()
    if first is None:
        return False
    critical = [c for c in sorted({*first[0], *first[1]}) if bounds.sizes[c] == 1]
    critical = [c for c in critical if bounds.low[c] < bounds.high[c] and cover.sole(first, c)]
    return len(critical) <= CRITICAL and all(cover.chosen(without=c, top=c in first[1]) for c in critical)


def _need(bounds: RankBounds, fact: Ranked) -> Need | None:
    """Who can be the witness of an answer; None if somebody surely is one."""
    inside, top = bounds.inside(fact), fact.k == fact.n
    can = bounds.reaching(fact, inside) if top else bounds.below(fact, inside)
    if (can & (bounds.low == bounds.high)).any():
        return None
    return Need(top, tuple(np.flatnonzero(can)[:MOST].tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Chooses witnesses: (of the least, of the greatest), for each class how many; a record is one or the other."""

    sizes: NDArray[np.int64]
    free: NDArray[np.bool_]
    needs: Sequence[Need]

    def chosen(self, without: int | None = None, *, top: bool = True) -> tuple[Choice, Choice] | None:
        """A choice in which class `without` is no witness of that end; None if the search finds none."""
        found: tuple[Choice, Choice] = ({}, {})
        for need in sorted(self.needs, key=lambda n: len(n.among)):
            mine, other = found[need.top], found[not need.top]
            barred = without if need.top is top else None
            if any(c in mine for c in need.among):
                continue
            room = [c for c in need.among if c != barred and other.get(c, 0) < self.sizes[c]]
            if not room:
                return None
            best = min(room, key=lambda c: (self._wanted(c, not need.top, found), -self._wanted(c, need.top, found)))
            mine[best] = 1
        return found

    def _wanted(self, c: int, top: bool, found: tuple[Choice, Choice]) -> int:
        """For how many answers that still need one a class could be the witness."""
        mine = found[top]
        return sum(
            need.top is top and c in need.among and not any(other in mine for other in need.among)
            for need in self.needs
            if len(need.among) <= MOST
        )

    def sole(self, chosen: tuple[Choice, Choice], c: int) -> bool:
        """Is a class the only witness of some answer?"""
        return any(
            c in need.among and c in chosen[need.top] and sum(o in chosen[need.top] for o in need.among) == 1
            for need in self.needs
        )
