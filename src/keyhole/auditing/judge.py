"""Evidence to Exposure: the rules run in a row until none of them narrows anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import product
from typing import TypeAlias, TypeVar

from keyhole.auditing.alone import said_alone
from keyhole.auditing.base import Exposure, Finding, Status, query_order
from keyhole.auditing.clock import Deadline, ordered
from keyhole.auditing.exchange import Exchange
from keyhole.auditing.findings import Refuted, beyond_facts, limited, without_domains
from keyhole.auditing.known import Known, Progress, Rules
from keyhole.auditing.people import ShownPeople, shown_people
from keyhole.auditing.people_sums import PeopleSums, looks_at_secrets
from keyhole.auditing.promise import INTERRUPTED_GAP, RECORDS_GAP, records_gap
from keyhole.auditing.rules import RULES
from keyhole.auditing.rules.integer import decide_people
from keyhole.auditing.rules.interval import look_for_second_tables, unshown
from keyhole.auditing.rules.order import unused
from keyhole.auditing.shown import examine_shown
from keyhole.datasets import Roster, Source
from keyhole.errors import engine_interruptions
from keyhole.gather.answers import NOISY
from keyhole.gather.evidence import Contradiction, Evidence, System, Unjudged
from keyhole.model.query import Aggregate

_REASONS = {
    Aggregate.VAR: "a variance is judged where SUM or AVG of the same people was asked too",
    Aggregate.PUBLIC: "a public figure under a private condition is not linear in the private values",
}
NOT_LINEAR = (
    "it is no equation, and ranges are not searched here (conditions on private values, squares, too many rows)"
)
Searching = TypeVar("Searching")
Settled: TypeAlias = dict[tuple[object, ...], tuple[System, Known]]  # by the classes and answers of a system


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges evidence by rules. Guarantee: everything it says is proved; what it leaves open is in the promise."""

    rules: Rules = RULES
    progress: Progress | None = None
    source: Source | None = None
    exchanges: bool = True  # may people be shown open by exchanging two of them, however near their values are?
    stopped: bool = False  # it was interrupted before: nothing more is searched
    clock: Deadline = field(default_factory=lambda: Deadline(None))

    def examine(self, evidence: Evidence, roster: Roster) -> Exposure:
        """Who is exposed, and what is known of the others; the all-clear is for all that may have been shown."""
        return examine_shown(partial(self._examine, {}), evidence, roster)

    def _examine(self, settled: Settled, evidence: Evidence, roster: Roster) -> Exposure:
        """The verdict; `settled` has what was proved before of systems with the same answers, and gets what is."""
        evidence = replace(
            evidence, systems=tuple(_as_settled(system, evidence, settled) for system in evidence.systems)
        )
        known = Known.prior(evidence, roster, self.progress, self.source)
        self._narrow(known, settled)
        people = _unless_stopped(known, lambda: shown_people(evidence, known, roster, self.source)) or ShownPeople()
        known.learn((*people.claims, *people.contradictions))
        gap = records_gap(evidence, roster.schema)
        states = (
            _unless_stopped(known, lambda: decide_people(known, self.source))
            if gap and not known.contradictions
            else None
        )
        if states is not None:
            known.learn(states.claims)
        findings = [*known.findings(roster, Status.EXPOSED, Status.INFERRED), *known.personal(roster), *people.findings]
        sums = _unless_stopped(known, lambda: PeopleSums(evidence, roster)) if gap else None
        alone = None if sums is None else _unless_stopped(known, lambda: said_alone(sums, findings, known.missed))
        findings += alone or []
        used = {q for f in findings if f.proof is not None for q in f.proof.weights}
        unjudged = (*evidence.unjudged, *(u for u in _unjudged(evidence, known) if u.number not in used))
        spoiled = bool(known.contradictions or people.contradictions or unjudged)
        tried = bool(known.missed | people.missed | gap) and sums is not None and not spoiled
        why = states.missing if states is not None and self.exchanges and not spoiled else None
        if why != "" and tried and sums is not None:
            why = _unless_stopped(known, lambda: self._not_exchanged(sums))
        missed = known.missed | people.missed | gap
        missed = set() if why == "" else missed - {RECORDS_GAP} | {why} if why and RECORDS_GAP in missed else missed
        refuted = Refuted(evidence, self.source)
        false = refuted.among(findings)
        findings = _but(findings, false)  # nobody is exposed by what is not true of the data
        impossible = [(f, said) for f in findings if (said := _outside(f, known)) is not None]
        if self.source is None:  # nor by answers that cannot be true; with the data it is the declaration
            findings = _but(findings, impossible)
        listed, domains = without_domains(beyond_facts(findings, known), evidence, self.source)
        return Exposure(
            evidence,
            roster,
            tuple(listed),
            tuple(known.named_groups(roster)),
            known.rank,
            tuple(sorted(unjudged, key=lambda u: query_order(u.number))),
            (*known.contradictions, *(said for _, said in (*false, *impossible))),
            shown=frozenset(range(len(evidence.systems)) if why == "" else known.shown),
            ranges=tuple(
                _shown_reached(f, evidence) for f in known.findings(roster, Status.OPEN) if not refuted.by_data(f)
            ),
            searched={number: unshown(known, number) for number in known.searched},
            split=known.split,
            missed=ordered(missed),
            grades=people.grades,
            domains=domains,
            limited=limited(known),
            directions=known.directions,
        )

    def _narrow(self, known: Known, settled: Settled) -> None:
        """All rules in a row, until none of them narrows anything; Ctrl-C keeps what was proved."""
        for number, system in enumerate(known.evidence.systems):
            if (held := settled.get(_answers_of(system, known.evidence))) is not None:
                known.adopt(held[1], number)
        systems = [s for s in known.evidence.systems if _answers_of(s, known.evidence) not in settled]
        finished, news = 0, not self.stopped
        if self.stopped:
            _note_interruption(known)
        try:
            while news:
                news = False
                for system, rule in product(systems, self.rules):
                    self.clock.check()
                    with engine_interruptions():
                        news |= known.learn(rule(system, known))
                    finished += 1
            for system in systems:
                number = known.number(system)
                if number in known.searched and number not in known.shown:
                    look_for_second_tables(known.searched[number], known.unopened(system))
            if known.evidence.counting is None and not known.contradictions:
                settled.update((_answers_of(system, known.evidence), (system, known)) for system in systems)
        except KeyboardInterrupt:
            if not finished and not known.something:
                raise
            _note_interruption(known)

    def _not_exchanged(self, sums: PeopleSums) -> str | None:
        """Why not everybody is shown open by exchanging people in the true table; empty if so, None: not tried."""
        entries = sums.evidence.transcript.entries
        asked = {e.number for e in entries if looks_at_secrets(e.query, sums.secret)}
        if not self.exchanges or asked != {e.number for e in sums.entries}:
            return None
        return Exchange(sums, self.source).gap()


