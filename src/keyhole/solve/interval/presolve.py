"""A part of a polytope in floating point, made easy to project on: what is fixed is put in, what repeats is left out.

Columns that propagation fixed go into the right-hand sides; rows that then have no column, that say nothing beyond the
bounds, or that have the columns of another are dropped (of two alike the intersection is kept). Everything is divided
by the middle width of a column. The rows given are kept beside it, as they are, for the check of whatever comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.polytope import End, Polytope
from keyhole.solve.interval.projection import Band
from keyhole.solve.interval.projection_kernels import Floats, gathered

FLOAT_INTEGERS = 1 << 53  # every integer below is a float


@dataclass(frozen=True, slots=True, eq=False)
class Presolved:
    """`band` and the box [low, high] are of the columns `free` of the part, in units; `given` are all rows as given."""

    band: Band
    low: Floats
    high: Floats
    free: NDArray[np.int64]
    fixed: Floats  # the totals of all columns of the part, 0 at the free ones
    unit: float
    given: Band

    def table(self, x: Floats) -> Floats:
        """All totals of the part, from the free ones in units."""
        full = self.fixed.copy()
        full[self.free] = x * self.unit
        return full


def presolved(
    P: Polytope, more: Polytope, rows: Sequence[int], columns: Sequence[int], ends: tuple[Floats, Floats]
) -> Presolved | None:
    """Of a part of P; `more` has rows of P and others that follow from them, `ends` are those of all columns.

    None where numbers do not fit into floats, a column has no end, or nothing is free.

    >>> from fractions import Fraction
    >>> three = Fraction(3)
    >>> P = Polytope.of([({0: 1, 1: 1}, three, three), ({0: 2, 1: 2}, None, 2 * three)], [(Fraction(0), three)] * 2)
    >>> part = presolved(P, P, [0, 1], [0, 1], (np.zeros(2), np.full(2, 3.0)))
    >>> part.unit, part.band.lo.tolist(), len(part.given.lo)
    (3.0, [1.0, 0.0], 2)
    """
    place = np.full(P.K, -1, dtype=np.int32)
    place[np.array(columns, dtype=np.int64)] = np.arange(len(columns))
    low, high = ends[0][columns], ends[1][columns]
    free = np.flatnonzero(high > low)
    if more.entries.dtype == object or not np.isfinite(low).all() or not np.isfinite(high).all() or not len(free):
        return None
    if not more.plain and int(np.abs(more.entries).max(initial=0)) >= FLOAT_INTEGERS:
        return None
    unit = float(np.median(high[free] - low[free]))
    inside = place[more.columns[more.start[:-1].clip(max=len(more.columns) - 1)]] >= 0
    chosen = np.flatnonzero(inside & (np.diff(more.start) > 0))
    given = _floats(P, np.array(rows, dtype=np.int64), place, len(columns), min(1.0, unit))
    fixed = np.where(high > low, 0.0, low)
    same = more is P and np.array_equal(chosen, rows)
    whole = replace(given, unit=1.0) if same else _floats(more, chosen, place, len(columns), 1.0)
    band = _reduced(whole, fixed, free, unit)
    band = _distinct(_bounded(band, low[free] / unit, high[free] / unit))
    return Presolved(band, low[free] / unit, high[free] / unit, free, fixed, unit, given)


def _floats(P: Polytope, rows: NDArray[np.int64], place: NDArray[np.int32], K: int, unit: float) -> Band:
    lo = np.array([_float(lo, -np.inf) for lo, _ in P.rows])
    hi = np.array([_float(hi, np.inf) for _, hi in P.rows])
    entries = np.zeros(0) if P.plain else P.entries.astype(np.float64)
    return Band((P.start, place[P.columns], entries), lo, hi, K, unit).chosen(rows)


def _float(end: End, otherwise: float) -> float:
    return otherwise if end is None else float(end)


def _reduced(band: Band, fixed: Floats, free: NDArray[np.int64], unit: float) -> Band:
    """Over the free columns, in units."""
    start, columns, entries = band.matrix
    there = np.full(band.K, -1, dtype=np.int32)
    there[free] = np.arange(len(free))
    if len(free) == band.K:
        made = Band(band.matrix, band.lo / unit, band.hi / unit, band.K, min(1.0, 1.0 / unit))
        return made.chosen(np.flatnonzero(np.diff(start)))
    gone = band.sums(fixed)
    kept = there[columns] >= 0
    counts = np.add.reduceat(kept, start[:-1], dtype=np.int64) if len(columns) else np.zeros(0, dtype=np.int64)
    begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    matrix = begin, there[columns[kept]], entries[kept] if len(entries) else entries
    made = Band(matrix, (band.lo - gone) / unit, (band.hi - gone) / unit, len(free), min(1.0, 1.0 / unit))
    return made.chosen(np.flatnonzero(counts))


def _bounded(band: Band, low: Floats, high: Floats) -> Band:
    """With finite ends, and without rows that say nothing beyond the bounds of their columns."""
    start, columns, entries = band.matrix
    middle, reach = band.sums((low + high) / 2), gathered((start, columns, np.abs(entries)), (high - low) / 2)
    least, most = middle - reach, middle + reach
    news = np.flatnonzero((band.lo > least) | (band.hi < most))
    made = band.chosen(news)
    lo, hi = np.maximum(made.lo, least[news]), np.minimum(made.hi, most[news])
    return Band(made.matrix, lo, np.maximum(lo, hi), made.K, made.unit)


def _distinct(band: Band) -> Band:
    """Each set of columns once, with the ends that all rows of it share."""
    start, columns, entries = band.matrix
    marks = np.random.default_rng(0).integers(1, 1 << 62, band.K, dtype=np.uint64)[columns]
    if len(entries):
        marks = marks * entries.astype(np.int64).view(np.uint64)
    if not len(marks):
        return band
    sums = np.add.reduceat(marks, start[:-1])
    _, first, of = np.unique(sums, return_index=True, return_inverse=True)
    if len(first) == len(sums):
        return band
    of, first = np.argsort(np.argsort(first))[of], np.sort(first)  # in the order of the rows
    lo, hi = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    np.maximum.at(lo, of, band.lo)
    np.minimum.at(hi, of, band.hi)
    made = band.chosen(first)
    return Band(made.matrix, lo, np.maximum(lo, hi), made.K, made.unit)
