"""`keyhole.attack`: what an outsider can rebuild from the answers he has seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from keyhole.api.attack_log import evidence_of_log
from keyhole.api.column_guess import NeverStopped, Progress, Stop, guess_column
from keyhole.api.person_totals import PersonTotal, person_totals
from keyhole.api.shown_rows import ShownRow, shown_rows
from keyhole.api.true_values import true_values
from keyhole.attacks.base import Measure, Reconstruction, Target
from keyhole.attacks.choose import Choice
from keyhole.attacks.experiment import Score, find_right_guesses, rank_precision, score_reconstruction
from keyhole.config.arguments import TableArguments
from keyhole.config.settings import Settings, settings, with_private
from keyhole.datasets import Roster
from keyhole.datasets.open import Use, open_table
from keyhole.errors import ConfigError, LogError, QueryError
from keyhole.gather.evidence import Evidence
from keyhole.logs.open import Log, as_log
from keyhole.logs.people_table import keep_people_table
from keyhole.model.predicate import quote_name
from keyhole.model.transcript import Noise
from keyhole.sql import lower_statement

AUTO = "auto"  # noise that is estimated


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attacked:
    """What was rebuilt, one entry a private column, for the people of `labels`; `scores`, `truths` if it was given."""

    found: tuple[tuple[Target, Choice, Reconstruction], ...]
    labels: tuple[Mapping[str, Any], ...]
    scores: Mapping[str, Score]
    warnings: tuple[str, ...]
    truths: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)  # proved
    rows: tuple[int, ...] = ()  # where ids repeat: the number of each record, from 0
    totals: tuple[PersonTotal, ...] = ()  # of people with several records
    features: tuple[ShownRow, ...] = ()  # of people's rows in other tables

    def __repr__(self) -> str:
        made = ", ".join(f"{target.column} by {choice.method}" for target, choice, _ in self.found)
        right = ", ".join(f"{100 * s.exact:.0f} % of {column} exact" for column, s in self.scores.items())
        return f"<Attacked: {made}, {len(self.labels)} records{f'; {right}' if right else ''}>"

    def _repr_html_(self) -> str:
        from keyhole.report.html.attacks import render_attack_fragment

        return render_attack_fragment({**self.to_json(), "truths": self.truths})

    def estimates(self, column: str | None = None) -> NDArray[Any]:
        """The guesses for a column (the first one), in the order of `labels`."""
        for target, _, result in self.found:
            if column is None or target.column == column:
                return tidy(result.values)
        raise ConfigError(f"{column!r} was not attacked; {', '.join(t.column for t, _, _ in self.found)} was")

    def to_json(self) -> dict[str, Any]:
        """As the contract has it."""
        estimates = [
            {
                "record": dict(label),
                **({"row": self.rows[at] + 1} if self.rows else {}),
                "column": target.column,
                "value": _number(value),
                "confidence": _number(sure),
                **self._range(target.column, at),
            }
            for target, _, result in self.found
            for at, (label, value, sure) in enumerate(
                zip(self.labels, tidy(result.values), result.confidence, strict=True)
            )
        ]
        first = self.found[0]
        reply: dict[str, Any] = {
            "method": first[1].method,
            "why": first[1].why,
            "residual": round(max(r.residual for _, _, r in self.found), 9),
            "status": first[2].status.value,
            "note": first[2].note,
            "confidence": str(first[2].measure),
            "estimates": estimates,
            "warnings": list(self.warnings),
        }
        if self.rows:
            reply["people"] = [each.to_json() for each in self.totals]
        if self.features:
            reply["features"] = [each.to_json() for each in self.features]
        if self.scores:
            whole = {column: s.as_json() for column, s in self.scores.items()}
            reply["score"] = whole[first[0].column] if len(whole) == 1 else whole
        return reply

    def _range(self, column: str, at: int) -> dict[str, Any]:
        if column not in self.ranges:
            return {}
        lo, hi = self.ranges[column]
        return {"range": [_number(lo[at]), _number(hi[at])]}


def attack(
    log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]],
    *,
    noise: str | None = None,
    method: str = "auto",
    truth: object = None,
    tolerance: float | None = None,
    dialect: str | None = None,
    target: str | None = None,
    by: str | None = None,
    **table: Unpack[TableArguments],
) -> Attacked:
    """Guess private values from questions and their answers, as somebody who has seen nothing else of them.

    `log` is a .jsonl transcript, a `Log`, or a list of (statement, answer); `data` the public half of the table. A
    private column in the data is not read. `truth` (a path or a frame) is the whole table, to score against. `noise`
    ("laplace:2"; "auto": estimated from the answers) is the law of answers that state none, `dialect` what the
    statements were written for (default: what the log says, else DuckDB). `target`, a condition on public columns and
    ids, says of whom to report; `by` "confidence" puts the surest first.

    >>> import pyarrow as pa
    >>> asked = [("SELECT SUM(pay) FROM t", 60), ("SELECT SUM(pay) FROM t WHERE team = 'a'", 30)]
    >>> found = attack(asked, data=pa.table({"team": ["a", "a", "b"]}), private="pay")
    >>> found.estimates().round(6).tolist()
    [15.0, 15.0, 30.0]
    """
    given = with_private(settings(**table))
    terms = AttackTerms(noise, method, truth, tolerance, target, by)
    return attacked(as_log(log, dialect), given, terms)


@dataclass(frozen=True, slots=True)
class AttackTerms:
    """How a log is attacked, what it is scored against, and of whom to report in which order."""

    noise: str | None = None
    method: str = "auto"
    truth: object = None
    tolerance: float | None = None
    target: str | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None and not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise ConfigError(f"--tolerance {self.tolerance:g}: write a number that is not negative")
        if self.by not in (None, "record", "confidence"):
            raise ConfigError(f"--by {self.by!r}: write record or confidence")


def attacked(
    log: Log,
    given: Settings,
    terms: AttackTerms,
    *,
    progress: Progress | None = None,
    interruptible: Callable[[], AbstractContextManager[Stop]] = lambda: nullcontext(NeverStopped()),
) -> Attacked:
    """The attack on merged settings. `interruptible` gives what a solver calls at each step, to be stopped there."""
    law = _noise(terms.noise)
    warnings: list[str] = []
    people = _roster(given, warnings)
    known = given.knowledge()
    wanted = _wanted(terms.target, people)
    about_people = keep_people_table(log, people.schema, given.config.source.ignore).log
    evidence, unstated = evidence_of_log(about_people, people, known, law, warnings)
    unstated = unstated if terms.noise == AUTO else frozenset()
    with interruptible() as stop:
        made = [
            guess_column(
                Target(column, people.n, known.prior(column)), evidence, people,
                method=terms.method, unstated=unstated, stop=stop, progress=progress,
            )
            for column in given.asked
        ]  # fmt: skip
        warnings.extend(said for each in made for said in each.warnings)
        ranges = {c.target.column: (c.proved.lo, c.proved.hi) for c in made if c.proved is not None}
        whole = _Whole(tuple((c.target, c.choice, c.guess) for c in made), ranges, people, given, terms, warnings)
        totals = [
            total
            for c in made
            for total in person_totals(people, c.target, c.guess, () if c.proved is None else c.proved.sums)
        ]
        features = _features(evidence, people, warnings, stop)
    chosen = set(wanted.tolist())
    return replace(
        whole.reported(wanted),
        totals=tuple(t for t in totals if chosen.intersection(t.rows)),
        features=tuple(f for f in features if chosen.intersection(f.rows)),
        warnings=tuple(warnings),
    )


def _features(evidence: Evidence, people: Roster, warnings: list[str], stop: Stop) -> tuple[ShownRow, ...]:
    """What counts of people tell of each; nothing if the user has had enough."""
    try:
        stop()
        with stop.at_once():
            return tuple(shown_rows(evidence, people, warnings))
    except KeyboardInterrupt:
        if evidence.counting is not None:
            warnings.append("stopped: what counts of people tell of each is left out")
        return ()


@dataclass(frozen=True, slots=True)
class _Whole:
    """What was found of everybody; `reported` is about those who are wanted, in the order that is."""

    found: tuple[tuple[Target, Choice, Reconstruction], ...]
    ranges: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    people: Roster
    given: Settings
    terms: AttackTerms
    warnings: list[str]

    def reported(self, wanted: NDArray[np.int64]) -> Attacked:
        """Guesses, scores and ranges of these records."""
        rows = self._ordered(wanted)
        truths: dict[str, NDArray[Any]] = {}
        scores: dict[str, Score] = {}
        for target, choice, result in self.found if self.terms.truth is not None else ():
            real = true_values(target, result, self.terms.truth, self.people, self.given, self.warnings)
            truths[target.column] = real[rows]
            scores[target.column] = self._scored(target, choice, result, real, rows)
        found = tuple(
            (t, c, replace(r, values=r.values[rows], confidence=r.confidence[rows])) for t, c, r in self.found
        )
        labels = tuple(self.people.labels(np.arange(self.people.n)))
        ranges = {column: (lo[rows], hi[rows]) for column, (lo, hi) in self.ranges.items()}
        known = {column: values.tolist() for column, values in truths.items()}
        at = tuple(int(r) for r in rows) if self.people.schema.repeated else ()
        return Attacked(found, tuple(labels[r] for r in rows), scores, tuple(self.warnings), known, ranges, at)

    def _ordered(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.terms.by != "confidence" or not self.found:
            return wanted
        first = self.found[0][2]
        sure = first.confidence[wanted]
        return wanted[np.argsort(-sure if first.measure is Measure.PROBABILITY else sure, kind="stable")]

    def _scored(
        self, target: Target, choice: Choice, result: Reconstruction, real: NDArray[Any], rows: NDArray[np.int64]
    ) -> Score:
        picked = replace(result, values=result.values[rows], confidence=result.confidence[rows])
        made = score_reconstruction(picked, real[rows], replace(target, n=len(rows)), tolerance=self.terms.tolerance)
        right = find_right_guesses(result, real, target)
        control = np.flatnonzero(~choice.asked) if choice.asked is not None else np.zeros(0, dtype=np.int64)
        if len(control):
            made = replace(made, control_records=len(control), control_exact=float(right[control].mean()))
        if self.terms.by == "confidence":
            made = replace(made, precision=rank_precision(right[rows]))
        return made


def _wanted(where: str | None, people: Roster) -> NDArray[np.int64]:
    """The records that `--target` names; everybody without it."""
    if where is None:
        return np.arange(people.n)
    try:
        asked = lower_statement(f"SELECT COUNT(*) FROM {quote_name(people.schema.table)} WHERE {where}", people.schema)
        rows = people.support(asked.queries[0])
    except QueryError as error:
        raise ConfigError(f"--target {where!r}: {error}") from None
    if not len(rows):
        raise ConfigError(f"--target {where!r} matches nobody of the roster")
    return np.asarray(rows, dtype=np.int64)


def _noise(text: str | None) -> Noise | None:
    if text is None:
        return None
    if text == AUTO:  # a unit, which the estimate replaces
        return Noise("gaussian", Fraction(1))
    kind, _, scale = text.partition(":")
    if not scale:
        raise ConfigError(f"--noise {text!r}: write kind:scale, such as laplace:2 or gaussian:0.5, or auto")
    try:
        return Noise.parse(kind, scale)
    except LogError as error:
        raise ConfigError(f"--noise {text!r}: {error}") from None


def _roster(given: Settings, warnings: list[str]) -> Roster:
    """The public half. A private column in the file is left out by name: its values are never read."""
    opened = open_table(given, Use.ATTACK)
    if opened.left_out:
        shown = ", ".join(repr(name) for name in sorted(opened.left_out))
        warnings.append(f"the roster has the private column {shown}: an attacker would not have it; it is not read")
    return opened.roster


def tidy(values: NDArray[Any]) -> NDArray[Any]:
    """What is below a solver's rounding of the largest value reads 0."""
    if values.dtype == object:
        return values
    size = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    return np.where(np.abs(values) < 1e-9 * size, 0.0, values)


def _number(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(f"{value:.12g}") if math.isfinite(value) else None
    return None if value is None else str(value)
