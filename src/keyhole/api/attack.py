"""`keyhole.attack`: what an outsider can rebuild from the answers he has seen; and the same with less of the log, or by
other methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from keyhole.api.attack_evidence import evidence_of_log
from keyhole.api.attack_guess import NeverStopped, Progress, ShownRow, Stop, guess_column, person_totals, shown_rows
from keyhole.api.attack_result import Attacked, AttackTerms, Findings
from keyhole.attacks.base import Target
from keyhole.config.arguments import TableArguments
from keyhole.config.settings import Settings, settings, with_private
from keyhole.datasets import Roster
from keyhole.datasets.open import Use, open_table
from keyhole.engines.engine import dialect_of
from keyhole.errors import ConfigError, KeyholeError, LogError, QueryError
from keyhole.gather.evidence import Evidence
from keyhole.logs.open import Log, as_log
from keyhole.logs.people_table import keep_people_table
from keyhole.model.predicate import quote_name
from keyhole.model.transcript import Noise
from keyhole.sql import lower_statement

AUTO = "auto"  # noise that is estimated


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
