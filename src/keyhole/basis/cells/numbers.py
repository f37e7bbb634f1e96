"""Columns of numbers in cells: in bins of one width (`Range`), or cut where questions cut them (`Cuts`)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.domain import FALSE, NULL, TRUE, Truths
from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.model.numbers import fraction_to_scalar, round_fraction
from keyhole.model.predicate import Comparison, IsNull, Leaf, Membership, Scalar, format_literal, quote_name

WIDEST = 2**60  # ends of a range, in whole multiples of its grid
MOST_CELLS = 2**20
DIGITS, PLACES = 38, 9  # of a DECIMAL, and of them behind the point
LARGEST = "1.7976931348623157e308"  # of a DOUBLE that is a number and finite
Either: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # can a record of each cell say yes; can it say no


class NumberCells(Protocol):
    """Numbers in `bins` cells; where `size` is one more, the last cell is NULL."""

    @property
    def name(self) -> str:
        """The column."""

    @property
    def bins(self) -> int:
        """Cells of numbers."""

    @property
    def size(self) -> int:
        """Cells."""

    def below(self, op: str, value: Fraction) -> Either:
        """Can a record of the cell be < or <= a value, and can it not be?"""

    def among(self, values: Sequence[Fraction]) -> Either:
        """Can a record of the cell be one of the values, and can it be none of them?"""


def decide_cells(column: NumberCells, leaf: Leaf) -> Truths:
    """What a condition can say in each cell: one that it cuts through can say both. All six operators follow from
    `below` and `among`."""
    if isinstance(leaf, IsNull):
        can_true, can_false = np.zeros(column.bins, dtype=np.bool_), np.ones(column.bins, dtype=np.bool_)
    elif isinstance(leaf, Comparison):
        can_true, can_false = _compare(column, leaf.op, read_number(column.name, leaf.value))
    elif isinstance(leaf, Membership):
        can_true, can_false = column.among([read_number(column.name, v) for v in leaf.values])
    else:
        raise UnsupportedQuery(f"LIKE on the number {column.name!r}: compare with <, <=, =, >= or > instead")
    said = np.empty(column.size, dtype=np.uint8)
    said[column.bins :] = TRUE if isinstance(leaf, IsNull) else NULL
    said[: column.bins] = can_true * np.uint8(TRUE) + can_false * np.uint8(FALSE)
    return said


def _compare(column: NumberCells, op: str, value: Fraction) -> Either:
    if op in ("=", "<>"):
        inside, outside = column.among([value])
        return (inside, outside) if op == "=" else (outside, inside)
    if op in (">", ">="):
        can_false, can_true = column.below("<=" if op == ">" else "<", value)
        return can_true, can_false
    return column.below(op, value)


def read_number(name: str, value: Scalar) -> Fraction:
    """A constant that a column is compared with, as a number.

    >>> read_number("age", 40)
    Fraction(40, 1)
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise UnsupportedQuery(f"{name!r} is a number and {format_literal(value)} is not")
    return Fraction(value)


def outside_domain_error(
    name: str, value: Fraction, ends: tuple[Fraction, Fraction], step: Fraction | None
) -> UnsupportedQuery:
    """That a number is none of a column."""
    grid = "" if step is None else f" in steps of {float(step):g}"
    return UnsupportedQuery(
        f"{float(value):g} is outside the domain of {name!r}: {float(ends[0]):g} to {float(ends[1]):g}{grid}"
    )


def number_as_sql(value: Fraction) -> str:
    """A number as SQL text.

    >>> number_as_sql(Fraction(1, 8))
    '0.125'
    """
    return f"{round_fraction(value):f}"


