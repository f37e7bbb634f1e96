"""The nearest table to a wish, in floating point: min sum (x_k - z_k)^2 / w_k over lo <= A x <= hi, L <= x <= U.

With duals y of the rows x(y) = clip(z + W A'y, L, U), and likewise the answers s(y) = clip(A c - V y, lo, hi) of rows
with room; what is sought is the root of r(y) = s(y) - A x(y), the gradient of a concave function. **Semismooth
Newton:** the slope is A W F A' + V G with F, G what is not clipped. Each step is solved by flexible conjugate gradients
(Polak-Ribiere) whose preconditioner is one dense inverse of A W A' over a basis of the rows in which small rows come
first; the step length is the root of r . dy, bracketed. A row without free columns gets a ridge of its own.

**What it is worth.** A point is returned only if *all* rows given hold to 1e-9 (1 + |b|) each; it is a float and proves
nothing. Cost: setup m^3 for m rows; then a few dozen passes over the non-zeros of the basis. Reference: [qi2006].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.interval.pivoted_cholesky import independent
from keyhole.solve.interval.projection_kernels import (
    Floats,
    Sparse,
    along,
    clipped,
    gathered,
    product,
    transposed,
)
from keyhole.solve.interval.triangular import inverted
from keyhole.solve.interval.weighted_gram import weighted_gram

TOLERANCE = 1e-9
NEWTONS = 40
ITERATIONS = 150
RIDGE = (1e-11, 1e-3)
FORCING = (0.5, 0.2)  # how far a step is solved: at most this, and this times the worst row
DEPENDENT = (1e-7, 1e-10)  # what is left of a row that the others give: of the longest row, and of its own
LONG_ROWS = 64  # entries a row from which on rows are copied one by one


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """lo <= A x <= hi in floats, by rows; a `unit` is what counts as a change at all."""

    matrix: Sparse
    lo: Floats
    hi: Floats
    K: int
    unit: float = 1.0

    @property
    def within(self) -> Floats:
        """1e-9 (unit + |b|) for each row."""
        finite = [np.where(np.isfinite(end), np.abs(end), 0.0) for end in (self.lo, self.hi)]
        return np.asarray(TOLERANCE * (self.unit + np.minimum(*finite)))

    def holds(self, x: Floats) -> bool:
        """Does a point fulfil all rows?

        >>> rows = np.array([0, 2]), np.array([0, 1]), np.zeros(0)
        >>> band = Band(rows, np.array([3.0]), np.array([3.0]), 2)
        >>> band.holds(np.array([1.0, 2.0])), band.holds(np.array([1.0, 2.0 + 1e-7]))
        (True, False)
        """
        said = self.sums(x)
        return bool((said >= self.lo - self.within).all() and (said <= self.hi + self.within).all())

    def sums(self, x: Floats) -> Floats:
        """A x."""
        return gathered(self.matrix, x)

    def chosen(self, rows: NDArray[np.int64]) -> Band:
        """Some of the rows."""
        start, columns, entries = self.matrix
        if len(rows) == len(self.lo) and bool((np.diff(rows) > 0).all()):
            return self
        counts = np.diff(start)[rows]
        begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        if begin[-1] <= LONG_ROWS * len(rows):
            at = np.repeat(start[rows] - begin[:-1], counts) + np.arange(begin[-1])
            taken, kept = columns[at], entries[at] if len(entries) else entries
        else:
            places = [slice(a, b) for a, b in zip(start[rows].tolist(), start[rows + 1].tolist(), strict=True)]
            taken = np.concatenate([columns[each] for each in places])
            kept = np.concatenate([entries[each] for each in places]) if len(entries) else entries
        return Band((begin, taken, kept), self.lo[rows], self.hi[rows], self.K, self.unit)

    def transposed(self) -> Sparse:
        """The matrix by columns; few rows have short numbers."""
        kind = np.uint16 if len(self.lo) < 1 << 16 else np.int32
        return transposed(self.matrix, self.K, np.empty(len(self.matrix[1]), dtype=kind))


@dataclass(slots=True, eq=False)
class Projection:
    """Onto a band and a box; `rows` are the rows of the band that are its basis.

    >>> sums = np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.zeros(0)
    >>> band = Band(sums, np.array([3.0, 3.0]), np.array([3.0, 3.0]), 2)
    >>> there = Projection(band, np.zeros(2), np.full(2, 2.5))
    >>> x, steps = there.nearest(np.array([9.0, 1.0]), np.zeros(2), np.full(2, 2.5))
    >>> x.round(9).tolist(), len(there.rows)
    ([2.5, 0.5], 1)
    """

    band: Band
    low: Floats
    high: Floats
    tick: Callable[[], None] = lambda: None  # called now and then while it is set up; may raise
    rows: NDArray[np.int64] = field(init=False)
    basis: Band = field(init=False)
    by_column: Sparse = field(init=False)
    _weight: Floats = field(init=False)
    _slack: Floats = field(init=False)
    _diagonal: Floats = field(init=False)
    _inverse: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        self._weight = self.high - self.low
        m = len(self.band.lo)
        sizes = np.maximum(np.diff(self.band.matrix[0]), 1)
        slack = self.band.hi - self.band.lo
        by_column = self.band.transposed()
        self.tick()
        squares = weighted_gram(self.band.matrix, by_column, self._weight)
        diagonal = np.diag(squares) + slack
        squares[np.diag_indices(m)] = diagonal
        small = 1.0 / (np.sqrt(np.maximum(diagonal, 1e-300)) * sizes)
        for line, share in zip(squares, small.tolist(), strict=True):
            line *= share * small
        floor = np.maximum(
            DEPENDENT[0] / float(sizes.max(initial=1)) ** 2, DEPENDENT[1] / sizes.astype(np.float64) ** 2
        )
        chosen, factor = independent(squares, floor, self.tick)
        del squares
        order = np.argsort(chosen)
        self._inverse = inverted(factor, small[chosen], self.tick)[np.ix_(order, order)]
        self.rows = chosen[order]
        self.basis, self._slack = self.band.chosen(self.rows), slack[self.rows]
        self.by_column = by_column if len(self.rows) == m else self.basis.transposed()
        self._diagonal = diagonal[self.rows]

    def nearest(self, z: Floats, low: Floats, high: Floats) -> tuple[Floats | None, int]:
        """The table nearest to z within [low, high], and how many steps it took; None if it was not found."""
        aim = _Newton(self, z, low, high)
        for step in range(NEWTONS):
            aim.look()
            if aim.settled:
                return (aim.x, step) if self.band.holds(aim.x) else (None, step)
            if not aim.step():
                break
        return None, NEWTONS

    def solved(self, right: Floats, free: Floats, ridge: Floats, accuracy: float) -> Floats:
        """dy with (A W F A' + ridge) dy = right, nearly."""
        dy, out, r = np.zeros(len(right)), np.empty(len(right)), right.copy()
        enough = accuracy * float(np.linalg.norm(right))
        better = self._preconditioned(r)
        p, slope = better, float(r @ better)
        for _ in range(ITERATIONS):
            product(self.by_column, free, p, out)
            out += ridge * p
            curve = float(p @ out)
            if not curve > 0.0 or not slope > 0.0:
                break
            length = slope / curve
            dy += length * p
            before = r
            r = r - length * out
            if float(np.linalg.norm(r)) <= enough:
                break
            better = self._preconditioned(r)
            bend = float(better @ (r - before)) / slope
            slope = float(r @ better)
            p = better + max(bend, 0.0) * p
        return dy

    def _preconditioned(self, r: Floats) -> Floats:
        size = float(np.abs(r).max(initial=0.0)) or 1.0
        found: Any = self._inverse @ (r / size).astype(np.float32)
        return np.asarray(found.astype(np.float64) * size)


class _Newton:
    """One projection under way."""

    def __init__(self, projection: Projection, z: Floats, low: Floats, high: Floats) -> None:
        self.onto, self.z, self.low, self.high = projection, z, low, high
        basis = projection.basis
        self.y, self.moved = np.zeros(len(basis.lo)), np.zeros(len(z))
        self.wish = np.clip(basis.sums(np.clip(z, low, high)), basis.lo, basis.hi)
        self.enough = basis.within / 10

    def look(self) -> None:
        """Where the duals lead."""
        onto, basis = self.onto, self.onto.basis
        m = len(self.y)
        self.x, self.free, said, self.diagonal = clipped(
            onto.by_column, self.z, onto._weight, self.moved, self.low, self.high, m
        )
        wish = self.wish - onto._slack * self.y
        self.loose = np.where((wish > basis.lo) & (wish < basis.hi), onto._slack, 0.0)
        self.r = np.clip(wish, basis.lo, basis.hi) - said
        self.diagonal += self.loose
        self.settled = bool((np.abs(self.r) <= self.enough).all())

    def step(self) -> bool:
        """One Newton step; False if there is none."""
        onto = self.onto
        diagonal = onto._diagonal
        off = float(np.abs(self.r / diagonal).max())
        ridge = diagonal * float(np.clip(1e-3 * off, *RIDGE))
        ridge = np.where(self.diagonal > 0.0, ridge, 0.3 * diagonal) + self.loose
        dy = onto.solved(self.r, self.free, ridge, min(FORCING[0], FORCING[1] * float(np.abs(self.r).max())))
        along_columns = gathered(onto.by_column, dy)
        t = self._length(dy, along_columns)
        self.y += t * dy
        self.moved += t * along_columns
        return t > 0.0

    def _length(self, dy: Floats, step: Floats) -> float:
        """A root of r(y + t dy) . dy, to 30 %: it falls in t."""

        def rise(t: float) -> float:
            basis = self.onto.basis
            wish = np.clip(self.wish - self.onto._slack * (self.y + t * dy), basis.lo, basis.hi)
            gone = along(self.z, self.onto._weight, self.moved, step, self.low, self.high, t)
            return float(wish @ dy) - float(gone)

        first, below, above = rise(0.0), 0.0, 1.0
        if not first > 0.0:
            return 0.0
        at = rise(above)
        if abs(at) <= 0.1 * first:
            return above
        while at > 0.0 and above < 64.0:
            below, above = above, 2.0 * above
            at = rise(above)
        while above - below > 0.3 * above and above > 1e-9:
            middle = 0.5 * (below + above)
            if rise(middle) > 0.0:
                below = middle
            else:
                above = middle
        return below or above
