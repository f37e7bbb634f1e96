"""Whom a set of cells gives away: by chains first, the rest by the row space. With weights, or a second table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush

import numpy as np

from keyhole.attacks.plan.cells import TableCells
from keyhole.attacks.plan.chain import Chain, Cost, chain
from keyhole.solve.rowspace.sparse import SparseRowSpace

CellWeights = dict[int, Fraction]


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
        found = chain(cells, cost, stop)
        P = cells.profiles
        open_ = np.flatnonzero((found.via < 0) & (P.unknowns > 0))
        rows: dict[tuple[int, ...], int] = {}
        for j in range(len(cells.sets)):
            inside = cells.cell[j, open_]
            order = np.argsort(inside, kind="stable")
            for group in np.split(open_[order], np.flatnonzero(np.diff(inside[order])) + 1) if len(open_) else ():
                key = tuple(group.tolist())
                c = int(cells.cell[j, key[0]])
                if (key not in rows or cost(rows[key]) > cost(c)) and cost(c):
                    rows[key] = c
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
