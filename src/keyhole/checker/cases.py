"""Is a value the only one, by cases: people are split at the answers until each branch is closed.

A number is a pair: itself, and whether it is meant just above (1) or just below (-1) it, so that "less than 5" is at
most (5, -1). A branch is closed if some order statistic cannot hold there; if all surely hold, there is a table, and
the value is not the only one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .engine import Cannot

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
