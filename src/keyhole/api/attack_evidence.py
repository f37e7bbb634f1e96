"""What a log tells an outsider: the evidence of an attack, and the ranges of values that it proves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Target
from keyhole.auditing.base import Finding
from keyhole.auditing.judge import Judge
from keyhole.auditing.rules import RULES
from keyhole.datasets import Roster
from keyhole.errors import ContradictionError, LogError
from keyhole.gather import gather, transcribe
from keyhole.gather.constraints import split_needs
from keyhole.gather.counting import counts_people
from keyhole.gather.evidence import Contradiction, Evidence, System
from keyhole.logs.open import Log
from keyhole.model.predicate import IsNull, find_leaves
from keyhole.model.prior import Knowledge
from keyhole.model.query import DOUBTFUL, FINER, IF_SHOWN, Aggregate, Query, Term, Threshold
from keyhole.model.transcript import ABSENT, Answer, Entry, Noise, Transcript

YES = Answer(True, None, None)

LISTED = 5  # statements without an answer that are named


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
        held = _held(systems[0].atoms.mask(bound.where), systems[0].atoms.of)
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


def _held(mask: NDArray[np.bool_], of: NDArray[np.int32]) -> NDArray[np.bool_]:
    return np.asarray(mask[of])
