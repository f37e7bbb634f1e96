"""What goes beside the verdict on a log: which statements to withhold, verified, and what the classical rules say.

Threshold, dominance and p % look at one answer at a time, and officers must tick them; who is given away by several
answers together is what the audit proves. Contributors of an answer are the records under its condition that have a
value; sizes count, so a loss weighs as a gain does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from keyhole.auditing.advice.advise import Alternatives, LogAdvice, cited, statement
from keyhole.auditing.advice.withhold import SECONDS, Remedy, withhold
from keyhole.auditing.base import Exposure, Proof
from keyhole.auditing.clock import Deadline, interrupted
from keyhole.auditing.examine import rules_for
from keyhole.crosstab.sensitivity import Contributions, SensitivityRule
from keyhole.datasets import PrivateValues
from keyhole.datasets.open import Table
from keyhole.errors import UnsupportedQuery
from keyhole.logs.open import Log
from keyhole.model.predicate import Scalar
from keyhole.model.transcript import Entry
from keyhole.report.verdict import Verdict

Again = Callable[[Log], Verdict]


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """What to withhold (`statements`: number, text, how often it was asked), the audit without it, and what else helps.

    `after` is None if nothing needs to be withheld, or if nothing would be left.
    """

    remedy: Remedy[str]
    statements: tuple[tuple[str, str, int], ...]
    of: int
    after: Verdict | None
    alternatives: Alternatives | None

    @property
    def verified(self) -> bool:
        """Does the audit without these statements find nobody?"""
        return self.remedy.enough and (self.after is None or self.after.exit_code != 1)


def advise(
    log: Log,
    verdict: Verdict,
    again: Again,
    *,
    group_size: int = 1,
    within: str | None = None,
    time_limit: float | Deadline | None = None,
) -> Advice:
    """Advice on an audited log. `again` audits a log as it was audited; its verdict on the rest is the last word."""
    clock = time_limit if isinstance(time_limit, Deadline) else Deadline(None)
    seconds = clock.left(SECONDS) if isinstance(time_limit, Deadline) else time_limit or SECONDS
    made = LogAdvice(verdict.exposure, rules_for(group_size, within, min(seconds, SECONDS)), seconds)
    seen: dict[frozenset[str], Verdict] = {}

    def used(parts: Sequence[Exposure]) -> list[frozenset[str]]:
        proved: list[Proof | None] = [f.proof for part in parts for f in part.findings]
        proved += [g.proof for part in parts for g in part.groups]
        return [frozenset(made.first[q] for q in cited(p)) for p in proved if p is not None]

    def proofs(gone: frozenset[str]) -> list[frozenset[str]]:
        found = made.proofs(gone)
        if not gone:
            return [*found, *used(verdict.exposure.readings)]
        if found:
            return found
        rest = _rest(log, made.every(gone))
        if not rest.lines:
            return []
        exposure = (without := again(rest)).exposure
        if interrupted(exposure):
            raise KeyboardInterrupt  # what it does not list may still be proved
        seen[gone] = without
        return used((exposure, *exposure.readings))

    remedy = withhold(proofs, seconds=seconds, ringing=clock.ringing)
    parts = (verdict.exposure, *verdict.exposure.readings)
    texts = {statement(e.number): e.sql for part in parts for e in part.evidence.transcript.entries}
    listed = tuple((q, texts[q], made.times(q)) for q in sorted(remedy.units, key=int))
    found = bool(verdict.findings or verdict.groups) and not remedy.stopped and len(parts) == 1
    return Advice(remedy, listed, len(texts), seen.get(remedy.units), _until_stopped(made, clock) if found else None)


def _until_stopped(made: LogAdvice, clock: Deadline) -> Alternatives | None:
    """What else would do; nothing is said of it if Ctrl-C or the clock ends it."""
    try:
        with clock.ringing():
            return made.alternatives()
    except KeyboardInterrupt:
        return None


def _rest(log: Log, gone: frozenset[str]) -> Log:
    """The log without some statements; the others keep their numbers."""
    return replace(log, lines=tuple(line for line in log.lines if str(line.number) not in gone))


@dataclass(frozen=True, slots=True)
class RuledAnswer:
    """An answer that fails a rule (`why` empty), or of which the rule cannot be decided, and why not."""

    number: str
    sql: str
    key: tuple[tuple[str, Scalar | None], ...]
    count: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """One rule on a log."""

    rule: SensitivityRule
    answers: int
    failing: tuple[RuledAnswer, ...]
    untold: tuple[RuledAnswer, ...]

    def without_keys(self) -> RuleCheck:
        """The same without the groups' keys, which may be values of a private column."""
        failing, untold = (tuple(replace(a, key=()) for a in listed) for listed in (self.failing, self.untold))
        return replace(self, failing=failing, untold=untold)


def check_rules(exposure: Exposure, table: Table, rules: Iterable[SensitivityRule]) -> tuple[RuleCheck, ...]:
    """Each rule on each answer of a log. Cost: one query of the engine an answer."""
    held: dict[str, PrivateValues] = {}
    told = [(entry, *_contributions(entry, table, held)) for entry in exposure.evidence.transcript.entries]
    return tuple(_check(rule, told) for rule in rules)


def _check(rule: SensitivityRule, told: list[tuple[Entry, Contributions | None, str]]) -> RuleCheck:
    failing, untold = [], []
    for entry, cell, why in told:
        verdict = None if cell is None else rule.sensitive(cell)
        count = None if cell is None else cell.count
        said = (entry.number, entry.sql, entry.query.key, count)
        if verdict is None:
            untold.append(RuledAnswer(*said, why or "it is no sum of a private column"))
        elif verdict:
            failing.append(RuledAnswer(*said))
    return RuleCheck(rule, len(told), tuple(failing), tuple(untold))


def _contributions(entry: Entry, table: Table, held: dict[str, PrivateValues]) -> tuple[Contributions | None, str]:
    """Who contributes to an answer; None and why, where that is not public."""
    try:
        rows = table.roster.support(entry.query)
    except UnsupportedQuery as error:
        return None, str(error)
    terms = entry.query.terms
    column = terms[0].column if len(terms) == 1 and terms[0].weight is None and terms[0].power == 1 else None
    if column is None or table.source is None or column in table.absent:
        why = "" if table.source is not None else "the values are not at hand"
        return Contributions(Fraction(0), len(rows)), why
    if column not in held:
        held[column] = table.source.values(column)
    return Contributions.of(list(_values(held[column], rows))), ""


def _values(values: PrivateValues, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[Fraction]:
    for row in rows[values.present[rows]].tolist():
        if values.units is not None:
            yield Fraction(int(values.units[row]), 10**values.digits)
        else:
            yield Fraction(float(values.floats[row]))
