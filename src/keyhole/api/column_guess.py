"""The guess of one private column: solved, put beside what is proved, made again where it did not know that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keyhole.api.proved_ranges import Proved, proved_ranges
from keyhole.attacks.base import Measure, Reconstruction, Target
from keyhole.attacks.choose import Choice, run_attack
from keyhole.datasets import Roster
from keyhole.gather.evidence import Evidence
from keyhole.solve.status import SolverStatus

Progress = Callable[[str, int, int], None]
DOUBTING = ("l1", "extended-kaczmarz")  # methods for answers that may be wrong: nothing is proved by such
UNPROVED = "interrupted before ranges were proved: none is shown"
WITHOUT_EXTREMES = "MIN, MAX and their like narrow ranges alone: probabilities below 100 % are without queries"


class Stop(Protocol):
    """How a user ends what takes long: called at each step, it raises KeyboardInterrupt once he has asked."""

    def __call__(self) -> None:
        """Go on, or raise."""

    def at_once(self) -> AbstractContextManager[None]:
        """Inside, to ask is to raise: for what has no steps, and can be done without."""


class NeverStopped:
    """Nobody asks."""

    def __call__(self) -> None:
        """Go on."""

    def at_once(self) -> AbstractContextManager[None]:
        """Nothing changes."""
        return nullcontext()


@dataclass(frozen=True, slots=True, eq=False)
class ColumnGuess:
    """What was found of a column, what is proved of it, and what to say of both."""

    target: Target
    choice: Choice
    guess: Reconstruction
    proved: Proved | None
    warnings: tuple[str, ...]


def guess_column(
    target: Target,
    evidence: Evidence,
    people: Roster,
    *,
    method: str,
    unstated: frozenset[str],
    stop: Stop,
    progress: Progress | None = None,
) -> ColumnGuess:
    """Run the method, prove ranges, run it again within them if it did not know all. Stopped, the best so far stays."""

    def watch(step: int, residual: float) -> None:
        if progress is not None:
            progress(f"{target.column}: step {step}, residual {residual:.3g}", 0, 0)
        stop()

    choice, guess = run_attack(method, target, evidence, watch=watch, unstated=unstated)
    stopped = guess.status is SolverStatus.INTERRUPTED
    proved, unproved = (None, False) if choice.method in DOUBTING else _proved(evidence, people, target, stop)
    if proved is not None and not stopped and _again(method, choice, guess, proved):
        ends = (proved.lo, proved.hi)
        better, again = run_attack(method, target, evidence, watch=watch, unstated=unstated, within=ends)
        if again.status is not SolverStatus.INTERRUPTED:
            choice, guess = better, _once(again, guess, *ends)
    if proved is not None:
        guess = _inside(guess, proved.lo, proved.hi)
    if guess.measure is Measure.PROBABILITY and guess.unread:
        without = f"{WITHOUT_EXTREMES} {', '.join(guess.unread[:12])}"
        guess = replace(guess, note="; ".join(filter(None, (guess.note, without))))
    if unproved:
        guess = replace(guess, note="; ".join(filter(None, (guess.note, UNPROVED))))
    warnings = [
        *([f"{target.column}: {UNPROVED}"] if unproved else ()),
        *choice.noise,
        *_apart(evidence, target.column, choice, guess, proved),
    ]
    if evidence.transcript.entries and not choice.rows and proved is None:
        warnings.append(f"no answer is about {target.column!r}: the guesses are what was known beforehand")
    return ColumnGuess(target, choice, guess, proved, tuple(warnings))


def _proved(evidence: Evidence, people: Roster, target: Target, stop: Stop) -> tuple[Proved | None, bool]:
    """Proved ranges; none if the user has had enough, before or meanwhile, and whether he had."""
    try:
        stop()
        with stop.at_once():
            return proved_ranges(evidence, people, target), False
    except KeyboardInterrupt:
        return None, True


def _apart(
    evidence: Evidence, column: str, choice: Choice, guess: Reconstruction, proved: Proved | None
) -> Iterator[str]:
    """Of order statistics that the guess was made without, what they were good for."""
    for fact in (fact for system in evidence.systems for fact in system.order):
        read = choice.method == "integer" and fact.number not in guess.unread
        if fact.query.terms[0].column == column and not read:
            used = "used for ranges only" if proved is not None else "not used"
            yield f"query {fact.number} ({fact.query.aggregate}) is {used}: it is no sum"


def _again(method: str, choice: Choice, guess: Reconstruction, proved: Proved) -> bool:
    """Is the guess to be made again within what is proved? Where it leaves that, or does not know all of it."""
    if method != "auto" and choice.method != "integer":
        return False
    rough = guess.measure is Measure.PROBABILITY and (guess.unread or guess.status is SolverStatus.APPROXIMATED)
    return bool(rough and guess.status is not SolverStatus.INTERRUPTED) or _passes(guess, proved.lo, proved.hi)


def _passes(found: Reconstruction, lo: NDArray[np.float64], hi: NDArray[np.float64]) -> bool:
    """Does a guess leave what is proved? Then the method did not know what proved it."""
    if found.values.dtype == object or found.status is SolverStatus.INTERRUPTED:
        return False
    near = 1e-6 * (1 + np.abs(found.values))
    return bool(((found.values < lo - near) | (found.values > hi + near)).any())


def _once(
    found: Reconstruction, first: Reconstruction, lo: NDArray[np.float64], hi: NDArray[np.float64]
) -> Reconstruction:
    """The guess with errors that count no answer twice: ranges are proved from sums too.

    An error is that of the guess without ranges, or that of a value even in its range, whichever is smaller.
    """
    if found.measure is not Measure.STANDARD_ERROR or first.measure is not found.measure:
        return found
    even = np.sqrt((hi - lo) ** 2 / 12 + (found.values - (lo + hi) / 2) ** 2)
    return replace(found, confidence=np.fmin(first.confidence, np.where(np.isnan(even), np.inf, even)))


def _inside(found: Reconstruction, lo: NDArray[np.float64], hi: NDArray[np.float64]) -> Reconstruction:
    """The guess within what is proved; an error of 0 only where one value is left, none beyond the farther end."""
    if found.values.dtype == object:
        return found
    values = np.clip(found.values, lo, hi)
    if found.measure is not Measure.STANDARD_ERROR:
        sure = np.where((values != found.values) & (lo < hi), 0.0, found.confidence)
        return replace(found, values=values, confidence=np.where(lo == hi, 1.0, sure))
    width = hi - lo
    near = 1e-9 * (1 + np.abs(values))
    spread = np.where(width <= near, 0.0, np.where(np.isfinite(width), width / math.sqrt(12), math.inf))
    unearned = ((found.confidence == 0) | np.isinf(found.confidence)) & (width > near)
    sure = np.where((width <= near) | unearned, spread, found.confidence)
    return replace(found, values=values, confidence=np.fmin(sure, np.maximum(values - lo, hi - values)))
