"""Statistics as an integer system: one whole number per cell, how many rows have just these values. No slots.

count   sum of z over the group lies in [lo, hi]
sum     sum of v z lies in [lo, hi]
mean    sum of (v - lo) z >= 0 >= sum of (v - hi) z, and some z > 0; of N rows, N known, a sum in [N lo, N hi]
min     no row below lo, some row at most hi; max the same turned round
median  the lower middle value a and the upper one b, a + b in [2 lo, 2 hi]: a choice between all pairs (a, b), each
        said by how many rows are at most a value: 2 F(<a) < N <= 2 F(<=a), 2 F(<b) <= N < 2 F(<=b). Where N is known to
        be odd, a = b
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, lcm, prod

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.microdata.reconstruct import MOST_ROWS
from keyhole.attacks.microdata.statistics import Attribute, Ends, Figure, GroupFigures, Statistics
from keyhole.errors import ConfigError, DataError, QueryError
from keyhole.model.predicate import Kleene, Leaf, Opaque, Predicate, Scalar, evaluate_leaf, fold
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.solve.integers.system import NO_END, IntegerSystem, LinearRow, RowChoice, system_of_rows
from keyhole.sql import lower_statement

MOST_CELLS = 400_000
MOST_PAIRS = 20_000  # of middle values of one median
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class RowModel:
    """The system, and the rows that its columns count."""

    system: IntegerSystem
    columns: tuple[Attribute, ...]
    cells: NDArray[np.int64]  # the cell of each column of the system that is asked for
    bounding: int  # the statistic that says how many rows there are

    def row(self, column: int) -> dict[str, Scalar]:
        """The values of the rows that a column counts."""
        places = np.unravel_index(int(self.cells[column]), tuple(len(c.values) for c in self.columns))
        return {c.name: c.values[int(k)] for c, k in zip(self.columns, places, strict=True)}


def build_row_model(given: Statistics) -> RowModel:
    """The model of all statistics. Cost: cells times statistics."""
    return _ModelBuilder(given).model()


@dataclass(slots=True)
class _ModelBuilder:
    given: Statistics
    rows: list[LinearRow] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    choices: list[RowChoice] = field(default_factory=list)
    cells: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    more: int = 0  # columns that count rows up to a value

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(c.values) for c in self.given.columns)

    def model(self) -> RowModel:
        size = prod(self.shape)
        if size > MOST_CELLS:
            listed = " x ".join(f"{c.name} {len(c.values)}" for c in self.given.columns)
            widest = max(self.given.columns, key=lambda c: len(c.values)).name
            raise ConfigError(
                f"the domain has {size} cells ({listed}); at most {MOST_CELLS} are searched: narrow {widest!r} first, "
                "or leave out a column that no statistic looks at"
            )
        never = np.zeros(size, dtype=np.bool_)
        for where in self.given.impossible:
            never |= self.select(where).ravel()
        self.cells = np.flatnonzero(~never)
        top, bounding = self._most()
        for k, statistic in enumerate(self.given.statistics):
            inside = self.select(statistic.where).ravel()[self.cells]
            for figure in statistic.figures:
                self._add(k, figure, np.flatnonzero(inside), statistic)
        n = len(self.cells)
        upper = [top] * (n + self.more)
        system = system_of_rows(self.rows, [0] * len(upper), upper, self.groups, self.choices, n)
        return RowModel(system, self.given.columns, self.cells, bounding)

    def _most(self) -> tuple[int, int]:
        """How many rows there can be: the count of all rows; and the statistic that says so."""
        found = [
            (figure.ends[1], k)
            for k, statistic in enumerate(self.given.statistics)
            for figure in statistic.figures
            if not statistic.where and figure.kind == "count" and figure.ends[1] is not None
        ]
        if not found:
            raise ConfigError(
                "nothing says how many rows there are: add a [[statistics]] without where, with count = N or [lo, hi]"
            )
        most, k = min(found)
        if most > MOST_ROWS:
            raise ConfigError(f"{floor(most)} rows are too many to reconstruct; at most {MOST_ROWS}")
        return max(0, floor(most)), k

    def select(self, where: str) -> Mask:
        """Which cells satisfy a condition."""
        if not where:
            return np.ones(self.shape, dtype=np.bool_)
        schema = Schema("rows", tuple(_column(c) for c in self.given.columns))
        try:
            statement = lower_statement(f"SELECT COUNT(*) FROM rows WHERE {where}", schema)
        except QueryError as error:
            raise DataError(f"the condition {where!r} is not understood: {error}") from None
        return np.broadcast_to(self._truth(statement.where), self.shape)

    def _truth(self, where: Predicate) -> Mask:
        def leaf(each: Leaf) -> Mask:
            if isinstance(each, Opaque):
                raise DataError(f"{each.sql} compares several columns: a condition compares one column with constants")
            axis = next(k for k, c in enumerate(self.given.columns) if c.name == each.column)
            told = [evaluate_leaf(each, v) is True for v in self.given.columns[axis].values]
            shape = [1] * len(self.shape)
            shape[axis] = len(told)
            return np.array(told, dtype=np.bool_).reshape(shape)

        def constant(value: bool | None) -> Mask:
            return np.full([1] * len(self.shape), value is True)

        def every(parts: Sequence[Mask]) -> Mask:
            return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*parts)), dtype=np.bool_)

        def some(parts: Sequence[Mask]) -> Mask:
            return np.asarray(np.logical_or.reduce(np.broadcast_arrays(*parts)), dtype=np.bool_)

        return fold(where, Kleene(constant, leaf, np.logical_not, lambda found: found, every, some))

    # -- figures ------------------------------------------------------------------------------------------------------

    def _add(self, group: int, figure: Figure, inside: NDArray[np.int64], statistic: GroupFigures) -> None:
        if figure.kind == "count":
            self._row(group, inside.tolist(), [Fraction(1)] * len(inside), figure.ends)
            return
        values = self._values(figure.column, inside)
        if figure.kind != "sum":  # the others are figures of a group that is not empty
            self._row(group, inside.tolist(), [Fraction(1)] * len(inside), (Fraction(1), None))
        if figure.kind == "sum":
            self._row(group, inside.tolist(), values, figure.ends)
        elif figure.kind == "mean":
            lo, hi = figure.ends
            n = _known(statistic)
            if n is not None:
                both = (None if lo is None else n * lo), (None if hi is None else n * hi)
                self._row(group, inside.tolist(), values, both)
                return
            if lo is not None:
                self._row(group, inside.tolist(), [v - lo for v in values], (Fraction(0), None))
            if hi is not None:
                self._row(group, inside.tolist(), [v - hi for v in values], (None, Fraction(0)))
        elif figure.kind == "median":
            self._median(group, figure, inside, values, statistic)
        else:
            self._extreme(group, figure, inside, values)

    def _values(self, column: str, inside: NDArray[np.int64]) -> list[Fraction]:
        axis = next(k for k, c in enumerate(self.given.columns) if c.name == column)
        at = np.unravel_index(self.cells[inside], self.shape)[axis]
        exact = [Fraction(v) for v in self.given.columns[axis].values]  # type: ignore[arg-type]
        return [exact[k] for k in at.tolist()]

    def _row(self, group: int, columns: list[int], amounts: list[Fraction], ends: Ends) -> None:
        scale = lcm(*(a.denominator for a in amounts)) if amounts else 1
        lo = -NO_END if ends[0] is None else ceil(ends[0] * scale)
        hi = NO_END if ends[1] is None else floor(ends[1] * scale)
        kept = [(k, int(a * scale)) for k, a in zip(columns, amounts, strict=True) if a]
        self.rows.append(LinearRow(tuple(k for k, _ in kept), tuple(a for _, a in kept), lo, hi))
        self.groups.append(group)

    def _extreme(self, group: int, figure: Figure, inside: NDArray[np.int64], values: list[Fraction]) -> None:
        """Nobody beyond one end, somebody within the other."""
        sign = 1 if figure.kind == "min" else -1
        first, last = figure.ends if sign > 0 else (figure.ends[1], figure.ends[0])
        if first is not None:
            beyond = [int(k) for k, v in zip(inside, values, strict=True) if sign * v < sign * first]
            self._row(group, beyond, [Fraction(1)] * len(beyond), (None, Fraction(0)))
        if last is not None:
            within = [int(k) for k, v in zip(inside, values, strict=True) if sign * v <= sign * last]
            self._row(group, within, [Fraction(1)] * len(within), (Fraction(1), None))

    def _median(
        self, group: int, figure: Figure, inside: NDArray[np.int64], values: list[Fraction], statistic: GroupFigures
    ) -> None:
        n = _known(statistic)
        pairs = list(_pairs(sorted(set(values)), figure.ends, odd=n is not None and n % 2 == 1))
        if len(pairs) > MOST_PAIRS:
            raise ConfigError(f"{statistic}: {len(pairs)} pairs of middle values are too many: narrow the range")
        if not pairs:
            self.rows.append(LinearRow((), (), 1, 1))  # no two values have such a middle: it cannot hold
            self.groups.append(group)
            return
        used = sorted({v for pair in pairs for v in pair})
        below = self._cumulative(group, inside, values, used)
        alternatives = [self._middle(below, a, b, n) for a, b in pairs]
        if len(alternatives) > 1:
            self.choices.append(RowChoice(tuple(alternatives), group))
        else:
            self.rows += alternatives[0]
            self.groups += [group] * len(alternatives[0])

    def _middle(self, below: Below, a: Fraction, b: Fraction, n: int | None) -> tuple[LinearRow, ...]:
        """The lower middle value is a, the upper one b."""
        columns = [below[a, False], below[a, True], below[b, False], below[b, True]]
        ends = [(-NO_END, -1), (0, NO_END), (-NO_END, 0), (1, NO_END)]
        if n is None:
            every = below[None, True]
            return tuple(LinearRow((c, every), (2, -1), lo, hi) for c, (lo, hi) in zip(columns, ends, strict=True))
        rows = []
        for c, (lo, hi) in zip(columns, ends, strict=True):
            least = -NO_END if lo == -NO_END else -(-(lo + n) // 2)
            rows.append(LinearRow((c,), (1,), least, NO_END if hi == NO_END else (hi + n) // 2))
        return tuple(rows)

    def _cumulative(self, group: int, inside: NDArray[np.int64], values: list[Fraction], used: list[Fraction]) -> Below:
        """Columns that count the rows of a group below each value (with True: or at it); under None all of them.

        Each is the one before it and what lies between.
        """
        steps: list[tuple[Fraction | None, bool]] = [(v, included) for v in used for included in (False, True)]
        parts: list[list[int]] = [[] for _ in range(len(steps) + 1)]
        for k, v in zip(inside.tolist(), values, strict=True):
            at = bisect_left(used, v)
            parts[2 * at + (at < len(used) and used[at] == v)].append(k)
        found: dict[tuple[Fraction | None, bool], int] = {}
        before: tuple[int, ...] = ()
        for step, part in zip([*steps, (None, True)], parts, strict=True):
            column = len(self.cells) + self.more
            self.more += 1
            columns = (*part, *before, column)
            self.rows.append(LinearRow(columns, (*([1] * (len(columns) - 1)), -1), 0, 0))
            self.groups.append(group)
            found[step], before = column, (column,)
        return found


Below = Mapping[tuple[Fraction | None, bool], int]


def _known(statistic: GroupFigures) -> int | None:
    """How many rows a group has, if its own count says so."""
    for figure in statistic.figures:
        lo, hi = figure.ends
        if figure.kind == "count" and lo is not None and lo == hi and lo.denominator == 1:
            return int(lo)
    return None


def _pairs(grid: list[Fraction], ends: Ends, *, odd: bool) -> Iterator[tuple[Fraction, Fraction]]:
    """Pairs a <= b of values with (a + b) / 2 in the range; of an odd number of rows a = b."""
    lo, hi = ends
    for k, a in enumerate(grid):
        for b in grid[k : k + 1] if odd else grid[k:]:
            if (lo is None or a + b >= 2 * lo) and (hi is None or a + b <= 2 * hi):
                yield a, b


def _column(attribute: Attribute) -> Column:
    if not attribute.numeric:
        kind = Kind.TEXT
    else:
        kind = Kind.INTEGER if all(isinstance(v, int) for v in attribute.values) else Kind.DECIMAL
    return Column(attribute.name, kind, Role.DECLARED, nullable=False)
