"""Would this query expose anybody who has several values? One column a value, persons own columns.

The values of a person are versions of one (a table that changes), or those of his records (ids that repeat). A person
whose private value was written c - 1 times has c unknowns, one a version. He is exposed iff some nonzero form on his
own columns S alone (a value, a raise, any mix) is in the row space of what was answered:

    d(S) = rank A - rank (A without S) = dim {f in rowspace A : f = 0 off S} = |S| - rank Z_S    (Z: null vectors of A)

With L random null vectors modulo p, Z_S is a block of |S| x L residues. If a form f on S is in the row space, then
f Z_S = 0, always: a person who is exposed is never missed on account of the lanes. If none is, the block is a uniformly
random matrix and has rank |S| unless chance fails: at most 2 p^-(L - |S| + 1), below 2^-59 a block where L > |S|. So
L = 1 + the largest |S| that is looked at; with fewer than |S| lanes everybody with so many versions would seem exposed.
Insiders = 1: the same for the columns of any two persons together. A form on S is a combination of the echelon rows of
pivots in S, so only persons with a pivot among their columns, and pairs with one such person, need a look.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import comb

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.rowspace.online import LANES, Decision, OnlineRowSpace
from keyhole.solve.rowspace.proportional import Proportional
from keyhole.solve.rowspace.residues import minors, ranks, reduced_by, zero_products

Ints = NDArray[np.int64]

MINORS = 70  # up to so many minors, a determinant of two blocks costs less than an elimination


class VersionSpace(OnlineRowSpace):
    """The row space of answered queries over versions; `owner[u]` is the person of column u, persons from 0.

    `exposes` and `pairs` of a decision name persons, of whom more forms become known than before. What is promised is
    what `OnlineRowSpace` promises, with p^-L for the three shadow sums. Cost of `probe` beyond it: O(r c^2 L) for
    persons with a pivot; insiders = 1: O(L) for each pair of a person with a pivot and any other of whom one has
    several versions (where both have many: as many products as their block has minors, or an elimination).

    >>> S = VersionSpace(np.array([0, 1, 2, 1]))  # the value of person 1 was written once
    >>> S.commit(S.probe({0: 1, 1: 1, 2: 1}))
    0
    >>> S.probe({0: 1, 3: 1, 2: 1}).exposes  # the same sum after it: his raise
    (1,)
    >>> S.certificate(S.probe({0: 1, 3: 1, 2: 1}), 1)
    {0: Fraction(1, 1), 1: Fraction(-1, 1)}
    >>> S.probe({0: 1, 3: 1}).safe
    True
    """

    def __init__(self, owner: Ints, *, insiders: int = 0, rng: np.random.Generator | None = None) -> None:
        self._owner = np.asarray(owner, dtype=np.int64)
        self._size = np.bincount(self._owner) if len(self._owner) else np.zeros(0, dtype=np.int64)
        if not len(self._size) or not self._size.all():
            raise ValueError("every person from 0 to the largest owner needs a column")
        super().__init__(len(self._owner), insiders=insiders, lanes=self._lanes(insiders), rng=rng)
        order = np.argsort(self._owner, kind="stable")
        start = np.cumsum(self._size) - self._size
        self._groups: dict[int, tuple[Ints, Ints]] = {}  # versions -> (persons, their columns)
        for c in np.unique(self._size).tolist():
            persons = np.flatnonzero(self._size == c)
            self._groups[c] = persons, order[start[persons][:, None] + np.arange(c)]
        self._place = np.zeros(len(self._size), dtype=np.int64)  # of a person within his group
        for persons, _ in self._groups.values():
            self._place[persons] = np.arange(len(persons))
        self._known: dict[tuple[int, ...], int] = {}  # forms known already: of a person, shared by two

    def _lanes(self, insiders: int) -> int:
        largest = np.sort(self._size)[::-1][: 1 + insiders]
        return max(LANES, int(largest.sum()) + 1)

    def columns(self, person: int) -> list[int]:
        """The versions of a person, oldest first."""
        found: list[int] = self._groups[int(self._size[person])][1][self._place[person]].tolist()
        return found

    def commit(self, decision: Decision) -> int:
        """The query was answered: take it into the history. Returns its number, from 0."""
        number = super().commit(decision)
        if decision.exposes or decision.pairs:
            self._remember(decision.exposes, decision.pairs)
        return number

    def _settle(self) -> None:
        """Forms that what was taken gave away are known from now on."""
        self._unsettled = False
        null, pivots = self._z[: self.rank], self._pivots[: self.rank]
        self._remember(self._exposed(null, pivots), self._pairs(null, pivots) if self.insiders else ())

    def _remember(self, exposed: tuple[int, ...], pairs: tuple[tuple[int, int], ...]) -> None:
        """It was said all the same: from now on only more is new."""
        null, pivots = self._z[: self.rank], self._pivots[: self.rank]
        listed = {*self._known, *((i,) for i in exposed), *((min(s), max(s)) for s in pairs)}
        alone = {i: self._forms([i], null, pivots) for pair in listed for i in pair}
        self._known = {(i,): d for i, d in alone.items()}
        for i, k in (pair for pair in listed if len(pair) == 2):
            self._known[i, k] = self._forms([i, k], null, pivots) - alone[i] - alone[k]

    def certificate(self, decision: Decision, record: int, insider: int | None = None) -> dict[int, Fraction] | None:
        """Exact weights over committed queries, and the probed one, for a form on the versions of person `record`.

        The form is 1 on one of his versions (and has any weights on the insider's). Verified in integers over all
        columns; None when there is none.
        """
        mine, his = self.columns(record), [] if insider is None else self.columns(insider)
        for version in mine:
            others = [v for v in mine if v != version]
            found = self._certified(decision, [version, *others, *his])
            if found is not None:
                return found
        return None

    def form(self, decision: Decision, weights: Mapping[int, Fraction], person: int) -> dict[int, Fraction]:
        """What weights over queries come to on the columns of a person: column -> coefficient, zeros left out."""
        place = {number: i for i, number in enumerate(self._numbers)}
        found: dict[int, Fraction] = {}
        for u in self.columns(person):
            column, asked = self._column(u), int(decision._query.at(np.array([u]))[0])
            entry = {number: asked if number == self.committed else int(column[place[number]]) for number in weights}
            found[u] = sum((weight * entry[number] for number, weight in weights.items()), Fraction(0))
        return {u: c for u, c in found.items() if c}

    def _points(self, columns: Ints, null: Ints, pivots: Ints) -> Ints:
        """The null vectors at columns: their own where there is a pivot, else the shadow itself."""
        at = self._pivot_at[columns]
        if len(pivots) > self.rank:
            at = np.where(columns == pivots[-1], self.rank, at)
        return np.where(at[..., None] >= 0, null[at], self._g[columns])

    def _forms(self, persons: list[int], null: Ints, pivots: Ints) -> int:
        """d(S) for the columns S of some persons."""
        columns = np.array([u for person in persons for u in self.columns(person)])
        return len(columns) - int(ranks(self._points(columns, null, pivots)[None], self._p)[0])

    def _exposed(self, null: Ints, pivots: Ints) -> tuple[int, ...]:
        """Persons of whom more forms become known."""
        touched = np.zeros(len(self._size), dtype=bool)
        touched[self._owner[pivots]] = True
        found: list[int] = []
        for c, (persons, columns) in self._groups.items():
            some = np.flatnonzero(touched[persons])
            if len(some):
                forms = c - ranks(self._points(columns[some], null, pivots), self._p)
                hits = np.flatnonzero(forms)
                new = ((int(persons[some[k]]), int(forms[k])) for k in hits.tolist())
                found += [i for i, d in new if d > self._known.get((i,), 0)]
        return tuple(sorted(found))

    def _pairs(self, null: Ints, pivots: Ints) -> tuple[tuple[int, int], ...]:
        """(person, insider) who come to share a form that is on neither of them alone."""
        if self._ratios is None:
            self._ratios = Proportional(self._g, self._p, self._size[self._owner] == 1)
        single = self._ratios.pairs(null, pivots)
        found = {(int(self._owner[i]), int(self._owner[k])): 1 for i, k in single}
        if len(self._groups) > 1 or 1 not in self._groups:
            found |= self._shared_forms(null, pivots)
        return tuple(sorted(s for s, x in found.items() if x > self._known.get((min(s), max(s)), 0)))

    def _shared_forms(self, null: Ints, pivots: Ints) -> dict[tuple[int, int], int]:
        """d(S_i and S_k) - d(S_i) - d(S_k) = rank Z_k - rank (Z_k modulo Z_i), where i or k has several versions.

        A form that is new uses the new row, so one of the two has the new pivot or one whose null vectors changed.
        """
        changed = np.ones(len(pivots), dtype=bool)
        if len(pivots) > self.rank:
            changed[:-1] = (null[:-1] != self._z[: self.rank]).any(axis=1)
        people = np.unique(self._owner[pivots[changed]])
        points = {c: self._points(columns, null, pivots) for c, (_, columns) in self._groups.items()}
        found: dict[tuple[int, int], int] = {}
        for i, k in self._candidates(people, points):
            a, b = (points[int(self._size[s])][self._place[s]] for s in (i, k))
            together, alone, other = (int(ranks(z[None], self._p)[0]) for z in (np.concatenate([a, b]), a, b))
            if alone + other > together:
                found[i, k] = found[k, i] = alone + other - together
        return found

    def _candidates(self, people: Ints, points: dict[int, Ints]) -> set[tuple[int, int]]:
        """Pairs of one of these people and anybody that can share a form; few of them do not."""
        found: set[tuple[int, int]] = set()
        for own in np.unique(self._size[people]).tolist():
            mine = people[self._size[people] == own]
            blocks = points[own][self._place[mine]]
            for c, each in points.items():
                if own == c and (c == 1 or len(each) == 1):
                    continue  # found by their ratios; nobody but himself
                meeting = self._singular if comb(own + c, c) <= MINORS else self._meeting
                i, k = meeting(blocks, each)
                found |= set(zip(mine[i].tolist(), self._groups[c][0][k].tolist(), strict=True))
        return {(min(pair), max(pair)) for pair in found if pair[0] != pair[1]}

    def _singular(self, blocks: Ints, others: Ints) -> tuple[Ints, Ints]:
        """(block, other) that have determinant 0 one upon the other, in as many lanes as they have rows.

        Those whose spans meet, and one in p of the rest. Laplace: the determinant is a product of their minors.
        """
        own, lanes = blocks.shape[1], blocks.shape[1] + others.shape[1]
        mine, theirs = minors(blocks, lanes, self._p), minors(others, lanes, self._p)
        left, right = [], []
        for T, minor in mine.items():
            odd = (sum(T) - own * (own - 1) // 2) % 2
            left.append((self._p - minor) % self._p if odd else minor)
            right.append(theirs[tuple(lane for lane in range(lanes) if lane not in T)])
        return zero_products(np.array(left), np.array(right), self._p)

    def _meeting(self, blocks: Ints, others: Ints) -> tuple[Ints, Ints]:
        """(block, other) whose spans have more than 0 in common."""
        full = ranks(others, self._p)
        hits = [np.flatnonzero(full - ranks(reduced_by(others, each, self._p), self._p)) for each in blocks]
        first = np.repeat(np.arange(len(blocks)), [len(hit) for hit in hits])
        return first, np.concatenate(hits)
