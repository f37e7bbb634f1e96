"""MAX before it is answered: could any answer that is still possible tell somebody's value?

mu_j is the least answer of the queries that contain j, E_k are those of query k who can have its answer a_k. A new
answer a over q is possible iff V0 <= a <= the largest mu in q, where V0 = max{a_k : nobody of E_k is outside q}: below
it nobody were left for that answer. Such an a takes q out of every E_k with a_k > a, and those who can have a are those
of q with mu >= a. So somebody may be told iff

    some E_k keeps one record outside q, and a_k > V0;  or the largest mu in q is held by one record.

With insiders = 1 "one" is "at most two": one of them may know that he is not it. With a declared least value lo an
answer of lo tells everybody in q, and is possible iff V0 is not above it. Nothing here depends on the answer to come:
the rule is simulatable. Equal to trying all 2 l + 1 candidates between and beside the answers so far, and the declared
ends. MIN is MAX of the negative values. People of whom a MIN was answered are not asked for a MAX, nor the other way:
with ties allowed it is hard to say which answers are still possible then. Cost of a decision: O(answered x n / 64) at
worst; the count of an E_k stops as soon as enough are left. References: [kenthapadi2005], [nabar2008].
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import Words, pack, unpack

BLOCKS = (64, 512, 1 << 40)  # words that are counted before it is looked whether enough are left


@dataclass(slots=True, eq=False)
class Extremes:
    """The MAX queries that were answered of one column: bit rows E_k with their answers, and mu of each record.

    `low` and `high` are declared ends; `insiders` as in `OnlineAuditor`.

    >>> from keyhole.basis.bits import pack
    >>> asked = Extremes(5)
    >>> def of(*people): return pack(np.isin(np.arange(5), people))
    >>> asked.tells(of(0, 1, 2)), asked.commit(of(0, 1, 2), Fraction(9))
    (False, True)
    >>> [asked.tells(of(*q)) for q in ([0, 1], [3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3], [0], [2, 3, 4])]
    [True, False, False, True, True, False]
    """

    n: int
    low: Fraction | None = None
    high: Fraction | None = None
    insiders: int = 0
    answers: list[Fraction] = field(default_factory=list)
    values: list[Fraction] = field(init=False)  # the different answers (and the greatest value), sorted
    mu: NDArray[np.int32] = field(init=False)  # place of mu in `values`, len(values) where there is none
    asked: Words = field(init=False)  # the people whom some answer was about
    _stack: NDArray[np.uint64] = field(init=False)

    def __post_init__(self) -> None:
        self.mu = np.zeros(self.n, dtype=np.int32)
        self.values = [] if self.high is None else [self.high]
        self.asked = pack(np.zeros(self.n, dtype=np.bool_))
        self._stack = np.zeros((0, (self.n + 63) // 64), dtype=np.uint64)

    def tells(self, q: Words) -> bool:
        """Could an answer to MAX over q tell somebody's value (or, with an insider, somebody's to him)?"""
        inside = unpack(q, self.n)
        if not inside.any():
            return False
        left = self._left(q)
        gone = [a for a, count in zip(self.answers, left, strict=True) if count == 0]
        sure = max(gone, default=None)  # V0
        if self.low is not None and (sure is None or sure <= self.low):
            return True
        few = 1 + self.insiders
        if any(0 < count <= few and (sure is None or a > sure) for a, count in zip(self.answers, left, strict=True)):
            return True
        mu = self.mu[inside]
        return int((mu == mu.max()).sum()) <= few

    def commit(self, q: Words, answer: Fraction) -> bool:
        """Take an answer in; False if it cannot be true, and then nothing changes."""
        inside = unpack(q, self.n)
        if not inside.any() or not self._possible(q, inside, answer):
            return False
        place = bisect_left(self.values, answer)
        if place == len(self.values) or self.values[place] != answer:
            insort(self.values, answer)
            self.mu[self.mu >= place] += 1
        lower = inside & (self.mu > place)
        self.mu[lower] = place
        for row, a in zip(self._stack, self.answers, strict=True):
            if a > answer:
                row &= ~q
        mine = pack(inside & (self.mu == place))
        self._stack = np.vstack([self._stack, mine[None, :]])
        self.answers.append(answer)
        self.asked = self.asked | q
        return True

    def _possible(self, q: Words, inside: NDArray[np.bool_], answer: Fraction) -> bool:
        if (self.low is not None and answer < self.low) or (self.high is not None and answer > self.high):
            return False
        largest = int(self.mu[inside].max())
        if largest < len(self.values) and self.values[largest] < answer:
            return False
        return not any(count == 0 and a > answer for a, count in zip(self.answers, self._left(q), strict=True))

    def _left(self, q: Words) -> list[int]:
        """|E_k without q| for each answer so far, counted up to one more than matters."""
        enough = 2 + self.insiders
        total = np.zeros(len(self.answers), dtype=np.int64)
        active, start = np.arange(len(self.answers)), 0
        outside = ~q
        for width in BLOCKS:
            end = min(start + width, self._stack.shape[1])
            if start >= end or not len(active):
                break
            block = self._stack[:, start:end] if len(active) == len(total) else self._stack[active, start:end]
            total[active] += np.bitwise_count(block & outside[start:end]).sum(axis=1, dtype=np.int64)
            active, start = active[total[active] < enough], end
        return [int(count) for count in np.minimum(total, enough)]
