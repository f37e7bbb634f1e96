"""`keyhole.attack`: what an outsider can rebuild from the answers he has seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attack.base import Reconstruction, Target
from keyhole.attack.choose import Choice, run
from keyhole.attack.score import Score, score
from keyhole.errors import ConfigError, DataError, LogError
from keyhole.evidence import Evidence
from keyhole.gather import gather, transcribe
from keyhole.knowledge import Config, Knowledge
from keyhole.logs.open import Log, as_log
from keyhole.predicate import IsNull, leaves
from keyhole.query import DOUBTFUL
from keyhole.settings import Names, Settings, settings, with_private
from keyhole.tables import DuckDBRoster
from keyhole.tables.open import Use, open_table, read_columns
from keyhole.transcript import ABSENT, Noise, Transcript

Progress = Callable[[str, int, int], None]
Stop = Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attacked:
    """What was rebuilt, one entry a private column, for the people of `labels`; `scores`, `truths` if it was given."""

    found: tuple[tuple[Target, Choice, Reconstruction], ...]
    labels: tuple[Mapping[str, Any], ...]
    scores: Mapping[str, Score]
    warnings: tuple[str, ...]
    truths: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        made = ", ".join(f"{target.column} by {choice.method}" for target, choice, _ in self.found)
        right = ", ".join(f"{100 * s.exact:.0f} % of {column} exact" for column, s in self.scores.items())
        return f"<Attacked: {made}, {len(self.labels)} records{f'; {right}' if right else ''}>"

    def _repr_html_(self) -> str:
        from keyhole.report.html.attack import attack_fragment

        return attack_fragment({**self.to_json(), "truths": self.truths})

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
                "column": target.column,
                "value": _number(value),
                "confidence": _number(sure),
            }
            for target, _, result in self.found
            for label, value, sure in zip(self.labels, tidy(result.values), result.confidence, strict=True)
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
        if self.scores:
            whole = {column: s.as_json() for column, s in self.scores.items()}
            reply["score"] = whole[first[0].column] if len(whole) == 1 else whole
        return reply


def attack(
    log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]],
    *,
    data: object = None,
    private: Names = (),
    id: Names = (),  # noqa: A002 - the word of the contract
    hidden: Names = (),
    table: str | None = None,
    view: str | None = None,
    config: Config | str | Path | None = None,
    noise: str | None = None,
    method: str = "auto",
    truth: object = None,
    tolerance: float | None = None,
    dialect: str | None = None,
) -> Attacked:
    """Guess private values from questions and their answers, as somebody who has seen nothing else of them.

    `log` is a .jsonl transcript, a `Log`, or a list of (statement, answer); `data` the public half of the table. A
    private column in the data is not read. `truth` (a path or a frame) is the whole table, to score against. `noise`
    ("laplace:2") is the law of answers that state none, `dialect` what the statements were written for (default: what
    the log says, else DuckDB).

    >>> import pyarrow as pa
    >>> asked = [("SELECT SUM(pay) FROM t", 60), ("SELECT SUM(pay) FROM t WHERE team = 'a'", 30)]
    >>> found = attack(asked, data=pa.table({"team": ["a", "a", "b"]}), private="pay")
    >>> found.estimates().round(6).tolist()
    [15.0, 15.0, 30.0]
    """
    given = with_private(settings(config, data=data, table=table, view=view, private=private, id=id, hidden=hidden))
    return attacked(as_log(log, dialect), given, noise=noise, method=method, truth=truth, tolerance=tolerance)


def attacked(
    log: Log,
    given: Settings,
    *,
    noise: str | None = None,
    method: str = "auto",
    truth: object = None,
    tolerance: float | None = None,
    progress: Progress | None = None,
    interruptible: Callable[[], AbstractContextManager[Stop]] = lambda: nullcontext(lambda: None),
) -> Attacked:
    """The attack on merged settings. `interruptible` gives what a solver calls at each step, to be stopped there."""
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise ConfigError(f"--tolerance {tolerance:g}: write a number that is not negative")
    law = _noise(noise)
    warnings: list[str] = []
    people = _roster(given, warnings)
    known = given.knowledge()
    evidence = _evidence(log, people, known, law, warnings)
    found = []
    for column in given.asked:
        target = Target(column, people.n, known.prior(column))
        with interruptible() as stop:

            def watch(step: int, residual: float, column: str = column, stop: Stop = stop) -> None:
                if progress is not None:
                    progress(f"{column}: step {step}, residual {residual:.3g}", 0, 0)
                stop()

            choice, guess = run(method, target, evidence, watch=watch)
        found.append((target, choice, guess))
        if evidence.transcript.entries and not choice.rows:
            warnings.append(f"no answer is about {column!r}: the guesses are what was known beforehand")
    truths = {t.column: _true_values(t, r, truth, people, given, warnings) for t, _, r in found if truth is not None}
    scores = {t.column: score(r, truths[t.column], t, tolerance=tolerance) for t, _, r in found if t.column in truths}
    known_truths = {column: values.tolist() for column, values in truths.items()}
    return Attacked(tuple(found), tuple(people.labels(np.arange(people.n))), scores, tuple(warnings), known_truths)


def _noise(text: str | None) -> Noise | None:
    if text is None:
        return None
    kind, _, scale = text.partition(":")
    if not scale:
        raise ConfigError(f"--noise {text!r}: write kind:scale, such as laplace:2 or gaussian:0.5")
    try:
        return Noise.parse(kind, scale)
    except LogError as error:
        raise ConfigError(f"--noise {text!r}: {error}") from None


def _roster(given: Settings, warnings: list[str]) -> DuckDBRoster:
    """The public half. A private column in the file is left out by name: its values are never read."""
    opened = open_table(given, Use.ATTACK)
    if opened.left_out:
        shown = ", ".join(repr(name) for name in sorted(opened.left_out))
        warnings.append(f"the roster has the private column {shown}: an attacker would not have it; it is not read")
    return opened.roster


def _evidence(log: Log, people: DuckDBRoster, known: Knowledge, law: Noise | None, warnings: list[str]) -> Evidence:
    for refusal in (*log.refused, *log.unjudged):
        raise LogError(f"statement {refusal.number} cannot be used: {refusal.error}")
    lines = log.lines
    for line in lines:
        if line.answer is ABSENT:
            raise LogError(f'line {line.at}: "answer" is missing; an attack needs the answers, null for SQL NULL')
    if not lines:
        warnings.append("the transcript is empty: the prior is the answer")
    transcript = transcribe(lines, people, noise=law)
    for refusal in transcript.refused:
        raise LogError(f"statement {refusal.number} cannot be used: {refusal.error}")
    for number in dict.fromkeys(e.number.partition(".")[0] for e in transcript.entries if e.certainty in DOUBTFUL):
        warnings.append(f"query {number} is used as far as its rows are listed: the rest may not have been shown")
    transcript = replace(transcript, entries=tuple(e for e in transcript.entries if e.certainty not in DOUBTFUL))
    transcript = _without_unknown_nulls(transcript, people, warnings)
    evidence = gather(transcript, people, known)
    for refusal in evidence.transcript.refused:
        raise LogError(f"statement {refusal.number} cannot be used: {refusal.error}")
    if evidence.contradictions:
        _refuse_unknown_groups(transcript, people)
    answers = [e.answer for e in transcript.entries if e.answer is not None and e.answer.noise is not None]
    lawless = sum(a.noise is not None and a.noise.kind == "unknown" for a in answers)
    if lawless:
        said = "1 answer states" if lawless == 1 else f"{lawless} answers state"
        warnings.append(f"{said} no law of noise: not used")
    for unjudged in evidence.unjudged:
        warnings.append(f"query {unjudged.number} is not used: {unjudged.reason}")
    for system in evidence.systems:
        for fact in system.order:
            warnings.append(f"query {fact.number} is not used: {fact.query.aggregate} is no sum")
    return evidence


def _without_unknown_nulls(log: Transcript, people: DuckDBRoster, warnings: list[str]) -> Transcript:
    """A roster without a private column does not know who has no value there: such answers are left out."""
    private = {c.name for c in people.schema.columns if c.secret}
    kept = []
    for entry in log.entries:
        asked = [leaf for t in (*entry.query.terms, *entry.query.per) for leaf in leaves(t.where)]
        column = next((x.column for x in asked if isinstance(x, IsNull) and x.column in private), None)
        if column is None:
            kept.append(entry)
        else:
            warnings.append(f"query {entry.number} is not used: the roster does not say where {column!r} is NULL")
    return replace(log, entries=tuple(kept))


def _refuse_unknown_groups(log: Transcript, people: DuckDBRoster) -> None:
    """A group answered for nobody leaves another one without its answer: name the first, the cause."""
    for entry in log.entries:
        group = "." in entry.number and entry.answer is not None and entry.answer.value is not None
        if group and not len(people.support(entry.query)):
            raise LogError(f"query {entry.number}: no such group in the roster (one of: {entry.sql})")


def _true_values(
    target: Target, found: Reconstruction, truth: object, people: DuckDBRoster, given: Settings, warnings: list[str]
) -> NDArray[Any]:
    """A column of the whole table, matched by id (by row number where there is none)."""
    ids = list(given.columns.id)
    rows = read_columns(truth, [*ids, target.column])
    name = truth if isinstance(truth, str | Path) else "the truth"
    if ids:
        known = {tuple(str(v) for v in row[: len(ids)]): row[-1] for row in rows}
        wanted = [tuple(str(label[name]) for name in ids) for label in people.labels(np.arange(people.n))]
        missing = [key for key in wanted if key not in known]
        if missing:
            raise DataError(
                f"{name} has no record {', '.join(missing[0])!r} ({len(missing)} of {len(wanted)} are missing)"
            )
        values = [known[key] for key in wanted]
        extra = len(known.keys() - set(wanted))
        if extra:
            warnings.append(f"{_records(extra)} of the truth {_is(extra)} not in the roster: left out of the score")
    else:
        if len(rows) != people.n:
            raise DataError(f"{name} has {len(rows)} rows, the roster {people.n}; name the id column with --id")
        values = [row[-1] for row in rows]
    empty = sum(value is None for value in values)
    if empty:
        warnings.append(f"{_records(empty)} of the truth {'has' if empty == 1 else 'have'} no value: not scored")
    return _truth(values, found)


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _truth(values: list[Any], found: Reconstruction) -> NDArray[Any]:
    if found.values.dtype == object:
        names = np.empty(len(values), dtype=object)
        names[:] = values
        return names
    try:
        return np.array([math.nan if v is None else float(v) for v in values])
    except (TypeError, ValueError):
        raise DataError("the truth is not a number: declare the categories with values = [...]") from None


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
