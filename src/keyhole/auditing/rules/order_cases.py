"""Order statistics of a few people, decided by cases: who has one value left, and who surely has two.

People whom no answer ties together are looked at apart (components). A component of few people is decided exactly
(`keyhole.solve.cases`), ties and integers included. A quantile between two values is used as what it says of each of
the two; to show somebody open both are put at the answer, so that the table found is a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.model.grid import Grid
from keyhole.solve.cases import Cases, RankCase, TooManyCases

PEOPLE = 14  # people of a component whose values are not known
MEMBERS = 400  # of all groups together: beyond, nothing is looked at

Bounds = dict[int, tuple[int, int]]  # row -> first and last cell


@dataclass(frozen=True, slots=True)
class CellOfLine:
    """A point, or all numbers between two points; `value` if one number of the column is in it."""

    lo: Fraction | None
    hi: Fraction | None
    value: Fraction | None


@dataclass(frozen=True, slots=True)
class GroupRank:
    """An order statistic of some rows: the j-th is at most hi, the k-th at least lo; one value if j = k."""

    rows: tuple[int, ...]
    j: int
    k: int
    lo: Fraction | None
    hi: Fraction | None


@dataclass(frozen=True, slots=True)
class DecidedPart:
    """What was found of one component: values that are forced, and whether everybody else has two."""

    facts: tuple[int, ...]
    rows: tuple[int, ...]
    forced: dict[int, Fraction]
    open: bool
    clash: bool = False


class CutLine:
    """The line cut at the answers, as cells in which a column has a value."""

    def __init__(self, values: Sequence[Fraction], grid: Grid) -> None:
        self.cells: list[CellOfLine] = []
        self._step = grid.step
        for i in range(len(values) + 1):
            below, above = values[i - 1] if i else None, values[i] if i < len(values) else None
            inner = grid.between(below, above, open=True)
            if inner is not None:
                sole = inner[0] if grid.step is not None and inner[0] == inner[1] else None
                self.cells.append(CellOfLine(*inner, sole))
            if above is not None and grid.between(above, above) is not None:
                self.cells.append(CellOfLine(above, above, above))

    def first(self, lo: Fraction | None) -> int:
        """The first cell that has a value of at least this; the number of cells if none has."""
        for n, cell in enumerate(self.cells):
            if lo is None or cell.hi is None or cell.hi > lo or (cell.hi == lo and not self._is_open(cell)):
                return n
        return len(self.cells)

    def last(self, hi: Fraction | None) -> int:
        """The last cell that has a value of at most this; -1 if none has."""
        for n in reversed(range(len(self.cells))):
            cell = self.cells[n]
            if hi is None or cell.lo is None or cell.lo < hi or (cell.lo == hi and not self._is_open(cell)):
                return n
        return -1

    def _is_open(self, cell: CellOfLine) -> bool:
        """Are the ends of a cell outside of it? Of a grid they are its first and last number."""
        return self._step is None and cell.lo != cell.hi


def decided(
    facts: Sequence[GroupRank], bounds: dict[int, tuple[Fraction | None, Fraction | None]], line: CutLine
) -> Iterator[DecidedPart]:
    """Each component, decided by cases; `bounds` of all rows that a fact names. Nothing where there are too many."""
    if sum(len(f.rows) for f in facts) > MEMBERS:
        yield DecidedPart((), (), {}, open=False)
        return
    cells = {row: (line.first(lo), line.last(hi)) for row, (lo, hi) in bounds.items()}
    if any(a > b for a, b in cells.values()):  # somebody has no possible value: other rules say which answers clash
        yield DecidedPart((), (), {}, open=False)
        return
    unknown = {row for row, (a, b) in cells.items() if a < b or line.cells[a].value is None}
    for part in components([set(f.rows) & unknown for f in facts]):
        mine = [facts[i] for i in part]
        rows = sorted({r for f in mine for r in f.rows} & unknown)
        found = _part(part, rows, mine, cells, line) if 0 < len(rows) <= PEOPLE else None
        yield found or DecidedPart(part, tuple(rows), {}, open=not rows)


def components(groups: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Which groups are tied by somebody who is in both, directly or through others.

    >>> components([{1, 2}, {3}, {2, 4}])
    [(0, 2), (1,)]
    """
    found: list[tuple[set[int], list[int]]] = []
    for i, group in enumerate(groups):
        tied = [each for each in found if each[0] & group]
        merged = (set(group).union(*(rows for rows, _ in tied)), sorted([i, *(n for _, at in tied for n in at)]))
        found = [each for each in found if each not in tied] + [merged]
    return sorted(tuple(at) for _, at in found)


def _part(
    part: tuple[int, ...], rows: Sequence[int], facts: Sequence[GroupRank], cells: Bounds, line: CutLine
) -> DecidedPart | None:
    everybody = sorted({r for f in facts for r in f.rows})
    low, high = [cells[r][0] for r in everybody], [cells[r][1] for r in everybody]
    at = {r: i for i, r in enumerate(everybody)}
    relaxed = Cases([_case(f, at, line) for f in facts])
    try:
        base = relaxed.table(low, high)
        if base is None:
            return DecidedPart(part, tuple(rows), {}, open=False, clash=True)
        forced: dict[int, Fraction] = {}
        for r in rows:
            value = line.cells[base[at[r]]].value
            if value is not None and _other(relaxed, low, high, at[r], base[at[r]]) is None:
                forced[r] = value
        strict = [_strict(f, at, line) for f in facts]
        people = [at[r] for r in rows if r not in forced]
        shown = all(strict) and _shown(Cases([case for each in strict for case in each]), low, high, people, line)
    except TooManyCases:
        return None
    return DecidedPart(part, tuple(rows), forced, open=shown)


def _other(cases: Cases, low: Sequence[int], high: Sequence[int], i: int, cell: int) -> list[int] | None:
    """A table in which person i is in another cell."""
    for a, b in ((low[i], cell - 1), (cell + 1, high[i])):
        if a <= b:
            found = cases.table([*low[:i], a, *low[i + 1 :]], [*high[:i], b, *high[i + 1 :]])
            if found is not None:
                return found
    return None


def _shown(cases: Cases, low: Sequence[int], high: Sequence[int], people: Sequence[int], line: CutLine) -> bool:
    """Has each of these people two values in tables that give all answers?"""
    base = cases.table(low, high)
    if base is None:
        return False
    return all(line.cells[base[i]].value is None or _other(cases, low, high, i, base[i]) is not None for i in people)


def _case(fact: GroupRank, at: dict[int, int], line: CutLine) -> RankCase:
    members = tuple(at[r] for r in fact.rows)
    return RankCase(members, fact.j, fact.k, line.first(fact.lo), line.last(fact.hi))


def _strict(fact: GroupRank, at: dict[int, int], line: CutLine) -> list[RankCase]:
    """The fact itself; of a quantile between two values that both are the answer. Empty if they cannot be."""
    case = _case(fact, at, line)
    if fact.j == fact.k:
        return [case]
    if fact.lo is None or fact.lo != fact.hi:
        return []
    return [RankCase(case.members, rank, rank, case.lo, case.hi) for rank in (fact.j, fact.k)]


def rows_of(inside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[int, ...]:
    """The rows of a mask."""
    return tuple(np.flatnonzero(inside).tolist())
