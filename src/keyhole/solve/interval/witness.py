"""Ends that are reached by a table in floating point, many at a time: pushes, packed, then projected.

    packed       many columns are wished beyond their ends, so many as the rows can make up for
    projected    the nearest table to that wish
    accepted     only if all rows given hold on it; then every end that it reaches, to 1e-6 of the width, is noted

The centre from which is pushed is the mean of the tables so far. A witness is a float: it says that an end cannot be
far from the best, never that a range is outer and never that a second table exists. Cost: a projection a round; a round
of an easy log reaches one end in ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.packing import forced, packed, room_of
from keyhole.solve.interval.polytope import End, Polytope
from keyhole.solve.interval.problem import TimeIsUp
from keyhole.solve.interval.projection import Band, Projection
from keyhole.solve.interval.projection_kernels import Floats, gathered
from keyhole.solve.interval.propagate import Propagation

NEAR = 1e-6  # of the width of a range
LEAST_GAIN = 0.02  # of the ends left, in a round
MOST_ROWS = 12_000  # of a part that is projected on: two dense matrices of so many rows and columns
TRIES = 4  # of an end among others
USUAL, BOLD = 0.2, 0.5  # share of the columns pushed in a round, and where rounds take EASY steps
EASY = 6
SHORT = 60  # columns of a row through which pushes are propagated
ALONE = (30.0, 3000.0)  # widths beyond its target by which one end is pushed alone
MOST_ALONE = 200
PATIENCE = 3  # rounds in a row with less, or ends in a row that were not reached alone

Flags = NDArray[np.bool_]
Tell = Callable[[int, int], None]


def near_ends(
    P: Polytope,
    narrowed: Propagation,
    rows: Sequence[int],
    ends: Mapping[int, tuple[End, End]],  # of a record of each column of the part
    left: Sequence[Sequence[bool]],  # which of them are not reached yet
    table: Mapping[int, Fraction] | None,
    end: float | None,
    tell: Tell,
) -> Iterator[tuple[int, tuple[bool, bool]]]:
    """The columns of which an end was reached, and which; nothing where a part does not fit into floats."""
    columns = list(ends)
    if end is not None and monotonic() > end:
        return
    part = presolved(P, narrowed.polytope, rows, columns, narrowed.floats)
    if part is None or len(part.band.lo) > MOST_ROWS:
        return
    lo, hi = (_floats([ends[k][side] for k in columns]) for side in (0, 1))
    low, high = (_floats([P.records[k][side] for k in columns]) for side in (0, 1))
    others = np.array([P.sizes[k] - 1 for k in columns], dtype=np.float64)
    lower, upper = lo + np.where(others > 0, others * high, 0.0), hi + np.where(others > 0, others * low, 0.0)
    open_ends = np.array(left) & np.isfinite(np.stack([lower, upper], axis=1))
    search = Witnesses(part, lower, upper, open_ends.copy(), NEAR * (hi - lo), end, tell)
    interrupted: KeyboardInterrupt | None = None
    try:
        search.search(None if table is None else np.array([float(table[k]) for k in columns]))
    except KeyboardInterrupt as stop:
        interrupted = stop
    reached = open_ends & ~search.left
    for j in np.flatnonzero(reached.any(axis=1)).tolist():
        yield columns[j], (bool(reached[j, 0]), bool(reached[j, 1]))
    if interrupted is not None:
        raise interrupted


def _floats(ends: Sequence[End]) -> Floats:
    """Ends in floating point, each object once: most columns share theirs."""
    found = {id(end): np.nan if end is None else float(end) for end in {id(end): end for end in ends}.values()}
    return np.array([found[id(end)] for end in ends], dtype=np.float64)


@dataclass(slots=True, eq=False)
class Witnesses:
    """The search in one part. `lower`, `upper`: what a total must come down or up to, for each column of the part.

    `left[:, 0]` and `left[:, 1]` are the lower and upper ends that no table has reached.
    """

    part: Presolved
    lower: Floats
    upper: Floats
    left: Flags
    near: Floats  # how close counts as reached
    end: float | None = None
    tell: Tell = lambda _done, _of: None
    seed: int = 0
    rounds: int = 0
    _centre: Floats = field(init=False)
    _onto: Projection = field(init=False)
    _rng: np.random.Generator = field(init=False)

    def search(self, table: Floats | None) -> None:
        """From a table that is possible, if one is known, until rounds gain little or time is up."""
        part = self.part
        self._rng = np.random.default_rng(self.seed)
        for ends in (self.lower, self.upper):
            ends /= part.unit
        try:
            self._onto = Projection(part.band, part.low, part.high, self._tick)
        except TimeIsUp:
            return
        middle = (part.low + part.high) / 2
        start = self._onto.nearest(middle, part.low, part.high)[0] if table is None else table[part.free] / part.unit
        if start is None or not part.given.holds(part.table(start)):
            return
        self._centre = np.clip(start, part.low, part.high)
        self._together()
        self._with_consequences()
        self._alone()

    @property
    def _late(self) -> bool:
        return self.end is not None and monotonic() > self.end

    def _tick(self) -> None:
        if self._late:
            raise TimeIsUp

    def _together(self) -> None:
        """Phase 1: as many pushes a round as rows can make up for; more and more where that takes few steps."""
        share, most, idle, total = USUAL, BOLD, 0, int(self.left.sum())
        while idle < PATIENCE and not self._late:
            before = int(self.left.sum())
            if not before:
                return
            side = self._packed(share)
            steps, found = self._aim(side, np.full(len(side), 1.0))
            if not found:
                share, most = min(0.7 * share, USUAL), USUAL
            elif steps <= EASY:
                share = min(1.6 * share, most)
            elif steps <= 11:
                share = max(share, min(1.25 * share, USUAL))
            left = int(self.left.sum())
            idle = idle + 1 if before - left < LEAST_GAIN * before else 0
            self.tell(total - left, total)

    def _packed(self, share: float) -> NDArray[np.int8]:
        part, at = self.part, self.part.free
        centre, onto = self._centre, self._onto
        down, up = centre - part.low, part.high - centre
        lowered, raised, sizes = room_of(onto.by_column, down, up, len(onto.rows))
        said = onto.basis.sums(centre)
        lowered += np.maximum(onto.basis.hi - said, 0.0)
        raised += np.maximum(said - onto.basis.lo, 0.0)
        order = self._rng.permutation(np.flatnonzero(self.left[at].ravel()))
        shift = np.minimum(self.lower[at] - centre, 0.0), np.maximum(self.upper[at] - centre, 0.0)
        limits = 0.5 + max(share - USUAL, 0.0), max(0.3, 1.2 * share), max(int(share * len(at)), 1)
        return packed(onto.by_column, order, shift, (down, up), lowered, raised, sizes, limits)

    def _with_consequences(self) -> None:
        """Phase 2: fewer pushes a round, each with what it forces; those that failed are pushed harder."""
        part, at = self.part, self.part.free
        tries = np.zeros((len(at), 2), dtype=np.int64)
        share, total = 0.02, int(self.left.sum())
        if not total:
            return
        short = _Short(part.band, self._onto)
        while not self._late and share * len(at) >= 0.5:
            waiting = self._rng.permutation(np.flatnonzero((self.left[at] & (tries < TRIES)).ravel()))
            if not len(waiting):
                return
            order = waiting[np.argsort(tries.ravel()[waiting], kind="stable")]
            targets = self.lower[at], self.upper[at]
            side, box, settled = short.pushes(order, targets, (part.low, part.high), self._centre, share)
            aimed = np.flatnonzero(side)
            if not len(aimed):
                return
            which = (side[aimed] > 0).astype(np.int64)
            beyond = np.full(len(at), 0.5)
            beyond[aimed] = 0.5 * 4.0 ** tries[aimed, which]
            tries[aimed, which] += 1
            steps, found = self._aim(side, beyond, (box, settled))
            share *= 0.7 if not found or steps > 12 else 1.2 if steps <= 7 else 1.0
            self.tell(total - int(self.left.sum()), total)

    def _alone(self) -> None:
        """Phase 3: one end at a time, as hard as it takes; a run of failures ends it."""
        at, failed = self.part.free, 0
        for code in self._rng.permutation(np.flatnonzero(self.left[at].ravel()))[:MOST_ALONE].tolist():
            k, up = divmod(code, 2)
            for widths in ALONE:
                if failed >= PATIENCE or self._late:
                    return
                if self.left[at[k], up]:
                    side = np.zeros(len(at), dtype=np.int8)
                    side[k] = 1 if up else -1
                    self._aim(side, np.full(len(at), widths))
            failed = failed + 1 if self.left[at[k], up] else 0

    def _aim(
        self, side: NDArray[np.int8], beyond: Floats, settled: tuple[tuple[Floats, Floats], Flags] | None = None
    ) -> tuple[int, bool]:
        """Push columns to their targets and `beyond`, in widths; how many steps it took, and was a table found?

        `settled`: a box, and the columns that it leaves one value, which are pushed as well.
        """
        part, at = self.part, self.part.free
        z, low, high = self._centre.copy(), part.low.copy(), part.high.copy()
        beyond = beyond * (part.high - part.low)
        if settled is not None:
            value = settled[0][0]
            ends = np.where(value <= low, -1.0, np.where(value >= high, 1.0, 0.0))
            z = np.where(settled[1], value + ends * beyond, z)
        down, up = side < 0, side > 0
        low[down], high[up] = self.lower[at][down], self.upper[at][up]
        low[down], high[up] = np.maximum(low[down], part.low[down]), np.minimum(high[up], part.high[up])
        z[down], z[up] = (low - beyond)[down], (high + beyond)[up]
        x, steps = self._onto.nearest(z, low, high)
        if x is None or not part.given.holds(part.table(x)):
            return steps, False
        self._note(x)
        self.rounds += 1
        self._centre += (x - self._centre) / min(self.rounds + 1, 8)
        return steps, True

    def _note(self, x: Floats) -> None:
        at = self.part.free
        near = self.near[at] / self.part.unit
        self.left[at, 0] &= ~(x <= self.lower[at] + near)
        self.left[at, 1] &= ~(x >= self.upper[at] - near)


class _Short:
    """The rows of few columns, all of them; and those of many columns of the basis."""

    def __init__(self, band: Band, onto: Projection) -> None:
        self.rows = band.chosen(np.flatnonzero(np.diff(band.matrix[0]) <= SHORT))
        self.both = self.rows.matrix, self.rows.transposed()
        self.basis = onto.basis.chosen(np.flatnonzero(np.diff(onto.basis.matrix[0]) > SHORT))
        self.long = self.basis.transposed()

    def pushes(
        self,
        order: NDArray[np.int64],
        targets: tuple[Floats, Floats],
        ends: tuple[Floats, Floats],
        centre: Floats,
        share: float,
    ) -> tuple[NDArray[np.int8], tuple[Floats, Floats], Flags]:
        """The sides pushed, the box that they leave, and the columns with one value in it."""
        box = ends[0].copy(), ends[1].copy()
        m, said = len(self.basis.lo), self.basis.sums(centre)
        lowered, raised, sizes = room_of(self.long, centre - ends[0], ends[1] - centre, m)
        lowered += np.maximum(self.basis.hi - said, 0.0)
        raised += np.maximum(said - self.basis.lo, 0.0)
        books = np.zeros(m), lowered, raised, np.zeros(m)
        limits = (0.9, 0.5, max(int(share * len(centre)), 1))
        side, settled = forced(
            self.both, (self.rows.lo, self.rows.hi), self.long, order, targets, box, centre, books, sizes, limits
        )
        return side, box, settled


# --- presolve ---------------------------------------------------------------------------------------------------------
# A part of a polytope in floating point, made easy to project on: what is fixed is put in, what repeats is left out.
# Columns that propagation fixed go into the right-hand sides; rows that then have no column, that say nothing beyond
# the bounds, or that have the columns of another are dropped (of two alike the intersection is kept). Everything is
# divided by the middle width of a column. The rows given are kept beside it, as they are, for the check of whatever
# comes out.


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
    given = _band_of(P, np.array(rows, dtype=np.int64), place, len(columns), min(1.0, unit))
    fixed = np.where(high > low, 0.0, low)
    same = more is P and np.array_equal(chosen, rows)
    whole = replace(given, unit=1.0) if same else _band_of(more, chosen, place, len(columns), 1.0)
    band = _reduced(whole, fixed, free, unit)
    band = _distinct(_bounded(band, low[free] / unit, high[free] / unit))
    return Presolved(band, low[free] / unit, high[free] / unit, free, fixed, unit, given)


def _band_of(P: Polytope, rows: NDArray[np.int64], place: NDArray[np.int32], K: int, unit: float) -> Band:
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