def dividend(clamped: str, lo: Fraction, hi: Fraction, step: Fraction) -> str:
    """A clamped number as a decimal, so that `/` divides in every engine: PostgreSQL cuts a quotient of integers.

    It has nine digits behind the point, or as many as the grid needs. A range that DECIMAL cannot hold stays as it is.

    >>> dividend("x", Fraction(0), Fraction(99), Fraction(10))
    'CAST(x AS DECIMAL(38, 9))'
    """
    behind = max(PLACES, *(-int(round_fraction(v).normalize().as_tuple().exponent) for v in (lo, hi, step)))
    before = len(str(int(max(abs(lo), abs(hi)))))
    return f"CAST({clamped} AS DECIMAL(38, {behind}))" if before + behind < DIGITS else clamped


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `lo` to `hi` in bins of `width`, clamped; with a `step`, only multiples of it from `lo` occur.

    Bins are [lo + k width, lo + (k+1) width), the last of a range without a step is closed. Numbers outside count as
    the nearest end: the column that is answered about is the clamped one. A NULL cell follows the bins.

    >>> from keyhole.model.predicate import Comparison
    >>> age = Range("age", Fraction(0), Fraction(99), Fraction(10), Fraction(1))
    >>> age.size, age.describe(3), age.truths(Comparison("age", ">=", 90))[7:].tolist()
    (11, '[30, 40)', [1, 1, 4, 2])
    >>> from keyhole.basis.cells.domain import FALSE, TRUE
    >>> age.truths(Comparison("age", "<", 95))[9].item() == FALSE | TRUE  # cuts the last bin
    True
    """

    name: str
    lo: Fraction
    hi: Fraction
    width: Fraction
    step: Fraction | None = None

    def __post_init__(self) -> None:
        if self.hi < self.lo or self.width <= 0 or (self.step is not None and self.step <= 0):
            raise ConfigError(f"column {self.name!r}: min, max, width and step do not make a range")
        if self.step is not None and (self.width % self.step or (self.hi - self.lo) % self.step):
            raise ConfigError(
                f"column {self.name!r}: width {float(self.width):g} and max - min {float(self.hi - self.lo):g} must be "
                f"multiples of the step {float(self.step):g}"
            )
        if self.step is None and self.hi == self.lo:
            raise ConfigError(f"column {self.name!r}: min and max are equal: a real range needs room")

    @property
    def bins(self) -> int:
        """How many bins."""
        ratio = (self.hi - self.lo) / self.width
        return math.ceil(ratio) if self.step is None else math.floor(ratio) + 1

    @property
    def size(self) -> int:
        """Bins and the NULL cell."""
        return self.bins + 1

    @property
    def exact(self) -> bool:
        """True if each cell holds one value."""
        return self.step is not None and self.step == self.width

    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """First and last point of each bin (for reals: its two ends), in whole multiples of 1/scale."""
        scale = math.lcm(
            self.lo.denominator, self.hi.denominator, self.width.denominator, (self.step or Fraction(1)).denominator
        )
        lo, hi, width = (int(v * scale) for v in (self.lo, self.hi, self.width))
        if max(abs(lo), abs(hi), width * self.bins) >= WIDEST:
            raise ConfigError(f"column {self.name!r}: its range needs more than 60 bits")
        first = lo + width * np.arange(self.bins, dtype=np.int64)
        last = np.minimum(first + width, hi)
        if self.step is not None:
            last = np.minimum(first + width - int(self.step * scale), hi)
        return first, last, scale

    def truths(self, leaf: Leaf) -> Truths:
        """Each bin's ends decide; a bin that the condition cuts through can say both."""
        return decide_cells(self, leaf)

    def below(self, op: str, value: Fraction) -> Either:
        """Can a record of the cell be < or <= a value, and can it not be?"""
        first, last, scale = self._ends()
        down = min(max(math.floor(value * scale), -WIDEST), WIDEST)
        up = min(max(math.ceil(value * scale), -WIDEST), WIDEST)
        if op == "<":
            reaches = last >= up
            if self.step is None:
                reaches[:-1] = last[:-1] > down  # half-open bins do not hold their upper end
            return first < up, reaches
        return first <= down, last > down

    def among(self, values: Sequence[Fraction]) -> Either:
        """Can a record of the bin be among the values, and can it be none of them?"""
        for value in values:
            off = self.step is not None and (value - self.lo) % self.step
            if not self.lo <= value <= self.hi or off:
                raise outside_domain_error(self.name, value, (self.lo, self.hi), self.step)
        hits = np.zeros(self.bins, dtype=np.int64)
        for value in set(values):
            hits[min(int((value - self.lo) // self.width), self.bins - 1)] += 1
        if self.step is None:
            return hits > 0, np.ones(self.bins, dtype=bool)
        first, last, scale = self._ends()
        points = (last - first) // int(self.step * scale) + 1
        return hits > 0, hits < points

    def keys(self) -> tuple[Scalar, ...]:
        """The declared numbers, where each has a cell of its own."""
        if not self.exact:
            raise UnsupportedQuery(
                f"GROUP BY {self.name!r} cuts through its bins of {float(self.width):g}: ask for each bin with "
                f"{self.name} >= ... AND {self.name} < ..."
            )
        return tuple(fraction_to_scalar(self.lo + k * self.width) for k in range(self.bins))

    def amounts(self) -> tuple[list[Fraction], Fraction]:
        """The middle of each bin; records differ from it by half a bin at most."""
        first, last, scale = self._ends()
        middles = [Fraction(int(a) + int(b), 2 * scale) for a, b in zip(first, last, strict=True)]
        widest = Fraction(int((last - first).max()), 2 * scale)
        return [*middles, Fraction(0)], widest

    def describe(self, cell: int) -> str:
        """The bin's ends."""
        if cell == self.bins:
            return "NULL"
        low = self.lo + cell * self.width
        if self.exact:
            return f"{float(low):g}"
        high = min(low + self.width, self.hi) if self.step is None else low + self.width
        closed = "]" if self.step is None and cell == self.bins - 1 else ")"
        return f"[{float(low):g}, {float(high):g}{closed}"

    def code(self) -> str:
        """The bin by division, put right by comparing with the bin's own ends: no edge is missed by rounding."""
        name, lo, width = quote_name(self.name), number_as_sql(self.lo), number_as_sql(self.width)
        top = self.bins - 1
        if self.step is not None:  # off the step counts as the nearest multiple
            inside = dividend(f"LEAST(GREATEST({name}, {lo}), {number_as_sql(self.hi)})", self.lo, self.hi, self.step)
            point = f"CAST(FLOOR(({inside} - {lo}) / {number_as_sql(self.step)} + 0.5) AS BIGINT)"
            points = int(self.width / self.step)
            bin_of = f"CAST(({point} - {point} % {points}) / {points} AS BIGINT)" if points > 1 else point
            return f"CASE WHEN {name} IS NULL THEN {self.bins} ELSE {bin_of} END"
        inside = dividend(f"LEAST(GREATEST({name}, {lo}), {number_as_sql(self.hi)})", self.lo, self.hi, self.width)
        guess = f"CAST(LEAST(GREATEST(FLOOR(({inside} - {lo}) / {width}), 0), {top}) AS BIGINT)"
        edge = f"({lo} + {guess} * {width})"
        moved = f"{guess} + CASE WHEN {name} < {edge} THEN -1 WHEN {name} >= {edge} + {width} THEN 1 ELSE 0 END"
        return f"CASE WHEN {name} IS NULL THEN {self.bins} ELSE LEAST(GREATEST({moved}, 0), {top}) END"


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
            value = (read_number(self.name, leaf.value) - self.lo) / self.step
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
        return decide_cells(self, leaf)

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
                raise outside_domain_error(self.name, value, (self.lo, self.hi), self.step)
            hits[bisect_right(self.starts, int(place)) - 1] += 1
        return hits > 0, hits < last - first + 1

    def keys(self) -> tuple[Scalar, ...]:
        """The numbers, where each has a cell of its own."""
        if not self.exact:
            raise UnsupportedQuery(
                f"GROUP BY {self.name!r} needs a cell for each of its {self.steps + 1} numbers: ask for ranges with "
                f"{self.name} >= ... AND {self.name} < ..."
            )
        return tuple(fraction_to_scalar(self.lo + k * self.step) for k in range(self.bins))

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
        `missing`. Not a number, which every engine sorts last, and infinity are NULL. Half a step is rounded up,
        whatever the engine's kind of number.
        """
        name, lo, step = quote_name(self.name), number_as_sql(self.lo), number_as_sql(self.step)
        inside = dividend(f"LEAST(GREATEST({name}, {lo}), {number_as_sql(self.hi)})", self.lo, self.hi, self.step)
        found = f"CAST(LEAST(GREATEST(FLOOR(({inside} - {lo}) / {step} + 0.5), 0), {self.steps}) AS BIGINT)"
        held = f"CASE WHEN {name} IS NULL OR {name} > {LARGEST} THEN NULL ELSE {found} END"
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
