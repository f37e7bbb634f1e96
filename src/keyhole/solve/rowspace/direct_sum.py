"""Would this query expose anybody, whoever changed between the epochs? The row spaces of epochs must stay apart.

M has one column a person and the rows of all epochs; A_e are the rows of epoch e. Safe for every set of changes iff

    R1  no nonzero form on one person (insiders = 1: on two) is in the row space of M
    R2  rank M = sum of rank A_e: the row spaces of the epochs form a direct sum

(docs/how-it-works.md has the proof.) For a query q of the current epoch, after a history with R1 and R2: R2 is broken
iff q depends on M and not on its own epoch's rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace.online import Decision, OnlineRowSpace

Query = NDArray[np.uint64] | Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SumDecision:
    """What one more query of the current epoch would do; `dependent` means on its own epoch's queries alone.

    `crosses`: it depends on earlier epochs' queries (R2), so whoever knows that a single person changed would learn
    by how much.
    """

    dependent: bool
    exposes: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    crosses: bool
    _query: Query = field(repr=False)
    _merged: Decision = field(repr=False)

    @property
    def safe(self) -> bool:
        """Nobody becomes determined, whoever changed."""
        return not self.exposes and not self.pairs and not self.crosses


class DirectSum:
    """The row spaces of several epochs, one column a person; see the module for the rule.

    Two `OnlineRowSpace`s: all epochs, and the current one. A false "safe" needs bad luck in one of them. Cost of
    `probe`: that of one of them, and of the other where the query depends on the history; of `commit`: both.

    >>> S = DirectSum(4)
    >>> S.earlier({0: 1, 1: 1, 2: 1, 3: 1})  # answered in an earlier epoch
    True
    >>> S.probe({0: 1, 1: 1, 2: 1, 3: 1}).crosses  # the same question now: a raise
    True
    >>> S.commit(S.probe({0: 1, 1: 1}))
    1
    >>> S.probe({0: 1, 1: 1}).dependent, S.probe({2: 1, 3: 1}).crosses, S.probe({1: 1, 2: 1, 3: 1}).exposes
    (True, True, (0, 1))
    """

    def __init__(self, n: int, *, insiders: int = 0, rng: np.random.Generator | None = None) -> None:
        self._all = OnlineRowSpace(n, insiders=insiders, rng=rng)
        self._now = OnlineRowSpace(n, rng=rng)

    def earlier(self, query: Query) -> bool:
        """A query answered in an earlier epoch; False if it follows from those before it, and so adds nothing."""
        return self._all.take(query)

    def take(self, query: Query) -> bool:
        """A query answered in the current epoch; False if it follows from those before it in its epoch."""
        if not self._now.take(query):
            return False
        if not self._all.take(query):  # it was said although it crosses: it has its number all the same
            self._all.commit(self._all.probe(query))
        return True

    def probe(self, query: Query) -> SumDecision:
        """What answering `query` in the current epoch would reveal."""
        merged = self._all.probe(query)
        own = merged.dependent and self._now.probe(query).dependent
        return SumDecision(own, merged.exposes, merged.pairs, merged.dependent and not own, query, merged)

    def commit(self, decision: SumDecision) -> int:
        """The query of `decision` was answered. Returns its number among all epochs', from 0."""
        number = self._all.commit(decision._merged)
        self._now.take(decision._query)
        return number

    def certificate(self, decision: SumDecision, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        """Exact weights that give the record if nobody changed; see `OnlineRowSpace.certificate`."""
        return self._all.certificate(decision._merged, record, insider)
