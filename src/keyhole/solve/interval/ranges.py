"""The proved range of every record over all possible tables, and how much of it is reached by a table.

    propagate            rows one by one; with remainder rows where a part is large          (outer ends, with weights)
    walk                 small parts: the exact simplex to each end that no table reached    (ends, weights, tables)
    move                 large parts: who can move away from the true table                  (a second table exists)
    see                  what every table found gives each record                            (inner ends)
    witness              large parts: ends reached in floating point                         (near ends)

The last but one and the last speak of real numbers, and of grids where the part is totally unimodular: then whatever
end real tables have, tables on the grid have (`unimodular`).

An outer end holds whatever happens: it is re-evaluated from its weights alone. An inner end is a table checked in exact
arithmetic: inside all rows and bounds, on the grid of its column; where the ends of a row are not possible answers
themselves (`strict`: a threshold, a rounded number), inside these by more than the edge that the row says, the dust of
floating point. A table on such an end counts as far as it is mixed with another one that lies inside. A near end is
reached to 1e-6 of the width by a table in floating point, or by a mixture: it makes a range tight, and nothing else.
Stopped early, what was proved stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from time import monotonic
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.model.grid import Grid
from keyhole.solve.interval.interior import movable
from keyhole.solve.interval.polytope import End, Ints, Polytope, Side, Weights, room
from keyhole.solve.interval.problem import RangeProblem, Table, TimeIsUp
from keyhole.solve.interval.propagate import Propagation
from keyhole.solve.interval.remainder import with_remainders
from keyhole.solve.interval.simplex import Simplex

SMALL_CELLS = 30_000  # rows x columns of a part up to which every end is walked to
TINY_CELLS = 1_000  # and up to which walks alone say who can move
NEAR = Fraction(1, 10**6)  # of the way to a table inside: as good as reached
SIDES: tuple[Side, Side] = ("lo", "hi")
LIMIT = "the time limit was reached"
INTERRUPTED = "it was interrupted"

Progress: TypeAlias = Callable[[str, int, int], None]


NO_WEIGHTS: Mapping[Side, Weights] = MappingProxyType({"lo": {}, "hi": {}})  # shared by all that nothing narrowed


@dataclass(slots=True)
class ValueRange:
    """What is proved of each record of a column: [lo, hi] by weights on rows; {} where it was known beforehand.

    `inner` is what tables give: None if no table was seen, else ends that they reach (None: they have no end). `moves`:
    a second table is known to exist, without its ends.
    """

    lo: End
    hi: End
    weights: Mapping[Side, Weights] = field(default_factory=lambda: NO_WEIGHTS)
    inner: tuple[End, End] | None = None
    moves: bool = False
    near: tuple[bool, bool] = (False, False)  # ends reached by a table in floating point; of no use but for `tight`

    @property
    def tight(self) -> bool:
        """Are both ends reached?"""
        return self.reached(0) and self.reached(1)

    def reached(self, side: int) -> bool:
        """Is the lower (0) or upper (1) end reached, by a table or to 1e-6 of the width by one in floating point?"""
        return self.near[side] or (self.inner is not None and self.inner[side] == (self.lo, self.hi)[side])

    def see(self, ends: tuple[End, End]) -> None:
        """Note that tables give values up to these ends."""
        self.inner = _hull(self.inner, ends)

    def wider(self, width: Fraction) -> bool:
        """Do two tables give values more than `width` apart?"""
        if self.moves and not width:
            return True
        if self.inner is None:
            return False
        low, high = self.inner
        return low is None or high is None or high - low > width


@dataclass(slots=True)
class Ranges:
    """`of[k]` for each column; weights that refute the whole (`refuted`); why it was not finished (`stopped`)."""

    of: list[ValueRange]
    refuted: list[Weights] = field(default_factory=list)
    stopped: str = ""
    large: list[tuple[list[int], list[int]]] = field(default_factory=list)  # parts that were not walked


def ranges(
    question: RangeProblem,
    seconds: float | None = None,
    small: int = SMALL_CELLS,
    progress: Progress | None = None,
) -> Ranges:
    """All ranges. Cost: propagation over all rows; for each small part up to two walks a column; then projections.

    >>> P = Polytope.of([({0: 1, 1: 1}, Fraction(11), Fraction(11))], [(Fraction(3), Fraction(5)), (None, None)])
    >>> found = ranges(RangeProblem(P, [Grid(None)] * 2))
    >>> [(str(r.lo), str(r.hi), r.tight) for r in found.of]
    [('3', '5', True), ('6', '8', True)]
    """
    P = question.polytope
    end = None if seconds is None else monotonic() + seconds
    found = Ranges([ValueRange(*P.records[k]) for k in range(P.K)])
    parts = P.parts()
    found.large = [part for part in parts if len(part[0]) * len(part[1]) > small]
    try:
        narrowed = _propagated(question, found)
        if found.refuted:
            return found
        waiting = []
        wrong = set[int](), set[int]()
        if question.truth is not None:
            wrong = P.broken(question.truth)
        for rows, columns in parts:
            part = _Part(question, found, rows, columns)
            known = question.truth is not None and wrong[0].isdisjoint(rows) and wrong[1].isdisjoint(columns)
            if known and question.truth is not None:
                part.start = {k: question.truth[k] for k in columns}
                part.see(part.start)
            cells = len(rows) * len(columns)
            if known and cells > min(small, TINY_CELLS) and not question.more:
                found.stopped = found.stopped or part.move(end)
            if cells <= small and not found.stopped:
                found.stopped = part.walk(end, progress)
            part.settle()
            if cells > small and part.between and not question.more and (part.real or part.whole):
                waiting.append(part)
        for part in waiting:
            part.project(narrowed, end, progress)
    except KeyboardInterrupt:
        found.stopped = INTERRUPTED
    return found


def _propagated(question: RangeProblem, found: Ranges) -> Propagation:
    P = question.polytope
    plus = with_remainders(P, question.tables if found.large else ())
    narrowed = Propagation(plus.polytope)
    if narrowed.clash is not None:
        found.refuted.append(plus.given(narrowed.clash))
        return narrowed
    for k, side in narrowed.moved:
        _take(P, found.of[k], k, side, plus.given(narrowed.weights(k, side)))
    return narrowed


def _take(P: Polytope, known: ValueRange, k: int, side: Side, weights: Weights) -> None:
    """Take an end over if its weights prove more than is known."""
    end = P.bound(weights, k, side)
    if end is None:
        return
    if side == "hi" and (known.hi is None or end < known.hi):
        known.hi, known.weights = end, {**known.weights, "hi": weights}
    elif side == "lo" and (known.lo is None or end > known.lo):
        known.lo, known.weights = end, {**known.weights, "lo": weights}


class _Part:
    """One connected part: walks, and the tables that were seen."""

    def __init__(self, question: RangeProblem, found: Ranges, rows: list[int], columns: list[int]) -> None:
        self.question, self.found, self.rows, self.columns = question, found, rows, columns
        self.held = {k: on_ends(question.grids[k], question.polytope.records[k]) for k in columns}
        self.real = all(question.grids[k].step is None for k in columns)
        self.strict = [i for i in rows if i in question.strict]
        self._whole: bool | None = None
        self.between = not self.strict  # is there a table strictly inside all strict rows?
        self.middle: tuple[Fraction, Table] = (Fraction(1), {})  # the one that is clearest of their ends
        self.waiting: dict[int, tuple[End, End]] = {}  # seen on the edge of a strict row
        self.edges: dict[int, Fraction] = {}  # how far inside these must be moved
        self.sum: list[Fraction] = [Fraction(0)] * len(columns)
        self.tables = 0
        self.loose = list(columns)  # columns with an end that no table has reached
        self.start: dict[int, Fraction] | None = None  # a table that is possible

    @property
    def whole(self) -> bool:
        """Of grids: do linear programs say what tables on them can do?"""
        if self._whole is None:
            P, grids = self.question.polytope, self.question.grids
            self._whole = not self.strict and whole_vertices(P, self.rows, self.columns, grids)
        return self._whole

    def walk(self, end: float | None, progress: Progress | None = None) -> str:
        """To every end that no table has reached yet; why it stopped early, if it did."""
        try:
            self._walk(end, progress)
        except TimeIsUp:
            return LIMIT
        return ""

    def _walk(self, end: float | None, progress: Progress | None) -> None:
        done, of = 0, 2 * len(self.columns)

        def tick() -> None:
            if end is not None and monotonic() > end:
                raise TimeIsUp
            if progress is not None:
                progress("ends of ranges", done, of)

        P = self.question.polytope
        simplex = Simplex(P, self.rows, self.columns, tick, self.start)
        refuted = simplex.infeasible()
        if refuted is not None:
            self.found.refuted.append(refuted)
            return
        for n, k in enumerate(self.columns):
            for at, side in enumerate(SIDES):
                done = 2 * n + at
                if self._reached(k, side):
                    continue
                ends = simplex.reach(k, side)
                if ends:
                    _take(P, self.found.of[k], k, side, simplex.weights(k))
                if not self.question.more:
                    wanted = self.columns if self.strict or not self.real else self.loose
                    self.see({j: simplex.value(j) for j in wanted}, None if ends else (k, side))

    def move(self, end: float | None) -> str:
        """Who has a second value near the true table; why it stopped early, if it did."""
        truth = self.question.truth
        if truth is None or self.start is None or self._clears(truth) == 1:
            return ""
        if not self.real and not (self.whole and self._on_grids(self.start)):
            return ""

        half = None if end is None else (monotonic() + end) / 2  # the other half is for ends

        def late() -> bool:
            return half is not None and monotonic() > half

        P, equations = self.question.polytope, self.question.equations
        moves, finished = movable(P, truth, self.rows, self.columns, equations, late)
        for k in moves:
            self.found.of[k].moves = True
        return "" if finished else LIMIT

    def project(self, narrowed: Propagation, end: float | None, progress: Progress | None) -> None:
        """Which ends are reached in floating point."""
        from keyhole.solve.interval.witness import near_ends

        P = self.question.polytope

        def tell(done: int, of: int) -> None:
            if progress is not None:
                progress("ends reached", done, of)

        ends = {k: (self.found.of[k].lo, self.found.of[k].hi) for k in self.columns}
        left = [[not self.found.of[k].reached(side) for side in (0, 1)] for k in self.columns]
        for k, near in near_ends(P, narrowed, self.rows, ends, left, self.start, end, tell):
            if self.real or self._sharp(k):
                self.found.of[k].near = near

    def _sharp(self, k: int) -> bool:
        """Is what floats leave of a range less than a step?"""
        known, step = self.found.of[k], self.question.grids[k].step
        if known.lo is None or known.hi is None or step is None:
            return False
        return known.hi - known.lo < 10**5 * step

    def _reached(self, k: int, side: Side) -> bool:
        known = self.found.of[k]
        waits = self.between and k in self.waiting
        inner = _hull(known.inner, self.waiting[k]) if waits else known.inner
        at = 0 if side == "lo" else 1
        return inner is not None and inner[at] == (known.lo, known.hi)[at]

    def see(self, table: Mapping[int, Fraction], endless: tuple[int, Side] | None = None) -> None:
        """Note what a table gives to every record; `endless`: from it one column can go on without end."""
        if self.question.more or not self._on_grids(table):
            return
        P, strictly = self.question.polytope, self._clear(table)
        if not strictly and not self.real:
            return
        if self.strict and self.real and not self.between:
            self.tables += 1
            self.sum = [s + table[k] for s, k in zip(self.sum, self.columns, strict=True)]
        self.between |= strictly
        self.loose = [k for k in self.loose if not self.found.of[k].tight]
        for k in self.loose:
            known = self.found.of[k]
            low, high = room(self.held[k], P.sizes[k], table[k])
            if endless is not None and endless[0] == k:
                low, high = (None, high) if endless[1] == "lo" else (low, None)
            if strictly:
                known.see((low, high))
            else:
                self.waiting[k] = _hull(self.waiting.get(k), (low, high))
        if not strictly:
            self.edges = {i: max(self.edges.get(i, Fraction(0)), self.question.edge(i, table)) for i in self.strict}

    def settle(self) -> None:
        """Tables on the edge of strict rows count if some table lies inside: try the mean of all of them."""
        if self.tables and not self.between:
            mean = {k: s / self.tables for s, k in zip(self.sum, self.columns, strict=True)}
            self.between = self._clear(mean)
        middle = self.middle[1]
        clears = (self.question.clears(i, middle, edge) for i, edge in self.edges.items() if middle)
        share = max(clears, default=Fraction(1))
        if self.between and share < 1:
            for k, seen in self.waiting.items():
                self._mix(k, seen, middle, share)

    def _mix(self, k: int, seen: tuple[End, End], middle: Table, share: Fraction) -> None:
        """Tables on the edge, moved towards the one inside until they are as far inside as they must be."""
        known = self.found.of[k]
        mine = room(self.held[k], self.question.polytope.sizes[k], middle[k])
        low, high = (
            None if one is None or two is None else one + share * (two - one)
            for one, two in zip(seen, mine, strict=True)
        )
        known.see((low, high))
        if share <= NEAR:
            known.near = known.near[0] or seen[0] == known.lo, known.near[1] or seen[1] == known.hi

    def _clear(self, table: Table) -> bool:
        """Is a table inside all strict rows? The clearest is kept."""
        share = self._clears(table)
        if share < self.middle[0]:
            self.middle = share, table
        return share < 1

    def _clears(self, table: Table | Sequence[Fraction]) -> Fraction:
        return max((self.question.clears(i, table) for i in self.strict), default=Fraction(0))

    def _on_grids(self, table: Mapping[int, Fraction]) -> bool:
        if self.real:
            return True
        sizes, grids = self.question.polytope.sizes, self.question.grids
        return all(on_grid(grids[k], table[k], sizes[k]) for k in self.columns)


def on_grid(grid: Grid, total: Fraction, size: int) -> bool:
    """Can records of a grid add up to a total, ends aside?"""
    return grid.step is None or ((total - size * grid.base) / grid.step).denominator == 1


def on_ends(grid: Grid, record: tuple[End, End]) -> tuple[End, End]:
    """The ends of a record, moved inwards to the numbers that its column has."""
    return record if grid.step is None else grid.between(*record) or record


def _hull(known: tuple[End, End] | None, more: tuple[End, End]) -> tuple[End, End]:
    if known is None:
        return more
    low = None if known[0] is None or more[0] is None else min(known[0], more[0])
    high = None if known[1] is None or more[1] is None else max(known[1], more[1])
    return low, high


# --- unimodular -------------------------------------------------------------------------------------------------------
# Totally unimodular systems: every vertex of their polytope is whole, so linear programs say what integers can do.
# Two sufficient tests of a matrix of zeros and ones, both exact:
# families the rows split into two laminar families (two rows of one family are disjoint or nested): GROUP BYs,
# hierarchies, two-way margins. Rows that cross must lie in different families, so it is asked whether the graph of
# crossing rows is bipartite [edmonds1970] intervals the columns have an order in which every row is consecutive: sums
# over ranges of one public column. The order is proposed by the Fiedler vector of A'A, in floating point, and checked
# [atkins1998]
# **Guarantee** (Hoffman and Kruskal): if the test holds and bounds and right-hand sides are whole, the least and the
# greatest value of every column over the reals are reached by whole tables. A test that fails says nothing. Cost: the
# products of pairs of rows, m^2; for the order an eigenvector of K columns.


MOST_CELLS = 40_000_000  # rows times columns that are looked at, and the square of rows
MOST_ORDERED = 600  # columns of which an order is sought


def unimodular(rows: Sequence[Sequence[int]], K: int) -> bool:
    """Is a matrix of zeros and ones, by the columns of each row, shown to be totally unimodular?

    >>> unimodular([[0, 1, 2, 3], [0, 1], [2, 3], [0, 2], [1, 3]], 4)  # a total and two GROUP BYs
    True
    >>> unimodular([[0, 1], [1, 2], [2, 3], [0, 1, 2]], 4)  # ranges
    True
    >>> unimodular([[0, 1], [1, 2], [0, 2]], 3)
    False
    """
    if len(rows) * max(len(rows), K) > MOST_CELLS:
        return False
    A = np.zeros((len(rows), K), dtype=np.float32)  # sums of ones up to 2^24 are exact
    for i, columns in enumerate(rows):
        A[i, list(columns)] = 1.0
    return _two_families(A) or _consecutive(A)


def _two_families(A: NDArray[np.float32]) -> bool:
    """Is the graph of crossing rows bipartite?"""
    both, sizes = A @ A.T, A.sum(axis=1)
    crosses = (both > 0) & (both < np.minimum.outer(sizes, sizes))
    side = np.full(len(A), -1, dtype=np.int8)
    for first in range(len(A)):
        if side[first] >= 0:
            continue
        side[first], waiting = 0, [first]
        while waiting:
            i = waiting.pop()
            others = np.flatnonzero(crosses[i])
            if (side[others] == side[i]).any():
                return False
            fresh = others[side[others] < 0]
            side[fresh] = 1 - side[i]
            waiting += fresh.tolist()
    return True


def _consecutive(A: NDArray[np.float32]) -> bool:
    """Is there an order of the columns, found in floats and checked, in which every row is consecutive?"""
    if A.shape[1] > MOST_ORDERED:
        return False
    near = (A.T @ A).astype(np.float64)
    laplacian = np.diag(near.sum(axis=1)) - near
    order = np.argsort(np.linalg.eigh(laplacian)[1][:, min(1, len(near) - 1)], kind="stable")
    steps = np.abs(np.diff(A[:, order], axis=1, prepend=0.0, append=0.0))
    return bool((steps.sum(axis=1) <= 2).all())


def whole_vertices(P: Polytope, rows: Sequence[int], columns: Sequence[int], grids: Sequence[Grid]) -> bool:
    """Is every vertex of a part on the grids of its columns? They must share a step, which all ends must meet.

    >>> one, grid = Fraction(1), Grid(Fraction(1))
    >>> P = Polytope.of([({0: 1, 1: 1}, one, one), ({1: 1, 2: 1}, one, one)], [(Fraction(0), one)] * 3)
    >>> whole_vertices(P, [0, 1], [0, 1, 2], [grid] * 3), whole_vertices(P, [0, 1], [0, 1, 2], [Grid(2 * one)] * 3)
    (True, False)
    """
    step = grids[columns[0]].step
    if step is None or any(grids[k].step != step for k in columns):
        return False
    base = {k: P.sizes[k] * grids[k].base for k in columns}
    if not all(_meets(P.total(k), base[k], P.sizes[k] * step) for k in columns):
        return False
    listed = []
    for i in rows:
        at: Ints = P.columns[P.start[i] : P.start[i + 1]]
        if not bool((P.entries[P.start[i] : P.start[i + 1]] == 1).all()):
            return False
        if not _meets(P.rows[i], sum((base[k] for k in at.tolist()), Fraction(0)), step):
            return False
        listed.append(at)
    place: Mapping[int, int] = {k: j for j, k in enumerate(columns)}
    return unimodular([[place[k] for k in at.tolist()] for at in listed], len(columns))


def _meets(ends: tuple[End, End], base: Fraction, step: Fraction) -> bool:
    return all(end is None or ((end - base) / step).denominator == 1 for end in ends)
