"""Columns of numbers, cut where questions cut them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.declared import Truths
from keyhole.basis.cells.numbers import Either, as_scalar, in_sql, number_in, number_truths, outside_domain
from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.model.predicate import Comparison, Leaf, Membership, Scalar, quote_name

MOST_CELLS = 2**20


@dataclass(frozen=True, slots=True)
class Cuts:
    """Numbers lo, lo + step, ..., lo + steps * step, clamped and rounded to the nearest; cells begin at `starts`.

    `starts` are numbers of grid points, increasing, the first one 0. NULL has the last cell, or counts as the grid
    point `missing`: then the column is never NULL. Whatever a table holds has a cell: loading cannot fail.

    >>> age = Cuts("age", Fraction(17), Fraction(1), 73, (0, 23, 33))
    >>> age.size, [age.describe(k) for k in range(age.size)]
    (4, ['17 to 39', '40 to 49', '50 to 90', 'NULL'])
    >>> age.truths(Comparison("age", ">=", 40)).tolist()
    [1, 4, 4, 2]
    """

    name: str
    lo: Fraction
    step: Fraction
    steps: int
    starts: tuple[int, ...] = (0,)
    missing: int | None = None

    def __post_init__(self) -> None:
        if self.step <= 0 or self.steps < 0 or self.starts[:1] != (0,) or list(self.starts) != sorted({*self.starts}):
            raise ConfigError(f"column {self.name!r}: min, max, step and cuts do not make a range")
        if self.starts[-1] > self.steps or len(self.starts) > MOST_CELLS:
            raise ConfigError(f"column {self.name!r}: its cuts are outside its range, or more than 2^20")

    @property
    def hi(self) -> Fraction:
        """The largest number."""
        return self.lo + self.steps * self.step

    @property
    def bins(self) -> int:
        """Cells without the one for NULL."""
        return len(self.starts)

    @property
    def size(self) -> int:
        """Cells; NULL has one of its own unless it counts as a number."""
        return self.bins + (self.missing is None)

    @property
    def exact(self) -> bool:
        """True if each cell holds one value."""
        return self.bins == self.steps + 1

    def at(self, starts: Iterable[int]) -> Cuts:
        """The same column cut at these grid points and no others."""
        inside = {s for s in starts if 0 < s <= self.steps}
        return Cuts(self.name, self.lo, self.step, self.steps, (0, *sorted(inside)), self.missing)

    def cut_by(self, leaf: Leaf) -> set[int]:
        """The grid points where cells must begin so that a condition cuts through none."""
        if isinstance(leaf, Comparison):
            value = (number_in(self.name, leaf.value) - self.lo) / self.step
            if leaf.op in ("<", ">="):
                return {math.ceil(value)}
            if leaf.op in ("<=", ">"):
                return {math.floor(value) + 1}
            return {int(value), int(value) + 1} if value.denominator == 1 else set()
        if isinstance(leaf, Membership):
            return {s for v in leaf.values for s in self.cut_by(Comparison(leaf.column, "=", v))}
        return set()

    def truths(self, leaf: Leaf) -> Truths:
        """Each cell's first and last number decide; a cell that the condition cuts through can say both."""
        return number_truths(self, leaf)

    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first = np.array(self.starts, dtype=np.int64)
        return first, np.append(first[1:] - 1, self.steps)

    def below(self, op: str, value: Fraction) -> Either:
        """Can a record of the cell be < or <= a value, and can it not be?"""
        place, (first, last) = (value - self.lo) / self.step, self._ends()
        bound = math.ceil(place) if op == "<" else math.floor(place) + 1  # true for grid points below
        bound = min(max(bound, -1), self.steps + 1)
        return first < bound, last >= bound

    def among(self, values: Sequence[Fraction]) -> Either:
        """Can a record of the cell be among the values, and can it be none of them?"""
        first, last = self._ends()
        hits = np.zeros(self.bins, dtype=np.int64)
        for value in set(values):
            place = (value - self.lo) / self.step
            if place.denominator != 1 or not 0 <= place <= self.steps:
                raise outside_domain(self.name, value, (self.lo, self.hi), self.step)
            hits[bisect_right(self.starts, int(place)) - 1] += 1
        return hits > 0, hits < last - first + 1

    def keys(self) -> tuple[Scalar, ...]:
        """The numbers, where each has a cell of its own."""
        if not self.exact:
            raise UnsupportedQuery(
                f"GROUP BY {self.name!r} needs a cell for each of its {self.steps + 1} numbers: ask for ranges with "
                f"{self.name} >= ... AND {self.name} < ..."
            )
        return tuple(as_scalar(self.lo + k * self.step) for k in range(self.bins))

    def amounts(self) -> tuple[list[Fraction], Fraction]:
        """The middle of each cell; records differ from it by half its width at most."""
        first, last = self._ends()
        ends = list(zip(first.tolist(), last.tolist(), strict=True))
        middles = [self.lo + self.step * Fraction(a + b, 2) for a, b in ends]
        none = [Fraction(0)] if self.missing is None else []
        return [*middles, *none], self.step * Fraction(max(b - a for a, b in ends), 2)

    def describe(self, cell: int) -> str:
        """The first and last number of a cell."""
        if cell == self.bins:
            return "NULL"
        first, last = (int(ends[cell]) for ends in self._ends())
        low, high = (f"{float(self.lo + k * self.step):g}" for k in (first, last))
        return low if first == last else f"{low} to {high}"

    def point(self) -> str:
        """An SQL expression for a record's grid point: clamped, rounded to the nearest; NULL stays NULL or is
        `missing`. Not a number is NULL. Half a step is rounded up, whatever the engine's kind of number.
        """
        name, lo, step = quote_name(self.name), in_sql(self.lo), in_sql(self.step)
        inside = f"LEAST(GREATEST({name}, {lo}), {in_sql(self.hi)})"
        found = f"LEAST(GREATEST(FLOOR(({inside} - {lo}) / {step} + 0.5), 0), {self.steps})::BIGINT"
        held = f"CASE WHEN {name} IS NULL OR isnan({name}::DOUBLE) THEN NULL ELSE {found} END"
        return held if self.missing is None else f"COALESCE({held}, {self.missing})"

    def code(self) -> str:
        """The cell of the grid point."""
        point = self.point()
        if self.exact:
            found = point
        elif self.bins == 1:
            found = f"CASE WHEN ({point}) IS NOT NULL THEN 0 END"
        else:
            arms = " ".join(f"WHEN ({point}) >= {s} THEN {k}" for k, s in reversed(list(enumerate(self.starts))))
            found = f"CASE {arms} END"
        return found if self.missing is not None else f"COALESCE({found}, {self.bins})"
