"""Who follows from whom: a cell whose other members are all known gives the last one.

Cheapest first. The cost of a profile by a cell is the questions that give the cell, plus the costs of the others in it;
such costs only grow, so Knuth's generalisation of Dijkstra's algorithm finds the least for everybody in one sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from keyhole.attacks.plan.cells import TableCells
from keyhole.attacks.plan.profiles import Ints

Cost = Callable[[int], int]  # of a cell: how many questions give it; 0: none do


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


def chain(cells: TableCells, cost: Cost, stop: Callable[[], bool]) -> Chain:
    """Everybody who follows, at the least cost. One look-up for each profile and table.

    >>> from keyhole.attacks.plan.profiles import Profiles
    >>> from keyhole.attacks.plan.question import CodedColumn
    >>> a, b = (CodedColumn(name, (0, 1), False) for name in "ab")
    >>> three = Profiles.of_codes((a, b), np.array([[0, 0, 1], [0, 1, 1]]), np.ones(3, bool))
    >>> found = chain(TableCells.of(three, 1), lambda _cell: 2, lambda: False)
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
