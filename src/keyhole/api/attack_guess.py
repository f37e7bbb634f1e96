"""The guesses of an attack: a private column, within what is proved; people's totals; their rows in other tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Measure, Reconstruction, Target
from keyhole.attacks.choose import Choice, run_attack
from keyhole.attacks.row_membership import guess_row_membership
from keyhole.auditing.base import Finding, Status
from keyhole.auditing.judge import Judge
from keyhole.auditing.people import in_words
from keyhole.auditing.rules import RULES
from keyhole.datasets import Roster
from keyhole.errors import ContradictionError
from keyhole.gather.evidence import Contradiction, Evidence, System
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Role
from keyhole.solve.counting import Conflict
from keyhole.solve.status import SolverStatus

Progress = Callable[[str, int, int], None]
DOUBTING = ("l1", "extended-kaczmarz")  # methods for answers that may be wrong: nothing is proved by such
UNPROVED = "interrupted before ranges were proved: none is shown"
WITHOUT_EXTREMES = "MIN, MAX and their like narrow ranges alone: probabilities below 100 % are without queries"
LARGEST = 200_000  # rows times groups up to which ranges are searched


@dataclass(frozen=True, slots=True, eq=False)
class Proved:
    """[lo, hi] per record, and sums over several records of one person that are determined.

    `extremes`: answers that no method of attack reads had a part in it.
    """

    lo: Floats
    hi: Floats
    sums: tuple[Finding, ...] = ()
    extremes: bool = False


def proved_ranges(evidence: Evidence, people: Roster, target: Target) -> Proved | None:
    """[min, max] per record by the auditor's rules (sums, MIN and MAX, bounds); None where none was searched.

    Only answers that are exact or within stated limits prove anything. Infinite ends are unknown. Raises
    ContradictionError where a MIN or a MAX contradicts other answers: no method of attack reads those.
    """
    systems = [s for s in evidence.systems if target.column in s.columns]
    if target.categories is not None or not systems:
        return None
    rows = sum(len(s.constraints) + len(s.order) for s in systems)
    hard = [c for s in systems for c in s.constraints if c.lo is not None or c.hi is not None]
    order = [o for s in systems for o in s.order if o.lo is not None or o.hi is not None]
    if not (hard or order) or rows * max(s.atoms.K for s in systems) > LARGEST:
        return None
    exposure = Judge(rules=RULES).examine(replace(evidence, systems=tuple(systems), counting=None), people)
    if exposure.contradictions:  # from what cannot be true anything follows
        _refuse_unread(systems, exposure.contradictions)
        return None
    lo, hi = np.full(people.n, target.lower), np.full(people.n, target.upper)
    for bound in (b for s in systems for b in s.bounds if b.column == target.column):
        held = np.asarray(systems[0].atoms.mask(bound.where)[systems[0].atoms.of])
        lo = np.where(held, np.maximum(lo, -np.inf if bound.lo is None else float(bound.lo)), lo)
        hi = np.where(held, np.minimum(hi, np.inf if bound.hi is None else float(bound.hi)), hi)
    for finding in (*exposure.findings, *exposure.ranges):
        if finding.column != target.column or finding.form or finding.if_shown:
            continue
        row = finding.row
        lo[row] = max(lo[row], -np.inf if finding.lo is None else float(finding.lo))
        hi[row] = min(hi[row], np.inf if finding.hi is None else float(finding.hi))
    sums = (f for f in exposure.findings if f.column == target.column and f.rows and not f.grade and not f.if_shown)
    return Proved(lo, hi, tuple(sums), bool(order))


def _refuse_unread(systems: Sequence[System], found: Sequence[Contradiction]) -> None:
    """Contradictions among sums are the method's to find, within its rounding; it passes those with an extreme by."""
    unread = {o.number for s in systems for o in s.order}
    named = [c for c in found if unread.intersection(c.queries)]
    if named:
        listed = "; ".join(f"{c.reason} (queries {', '.join(c.queries)})" for c in named[:5])
        raise ContradictionError(f"the answers contradict each other: {listed}")


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


