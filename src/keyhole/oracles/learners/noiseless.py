"""Learning from a target without noise: bisect what is independent, hold the rest against it, say what it rests on.

One query at a time is bisected: D log2(range / resolution) answers instead of the ellipsoid's D^2 log. The entries of w
then follow from answers known to intervals, with what a computed inverse, a little wrong, makes certain of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import YesNoOracle
from keyhole.oracles.certify.assumptions import STICKY
from keyhole.oracles.noise import Floats
from keyhole.oracles.recorded import BudgetReached, Recorded
from keyhole.oracles.result import CertificateCondition, OracleResult, Prediction, Questions
from keyhole.oracles.subspace import find_independent_rows, range_over_box

CONTRADICTED = (
    "the oracle contradicts itself: the hidden numbers lie outside the stated range (state another: --range LOW..HIGH) "
    "or it answers with noise (state it, such as --noise gaussian:0.5, which --learner newton learns from)"
)
ROUNDING: float = 2.0**-52
LEAK = 1e-9  # of an entry into another: beyond this the entry is not in the span
SEARCH = "line search"
CHECKS = 8  # queries that are held against the rest
CHANGED = (
    "other queries contradict what was found: nothing is certain. The target changed, or its answers are no sums of "
    f"hidden numbers, or {STICKY}"
)
SUMS = "answers are sums of query times hidden number"


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
    chosen = find_independent_rows(queries)
    rows, fine = queries[chosen], np.broadcast_to(np.asarray(resolution, dtype=np.float64), len(queries))[chosen]
    if not np.all(fine > 0) or not np.all(np.isfinite(fine)):
        raise ModelError(f"the resolution is a positive number, got {resolution!r}")
    if rows.shape[1] != len(lower) or len(lower) != len(upper) or not np.all(lower <= upper):
        raise ModelError(f"queries of length {rows.shape[1]} need as many lower and upper bounds, lower <= upper")
    before, found, stopped = oracle.asked, list[tuple[float, float]](), ""
    for q, step in zip(rows, fine, strict=True):
        try:
            found.append(_bisect_query(oracle, q, lower, upper, float(step)))
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
        low, high = clip_ranges(low, high, lower, upper)
    radius = _distance(rows, inverse, middle, half) if found else math.inf
    if not found:
        estimate = (np.asarray(lower, dtype=np.float64) + upper) / 2
    return Located(estimate, low, high, len(rows), oracle.asked - before, radius, stopped)


def _bisect_query(
    oracle: YesNoOracle, q: Floats, lower: Floats, upper: Floats, resolution: float
) -> tuple[float, float]:
    """Two thresholds that were asked: the answer is above the first and not above the second."""
    low, high = range_over_box(q, lower, upper)
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


def _distance(rows: Floats, inverse: Floats, middle: Floats, half: Floats) -> float:
    """|| inverse (answers - middle) ||, and what rounding did to the inverse."""
    size = float(np.linalg.norm(inverse, 2))
    lost = 64 * rows.shape[1] * ROUNDING * size * float(np.linalg.norm(rows, 2)) * float(np.linalg.norm(middle))
    spread = min(size * float(np.linalg.norm(half)), float(np.linalg.norm(np.abs(inverse) @ half)))
    return float(spread * (1 + 1e-6) + size * lost)


def clip_ranges(low: Floats, high: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """What of low..high is in lower..upper; an entry of which nothing is there is a `ModelError`."""
    low, high = np.maximum(low, lower), np.minimum(high, upper)
    if np.any(low > high):
        raise ModelError(CONTRADICTED)
    return low, high


def entry_ranges(rows: Floats, inverse: Floats, ends: Floats, bounds: Floats | None) -> Floats:
    """How far entry i of w may be from (inverse @ middle of the ends)_i; inf where nothing is known.

    With B the computed inverse and A the rows, w = B (A w) + (I - B A) w. A w lies between the ends; I - B A, the leak,
    is bounded with the rounding of its own computation, |I - B A| + (k + 3) 2^-52 (|B| |A| + 1), or is 0 where exact
    arithmetic says so. |w| is bounded by `bounds`, or else by what the entries themselves make certain: with rho the
    largest row sum of the leak, max |w| <= max |B A w| / (1 - rho). An entry into which another leaks of which nothing
    is known is not known either. Cost: O(D^2 k), exact arithmetic only for entries that the rows do not span.

    >>> one = np.array([[1.0, 1e-10]])
    >>> entry_ranges(one, np.linalg.pinv(one), np.array([[0.4, 0.6]]), None).tolist()  # the other may be 1e9
    [inf, inf]
    >>> both = np.eye(2)
    >>> [round(float(v), 6) for v in entry_ranges(both, both, np.array([[0.4, 0.6], [1.0, 1.0]]), None)]
    [0.1, 0.0]
    """
    width, count = rows.shape[1], len(rows)
    if not count:
        return np.full(width, math.inf)
    middle, size = ends.mean(axis=1), np.abs(ends).max(axis=1)
    half = np.maximum(ends[:, 1] - middle, middle - ends[:, 0]) * (1 + 4 * ROUNDING)
    lost = (count + 3) * ROUNDING
    leak = np.abs(np.eye(width) - inverse @ rows) + lost * (np.abs(inverse) @ np.abs(rows) + 1)
    told = (np.abs(inverse) @ half + 2 * lost * (np.abs(inverse) @ size)) * (1 + 1e-12)
    told += 1e-9 * (1 + np.abs(inverse @ middle))  # more than any of the roundings that follow
    if bounds is not None:
        wide = np.max(leak - lost, axis=1) >= LEAK
        return np.where(wide, math.inf, told + (leak @ bounds) * (1 + 1e-9))
    seen = np.max(np.abs(np.eye(width) - inverse @ rows), axis=1) < LEAK
    while np.any(seen) and not np.all(seen):
        more = np.array(
            [bool(s) and _untouched(i, rows, inverse[i], np.flatnonzero(~seen)) for i, s in enumerate(seen)]
        )
        if np.array_equal(more, seen):
            break
        seen = more
    if not np.any(seen):
        return np.full(width, math.inf)
    inner = leak[np.ix_(seen, seen)]
    rho = float(inner.sum(axis=1).max())
    if rho >= 0.5:
        return np.full(width, math.inf)
    most = float(np.max(np.abs(inverse[seen]) @ size)) * (1 + 1e-9) / (1 - rho)
    reach = np.full(width, math.inf)
    reach[seen] = told[seen] + inner.sum(axis=1) * most * (1 + 1e-9)
    return reach


def _untouched(i: int, rows: Floats, weights: Floats, others: np.ndarray) -> bool:
    """Does nothing of the other entries leak into entry i, in exact arithmetic?"""
    used = np.flatnonzero(weights)
    return all(
        sum((Fraction(float(weights[k])) * Fraction(float(rows[k, j])) for k in used), Fraction(0)) == (i == j)
        for j in others
    )


@dataclass(slots=True)
class _Checks:
    """Which queries were held against the estimate, whether it was wrong, and how many answers are still wanted."""

    rows: set[int] = field(default_factory=set)
    others: int = 0
    wrong: bool = False
    missing: int = 0


def learn_noiseless(oracle: YesNoOracle, asking: Questions, notes: tuple[str, ...]) -> OracleResult:
    """Bisect each independent query to a millionth of its range, then check.

    A check that the certificate rests on is part of its cost: where the answers for it are not to be had (the budget,
    Ctrl-C) nothing is certified. Where no query is left that could show it, that answers add up is a condition.
    """
    rows, lower, upper = asking.rows, asking.lower, asking.upper
    fine = 1e-6 * float(np.max(upper - lower)) * np.max(np.abs(rows), axis=1)
    try:
        found = line_search(oracle, rows, lower, upper, resolution=fine, stated=asking.stated, clipped=False)
    except ModelError:
        if isinstance(oracle, Recorded):
            oracle.withdraw("the answers contradict each other or the stated range")
        raise
    if found.stopped:
        notes = (*notes, f"{found.stopped} before all queries were bisected")
    if found.span < rows.shape[1]:
        which = "queries that were bisected" if found.stopped else "queries"
        notes = (*notes, f"the {which} span {found.span} of {rows.shape[1]} dimensions: the rest of w is not seen")
    first = find_independent_rows(rows)[: found.span]
    left = find_redundant_rows(rows, first)
    checks = _hold_against_rest(oracle, rows, first, left, found, fine)
    low, high = found.low, found.high
    if not left and not asking.sums:
        notes = (*notes, "no query was left over to check that answers add up: that they do is taken as given")
    if asking.stated and not checks.wrong:
        low, high = clip_ranges(low, high, lower, upper)
    asked = {tuple(rows[at]) for at in (*first, *checks.rows)}
    made = OracleResult(
        np.clip(found.estimate, low, high), low, high, SEARCH, "none", False, oracle.asked,
        sum(tuple(row) not in asked for row in rows), notes, found.span, found.radius, 0.0,
        predict_answers(asking.held_out, found.estimate, low, high), asking.stated,
        (
            CertificateCondition("the oracle has no noise", True, "both ends of each answer were asked"),
            _sums(asking, checks),
        ),
    )  # fmt: skip
    if checks.wrong:
        if isinstance(oracle, Recorded):
            oracle.withdraw("other queries contradict what was found")
        return made.withdrawn(asking, CHANGED)
    if checks.missing:
        why = f"not certified: the check that answers add up and stay as they are needs {checks.missing} more answers"
        return made.withdrawn(asking, why)
    return made


def _sums(asking: Questions, checks: _Checks) -> CertificateCondition:
    if asking.sums:
        return CertificateCondition(SUMS, True, "the statement is a sum over the ids")
    claim = f"{SUMS}, without noise that is drawn once for each query"
    if checks.others:
        return CertificateCondition(
            claim, True, f"{checks.others} of the other queries were answered as they should be"
        )
    return CertificateCondition(claim, False, "no query was left over that is not a multiple of one that was bisected")


def find_redundant_rows(rows: Floats, first: list[int]) -> list[int]:
    """Queries whose answers follow from those of the bisected ones together, and of no single one of them.

    The same query, or a multiple, is answered alike by a target that adds nothing up: it shows nothing.

    >>> find_redundant_rows(np.array([[1.0, 0], [0, 1], [2, 0], [1, 1], [1, 1]]), [0, 1])
    [3]
    """
    if not first:
        return []
    units = [q / np.linalg.norm(q) for q in rows[first]]
    span = np.linalg.qr(rows[first].T)[0]
    found = []
    for at, q in enumerate(rows):
        unit = q / np.linalg.norm(q)
        if at in first or any(abs(float(unit @ e)) > 1 - 1e-12 for e in units):
            continue
        if np.linalg.norm(unit - span @ (span.T @ unit)) < 1e-9:
            found.append(at)
            units.append(unit)
    return found


def _hold_against_rest(
    oracle: YesNoOracle, rows: Floats, first: list[int], left: list[int], found: Located, fine: Floats
) -> _Checks:
    """Ask what is left over just below and above what the estimate says; the last queries count most.

    Noise drawn once a query shows itself so, and a target whose answers are no sums. Where the answers are of more than
    one run, what was bisected is asked again: the target may have changed since.
    """
    made = _Checks()
    half = (found.high - found.low) / 2
    half = np.where(np.isfinite(half), half, 0.0)
    once = [*first, *left][-CHECKS:]
    if found.stopped and not left:
        once = []
    again = first if isinstance(oracle, Recorded) and oracle.resumed else []
    made.others = min(len(left), CHECKS)  # all of them, or nothing is certified
    todo = [(at, 100 * float(fine[at]) + 2 * float(np.abs(rows[at]) @ half)) for at in (*once, *again)]
    begun = oracle.asked
    try:
        for at, room in todo:
            answer = float(rows[at] @ found.estimate)
            made.rows.add(at)
            made.wrong |= not oracle.above(rows[at], answer - room) or bool(oracle.above(rows[at], answer + room))
    except BudgetReached:
        made.missing = 2 * len(todo) - (oracle.asked - begun)
    return made


def predict_answers(held_out: Floats, estimate: Floats, low: Floats, high: Floats) -> tuple[Prediction, ...]:
    """Answers to queries that were not asked, from ranges of the entries, rounded outwards."""
    return tuple(_prediction(q, estimate, *range_over_box(q, low, high)) for q in held_out)


def _prediction(q: Floats, estimate: Floats, low: float, high: float) -> Prediction:
    answer = float(q @ estimate)
    lost = 4 * (len(q) + 2) * 2.0**-52 * (float(np.abs(q) @ np.abs(estimate)) + abs(low) + abs(high))
    lost = lost if math.isfinite(lost) else 0.0
    return Prediction(answer, low - lost, high + lost)
