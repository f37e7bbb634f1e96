"""Order statistics of a few people, by cases: every table is looked at, as far as the answers tell tables apart.

The answers cut the line into cells: points, and what lies between them. A rank constraint holds or not by the cells
alone, so a choice of cells for everybody is all that matters. A person is split at an answer
(below it, or not), bounds are narrowed by ranks after each split, and a branch ends where some constraint cannot hold
any more, or where all of them surely do. Exact and complete; the number of branches is limited, and beyond the limit
nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

DEEP = 300  # splits one after the other
LIMIT = 20_000  # branches of one search for everybody


class TooManyCases(Exception):
    """The limit was reached: neither a table nor a refutation was found."""


@dataclass(frozen=True, slots=True)
class RankCase:
    """Of these people the j-th smallest is at most hi, the k-th at least lo (numbers of cells)."""

    members: tuple[int, ...]
    j: int
    k: int
    lo: int
    hi: int


@dataclass(slots=True)
class Cases:
    """Searches tables of cells; `left` is how many branches may still be looked at.

    >>> two = Cases([RankCase((0, 1), 2, 2, 3, 3), RankCase((0, 1), 1, 1, 1, 1)])  # the greatest in cell 3, the least 1
    >>> two.table([0, 0], [4, 4]), two.table([0, 0], [2, 4]), two.table([2, 0], [2, 4])
    ([3, 1], [1, 3], None)
    """

    facts: Sequence[RankCase]
    left: int = field(default=LIMIT)

    def table(self, low: Sequence[int], high: Sequence[int], depth: int = 0) -> list[int] | None:
        """A cell for everybody between the bounds such that all facts hold; None if there is none."""
        lo, hi = list(low), list(high)
        self.left -= 1
        if self.left < 0 or depth > DEEP:
            raise TooManyCases
        if not self._narrowed(lo, hi):
            return None
        at = self._undecided(lo, hi)
        if at is None:
            return lo
        i, cell = at
        for part in ((cell, hi[i]), (lo[i], cell - 1)):
            found = self.table([*lo[:i], part[0], *lo[i + 1 :]], [*hi[:i], part[1], *hi[i + 1 :]], depth + 1)
            if found is not None:
                return found
        return None

    def _narrowed(self, lo: list[int], hi: list[int]) -> bool:
        """Narrow bounds by ranks until nothing changes; False if some fact cannot hold."""
        changed = all(a <= b for a, b in zip(lo, hi, strict=True))
        possible = changed
        while changed and possible:
            changed = False
            for f in self.facts:
                up, down = [i for i in f.members if hi[i] >= f.lo], [i for i in f.members if lo[i] <= f.hi]
                needed = len(f.members) - f.k + 1
                if len(up) < needed or len(down) < f.j:
                    return False
                for i in up if len(up) == needed else ():
                    changed, lo[i] = changed or lo[i] < f.lo, max(lo[i], f.lo)
                for i in down if len(down) == f.j else ():
                    changed, hi[i] = changed or hi[i] > f.hi, min(hi[i], f.hi)
                possible = possible and all(lo[i] <= hi[i] for i in f.members)
        return possible

    def _undecided(self, lo: list[int], hi: list[int]) -> tuple[int, int] | None:
        """A person of a fact that does not surely hold, and the cell to split at; None if all facts surely hold."""
        for f in self.facts:
            if sum(lo[i] >= f.lo for i in f.members) < len(f.members) - f.k + 1:
                return next((i, f.lo) for i in f.members if lo[i] < f.lo <= hi[i])
            if sum(hi[i] <= f.hi for i in f.members) < f.j:
                return next((i, f.hi + 1) for i in f.members if lo[i] <= f.hi < hi[i])
        return None
