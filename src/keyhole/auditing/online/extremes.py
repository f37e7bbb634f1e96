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
worst; mostly a look at some of each E_k is enough. References: [kenthapadi2005], [nabar2008].
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import Words, pack, unpack

SOME = 16  # members of each E_k that are looked at before it is counted


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
    _rows: NDArray[np.uint64] = field(init=False)  # E_k
    _some: NDArray[np.int64] = field(init=False)  # some of E_k, n where there are fewer

    def __post_init__(self) -> None:
        self.mu = np.zeros(self.n, dtype=np.int32)
        self.values = [] if self.high is None else [self.high]
        self.asked = pack(np.zeros(self.n, dtype=np.bool_))
        self._rows = np.zeros((0, (self.n + 63) // 64), dtype=np.uint64)
        self._some = np.zeros((0, SOME), dtype=np.int64)

    def tells(self, q: Words) -> bool:
        """Could an answer to MAX over q tell somebody's value (or, with an insider, somebody's to him)?"""
        inside = unpack(q, self.n)
        if not inside.any():
            return False
        left = self._left(q, inside)
        sure = max((self.answers[k] for k in np.flatnonzero(left == 0)), default=None)  # V0
        if self.low is not None and (sure is None or sure <= self.low):
            return True
        few = 1 + self.insiders
        if any(sure is None or self.answers[k] > sure for k in np.flatnonzero((left > 0) & (left <= few))):
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
        self.mu[inside & (self.mu > place)] = place
        padded = np.append(inside, False)  # at n: nobody
        for k, a in enumerate(self.answers):
            if a > answer:
                self._rows[k] &= ~q
                if padded[self._some[k]].any():
                    self._some[k] = _spread(unpack(self._rows[k], self.n))
        mine = inside & (self.mu == place)
        self._rows = np.vstack([self._rows, pack(mine)[None, :]])
        self._some = np.vstack([self._some, _spread(mine)[None, :]])
        self.answers.append(answer)
        self.asked = self.asked | q
        return True

    def _possible(self, q: Words, inside: NDArray[np.bool_], answer: Fraction) -> bool:
        if (self.low is not None and answer < self.low) or (self.high is not None and answer > self.high):
            return False
        largest = int(self.mu[inside].max())
        if largest < len(self.values) and self.values[largest] < answer:
            return False
        return not any(self.answers[k] > answer for k in np.flatnonzero(self._left(q, inside) == 0))

    def _left(self, q: Words, inside: NDArray[np.bool_]) -> NDArray[np.int64]:
        """|E_k without q| for each answer so far, counted up to one more than matters.

        Some of each E_k are looked at first: mostly enough of them are outside q.
        """
        enough = 2 + self.insiders
        outside = np.append(~inside, False)  # at n: nobody
        total = outside[self._some].sum(axis=1, dtype=np.int64)
        rest = np.flatnonzero(total < enough)
        if len(rest):
            total[rest] = np.bitwise_count(self._rows[rest] & ~q).sum(axis=1, dtype=np.int64)
        found: NDArray[np.int64] = np.minimum(total, enough)
        return found


def _spread(members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Some members, far apart; filled up with n, which is nobody."""
    found = np.flatnonzero(members)
    if len(found) > SOME:
        return found[np.linspace(0, len(found) - 1, SOME).astype(np.int64)]
    return np.append(found, np.full(SOME - len(found), len(members)))
