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

from keyhole.solve.decode.bitrows import overlaps, words_for
from keyhole.solve.interval.projection_kernels import (
    Floats,
    Sparse,
    along,
    as_bits,
    clipped,
    gathered,
    gram,
    product,
    transposed,
)

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


# --- pivoted cholesky -------------------------------------------------------------------------------------------------
# Pivoted Cholesky: which rows of a positive semidefinite matrix are independent, the largest diagonal first.
# Blocks of columns are factored one by one with diagonal pivoting, and what is left is updated by one product a block
# (the algorithm of LAPACK's xPSTRF): in stripes of rows, below the diagonal only, and over the rows that are still
# left. It ends where no diagonal is above its floor: the rank is a decision in floating point. The factor of the rows
# chosen is kept, so that nothing is factored twice. Cost: about n^2 r - n r^2 + r^3 / 3 for rank r, nearly all of it
# in matrix products. Reference: [higham1990].


BLOCK = 128
STRIPE = 256  # rows that are updated by one product
SHRINK = 0.8  # share of the rows left at which the others are taken out

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def independent(matrix: Floats, floor: Floats, tick: Callable[[], None] = lambda: None) -> tuple[Ints, Floats]:
    """The rows chosen, in order of choice, and their factor L: L L' is the matrix over these rows.

    A row of which no more than its `floor` is left depends on those before it. Of `matrix` what is on and below the
    diagonal is read, and overwritten; `tick` is called now and then.

    >>> chosen, L = independent(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]), np.full(3, 1e-9))
    >>> chosen.tolist(), L.tolist()
    ([2, 0], [[2.0, 0.0], [0.0, 1.0]])
    """
    chosen: list[int] = []
    panels: list[tuple[Ints, Floats]] = []
    names, diagonal = np.arange(len(matrix)), np.diag(matrix).copy()
    left = np.ones(len(matrix), dtype=np.bool_)
    while left.any():
        tick()
        panel, taken = _panel(matrix, diagonal, left, floor)
        chosen += names[taken].tolist()
        panels.append((names, panel[:, : len(taken)]))
        if len(taken) < panel.shape[1]:
            break
        if left.sum() < SHRINK * len(left):
            kept = np.flatnonzero(left)
            matrix, panel = matrix[np.ix_(kept, kept)], panel[kept]
            names, diagonal, left, floor = names[kept], diagonal[kept], left[kept], floor[kept]
        _update(matrix, panel)
    return np.array(chosen, dtype=np.int64), _factor(chosen, panels)


def _panel(matrix: Floats, diagonal: Floats, left: Flags, floor: Floats) -> tuple[Floats, list[int]]:
    """The next columns of the factor, one for each pivot; fewer pivots than columns where no more are above."""
    panel = np.zeros((len(matrix), min(BLOCK, int(left.sum()))))
    taken: list[int] = []
    for c in range(panel.shape[1]):
        pivot = int(np.argmax(np.where(left & (diagonal > floor), diagonal, -np.inf)))
        if not left[pivot] or diagonal[pivot] <= floor[pivot]:
            break
        column = np.concatenate([matrix[pivot, :pivot], matrix[pivot:, pivot]])
        column -= panel[:, :c] @ panel[pivot, :c]
        column *= left
        column /= np.sqrt(diagonal[pivot])
        panel[:, c] = column
        diagonal -= column * column
        left[pivot] = False
        taken.append(pivot)
    return panel, taken


def _update(matrix: Floats, panel: Floats) -> None:
    """matrix -= panel panel', below the diagonal."""
    for first in range(0, len(matrix), STRIPE):
        last = first + STRIPE
        matrix[first:last, :last] -= panel[first:last] @ panel[:last].T


