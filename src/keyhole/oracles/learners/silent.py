"""Learning from a target without noise: bisect what is independent, hold the rest against it, say what it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import YesNoOracle
from keyhole.oracles.certify.measured import STICKY
from keyhole.oracles.certify.stated_range import ends, uncertified
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.learners.line_search import Located, independent_at, line_search, within
from keyhole.oracles.learnt import Learnt, Prediction, RestsOn
from keyhole.oracles.recorded import BudgetReached, Recorded

if TYPE_CHECKING:
    from keyhole.oracles.real import Questions

SEARCH = "line search"
CHECKS = 8  # queries that are held against the rest
CHANGED = (
    "other queries contradict what was found: nothing is certain. The target changed, or its answers are no sums of "
    f"hidden numbers, or {STICKY}"
)
SUMS = "answers are sums of query times hidden number"


@dataclass(slots=True)
class _Checks:
    """Which queries were held against the estimate, whether it was wrong, and how many answers are still wanted."""

    rows: set[int] = field(default_factory=set)
    others: int = 0
    wrong: bool = False
    missing: int = 0


def learn_silent(oracle: YesNoOracle, asking: Questions, notes: tuple[str, ...]) -> Learnt:
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
    first = independent_at(rows)[: found.span]
    left = left_over(rows, first)
    checks = _checked(oracle, rows, first, left, found, fine)
    low, high = found.low, found.high
    if not left and not asking.sums:
        notes = (*notes, "no query was left over to check that answers add up: that they do is taken as given")
    if asking.stated and not checks.wrong:
        low, high = within(low, high, lower, upper)
    asked = {tuple(rows[at]) for at in (*first, *checks.rows)}
    made = Learnt(
        np.clip(found.estimate, low, high), low, high, SEARCH, "none", False, oracle.asked,
        sum(tuple(row) not in asked for row in rows), notes, found.span, found.radius, 0.0,
        predictions(asking.held_out, found.estimate, low, high), asking.stated,
        (RestsOn("the oracle has no noise", True, "both ends of each answer were asked"), _sums(asking, checks)),
    )  # fmt: skip
    if checks.wrong:
        if isinstance(oracle, Recorded):
            oracle.withdraw("other queries contradict what was found")
        return uncertified(made, asking, CHANGED)
    if checks.missing:
        why = f"not certified: the check that answers add up and stay as they are needs {checks.missing} more answers"
        return uncertified(made, asking, why)
    return made


def _sums(asking: Questions, checks: _Checks) -> RestsOn:
    if asking.sums:
        return RestsOn(SUMS, True, "the statement is a sum over the ids")
    claim = f"{SUMS}, without noise that is drawn once for each query"
    if checks.others:
        return RestsOn(claim, True, f"{checks.others} of the other queries were answered as they should be")
    return RestsOn(claim, False, "no query was left over that is not a multiple of one that was bisected")


def left_over(rows: Floats, first: list[int]) -> list[int]:
    """Queries whose answers follow from those of the bisected ones together, and of no single one of them.

    The same query, or a multiple, is answered alike by a target that adds nothing up: it shows nothing.

    >>> left_over(np.array([[1.0, 0], [0, 1], [2, 0], [1, 1], [1, 1]]), [0, 1])
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


def _checked(
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


def predictions(held_out: Floats, estimate: Floats, low: Floats, high: Floats) -> tuple[Prediction, ...]:
    """Answers to queries that were not asked, from ranges of the entries, rounded outwards."""
    return tuple(_prediction(q, estimate, *ends(q, low, high)) for q in held_out)


def _prediction(q: Floats, estimate: Floats, low: float, high: float) -> Prediction:
    answer = float(q @ estimate)
    lost = 4 * (len(q) + 2) * 2.0**-52 * (float(np.abs(q) @ np.abs(estimate)) + abs(low) + abs(high))
    lost = lost if math.isfinite(lost) else 0.0
    return Prediction(answer, low - lost, high + lost)
