"""`keyhole.attack`: what an outsider can rebuild from the answers he has seen; and the same with less of the log, or by
other methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from keyhole.api.attack_guess import NeverStopped, Progress, ShownRow, Stop, guess_column, person_totals, shown_rows
from keyhole.api.attack_result import Attacked, AttackTerms, Findings
from keyhole.attacks.base import Target
from keyhole.config.arguments import TableArguments
from keyhole.config.settings import Settings, settings, with_private
from keyhole.datasets import Roster
from keyhole.datasets.open import Use, open_table
from keyhole.engines.engine import dialect_of
from keyhole.errors import ConfigError, KeyholeError, LogError, QueryError
from keyhole.gather import gather, transcribe
from keyhole.gather.constraints import split_needs
from keyhole.gather.counting import counts_people
from keyhole.gather.evidence import Evidence
from keyhole.logs.open import Log, as_log
from keyhole.logs.people_table import keep_people_table
from keyhole.model.predicate import IsNull, find_leaves, quote_name
from keyhole.model.prior import Knowledge
from keyhole.model.query import DOUBTFUL, FINER, IF_SHOWN, Aggregate, Query, Term, Threshold
from keyhole.model.transcript import ABSENT, Answer, Entry, Noise, Transcript
from keyhole.sql import lower_statement

AUTO = "auto"  # noise that is estimated
YES = Answer(True, None, None)
LISTED = 5  # statements without an answer that are named


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
    return attack_log(as_log(log, dialect, dialect_of(given.data)), given, terms)


def attack_log(
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
        whole = Findings(tuple((c.target, c.choice, c.guess) for c in made), ranges, people, given, terms, warnings)
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
        raise ConfigError(f"--target {where!r} matches nobody of the data")
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
        warnings.append(f"the data has the private column {shown}: an attacker would not have it; it is not read")
    return opened.roster


# --- what a log tells -------------------------------------------------------------------------------------------------
# What a log tells an outsider.


def evidence_of_log(
    log: Log, people: Roster, known: Knowledge, law: Noise | None, warnings: list[str]
) -> tuple[Evidence, frozenset[str]]:
    """What the log says, and the statements that state no noise. What cannot be read is listed and left out."""
    skipped = [*log.refused, *log.unjudged]
    lines = [line for line in log.lines if line.answer is not ABSENT]
    mute = [line for line in log.lines if line.answer is ABSENT]
    if mute and not lines:
        raise LogError(f'line {mute[0].at}: "answer" is missing; an attack needs the answers, null for SQL NULL')
    if not lines:
        warnings.append("the transcript is empty: the known range is the answer")
    for line in mute[:LISTED]:
        warnings.append(f'statement {line.number} is not used: line {line.at} has no "answer" (null is SQL NULL)')
    if len(mute) > LISTED:
        warnings.append(f"{len(mute) - LISTED} more statements without an answer are not used")
    transcript = transcribe(lines, people, noise=law)
    skipped += [*transcript.refused, *transcript.unjudged]
    if skipped and not transcript.entries:
        raise LogError(f"statement {skipped[0].number} cannot be used: {skipped[0].error}")
    for refusal in skipped:
        warnings.append(f"statement {refusal.number} is not used: {refusal.error}")
    warnings.extend(_doubtful(transcript))
    transcript = replace(transcript, entries=tuple(e for e in transcript.entries if e.certainty not in DOUBTFUL))
    transcript = _without_unknown_nulls(transcript, people, warnings)
    evidence = _gathered(_over_somebody(transcript, people), people, known, warnings)
    told = {refusal.number for refusal in skipped}
    for refusal in (r for r in evidence.transcript.refused if r.number not in told):
        warnings.append(f"statement {refusal.number} is not used: {refusal.error}")
    if evidence.contradictions:
        _refuse_unknown_groups(transcript, people)
    answers = [e.answer for e in transcript.entries if e.answer is not None and e.answer.noise is not None]
    lawless = sum(a.noise is not None and a.noise.kind == "unknown" for a in answers)
    if lawless:
        said = "1 answer states" if lawless == 1 else f"{lawless} answers state"
        warnings.append(f"{said} no law of noise: not used")
    warnings.extend(_equal_to_noise(transcript))
    for unjudged in evidence.unjudged:
        warnings.append(f"query {unjudged.number} is not used: {unjudged.reason}")
    return evidence, frozenset(str(line.number) for line in lines if line.noise is None)


def _doubtful(transcript: Transcript) -> Iterator[str]:
    """Statements of which something may not have been shown, or of which only something computed was."""
    told: dict[str, set[str]] = {}
    for entry in transcript.entries:
        told.setdefault(entry.number.partition(".")[0], set()).add(entry.certainty)
    for number, kinds in told.items():
        if IF_SHOWN in kinds:
            yield f"query {number} is used as far as its rows are listed: the rest may not have been shown"
        elif kinds == {FINER}:
            yield f"query {number} is not used: only something computed from its sums was shown"


def _equal_to_noise(transcript: Transcript) -> Iterator[str]:
    """Yes or no to whether a noisy number equals a constant: that depends on how it was rounded."""
    for entry in transcript.entries:
        test, noise = entry.query.test, None if entry.answer is None else entry.answer.noise
        if test is not None and test.op in ("=", "<>") and noise is not None and not noise.bounded:
            yield f"query {entry.number} is not used: whether a noisy number equals a constant says nothing by itself"


def _over_somebody(log: Transcript, people: Roster) -> Transcript:
    """A sum under a private condition that is 0, and not NULL, is over somebody: Q3.0 beside Q3, a count above 0."""
    secret = people.schema.private_names
    entries: list[Entry] = []
    for entry in log.entries:
        entries.append(entry)
        for at, need in enumerate(split_needs(entry.query, secret)[1] if _is_zero(entry.answer) else ()):
            if not any(isinstance(leaf, IsNull) for leaf in find_leaves(need)):
                some = Query(Aggregate.SUM, (Term(None, need),), test=Threshold(">", Decimal(0)), key=entry.query.key)
                entries.append(replace(entry, number=f"{entry.number}.0" + f".{at}" * (at > 0), query=some, answer=YES))
    return replace(log, entries=tuple(entries))


def _is_zero(answer: Answer | None) -> bool:
    """Is 0 printed? A range may stand for NULL, and noise for nobody at all."""
    if answer is None or isinstance(answer.value, bool) or answer.value is None:
        return False
    return (answer.noise is None or answer.noise.kind == "rounded") and answer.value == 0


def _gathered(transcript: Transcript, people: Roster, known: Knowledge, warnings: list[str]) -> Evidence:
    """One unknown a record and private column; counts of people, and what looks at rows of other tables, beside it."""
    secret = people.schema.private_names
    plain = people.as_separate_people()
    beside = [e for e in transcript.entries if counts_people(e.query, plain.schema, secret)]
    rest = tuple(e for e in transcript.entries if e not in beside)
    for entry in beside:
        if entry.answer is not None and entry.answer.noise is not None:
            warnings.append(f"query {entry.number} is not used: it counts people, or looks at their rows, with noise")
    found = gather(replace(transcript, entries=rest), plain, known)
    if not beside:
        return found
    other = gather(Transcript(tuple(beside)), people, known)
    entries = (*found.transcript.entries, *other.transcript.entries)
    return replace(
        found,
        transcript=replace(found.transcript, entries=entries),
        contradictions=(*found.contradictions, *other.contradictions),
        unjudged=(*found.unjudged, *other.unjudged),
        counting=other.counting,
    )


def _without_unknown_nulls(log: Transcript, people: Roster, warnings: list[str]) -> Transcript:
    """A roster without a private column does not know who has no value there: such answers are left out."""
    private = people.schema.private_names
    kept = []
    for entry in log.entries:
        asked = [leaf for t in (*entry.query.terms, *entry.query.per) for leaf in find_leaves(t.where)]
        column = next((x.column for x in asked if isinstance(x, IsNull) and x.column in private), None)
        if column is None:
            kept.append(entry)
        else:
            warnings.append(f"query {entry.number} is not used: the data does not say where {column!r} is NULL")
    return replace(log, entries=tuple(kept))


def _refuse_unknown_groups(log: Transcript, people: Roster) -> None:
    """A group answered for nobody leaves another one without its answer: name the first, the cause."""
    for entry in log.entries:
        group = "." in entry.number and entry.answer is not None and entry.answer.value is not None
        if group and not len(people.support(entry.query)):
            raise LogError(f"query {entry.number}: no such group in the data (one of: {entry.sql})")


# --- more and less of a log, and other methods ------------------------------------------------------------------------


POINTS = 8  # prefixes of the log that are attacked
METHODS = ("least-squares", "bounded", "l1", "integer")


@dataclass(frozen=True, slots=True)
class AttackRun:
    """One attack on a column, with its marks; `cannot` says why there are none."""

    column: str
    method: str
    statements: int
    exact: float | None = None
    within: float | None = None
    error: float | None = None
    seconds: float | None = None
    cannot: str = ""


@dataclass(frozen=True, slots=True)
class AttackComparison:
    """`growth`: the same method on more and more of the log. `methods`: others on all of it."""

    growth: tuple[AttackRun, ...]
    methods: tuple[AttackRun, ...]

    def to_json(self) -> dict[str, Any]:
        """The field `compared`."""
        return {"growth": [asdict(p) for p in self.growth], "methods": [asdict(p) for p in self.methods]}


def compare(log: Log, given: Settings, found: Attacked, terms: AttackTerms) -> AttackComparison:
    """Attack prefixes of the log, and the whole of it by other methods; `terms` are those of the attack itself.

    Needs the truth. Cost: about twice the attack for the prefixes, and one attack a method.
    """
    if not found.scores:
        raise ConfigError("--compare needs --truth FILE: without the true values nothing can be scored")
    chosen = {target.column: choice.method for target, choice, _ in found.found}
    total = len(log.lines)
    sizes = sorted({max(1, round(total ** (k / POINTS))) for k in range(1, POINTS + 1)} | {total})
    method = next(iter(chosen.values()))
    growth = [
        p for size in sizes for p in _played(replace(log, lines=log.lines[:size]), given, replace(terms, method=method))
    ]
    names = dict.fromkeys((*chosen.values(), *METHODS))
    methods = [p for name in names for p in _played(log, given, replace(terms, method=name))]
    return AttackComparison(tuple(growth), tuple(methods))


def _played(log: Log, given: Settings, terms: AttackTerms) -> list[AttackRun]:
    start = time.perf_counter()
    try:
        found = attack_log(log, given, terms)
    except KeyholeError as error:
        return [
            AttackRun(name, terms.method, len(log.lines), cannot=str(error).splitlines()[0]) for name in given.asked
        ]
    seconds = round(time.perf_counter() - start, 3)
    return [
        AttackRun(column, terms.method, len(log.lines), s.exact, s.within, s.error, seconds)
        for column, s in found.scores.items()
    ]
