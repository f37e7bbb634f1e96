"""Statements counted as they were written."""

from __future__ import annotations

from collections.abc import Iterable

from keyhole.auditing.base import Exposure
from keyhole.report.documents.verdict import StatementCounts


def count_statements(exposure: Exposure) -> StatementCounts:
    """The statements of the log behind an exposure."""
    texts = {entry.number.partition(".")[0]: entry.sql for entry in exposure.evidence.transcript.entries}
    refused = {r.number.partition(".")[0]: r.sql for r in exposure.refused}
    unjudged = {u.number.partition(".")[0]: u.sql for u in exposure.unjudged}
    texts |= unjudged | refused
    unjudged = {number: sql for number, sql in unjudged.items() if number not in refused}
    repeats = _repeats(exposure)

    def count(numbers: Iterable[str]) -> int:
        return sum(repeats.get(number, 1) for number in numbers)

    total, waiting, left = count(texts), count(unjudged), count(refused)
    return StatementCounts(
        total=total,
        judged=total - waiting - left,
        unjudged=waiting,
        refused=left,
        distinct=len(set(texts.values())),
        noisy=count(_noisy(exposure) - unjudged.keys() - refused.keys()),
        failed=0 if exposure.log is None else exposure.log.failed,
        ignored=0 if exposure.log is None else exposure.log.ignored,
    )


def _repeats(exposure: Exposure) -> dict[str, int]:
    """How often each statement came, where more than once."""
    log = exposure.log
    if log is None:
        return {}
    found = {str(line.number): line.repeats for line in log.lines}
    found |= {refusal.number: refusal.repeats for refusal in (*log.refused, *log.unjudged)}
    return found


def _noisy(exposure: Exposure) -> set[str]:
    """The statements with an answer that noise was added to."""
    return {q.partition(".")[0] for q, noise in exposure.noisy.items() if noise.kind != "rounded"}
