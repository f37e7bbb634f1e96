"""Statements counted as they were written."""

from __future__ import annotations

from dataclasses import dataclass

from keyhole.audit.base import Exposure


@dataclass(frozen=True, slots=True)
class Tally:
    """Statements counted as they were written: one with a part that is not judged is not judged."""

    total: int
    judged: int
    unjudged: int
    refused: int
    distinct: int
    noisy: int = 0  # of those judged: with an answer that noise was added to


def tally(exposure: Exposure) -> Tally:
    texts = {entry.number.partition(".")[0]: entry.sql for entry in exposure.evidence.transcript.entries}
    refused = {r.number.partition(".")[0]: r.sql for r in exposure.refused}
    unjudged = {u.number.partition(".")[0]: u.sql for u in exposure.unjudged}
    texts |= unjudged | refused
    unjudged = {number: sql for number, sql in unjudged.items() if number not in refused}
    return Tally(
        total=len(texts),
        judged=len(texts) - len(unjudged) - len(refused),
        unjudged=len(unjudged),
        refused=len(refused),
        distinct=len(set(texts.values())),
        noisy=len(_noisy(exposure) - unjudged.keys() - refused.keys()),
    )


def _noisy(exposure: Exposure) -> set[str]:
    """The statements with an answer that noise was added to."""
    return {q.partition(".")[0] for q, noise in exposure.noisy.items() if noise.kind != "rounded"}