@dataclass(frozen=True, slots=True)
class PersonTotal:
    """The total of a column over a person's records (numbered from 0).

    The standard error is at most `error`: that of a sum is at most the sum of those of its parts. `certain`: the total
    follows from exact answers, though no record of his need.
    """

    label: Mapping[str, Any]
    column: str
    rows: tuple[int, ...]
    total: float
    error: float
    certain: bool

    def to_json(self) -> dict[str, Any]:
        """Plain data; rows count from 1, an error that is not known is None."""
        return {
            "record": dict(self.label),
            "column": self.column,
            "rows": [r + 1 for r in self.rows],
            "total": float(f"{self.total:.12g}"),
            "confidence": float(f"{self.error:.12g}") if np.isfinite(self.error) else None,
            "certain": self.certain,
        }


def owners(people: Roster) -> NDArray[np.int64] | None:
    """Whose each record is; None where every record is another person's."""
    if not people.schema.repeated:
        return None
    return people.classes([quote_name(c.name) for c in people.schema.of_role(Role.ID)])


def person_totals(
    people: Roster, target: Target, found: Reconstruction, proved: Sequence[Finding]
) -> Iterator[PersonTotal]:
    """Of everybody with several records that have a value; `proved` are sums over one person's records.

    Where guesses have probabilities instead of errors: of those alone whose total is proved.
    """
    owner = owners(people)
    if owner is None or found.values.dtype == object:
        return
    errors = found.measure is Measure.STANDARD_ERROR
    known = {f.rows: float(str(f.value)) for f in proved if _total(f, target.column)}
    value = ~np.isnan(found.values)
    order = np.argsort(owner, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
        mine = rows[value[rows]]
        if len(mine) < 2:
            continue
        at = tuple(np.sort(mine).tolist())
        error = float(found.confidence[mine].sum())
        sure = at in known or (errors and error == 0)
        if not (sure or errors):
            continue
        total = known.get(at, float(found.values[mine].sum()))
        (label,) = people.labels(mine[:1])
        yield PersonTotal(label, target.column, at, total, 0.0 if sure else error, sure)


def _total(finding: Finding, column: str) -> bool:
    """Is it the plain sum over its records, and known?"""
    if finding.column != column or finding.status is not Status.EXPOSED or finding.proof is None or not finding.rows:
        return False
    return finding.value is not None and set(finding.proof.target.values()) == {1}


LISTED = 20_000  # conditions of people, the surest first


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A condition of somebody in words, and how likely it holds; None: not computed. Rows are numbered from 0."""

    label: Mapping[str, Any]
    rows: tuple[int, ...]
    form: str
    chance: float | None
    proved: bool

    @property
    def sure(self) -> float:
        """How likely the likelier of yes and no is."""
        return 0.5 if self.chance is None else max(self.chance, 1 - self.chance)

    def to_json(self) -> dict[str, Any]:
        """Plain data; rows count from 1."""
        chance = None if self.chance is None else float(f"{self.chance:.9g}")
        return {
            "record": dict(self.label),
            "rows": [r + 1 for r in self.rows],
            "form": self.form,
            "probability": chance,
            "proved": self.proved,
        }


def shown_rows(evidence: Evidence, people: Roster, warnings: list[str]) -> tuple[ShownRow, ...]:
    """Everything that counts of people tell of each, the surest first; what they cannot be used for is a warning."""
    counting = evidence.counting
    if counting is None:
        return ()
    try:
        found = list(guess_row_membership(counting, rng=np.random.default_rng(0)))
    except Conflict as conflict:
        names = ", ".join(sorted({counting.counts[i].number for i in conflict.counts}))
        warnings.append(f"queries {names} cannot all be true of the people there are: none of the counts is used")
        return ()
    open_ = sum(each.chance is None for each in found)
    if open_:
        warnings.append(
            f"{open_:,} conditions of people are tied by more than sums (several conditions, or several records of one "
            "person): only what counts prove of them is reported"
        )
    told = [each for each in found if each.chance is not None]
    told.sort(key=lambda each: (not each.proved, -abs(float(each.chance or 0) - 0.5)))
    if len(told) > LISTED:
        warnings.append(f"{len(told):,} conditions of people are known or guessed: the {LISTED:,} surest are listed")
    told = told[:LISTED]
    labels = people.labels(np.array([each.rows[0] for each in told], dtype=np.int64)) if told else []
    shown: dict[tuple[object, ...], ShownRow] = {}  # by either key the same is known of somebody with one record
    for label, each in zip(labels, told, strict=True):
        words = in_words(each.leaf, True)
        row = ShownRow(label, each.rows, words, each.chance, each.proved)
        shown.setdefault((each.rows, words, each.chance, each.proved), row)
    return tuple(shown.values())
