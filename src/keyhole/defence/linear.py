"""Linear queries over the cells of a domain, on an integer grid, and how far one person can move them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole.defence.budget.loss import Neighbours
from keyhole.errors import PrivacyParameterError

LARGEST_UNIT = 2**31


@dataclass(frozen=True, slots=True)
class Place:
    """Where a compact query's weights stand in a domain of `shape`: one for each cell of the columns `axes`, the same
    whatever the other columns say; with `keys` (axis, cell), only in those cells, and `rest` everywhere else.

    A GROUP BY has one such query for each key, each as small as what is asked within its group.

    >>> Place((2, 3), (1,), ((0, 1),), 0).spread(np.array([5, 6, 7])).tolist()
    [0, 0, 0, 5, 6, 7]
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    keys: tuple[tuple[int, int], ...] = ()
    rest: int = 0

    def block(self, array: NDArray[Any], over: Sequence[int]) -> NDArray[Any]:
        """The view of an array over the axes `over` (a superset of this query's) in which the weights stand."""
        held = {axis: slice(cell, cell + 1) for axis, cell in self.keys}
        return array[tuple(held.get(axis, slice(None)) for axis in over)]

    def fitted(self, weights: NDArray[Any], over: Sequence[int]) -> NDArray[Any]:
        """The weights, shaped to broadcast to that view."""
        return weights.reshape([self.shape[axis] if axis in self.axes else 1 for axis in over])

    def spread(self, weights: NDArray[Any]) -> NDArray[Any]:
        """One weight for each cell of the domain."""
        every = range(len(self.shape))
        full = np.full(self.shape, self.rest, dtype=weights.dtype)
        self.block(full, every)[...] = self.fitted(weights, every)
        return full.ravel()


