"""Columns of numbers, in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.declared import Truths
from keyhole.basis.cells.numbers import Either, as_scalar, in_sql, number_truths, outside_domain
from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.model.predicate import Leaf, Scalar, quote_name

WIDEST = 2**60


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `lo` to `hi` in bins of `width`, clamped; with a `step`, only multiples of it from `lo` occur.

    Bins are [lo + k width, lo + (k+1) width), the last of a range without a step is closed. Numbers outside count as
    the nearest end: the column that is answered about is the clamped one. A NULL cell follows the bins.

    >>> from keyhole.model.predicate import Comparison
    >>> age = Range("age", Fraction(0), Fraction(99), Fraction(10), Fraction(1))
    >>> age.size, age.describe(3), age.truths(Comparison("age", ">=", 90))[7:].tolist()
    (11, '[30, 40)', [1, 1, 4, 2])
    >>> from keyhole.basis.cells.declared import FALSE, TRUE
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
        return number_truths(self, leaf)

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
                raise outside_domain(self.name, value, (self.lo, self.hi), self.step)
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
        return tuple(as_scalar(self.lo + k * self.width) for k in range(self.bins))

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
        name, lo, width = quote_name(self.name), in_sql(self.lo), in_sql(self.width)
        top = self.bins - 1
        if self.step is not None:  # off the step counts as the nearest multiple
            inside = f"LEAST(GREATEST({name}, {lo}), {in_sql(self.hi)})"
            point = f"FLOOR(({inside} - {lo}) / {in_sql(self.step)} + 0.5)::BIGINT"
            return f"CASE WHEN {name} IS NULL THEN {self.bins} ELSE {point} // {int(self.width / self.step)} END"
        guess = f"LEAST(GREATEST(FLOOR(({name} - {lo}) / {width}), 0), {top})::BIGINT"
        edge = f"({lo} + {guess} * {width})"
        moved = f"{guess} + CASE WHEN {name} < {edge} THEN -1 WHEN {name} >= {edge} + {width} THEN 1 ELSE 0 END"
        return f"CASE WHEN {name} IS NULL THEN {self.bins} ELSE LEAST(GREATEST({moved}, 0), {top}) END"
