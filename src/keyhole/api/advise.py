"""Advice on a log, verified: the statements to withhold, audited again without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from keyhole.auditing.advice.advise import Alternatives, LogAdvice, cited, statement
from keyhole.auditing.advice.withhold import SECONDS, Remedy, withhold
from keyhole.auditing.base import Exposure, Proof
from keyhole.auditing.deadline import Deadline
from keyhole.auditing.examine import rules_for
from keyhole.auditing.interrupted import interrupted
from keyhole.logs.open import Log
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