def _factor(chosen: list[int], panels: list[tuple[Ints, Floats]]) -> Floats:
    """The factor over the rows chosen, from the panels over the rows that were left."""
    found, begin = np.zeros((len(chosen), len(chosen))), 0
    place = np.full(1 + max((int(names.max(initial=0)) for names, _ in panels), default=0), -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    for names, panel in panels:
        at = place[names]
        found[at[at >= 0], begin : begin + panel.shape[1]] = panel[at >= 0]
        begin += panel.shape[1]
    return found


# --- triangular -------------------------------------------------------------------------------------------------------
# The inverse of L L' from its triangular factor, in single precision: a preconditioner, so a few digits are enough.
# L is inverted in halves: of [A 0; B C] the inverse is [A^-1 0; -C^-1 B A^-1 C^-1]. The product L^-T L^-1 is made in
# stripes that leave out the zeros. Cost: about r^3, in matrix products. Reference: [higham2002].


LEAF = 64  # rows that are inverted as they are


def inverted(
    factor: NDArray[np.float64], scale: NDArray[np.float64], tick: Callable[[], None] = lambda: None
) -> NDArray[np.float32]:
    """S (L L')^-1 S for the diagonal S; `factor` is overwritten, `tick` is called now and then.

    >>> inverted(np.array([[2.0, 0.0], [1.0, 1.0]]), np.ones(2)).tolist()
    [[0.5, -0.5], [-0.5, 1.0]]
    """
    _halved(factor, tick)
    factor *= scale
    low = factor.astype(np.float32)
    n = len(low)
    found = np.empty((n, n), dtype=np.float32)
    for first in range(0, n, STRIPE):
        last = min(first + STRIPE, n)
        found[first:last, :last] = low[first:, first:last].T @ low[first:, :last]
        found[:first, first:last] = found[first:last, :first].T
    return found


def _halved(factor: NDArray[np.float64], tick: Callable[[], None]) -> None:
    """A lower triangular matrix, replaced by its inverse."""
    n = len(factor)
    if n <= LEAF:
        factor[:] = np.tril(np.linalg.inv(factor)) if n else factor
        return
    half = n // 2
    _halved(factor[:half, :half], tick)
    _halved(factor[half:, half:], tick)
    tick()
    factor[half:, :half] = -factor[half:, half:] @ (factor[half:, :half] @ factor[:half, :half])


# --- weighted gram ----------------------------------------------------------------------------------------------------
# A W A' of a sparse matrix: columns of ones that share a weight are counted as bits, the others are multiplied out.
# Two rows of bits have popcount(a & b) columns in common, and a column of c entries costs c^2 / 2 additions; for
# every weight the cheaper way is taken. Cost: at most that of multiplying out. Exact up to the last sum of floats.


WORDS_AN_ADDITION = 4  # of two rows that are compared while one number is added
MOST_ROWS = 4_000  # of a matrix whose rows are compared in pairs: 8 bytes a pair
MOST_WEIGHTS = 8  # that are treated apart


def weighted_gram(by_row: Sparse, by_column: Sparse, weight: Floats) -> Floats:
    """A W A', symmetric.

    >>> rows = np.array([0, 2, 4]), np.array([0, 1, 1, 2]), np.zeros(0)
    >>> columns = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1]), np.zeros(0)
    >>> weighted_gram(rows, columns, np.array([1.0, 2.0, 3.0])).tolist()
    [[3.0, 2.0], [2.0, 5.0]]
    """
    m = len(by_row[0]) - 1
    found, left = np.zeros((m, m)), weight.copy()
    for value, columns in _shared(by_column, weight, m):
        place = np.full(len(weight), -1, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        found += value * overlaps(as_bits(by_row, place, words_for(len(columns))))
        left[columns] = 0.0
    if left.any():
        rest = np.zeros((m, m))
        gram(by_column, left, rest)
        found += rest + np.tril(rest, -1).T
    return found


def _shared(by_column: Sparse, weight: Floats, m: int) -> list[tuple[float, NDArray[np.int64]]]:
    """The weights of so many long columns that bits are cheaper, each with its columns."""
    start, _, entries = by_column
    if len(entries) or not 0 < m <= MOST_ROWS:
        return []
    values, of, sizes = np.unique(weight, return_inverse=True, return_counts=True)
    additions = np.bincount(of, weights=np.diff(start).astype(np.float64) ** 2, minlength=len(values))
    gain = additions - float(m) ** 2 * -(-sizes // 64) / WORDS_AN_ADDITION
    best = np.argsort(-gain, kind="stable")[:MOST_WEIGHTS]
    return [(float(values[v]), np.flatnonzero(of == v)) for v in best.tolist() if gain[v] > 0]
