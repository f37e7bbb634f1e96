"""The line cut at the numbers that occur in answers and declarations: points, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm

from keyhole.model.grid import Grid
from keyhole.solve.worlds import Span

FINER = 64  # parts of what occurs, to which ends of reals are rounded outwards


@dataclass(frozen=True, slots=True)
class Line:
    """The numbers of a column as base + unit * n, cut into spans; `whole`: no number lies between two units."""

    base: Fraction
    unit: Fraction
    whole: bool
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, grid: Grid, cuts: Iterable[Fraction], numbers: Sequence[Fraction] | None, fine: int) -> Line:
        """Of what a column can hold; `numbers` are the only ones, `fine` a denominator of what answers add up to.

        >>> line = Line.of(Grid(Fraction(1), lo=Fraction(0), hi=Fraction(9)), [Fraction(5)], None, 1)
        >>> [(s.lo, s.hi, s.open) for s in line.spans], line.first_of(Fraction(5)), line.above(Fraction(5))
        ([(0, 4, False), (5, 5, False), (6, 9, False)], 1, 2)
        """
        points = sorted(set(cuts))
        if numbers is not None:
            unit = Fraction(1, lcm(*(n.denominator for n in numbers)))
            return cls(Fraction(0), unit, True, tuple(Span(int(n / unit), int(n / unit)) for n in sorted(set(numbers))))
        if grid.step is not None:
            base, unit = grid.base, grid.step
        else:
            ends = [e for e in (grid.lo, grid.hi) if e is not None]
            base, unit = Fraction(0), Fraction(1, FINER * lcm(fine, *(e.denominator for e in (*points, *ends))))

        def placed(end: Fraction | None) -> int | None:
            return None if end is None else int((end - base) / unit)

        spans: list[Span] = []
        for low, high in zip([None, *points], [*points, None], strict=True):
            inner = grid.between(low, high, open=True)
            if inner is not None:
                spans += _inner(grid, inner, low, high, *map(placed, inner))
            if high is not None and grid.between(high, high) is not None:
                spans.append(Span(placed(high), placed(high)))
        return cls(base, unit, grid.step is not None, tuple(spans))

    def inside(self, spans: Iterable[Span], lo: Fraction | None, hi: Fraction | None) -> tuple[Span, ...]:
        """The spans of numbers from lo to hi, which are cuts."""
        low, high = (None if end is None else (end - self.base) / self.unit for end in (lo, hi))
        return tuple(
            s
            for s in spans
            if (low is None or (s.lo is not None and s.lo >= low))
            and (high is None or (s.hi is not None and s.hi <= high))
        )

    def first_of(self, cut: Fraction, spans: Sequence[Span] | None = None) -> int:
        """The first span of numbers that are at least a cut; how many there are if none is."""
        at, listed = (cut - self.base) / self.unit, self.spans if spans is None else spans
        return next((t for t, s in enumerate(listed) if s.lo is not None and s.lo >= at), len(listed))

    def above(self, cut: Fraction, spans: Sequence[Span] | None = None) -> int:
        """The first span of numbers that are greater than a cut."""
        at, listed = (cut - self.base) / self.unit, self.spans if spans is None else spans
        found = (t for t, s in enumerate(listed) if s.lo is not None and (s.lo > at or (s.open and s.lo >= at)))
        return next(found, len(listed))

    def gaps(self, spans: Sequence[Span]) -> frozenset[int]:
        """The spans below which some number is missing."""
        pairs = enumerate(pairwise(spans), 1)
        if self.whole:
            return frozenset(t for t, (a, b) in pairs if a.hi is None or b.lo != a.hi + 1)
        return frozenset(t for t, (a, b) in pairs if a.hi != b.lo)


def _inner(
    grid: Grid,
    inner: tuple[Fraction | None, Fraction | None],
    low: Fraction | None,
    high: Fraction | None,
    lo: int | None,
    hi: int | None,
) -> list[Span]:
    """What lies between two cuts: on a grid one run; of reals an open interval, and declared ends as points."""
    if grid.step is not None:
        return [Span(lo, hi)]
    if lo is not None and lo == hi:
        return [Span(lo, hi)]
    ends = []
    if lo is not None and inner[0] != low:
        ends.append(Span(lo, lo))
    ends.append(Span(lo, hi, open=True))
    if hi is not None and inner[1] != high:
        ends.append(Span(hi, hi))
    return ends
