"""No noise: bisect one query at a time. D log2(range / resolution) answers instead of the ellipsoid's D^2 log."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import YesNoOracle
from keyhole.oracles.certify.entry_ranges import ROUNDING, entry_ranges
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.recorded import BudgetReached

CONTRADICTED = (
    "the oracle contradicts itself: the hidden numbers lie outside the stated range (state another: --range LOW..HIGH) "
    "or it answers with noise (state it, such as --noise gaussian:0.5, which --learner newton learns from)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where w is: `low` <= w <= `high` by entry, if the oracle has no noise; `asked` answers were used.

    `span` is the number of independent queries; below D only the part of w in their span is known, and `estimate` is
    that part (of least norm); entries in the span have their ranges all the same. `radius`: how far the estimate is
    from that part of w at most. `stopped`: why not every query was bisected.
    """

    estimate: Floats
    low: Floats
    high: Floats
    span: int
    asked: int
    radius: float = math.inf
    stopped: str = ""


def line_search(
    oracle: YesNoOracle,
    queries: Floats,
    lower: Floats,
    upper: Floats,
    *,
    resolution: float | Floats = 1e-6,
    stated: bool = True,
    clipped: bool = True,
) -> Located:
    """Independent rows of `queries`, each bisected until its answer is known to `resolution` (one, or one a row).

    Guarantee, without noise: w lies in the box `low`, `high`. Cost: rank * (log2(range / resolution) + 3) answers.
    An oracle that contradicts itself (noise, or w outside its bounds) is a `ModelError`. Both ends of each answer were
    asked for, so entries in the span do not rest on the bounds; others do, and have none where bounds are not `stated`.
    Where they are and `clipped`, ranges are cut at them. Rounding is allowed for (`entry_ranges`).

    >>> from keyhole.oracles.database import DatabaseOracle
    >>> class Exact:
    ...     asked, w = 0, np.array([0.25, 0.75])
    ...     def above(self, q, threshold):
    ...         self.asked += 1
    ...         return int(q @ self.w > threshold)
    >>> found = line_search(Exact(), np.eye(2), np.zeros(2), np.ones(2), resolution=1e-3)
    >>> found.asked, [round(float(v), 2) for v in found.estimate]
    (24, [0.25, 0.75])
    """
    queries = np.asarray(queries, dtype=np.float64)
    chosen = independent_at(queries)
    rows, fine = queries[chosen], np.broadcast_to(np.asarray(resolution, dtype=np.float64), len(queries))[chosen]
    if not np.all(fine > 0) or not np.all(np.isfinite(fine)):
        raise ModelError(f"the resolution is a positive number, got {resolution!r}")
    if rows.shape[1] != len(lower) or len(lower) != len(upper) or not np.all(lower <= upper):
        raise ModelError(f"queries of length {rows.shape[1]} need as many lower and upper bounds, lower <= upper")
    before, found, stopped = oracle.asked, list[tuple[float, float]](), ""
    for q, step in zip(rows, fine, strict=True):
        try:
            found.append(_bisected(oracle, q, lower, upper, float(step)))
        except BudgetReached as reached:
            stopped = str(reached)
            break
    ends, rows = np.array(found).reshape(-1, 2), rows[: len(found)]
    inverse: Floats = np.asarray(np.linalg.pinv(rows) if found else np.zeros((rows.shape[1], 0)), dtype=np.float64)
    inverse[np.abs(inverse) < 1e-13 * np.max(np.abs(inverse), axis=1, initial=0.0, keepdims=True)] = 0.0  # rounding
    middle = ends.mean(axis=1)
    half = np.maximum(ends[:, 1] - middle, middle - ends[:, 0])
    estimate = inverse @ middle
    reach = entry_ranges(rows, inverse, ends, np.maximum(np.abs(lower), np.abs(upper)) if stated else None)
    low, high = np.nextafter(estimate - reach, -math.inf), np.nextafter(estimate + reach, math.inf)
    if stated and clipped:
        low, high = within(low, high, lower, upper)
    radius = _distance(rows, inverse, middle, half) if found else math.inf
    if not found:
        estimate = (np.asarray(lower, dtype=np.float64) + upper) / 2
    return Located(estimate, low, high, len(rows), oracle.asked - before, radius, stopped)


def _distance(rows: Floats, inverse: Floats, middle: Floats, half: Floats) -> float:
    """|| inverse (answers - middle) ||, and what rounding did to the inverse."""
    size = float(np.linalg.norm(inverse, 2))
    lost = 64 * rows.shape[1] * ROUNDING * size * float(np.linalg.norm(rows, 2)) * float(np.linalg.norm(middle))
    spread = min(size * float(np.linalg.norm(half)), float(np.linalg.norm(np.abs(inverse) @ half)))
    return float(spread * (1 + 1e-6) + size * lost)


def within(low: Floats, high: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """What of low..high is in lower..upper; an entry of which nothing is there is a `ModelError`."""
    low, high = np.maximum(low, lower), np.minimum(high, upper)
    if np.any(low > high):
        raise ModelError(CONTRADICTED)
    return low, high


def _bisected(oracle: YesNoOracle, q: Floats, lower: Floats, upper: Floats, resolution: float) -> tuple[float, float]:
    """Two thresholds that were asked: the answer is above the first and not above the second."""
    low = float(np.minimum(q * lower, q * upper).sum())
    high = float(np.maximum(q * lower, q * upper).sum())
    first, last = low, high  # no answer says that it lies between these
    while high - low > resolution:
        middle = (low + high) / 2
        if not low < middle < high:
            break  # the last digit of a float
        low, high = (middle, high) if oracle.above(q, middle) else (low, middle)
    room = resolution / 2
    below, beyond = (low - room if low == first else low), (high + room if high == last else high)
    if not oracle.above(q, low - room) or oracle.above(q, high + room):
        raise ModelError(CONTRADICTED)
    return below, beyond


def independent(queries: Floats) -> Floats:
    """The first rows that are linearly independent, by Gram-Schmidt.

    >>> independent(np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 1.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return queries[independent_at(queries)]


def independent_at(queries: Floats) -> list[int]:
    """Where they are."""
    if queries.ndim != 2 or not np.all(np.isfinite(queries)) or not np.any(queries):
        raise ModelError(f"queries are finite rows, not all zero; got shape {queries.shape}")
    basis: list[Floats] = []
    chosen = []
    for at, q in enumerate(queries):
        rest = q.copy()
        for _ in range(2):  # twice is enough
            for e in basis:
                rest -= (rest @ e) * e
        size = float(np.linalg.norm(rest))
        if size > 1e-9 * float(np.linalg.norm(q)) and size > 0:
            basis.append(rest / size)
            chosen.append(at)
        if len(chosen) == queries.shape[1]:
            break
    return chosen
