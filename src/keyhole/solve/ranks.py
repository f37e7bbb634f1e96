"""Order statistics as bounds: what "the k-th smallest of these people is 9" says of each of them.

The j-th smallest of n is at most hi iff at least j of them are at most hi; the k-th is at least lo iff at least
n - k + 1 are at least lo. If only as many people as are needed can be there, all of these are (for MAX: if nobody else
reaches the answer, the one who does has it). Repeated until nothing changes; sound, and for MAX alone (or MIN alone)
complete: see `docs/inference.md`. Values are codes: places in a sorted list of numbers, so that all comparisons are of
integers. Cost: a pass over the facts is O(facts x classes). Reference: [nabar2008], section on MAX auditing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import Words, unpack

KEPT = 20_000_000  # members of facts that are kept as numbers
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Of the n records whose classes are in `bits`: the j-th smallest is at most hi, the k-th at least lo."""

    bits: Words
    n: int
    j: int
    k: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Why a bound holds: the fact that says so, and the earlier narrowings that it rests on."""

    fact: int
    after: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Clash:
    """A fact that cannot be true once the narrowings before it are."""

    fact: int
    after: frozenset[int]


@dataclass(slots=True, eq=False)
class RankBounds:
    """Bounds of the classes of records, as codes, each with the number of the narrowing that made it (-1: none).

    `whence` gives the atom of each class, `sizes` how many records it has.

    >>> from keyhole.basis.bits import pack
    >>> first, both = pack(np.array([True, False])), pack(np.array([True, True]))
    >>> bounds = RankBounds.open(np.array([0, 1]), np.array([1, 1]), 2)  # codes 1 and 2 stand for the values 8 and 9
    >>> facts = [Ranked(first, 1, 1, 1, 1, 1), Ranked(both, 2, 2, 2, 2, 2)]  # MAX of the first is 8, of both 9
    >>> bounds.narrow(facts), bounds.low.tolist(), bounds.high.tolist()
    (None, [1, 2], [1, 2])
    """

    whence: Codes
    sizes: Codes
    low: Codes
    high: Codes
    low_by: Codes
    high_by: Codes
    made: list[Narrowing] = field(default_factory=list)
    plain: bool = field(init=False)  # the classes are the atoms
    _kept: dict[int, Codes] = field(default_factory=dict)
    _room: int = KEPT

    def __post_init__(self) -> None:
        self.plain = bool((self.whence == np.arange(len(self.whence))).all())

    @classmethod
    def open(cls, whence: Codes, sizes: Codes, codes: int) -> RankBounds:
        """Nothing is known: codes run from 0 (no lower bound) to codes + 1 (no upper bound)."""
        K = len(whence)
        none = np.full(K, -1, dtype=np.int64)
        return cls(whence, sizes, np.zeros(K, dtype=np.int64), np.full(K, codes + 1, dtype=np.int64), none, none.copy())

    def narrow(self, facts: Sequence[Ranked]) -> Clash | None:
        """Apply all facts until nothing changes; the clash, if they cannot all be true."""
        changed = True
        while changed:
            changed = False
            for i, fact in enumerate(facts):
                inside = self._members(i, fact)
                for narrowed in (self._least(i, fact, inside), self._most(i, fact, inside), self._one(i, fact, inside)):
                    if isinstance(narrowed, Clash):
                        return narrowed
                    changed |= narrowed
        return None

    def _members(self, i: int, fact: Ranked) -> Codes:
        """The classes of fact i, by number; kept while there is room, since every pass needs them."""
        found = self._kept.get(i)
        if found is None:
            found = np.flatnonzero(self.inside(fact))
            if len(found) <= self._room:
                self._room -= len(found)
                self._kept[i] = found
        return found

    def inside(self, fact: Ranked) -> Mask:
        """The classes that a fact is about."""
        mask = unpack(fact.bits, 64 * len(fact.bits))
        return mask[: len(self.whence)] if self.plain else mask[self.whence]

    def reaching(self, fact: Ranked, inside: Mask) -> Mask:
        """Those who can be at least lo."""
        return inside & (self.high >= fact.lo)

    def below(self, fact: Ranked, inside: Mask) -> Mask:
        """Those who can be at most hi."""
        return inside & (self.low <= fact.hi)

    def _least(self, i: int, fact: Ranked, inside: Codes) -> bool | Clash:
        """At least n - k + 1 of them are at least lo."""
        if fact.lo == 0:
            return False
        able = self.high[inside] >= fact.lo
        can = inside[able]
        found, needed = int(self.sizes[can].sum()), fact.n - fact.k + 1
        if found > needed:
            return False
        others = self._reasons(self.high_by[inside[~able]])
        return Clash(i, others) if found < needed else self._raise(can, fact.lo, Narrowing(i, others))

    def _most(self, i: int, fact: Ranked, inside: Codes) -> bool | Clash:
        """At least j of them are at most hi."""
        able = self.low[inside] <= fact.hi
        can = inside[able]
        found, needed = int(self.sizes[can].sum()), fact.j
        if found > needed:
            return False
        others = self._reasons(self.low_by[inside[~able]])
        return Clash(i, others) if found < needed else self._lower(can, fact.hi, Narrowing(i, others))

    def _one(self, i: int, fact: Ranked, inside: Codes) -> bool | Clash:
        """One of them is what is shown: somebody is from lo to hi."""
        if fact.j != fact.k or fact.k in (1, fact.n):
            return False  # of the least and the greatest the other two say it
        above, below = self.high[inside] < fact.lo, self.low[inside] > fact.hi
        can = inside[~above & ~below]
        found = int(self.sizes[can].sum())
        if found > 1:
            return False
        others = self._reasons(self.high_by[inside[above]]) | self._reasons(self.low_by[inside[below]])
        if not found:
            return Clash(i, others)
        why = Narrowing(i, others)
        raised = self._raise(can, fact.lo, why)
        if isinstance(raised, Clash):
            return raised
        lowered = self._lower(can, fact.hi, why)
        return lowered if isinstance(lowered, Clash) else raised or lowered

    def _raise(self, classes: Codes, code: int, why: Narrowing) -> bool | Clash:
        hit = classes[self.low[classes] < code]
        if not len(hit):
            return False
        self.low[hit], self.low_by[hit] = code, len(self.made)
        return self._narrowed(hit, why)

    def _lower(self, classes: Codes, code: int, why: Narrowing) -> bool | Clash:
        hit = classes[self.high[classes] > code]
        if not len(hit):
            return False
        self.high[hit], self.high_by[hit] = code, len(self.made)
        return self._narrowed(hit, why)

    def _narrowed(self, hit: NDArray[np.int64], why: Narrowing) -> bool | Clash:
        self.made.append(why)
        empty = hit[self.low[hit] > self.high[hit]]
        if len(empty):
            return Clash(why.fact, self._reasons(np.array([self.low_by[empty[0]], self.high_by[empty[0]]])))
        return True

    @staticmethod
    def _reasons(by: Codes) -> frozenset[int]:
        return frozenset(int(e) for e in np.unique(by) if e >= 0)

    def behind(self, narrowings: Iterable[int]) -> tuple[int, ...]:
        """The facts that these narrowings rest on, all the way down, in order."""
        seen: set[int] = set()
        open_ = [e for e in narrowings if e >= 0]
        while open_:
            at = open_.pop()
            if at not in seen:
                seen.add(at)
                open_.extend(self.made[at].after)
        return tuple(sorted({self.made[e].fact for e in seen}))
