"""Whom a set of cells gives away: by chains first, the rest by the row space. With weights, or a second table.

A cell whose other members are all known gives the last one. Cheapest first: the cost of a profile by a cell is the
questions that give the cell, plus the costs of the others in it; such costs only grow, so Knuth's generalisation of
Dijkstra's algorithm finds the least for everybody in one sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush

import numpy as np

from keyhole.attacks.plan.cells import TableCells
from keyhole.attacks.plan.profiles import Ints
from keyhole.solve.rowspace.sparse import SparseRowSpace

Cost = Callable[[int], int]  # of a cell: how many questions give it; 0: none do
CellWeights = dict[int, Fraction]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """`via[p]` is the cell that gives profile p (-1: it does not follow), `order[p]` when, `cost[p]` the questions.

    A question that serves twice is counted twice in `cost`; 1 and 2 are exact. Reference: knuth1977.
    """

    via: Ints
    order: Ints
    cost: Ints

    @property
    def known(self) -> Ints:
        """The profiles that follow."""
        return np.flatnonzero(self.via >= 0)


def follow_chains(cells: TableCells, cost: Cost, stop: Callable[[], bool]) -> Chain:
    """Everybody who follows, at the least cost. One look-up for each profile and table.

    >>> from keyhole.attacks.plan.profiles import Profiles
    >>> from keyhole.attacks.plan.question import CodedColumn
    >>> a, b = (CodedColumn(name, (0, 1), False) for name in "ab")
    >>> three = Profiles.of_codes((a, b), np.array([[0, 0, 1], [0, 1, 1]]), np.ones(3, bool))
    >>> found = follow_chains(TableCells.of(three, 1), lambda _cell: 2, lambda: False)
    >>> found.cost.tolist()
    [2, 4, 2]
    """
    P = cells.profiles.count
    valued = np.flatnonzero(cells.profiles.unknowns > 0)
    left = np.bincount(cells.cell[:, valued].ravel(), minlength=cells.count)
    rest = np.bincount(
        cells.cell[:, valued].ravel(), weights=np.tile(valued, len(cells.sets)), minlength=cells.count
    ).astype(np.int64)  # the sum of the open profiles of a cell: the last one, once it is alone
    spent = np.zeros(cells.count)
    via, order = np.full(P, -1, dtype=np.int64), np.full(P, -1, dtype=np.int64)
    total, best = np.zeros(P, dtype=np.int64), np.full(P, np.inf)
    waiting: list[tuple[float, int, int]] = []

    def ready(found: Ints) -> None:
        for c in found.tolist():
            price = cost(c)
            p = int(rest[c])
            if price and via[p] < 0 and price + spent[c] < best[p]:
                best[p] = price + spent[c]
                heappush(waiting, (float(best[p]), p, c))

    ready(np.flatnonzero(left == 1))
    count = 0
    while waiting and not stop():
        price, p, c = heappop(waiting)
        if via[p] >= 0 or price > best[p]:
            continue
        via[p], order[p], total[p] = c, count, min(price, 1 << 60)
        count += 1
        touched = cells.cell[:, p]
        left[touched] -= 1
        rest[touched] -= p
        spent[touched] += price
        ready(touched[left[touched] == 1])
    return Chain(via, order, total)


def rows_over(cells: TableCells, open_: Ints, cost: Cost) -> dict[tuple[int, ...], int]:
    """The cells restricted to some profiles, each set once, with the cheapest cell that has it."""
    rows: dict[tuple[int, ...], int] = {}
    for j in range(len(cells.sets)):
        inside = cells.cell[j, open_]
        order = np.argsort(inside, kind="stable")
        for group in np.split(open_[order], np.flatnonzero(np.diff(inside[order])) + 1) if len(open_) else ():
            key = tuple(group.tolist())
            c = int(cells.cell[j, key[0]])
            if (key not in rows or cost(rows[key]) > cost(c)) and cost(c):
                rows[key] = c
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """What follows from the cells that `cost` admits: exactly the profiles whose unit vector is in their row space.

    `rows[i]` is the cell of row i of `space`, whose columns are the profiles that no chain reaches. `complete` is False
    if it was stopped: then more may follow.
    """

    cells: TableCells
    chain: Chain
    space: SparseRowSpace
    rows: tuple[int, ...]
    complete: bool

    @classmethod
    def of(cls, cells: TableCells, cost: Cost, stop: Callable[[], bool]) -> Reach:
        """Chains, then elimination over who is left."""
        found = follow_chains(cells, cost, stop)
        P = cells.profiles
        open_ = np.flatnonzero((found.via < 0) & (P.unknowns > 0))
        rows = rows_over(cells, open_, cost)
        space = SparseRowSpace(list(rows), stop)
        return cls(cells, found, space, tuple(rows.values()), space.complete and not stop())

    def weights(self, profile: int) -> CellWeights | None:
        """Weights on cells that add up to one profile's total; None: it does not follow (or was not found out)."""
        found: CellWeights = {}
        owed: dict[int, Fraction] = {profile: Fraction(1)}
        if self.chain.via[profile] < 0:
            expressed = self.space.express(profile)
            if expressed is None:
                return None
            owed = {}
            for row, weight in expressed.items():
                self._take(self.rows[row], weight, found, owed)
            owed = {p: w for p, w in owed.items() if self.chain.via[p] >= 0}
        self._settle(found, owed)
        return {c: w for c, w in found.items() if w}

    def _settle(self, found: CellWeights, owed: dict[int, Fraction]) -> None:
        """Pay what is owed of profiles that follow by a cell each, the latest first: it rests on earlier ones alone."""
        waiting = [-int(self.chain.order[p]) for p in owed]
        who = {int(self.chain.order[p]): p for p in owed}
        heapify(waiting)
        while waiting:
            p = who[-heappop(waiting)]
            weight = owed.pop(p, None)
            if not weight:
                continue
            before = set(owed)
            self._take(int(self.chain.via[p]), weight, found, owed)
            owed.pop(p, None)
            for other in owed.keys() - before:
                who[int(self.chain.order[other])] = other
                heappush(waiting, -int(self.chain.order[other]))

    def _take(self, cell: int, weight: Fraction, found: CellWeights, owed: dict[int, Fraction]) -> None:
        """Use a cell: everybody in it is owed back."""
        found[cell] = found.get(cell, Fraction(0)) + weight
        for p in self.cells.members(cell).tolist():
            owed[p] = owed.get(p, Fraction(0)) - weight

    def witness(self, profile: int) -> dict[int, int] | None:
        """Changes of profiles' totals, this one's not 0, that no admitted cell notices; None: none are known."""
        if self.chain.via[profile] >= 0 or not self.complete:
            return None
        return self.space.witness(profile)

    def generic(self) -> dict[int, int]:
        """Changes that no admitted cell notices, of everybody who can change at once (nearly surely)."""
        if not self.complete:
            return {}
        seen = {p for c in self.rows for p in self.cells.members(c).tolist()}
        open_ = np.flatnonzero((self.chain.via < 0) & (self.cells.profiles.unknowns > 0)).tolist()
        return {**self.space.generic(), **{p: 1 for p in open_ if p not in seen}}