@dataclass(frozen=True, slots=True, eq=False)
class LinearQuery:
    """f in [0, 1]^cells with f[i] = weights[i] / unit: on a database x it asks for sum(f * x).

    Weights are integers, so that the true answer lies on the public grid of multiples of 1/unit, where exact discrete
    noise can be added (Dwork and Roth 2014, section 2.1 for linear queries). A counting query has unit 1.

    >>> LinearQuery.of([1, 0, 0, 1]).counting
    True
    >>> LinearQuery.of([0, 2, 4], unit=4).dense().tolist()
    [0.0, 0.5, 1.0]
    >>> LinearQuery.of([-1, 1])
    Traceback (most recent call last):
    keyhole.errors.PrivacyParameterError: a linear query has weights from 0 to 1, not -1: shift and scale it first
    """

    stored: NDArray[Any]
    unit: int = 1
    name: str = ""
    place: Place | None = None

    @classmethod
    def of(cls, weights: ArrayLike, unit: int = 1, name: str = "", place: Place | None = None) -> LinearQuery:
        """A checked query; the array is copied into the smallest unsigned type that holds the unit."""
        array = np.asarray(weights)
        if array.ndim != 1 or array.size == 0:
            raise PrivacyParameterError("a linear query has one weight for each cell of the domain")
        if array.dtype == np.bool_:
            array = array.view(np.uint8)
        if not np.issubdtype(array.dtype, np.integer):
            raise PrivacyParameterError(
                f"a linear query has integer weights over a unit (noise is discrete), not {array.dtype}: "
                "multiply by the unit and round"
            )
        if not 1 <= unit <= LARGEST_UNIT:
            raise PrivacyParameterError(f"the unit of a linear query is from 1 to 2^31, not {unit}")
        low, high = int(array.min()), int(array.max())
        if place is not None:
            if array.size != math.prod(place.shape[axis] for axis in place.axes):
                raise PrivacyParameterError("a compact query has one weight for each cell of the columns it looks at")
            low, high = min(low, place.rest), max(high, place.rest)
        if low < 0 or high > unit:
            worst = Fraction(low if low < 0 else high, unit)
            raise PrivacyParameterError(
                f"a linear query has weights from 0 to 1, not {worst}: shift and scale it first"
            )
        kept = np.array(array, dtype=np.uint8 if unit < 256 else np.uint16 if unit < 65536 else np.uint32)
        kept.flags.writeable = False
        return cls(kept, unit, name, place)

    @property
    def weights(self) -> NDArray[Any]:
        """One weight for each cell of the domain."""
        return self.stored if self.place is None else self.place.spread(self.stored)

    @property
    def rest(self) -> tuple[int, ...]:
        """The weight of the cells beside the stored ones, if there are any."""
        return (self.place.rest,) if self.place is not None and self.place.keys else ()

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest weight."""
        return min([int(self.stored.min()), *self.rest]), max([int(self.stored.max()), *self.rest])

    def middle(self) -> int:
        """The middle one of all weights in order: what most cells that do not matter have."""
        stored = self.stored
        if self.place is not None and self.place.keys:
            if math.prod(self.place.shape[axis] for axis, _ in self.place.keys) > 2:
                return self.place.rest  # more than half of the cells
            stored = np.concatenate([stored, np.full_like(stored, self.place.rest)])
        return int(np.partition(stored, stored.size // 2)[stored.size // 2])

    @property
    def cells(self) -> int:
        """The size of the domain."""
        return int(self.stored.size) if self.place is None else math.prod(self.place.shape)

    @property
    def counting(self) -> bool:
        """True for a 0/1 query."""
        return self.unit == 1

    def dense(self) -> NDArray[np.float64]:
        """f as doubles."""
        return self.weights / self.unit


MOST_PAIRS = 2**22  # of cells, times queries


def _stacked(queries: Sequence[LinearQuery], power: int) -> tuple[int, int, int, int]:
    """Over one common denominator: the largest column of weights**power, of |weights - base|**power, the sum of the
    ranges**power, and the denominator. The base of a query is its middle weight: what most cells that do not matter
    have.
    """
    if len(queries) == 1:
        low, high = queries[0].ends
        return high**power, (high - low) ** power, (high - low) ** power, queries[0].unit ** power
    common = math.lcm(*(q.unit for q in queries)) ** power
    if common * len(queries) > 2**62:
        raise PrivacyParameterError("these weights have no common grid within 64 bits: round them to a coarser unit")
    queries, laid, over, sizes = _laid(queries)
    total = np.zeros(sizes, dtype=np.int64)
    shifted = np.zeros_like(total)
    ranges = everywhere = beside = 0
    for q, place in zip(queries, laid, strict=True):
        factor = common // q.unit**power
        weights, rest, base = q.stored.astype(np.int64), place.rest if place.keys else 0, q.middle()
        outside, off = (rest**power * factor, abs(rest - base) ** power * factor) if place.keys else (0, 0)
        everywhere, beside = everywhere + outside, beside + off
        place.block(total, over)[...] += place.fitted(weights**power * factor - outside, over)
        place.block(shifted, over)[...] += place.fitted(np.abs(weights - base) ** power * factor - off, over)
        low, high = q.ends
        ranges += (high - low) ** power * factor
    return int(total.max()) + everywhere, int(shifted.max()) + beside, ranges, common


def _laid(
    queries: Sequence[LinearQuery],
) -> tuple[Sequence[LinearQuery], list[Place], list[int], list[int]]:
    """Queries over the columns that any of them looks at; what all other cells have in common is one number."""
    shape: tuple[int, ...] = (queries[0].cells,)
    places = [q.place for q in queries]
    if all(p is not None and places[0] is not None and p.shape == places[0].shape for p in places):
        shape = places[0].shape if places[0] is not None else shape
    else:
        queries = [LinearQuery(q.weights, q.unit) for q in queries]
    laid = [q.place or Place(shape, (0,)) for q in queries]
    over = sorted({axis for p in laid for axis in (*p.axes, *(k for k, _ in p.keys))}) or [0]
    return queries, laid, over, [shape[axis] for axis in over]


def _replaced(queries: Sequence[LinearQuery], power: int) -> int | None:
    """The most that one person in another's place moves, over the common denominator: every pair of different columns
    of weights is tried. None where there are too many.
    """
    common = math.lcm(*(q.unit for q in queries))
    queries, laid, over, sizes = _laid(queries)
    if math.prod(sizes) * len(queries) > MOST_PAIRS or common**power * len(queries) > 2**62:
        return None
    rows = []
    for q, place in zip(queries, laid, strict=True):
        row = np.full(sizes, place.rest if place.keys else 0, dtype=np.int64)
        place.block(row, over)[...] = place.fitted(q.stored.astype(np.int64), over)
        rows.append(row.ravel() * (common // q.unit))
    columns = np.unique(np.stack(rows), axis=1).T
    if len(columns) ** 2 * len(queries) > MOST_PAIRS:
        return None
    return max(int((np.abs(columns - one) ** power).sum(axis=1).max()) for one in columns)


def l1_sensitivity(queries: Sequence[LinearQuery], neighbours: Neighbours) -> Fraction:
    """The most one person can move the answers, summed over the queries.

    add-remove: max over cells of the sum of weights, exact. replace-one: the largest difference of two columns of
    weights, exact, where the pairs can be tried; beyond MOST_PAIRS the smallest of the sum of the ranges, twice the
    largest sum of weights, and twice the largest sum of distances from the queries' middle weights: an upper bound,
    exact for one query and for the cells of a GROUP BY. It depends on the questions only.

    >>> count = LinearQuery.of([1, 1, 0])
    >>> groups = [LinearQuery.of([1, 0, 0]), LinearQuery.of([0, 1, 0]), LinearQuery.of([0, 0, 1])]
    >>> [int(l1_sensitivity(qs, "replace-one")) for qs in ([count], groups)]
    [1, 2]
    >>> [int(l1_sensitivity(qs, "add-remove")) for qs in ([count], groups)]
    [1, 1]
    """
    if neighbours == "replace-one" and len(queries) > 1 and (moved := _replaced(queries, 1)) is not None:
        return Fraction(moved, math.lcm(*(q.unit for q in queries)))
    most, shifted, ranges, common = _stacked(queries, 1)
    moved = most if neighbours == "add-remove" else min(ranges, 2 * most, 2 * shifted)
    return Fraction(moved, common)


def l2_sensitivity_squared(queries: Sequence[LinearQuery], neighbours: Neighbours) -> Fraction:
    """The square of the most one person can move the answers in Euclidean length.

    For non-negative columns |a - b|^2 <= |a|^2 + |b|^2, and for any |a - b|^2 <= 2 |a|^2 + 2 |b|^2.

    >>> int(l2_sensitivity_squared([LinearQuery.of([1, 0]), LinearQuery.of([0, 1])], "replace-one"))
    2
    """
    if neighbours == "replace-one" and len(queries) > 1 and (moved := _replaced(queries, 2)) is not None:
        return Fraction(moved, math.lcm(*(q.unit for q in queries)) ** 2)
    most, shifted, ranges, common = _stacked(queries, 2)
    moved = most if neighbours == "add-remove" else min(ranges, 2 * most, 4 * shifted)
    return Fraction(moved, common)