def _answers_of(system: System, evidence: Evidence) -> tuple[object, ...]:
    """What a system says: equal where its classes are the same object, and so are its answers."""
    asked = (e.number for e in evidence.transcript.entries if not e.query.named_columns.isdisjoint(system.columns))
    said = (each.number for listed in (system.constraints, system.order, system.equal) for each in listed)
    return id(system.atoms), tuple(asked), tuple(said)


def _as_settled(system: System, evidence: Evidence, settled: Settled) -> System:
    """A system, as the object that was judged before where its answers are the same."""
    held = settled.get(_answers_of(system, evidence))
    return system if held is None else held[0]


def _but(findings: list[Finding], without: list[tuple[Finding, Contradiction]]) -> list[Finding]:
    left = {id(f) for f, _ in without}
    return [f for f in findings if id(f) not in left]


def _note_interruption(known: Known) -> None:
    known.missed.add(INTERRUPTED_GAP)
    known.limits |= set(range(len(known.evidence.systems)))


def _unless_stopped(known: Known, search: Callable[[], Searching]) -> Searching | None:
    """What a search behind the rules finds; None once Ctrl-C was pressed, before it or in it."""
    if INTERRUPTED_GAP in known.missed:
        return None
    try:
        with engine_interruptions():
            return search()
    except KeyboardInterrupt:
        _note_interruption(known)
        return None


def _shown_reached(finding: Finding, evidence: Evidence) -> Finding:
    """A range whose ends tables reach; not where the column has answers that those tables were not held against."""
    whole = finding.proof is not None and bool(finding.proof.tables)  # all answers were put in
    more = any(s.order or s.partitions or s.equal for s in evidence.systems if finding.column in s.columns)
    return replace(finding, tight=finding.tight and (whole or not more))


def _outside(f: Finding, known: Known) -> Contradiction | None:
    """A value that the answers give but the column does not hold: outside the declared range, or off its grid."""
    prior = known.evidence.prior(f.column)
    if f.status is not Status.EXPOSED or not isinstance(f.value, Decimal) or f.proof is None or f.form:
        return None  # a sum over several records is no value of the column
    names = tuple(sorted(f.proof.weights, key=query_order))
    given = f"the answers give {f.who}'s {f.column} = {f.value}"
    low = prior.lo is not None and f.hi is not None and f.hi < prior.lo
    high = prior.hi is not None and f.lo is not None and f.lo > prior.hi
    if low or high:
        return Contradiction(names, f"{given}, outside the declared range")
    if f.lo is not None and f.hi is not None and not known.holds(f.column, f.lo, f.hi):
        return Contradiction(names, f"{given}, which it cannot be")
    return None


def _unjudged(evidence: Evidence, known: Known) -> Iterator[Unjudged]:
    for i, system in enumerate(evidence.systems):
        used = known.searched[i].bounded.used if i in known.searched else frozenset()
        for c in system.constraints:
            nothing = c.judged_as == NOISY and c.lo is None and c.hi is None  # judged: it proves nothing
            if not c.equation and c.fact is None and c.number not in used and not nothing:
                yield Unjudged(c.number, evidence.sql_of(c.number), f"{c.judged_as}: {NOT_LINEAR}")
        for fact in system.order:
            reason = _REASONS.get(fact.query.aggregate) or unused(fact)
            if reason and fact.number not in known.put_in:
                yield Unjudged(fact.number, evidence.sql_of(fact.number), reason)
