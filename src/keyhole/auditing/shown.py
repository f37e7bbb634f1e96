"""What was surely shown, and what only may have been: findings need the first, the all-clear holds for both.

Rows that LIMIT may have cut off, and grouped answers of which only something computed was shown, are judged as if they
had been shown. Nobody is then open by mistake: whoever knows less learns no more. What they would give away is another
matter: a finding that needs a row which may have been cut off is inferred, `if_shown`; one that needs an answer from
which something was computed is no finding at all, and that statement is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TypeAlias

from keyhole.auditing.base import Exposure, Finding, Proof, Status, query_order
from keyhole.auditing.clock import interrupted, ordered
from keyhole.auditing.promise import INTERRUPTED_GAP
from keyhole.datasets import Roster
from keyhole.gather.evidence import Evidence, System, Unjudged
from keyhole.model.query import COVERED, DOUBTFUL, FINER, IF_SHOWN, IN_PART

TELLS_MORE = (
    "as if all were shown that it is computed from, somebody would be given away; what it shows is less, and how much "
    "less is not known: ask for the aggregates themselves, one SELECT with GROUP BY each"
)


Examine: TypeAlias = Callable[[Evidence, Roster], Exposure]


def examine_shown(examine: Examine, evidence: Evidence, roster: Roster) -> Exposure:
    """The verdict, with findings from what was surely shown, and the promise from all that may have been.

    Guarantee: a finding that is not `if_shown` cites answers only that were shown; the verdict is complete only if
    nobody else is found when everything is taken as shown. Cost: one audit more for each way in which that differs.

    What stands beside a statement because it tells more is left out where the statement itself is judged, unless the
    verdict is complete only with it; and where it could not be put in, which is listed.
    """
    left_out = {u.number for u in evidence.unjudged}
    entries = evidence.transcript.entries
    unread = {e.number for e in entries if e.certainty == FINER and e.number in left_out}
    if not unread:
        return _examine_read(examine, evidence, roster)
    read = replace(evidence.transcript, entries=tuple(e for e in entries if e.number not in unread))
    found = _examine_read(examine, replace(evidence, transcript=read), roster)
    kept = unread.union(e.number for e in found.evidence.transcript.entries)
    whole = replace(found.evidence.transcript, entries=tuple(e for e in entries if e.number in kept))
    return replace(found, evidence=replace(found.evidence, transcript=whole))


def _examine_read(examine: Examine, evidence: Evidence, roster: Roster) -> Exposure:
    beside = _beside(evidence)
    if not beside:
        return _examine_all(examine, evidence, roster)
    bare = examine(_without(evidence, {q for parts in beside.values() for q in parts}), roster)
    try:
        return _interrupted(bare) if interrupted(bare) else _examine_spared(examine, evidence, roster, beside, bare)
    except KeyboardInterrupt:
        return _interrupted(bare)


def _examine_spared(
    examine: Examine, evidence: Evidence, roster: Roster, beside: dict[str, set[str]], bare: Exposure
) -> Exposure:
    needed = {u.number.partition(".")[0] for u in bare.unjudged}
    spare = {q for statement, parts in beside.items() if statement not in needed for q in parts}
    if not spare:
        return _examine_all(examine, evidence, roster)
    found = _examine_all(examine, _without(evidence, spare), roster)
    if found.complete or found.findings or found.groups or interrupted(found):
        return found
    if found.refused or any(u.number.partition(".")[0] not in beside for u in found.unjudged):
        return found  # nothing that tells more of other statements makes it complete
    try:
        whole = _examine_all(examine, evidence, roster)
    except KeyboardInterrupt:
        return _interrupted(found)
    return whole if whole.complete else found


def _beside(evidence: Evidence) -> dict[str, set[str]]:
    """statement -> what tells more and stands beside it, of statements whose own answers are all there."""
    own: dict[str, set[str]] = {}
    finer: dict[str, set[str]] = {}
    for entry in evidence.transcript.entries:
        statement = entry.number.partition(".")[0]
        if entry.certainty == FINER:
            finer.setdefault(statement, set()).add(entry.number)
        else:
            own.setdefault(statement, set()).add(entry.certainty)
    return {statement: parts for statement, parts in finer.items() if own.get(statement) == {COVERED}}


def _examine_all(examine: Examine, evidence: Evidence, roster: Roster) -> Exposure:
    doubt = {e.number: e.certainty for e in evidence.transcript.entries if e.certainty in DOUBTFUL}
    found = examine(evidence, roster)
    if not doubt or not _rests_on(found, doubt):
        return _covered(found)
    try:
        return _covered(_interrupted(found) if interrupted(found) else _sure(examine, found, roster, doubt))
    except KeyboardInterrupt:
        return _covered(_interrupted(found))


def _sure(judged: Examine, found: Exposure, roster: Roster, doubt: dict[str, str]) -> Exposure:
    """What was found as if all was shown, with the findings from what surely was. KeyboardInterrupt: it was stopped."""

    def examine(evidence: Evidence, roster: Roster) -> Exposure:
        said = judged(evidence, roster)
        if interrupted(said):
            raise KeyboardInterrupt
        return said

    evidence = found.evidence
    cut_off = {number for number, why in doubt.items() if why == IF_SHOWN}
    sure = examine(_without(evidence, doubt), roster)
    maybe = examine(_without(evidence, doubt.keys() - cut_off), roster) if cut_off else sure
    dropped: set[str] = set()
    while blamed := _blamed(found, maybe, {q: why for q, why in doubt.items() if q not in dropped}):
        dropped |= {q for q in doubt if q.partition(".")[0] in blamed}
        found = examine(_without(evidence, dropped), roster)
    extra = [replace(f, status=Status.INFERRED, if_shown=True) for f in _news(maybe, sure)]
    return replace(
        found,
        evidence=evidence,
        findings=tuple(sorted((*_others(sure, extra), *extra), key=lambda f: (f.row, f.column))),
        groups=sure.groups,
        unjudged=tuple(sorted((*found.unjudged, *_named(evidence, dropped)), key=lambda u: query_order(u.number))),
        contradictions=sure.contradictions,
        ranges=sure.ranges,
    )


def _interrupted(found: Exposure) -> Exposure:
    """What is proved by answers that were surely shown, of an audit that Ctrl-C ended; of others nothing is said."""
    doubt = {e.number for e in found.evidence.transcript.entries if e.certainty in DOUBTFUL}

    def stands(proof: Proof | None) -> bool:
        return not doubt or (proof is not None and not proof.tables and doubt.isdisjoint(cited(proof)))

    dropped = {(f.row, f.column) for f in (*found.findings, *found.ranges) if not stands(f.proof)}
    return replace(
        found,
        findings=tuple(f for f in found.findings if stands(f.proof)),
        groups=tuple(g for g in found.groups if stands(g.proof)),
        contradictions=tuple(c for c in found.contradictions if doubt.isdisjoint(c.queries)),
        ranges=tuple(f for f in found.ranges if stands(f.proof)),
        limited=found.limited | dropped,
        missed=ordered({*found.missed, INTERRUPTED_GAP}),
    )


def _covered(found: Exposure) -> Exposure:
    """Without what is not judged itself, and for which others stand that tell more."""
    covered = {e.number for e in found.evidence.transcript.entries if e.certainty in (COVERED, IN_PART)}
    left = tuple(u for u in found.unjudged if u.number not in covered)
    return found if len(left) == len(found.unjudged) else replace(found, unjudged=left)


def cited(proof: Proof | None) -> Iterator[str]:
    """The queries that a proof rests on, with those of the proofs that it uses."""
    if proof is None:
        return
    yield from proof.weights
    for counts in proof.counts:
        yield from counts
    if proof.moments is not None:
        yield from (proof.moments.squares, proof.moments.total)
    if proof.order is not None:
        yield from (rank.number for rank in proof.order.ranks)
    if proof.rest is not None:
        yield proof.rest.number
    for *_, earlier in proof.known:
        yield from cited(earlier)


def _rests_on(found: Exposure, doubt: Collection[str]) -> bool:
    proofs = [*(f.proof for f in (*found.findings, *found.ranges)), *(g.proof for g in found.groups)]
    said = {q for c in found.contradictions for q in c.queries}
    return any(proof is not None and proof.tables for proof in proofs) or not said.union(
        *(cited(proof) for proof in proofs)
    ).isdisjoint(doubt)


def _blamed(found: Exposure, known: Exposure, doubt: dict[str, str]) -> set[str]:
    """The statements from which something was computed and by which more is found than is known; all if unclear."""
    before = {(g.rows, g.column) for g in known.groups}
    proofs = [
        *(f.proof for f in _news(found, known)),
        *(g.proof for g in found.groups if (g.rows, g.column) not in before),
    ]
    finer = {q for q, why in doubt.items() if why == FINER}
    cited_finer = finer.intersection(q for proof in proofs for q in cited(proof))
    return {q.partition(".")[0] for q in cited_finer or finer} if proofs else set()


def _said(finding: Finding) -> tuple[object, ...]:
    said = finding.value, finding.lo, finding.hi, finding.excluded, finding.form
    return finding.row, finding.column, finding.status, *said


def _news(found: Exposure, known: Exposure) -> list[Finding]:
    """What is found beyond what was known."""
    before = {_said(f) for f in known.findings}
    return [f for f in found.findings if _said(f) not in before]


def _others(sure: Exposure, extra: Collection[Finding]) -> list[Finding]:
    """The findings that stay: of a value that is exposed nothing is added, of one that is narrowed the narrower."""
    shown = {(f.row, f.column) for f in extra}
    return [f for f in sure.findings if f.status is Status.EXPOSED or (f.row, f.column) not in shown]


def _named(evidence: Evidence, dropped: Collection[str]) -> list[Unjudged]:
    texts = {e.number.partition(".")[0]: e.sql for e in evidence.transcript.entries if e.number in dropped}
    return [Unjudged(number, sql, TELLS_MORE) for number, sql in texts.items()]


def _without(evidence: Evidence, numbers: Collection[str]) -> Evidence:
    """The evidence without some of the answers; the classes of records stay as they are.

    A system of whose columns none of them asked is the same object as before: what was proved of it stands.
    """
    gone = [e.query.named_columns for e in evidence.transcript.entries if e.number in numbers]
    touched = frozenset(name for columns in gone for name in columns)

    def left(system: System) -> System:
        if touched.isdisjoint(system.columns):
            return system
        return replace(
            system,
            constraints=tuple(c for c in system.constraints if c.number not in numbers),
            order=tuple(o for o in system.order if o.number not in numbers),
            equal=tuple(e for e in system.equal if e.number not in numbers and e.partner not in numbers),
        )

    people = evidence.counting
    if people is not None:
        people = replace(people, counts=tuple(c for c in people.counts if c.number not in numbers))
    entries = tuple(e for e in evidence.transcript.entries if e.number not in numbers)
    return replace(
        evidence,
        transcript=replace(evidence.transcript, entries=entries),
        systems=tuple(map(left, evidence.systems)),
        unjudged=tuple(u for u in evidence.unjudged if u.number not in numbers),
        counting=people,
    )
