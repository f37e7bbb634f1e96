"""A verdict as plain data, made once: whatever is printed, written or compared reads this and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from keyhole.auditing.base import (
    AssumedGroup,
    Assumption,
    Exposure,
    Finding,
    Group,
    Proof,
    Status,
    name_of,
    query_order,
)
from keyhole.auditing.end_proof import BoundUsed, EndProof
from keyhole.gather.evidence import OF_TABLE, Constraint, Contradiction, Unjudged
from keyhole.model.numbers import find_simplest_decimal
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Prior
from keyhole.model.query import Aggregate
from keyhole.model.schema import Role
from keyhole.model.transcript import Answer, Entry, HandedOut, Refusal
from keyhole.report.documents.verdict import Completion, ProofItem, Provenance, StatementCounts
from keyhole.report.formats.certificate import NOT_TOLD, RATIO, WITHOUT_PART, Certifier
from keyhole.report.words.completion import Completions
from keyhole.report.words.record_names import RecordNames
from keyhole.report.words.tally import count_statements

Record = Mapping[str, Scalar | None]

EXPOSED = "exposed"
INFERRED = "inferred"
OPEN = "open"
LIMIT = "limit"
GROUP = "group"
QUOTIENT = "numerator"


@dataclass(frozen=True, slots=True)
class Cited:
    """A query, or a fact, that proofs name.

    `form` says what of it is added up where that is not the printed answer; `ends` are the ends of what is added up,
    None if the answer is missing; `scale` is how often a row counts its answer (an AVG over 3 people: three times).
    """

    number: str
    scale: Fraction
    ends: tuple[Fraction, Fraction] | None
    fact: int | None = None
    sql: str = ""
    key: tuple[tuple[str, Scalar | None], ...] = ()
    answer: Answer | None = None
    form: str = ""
    replayed: ProofItem = field(default_factory=ProofItem)  # what a replay needs besides: see docs/json.md

    @property
    def name(self) -> str:
        """Q3, fact 1, or what of Q3 is meant where the answer itself is not what is added up."""
        if self.fact is not None:
            return f"fact {self.fact}"
        return f"({self.form} of Q{self.number})" if self.form else f"Q{self.number}"

    @property
    def value(self) -> str | None:
        """What is added up, as a number that a person would write; None if the answer is missing."""
        return None if self.ends is None else str(find_simplest_decimal(*self.ends))


@dataclass(frozen=True, slots=True)
class Step:
    """One addend of a proof: a weight on what is cited."""

    cited: Cited
    weight: Fraction


@dataclass(frozen=True, slots=True)
class Bounding:
    """What is put in for people whom the steps of an end leave: their `bound`, by a fact or what is declared."""

    used: BoundUsed
    record: Record | None = None  # where it is one person
    place: str = ""  # and which of his records, if he has several
    thing: str = "person"  # what is counted: people, or records where somebody has several
    replayed: ProofItem = field(default_factory=ProofItem)  # what a fact says


@dataclass(frozen=True, slots=True)
class EndArgument:
    """Why a value is at least (`side` lo) or at most (hi) `end`: steps, a public constant, and bounds."""

    side: str
    end: Fraction
    steps: tuple[Step, ...]
    constant: Fraction
    bounds: tuple[Bounding, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """A proof: the steps add up, with a public `constant`, to what is claimed; or a `rule` about the queries cited.

    `holds` is 1 or 0 where the steps show that one person is, or is not, in a private cell. Of a range: `ends`, and the
    steps are what they cite.
    """

    steps: tuple[Step, ...] = ()
    constant: Fraction = Fraction(0)
    rule: str = ""
    holds: int | None = None
    certificate: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[Case, ...] = ()  # what was proved of others before, and is used
    ends: tuple[EndArgument, ...] = ()

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries cited, in order; facts left out."""
        return tuple(step.cited.number for step in self.steps if step.cited.fact is None)


@dataclass(frozen=True, slots=True)
class Case:
    """What is proved of one person's private value, or (`status` group) of the total of several people.

    `status` is exposed, inferred, open (a narrower range than was known) or group; rows count from 1.
    """

    status: str
    records: tuple[Record, ...]
    rows: tuple[int, ...]
    column: str
    value: Scalar | None
    lo: Scalar | None
    hi: Scalar | None
    argument: Argument
    singled_out: bool = False
    excluded: tuple[Scalar, ...] = ()
    allowed: tuple[Scalar, ...] = ()
    tight: bool = True
    if_shown: bool = False  # it needs a row that a LIMIT may have cut off
    first: Completion | None = None
    form: str = ""  # what is known, where it is no value of one record
    grade: str = ""  # of a yes or no: shown to have, shown not to have, one of his
    place: str = ""  # the row, where the id has several records and this is about one of them
    private: tuple[str, ...] = ()  # the private columns, where they are others than those of the verdict
    assumed: str = ""  # what it rests on, where it needs that only the values assumed from the data are possible

    @property
    def named(self) -> str:
        """The id, and which of its records is meant."""
        return f"{self.who}{self.place}"

    @property
    def who(self) -> str:
        """The id as text; of a group all ids."""
        return ", ".join(name_of(record) for record in self.records)

    @property
    def completed_by(self) -> str | None:
        """The statement that completed it, else the last query that the proof needs. None if it has facts alone."""
        if self.first is not None:
            return self.first.query
        queries = self.argument.queries
        return queries[-1] if queries else None


@dataclass(frozen=True, slots=True)
class AssumedFinding:
    """People whose value follows if only the assumed values are possible: by statements and a count, without names."""

    column: str
    queries: tuple[str, ...]
    people: int
    why: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """All that a verdict says, except the names of those who stay open."""

    records: int
    people: int
    queries: int
    judged: int
    atoms: int
    rank: int
    promise: str
    assumed: Mapping[str, str]
    nobody: tuple[Unjudged, ...]  # the queries that nobody matches: judged, and perhaps not what was meant
    complete: bool
    gap: str  # why it is not complete
    exit_code: int
    doubt: int  # the exit code as if nobody were found
    statements: StatementCounts
    source: Provenance
    priors: Mapping[str, Prior]
    findings: tuple[Case, ...]
    groups: tuple[Case, ...]
    unjudged: tuple[Unjudged, ...]
    refused: tuple[Refusal, ...]
    contradictions: tuple[Contradiction, ...]
    ranges: tuple[Case, ...] = ()  # those who stay open, in a narrower range than was declared
    grades: Mapping[str, int] = field(default_factory=dict)  # people by what counts show of them
    limited: frozenset[tuple[int, str]] = frozenset()  # (row, column) of whom a limit ended the search too early
    rows: tuple[HandedOut, ...] = ()  # statements that hand out rows
    may_show_rows: frozenset[str] = frozenset()  # numbers of what is not judged, and may hand out rows
    disputed: Mapping[str, str] = field(default_factory=dict)  # the statements of contradictions, by their numbers
    by_assumption: tuple[AssumedFinding, ...] = ()
    declaring: Mapping[str, str] = field(default_factory=dict)  # columns whose values were assumed -> what to write

    @property
    def narrowed(self) -> tuple[Case, ...]:
        """Those who stay open, and of whom the log tells a narrower range."""
        return tuple(case for case in self.ranges if case.argument.queries)

    @property
    def cases(self) -> tuple[Case, ...]:
        """Everything found: people first, then groups."""
        return (*self.findings, *self.groups)

    @property
    def exposed(self) -> tuple[Case, ...]:
        """The people whose value is known exactly."""
        return tuple(case for case in self.findings if case.status == EXPOSED)

    @property
    def inferred(self) -> tuple[Case, ...]:
        """The people of whom something new is known, but not all."""
        return tuple(case for case in self.findings if case.status == INFERRED)


def plain(exposure: Exposure) -> Plain:
    """An exposure as plain data. Cost: a step for each query that each proof names."""
    own = _plain(exposure)
    findings, groups, priors = [*own.findings], [*own.groups], dict(own.priors)
    by_assumption, declaring, rows = [*own.by_assumption], dict(own.declaring), {r.number: r for r in own.rows}
    for other in map(_plain, exposure.readings):
        findings += [replace(case, private=other.source.private) for case in other.findings]
        groups += [replace(case, private=other.source.private) for case in other.groups]
        priors = {**other.priors, **priors}
        by_assumption += other.by_assumption
        declaring = {**other.declaring, **declaring}
        rows = {r.number: r for r in other.rows} | rows
    own = replace(own, by_assumption=tuple(by_assumption), declaring=declaring, rows=tuple(rows.values()))
    return replace(own, findings=tuple(findings), groups=tuple(groups), priors=priors)


def _plain(exposure: Exposure) -> Plain:
    cites = _Cites(exposure)
    assuming = None if exposure.assumption is None else _Cites(exposure.assumption.exposure, assumed=True)
    findings, by_assumption = _all_findings(exposure, cites, assuming)
    source = _provenance(exposure)
    return Plain(
        records=exposure.records,
        people=exposure.roster.people,
        queries=exposure.queries,
        judged=exposure.judged,
        atoms=exposure.atoms,
        rank=exposure.rank,
        promise=exposure.promise,
        assumed=exposure.assumed,
        nobody=(*{each.number: each for each in exposure.evidence.nobody}.values(), *_doubts(exposure, source)),
        complete=exposure.complete,
        gap=exposure.gap,
        exit_code=exposure.exit_code,
        doubt=exposure.doubt,
        statements=count_statements(exposure),
        source=source,
        priors={name: exposure.evidence.prior(name) for name in source.private},
        findings=findings,
        groups=tuple(_group(g, cites) for g in exposure.groups),
        unjudged=exposure.unjudged,
        refused=exposure.refused,
        contradictions=exposure.contradictions,
        ranges=tuple(_person(f, cites) for f in exposure.ranges),
        grades=exposure.grades,
        limited=frozenset((row + 1, name) for row, name in exposure.limited),
        rows=exposure.handed_out,
        may_show_rows=exposure.evidence.transcript.may_show_rows,
        disputed=_disputed(exposure),
        by_assumption=by_assumption,
        declaring={} if exposure.assumption is None else exposure.assumption.columns,
    )


def _provenance(exposure: Exposure) -> Provenance:
    """What was judged."""
    schema = exposure.roster.schema
    ids, private, hidden = (
        tuple(column.name for column in schema.of_role(role)) for role in (Role.ID, Role.PRIVATE, Role.HIDDEN)
    )
    return Provenance(
        table=schema.table,
        id=ids,
        private=private,
        hidden=hidden,
        dialect=exposure.dialect,
        version=exposure.version,
        kinds={column.name: str(column.kind) for column in schema.columns if not column.computed},
    )


def _doubts(exposure: Exposure, source: Provenance) -> Iterator[Unjudged]:
    """Doubts about the table that the promise does not tell, because another gap comes first."""
    return (Unjudged(f"{OF_TABLE}{source.table}", "", doubt) for doubt in exposure.doubts if doubt != exposure.gap)


def _all_findings(
    exposure: Exposure, cites: _Cites, assuming: _Cites | None
) -> tuple[tuple[Case, ...], tuple[AssumedFinding, ...]]:
    """Everybody; and those whose finding needs the assumption by statement and group."""
    if exposure.assumption is None or assuming is None:
        return tuple(_person(f, cites) for f in exposure.findings), ()
    reasons = {(row, g.column): _assumed_reason(g) for g in exposure.assumption.groups for row in g.rows}
    findings = []
    for f in exposure.findings:
        if f.assumed:
            case = replace(_person(f, assuming), assumed=reasons[f.row, f.column])
            if f.status is not Status.EXPOSED:
                case = replace(case, argument=replace(case.argument, certificate=NOT_TOLD))
            findings.append(case)
        else:
            findings.append(_person(f, cites))
    return tuple(findings), tuple(_by_assumption(exposure.assumption, findings))


def _by_assumption(assumption: Assumption, findings: Sequence[Case]) -> Iterator[AssumedFinding]:
    arguments = {(case.rows[0] - 1, case.column): case.argument for case in findings if case.assumed}
    for each in assumption.groups:
        rows = tuple(row for row in each.rows if (row, each.column) in arguments)
        if not rows:  # all of it is listed under other roles of the columns
            continue
        group = replace(each, rows=rows, whole=each.whole and rows == each.rows)
        steps = arguments[rows[0], group.column].steps
        yield AssumedFinding(group.column, group.queries, len(group.rows), _assumed_reason(group), steps)


def _assumed_reason(group: AssumedGroup) -> str:
    """Why values are determined, in a sentence that names nobody and no value.

    >>> print(_assumed_reason(AssumedGroup("hiv", ("1",), (0, 1), "greatest", True)))
    the answer of Q1 equals its greatest possible value: the value of all 2 people in it is determined
    """
    people = len(group.rows)
    if group.end:
        whose = f"all {people} people in it" if group.whole and people > 1 else f"{people} of the people in it"
        whose = "the one person in it" if group.whole and people == 1 else whose
        answer = f"the answer of Q{group.queries[0]} equals its {group.end} possible value"
        return f"{answer}: the value of {whose} is determined"
    names = [q if q.startswith("fact") else f"Q{q}" for q in group.queries]
    which = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    left = "leaves" if len(names) == 1 else "leave"
    return f"{which} {left} {people} {'person' if people == 1 else 'people'} one possible value each"


def _disputed(exposure: Exposure) -> dict[str, str]:
    wanted = {q for c in exposure.contradictions for q in c.queries}
    return {e.number: e.sql for e in exposure.evidence.transcript.entries if e.number in wanted} if wanted else {}


def _person(f: Finding, cites: _Cites) -> Case:
    argument = cites.argument(f.proof)
    rows = tuple(row + 1 for row in f.rows or (f.row,))
    said = (f.value, f.lo, f.hi, argument, f.singled_out, f.excluded, f.allowed, f.tight, f.if_shown)
    first = cites.first((f.row,), f.form or f.column)
    place = "" if f.form or len(rows) > 1 else cites.names.place(f.row)
    return Case(str(f.status), (f.record,), rows, f.column, *said, first, f.form, f.grade, place)


def _group(g: Group, cites: _Cites) -> Case:
    rows = tuple(row + 1 for row in g.rows)
    argument = cites.argument(g.proof, indicators=False)
    if argument.certificate.get("kind") == "part":
        argument = replace(argument, certificate=WITHOUT_PART)
    first = cites.first(g.rows, g.column)
    return Case(GROUP, g.records, rows, g.column, g.total, g.total, g.total, argument, first=first)


class _Cites:
    """What the proofs of an exposure cite, each looked up once."""

    def __init__(self, exposure: Exposure, *, assumed: bool = False) -> None:
        self._index = exposure.index
        self._assumed = assumed  # then ends that were assumed are not told
        self._roster = exposure.roster
        self._systems = exposure.evidence.systems
        self._certify = Certifier(exposure, assumed=assumed)
        self._cited: dict[tuple[int, str], Cited] = {}
        self._order: dict[str, tuple[int, ...]] = {}
        self._arguments: dict[int, Argument] = {}  # people who share a rule share its proof
        self._labels = _labels(exposure)
        self.first = Completions(exposure).of
        self.names = RecordNames(exposure.roster)

    def argument(self, proof: Proof | None, *, indicators: bool = True) -> Argument:
        """A proof in order of its queries."""
        if proof is None:
            return Argument()
        known = self._arguments.get(id(proof))
        if known is None:
            steps = tuple(self._step(proof.system, q, proof.weights[q]) for q in self._sorted(proof.weights))
            constant = Fraction(0) if proof.rule else proof.constant
            holds = self._holds(proof) if indicators else None
            quotient = any(step.cited.form.startswith(QUOTIENT) for step in steps)
            ends = tuple(self._end(proof.system, side) for side in proof.sides)
            certificate = RATIO if quotient and not proof.known else self._certify.proof(proof)
            before = () if self._assumed else tuple(self._before(proof))
            known = Argument(steps, constant, proof.rule, holds, certificate, before, ends)
            self._arguments[id(proof)] = known
        return known

    def _before(self, proof: Proof) -> Iterator[Case]:
        """What a proof by order rests on besides the answers: what was known of single people."""
        used = proof.known
        records = self._roster.labels(np.array([row for row, *_ in used], dtype=np.int64)) if used else []
        for (row, lo, hi, why), record in zip(used, records, strict=True):
            status, value = (EXPOSED, lo) if lo is not None and lo == hi else (INFERRED, None)
            column = self._certify.column(why if why.order is not None else proof)
            place = self.names.place(row)
            yield Case(status, (record,), (row + 1,), column, value, lo, hi, self.argument(why), place=place)

    def _end(self, system: int, side: EndProof) -> EndArgument:
        steps = tuple(self._step(system, q, side.weights[q]) for q in self._sorted(side.weights))
        bounds = () if self._assumed else tuple(map(self._bounding, side.bounds))
        return EndArgument(side.side, side.end, steps, side.constant, bounds)

    def _bounding(self, b: BoundUsed) -> Bounding:
        record, place = (None, "") if b.row is None else (self._labels[b.row], self.names.place(b.row))
        return Bounding(b, record, place, "record" if self.names.repeated else "person", self._certify.fact(b.fact))

    def _sorted(self, numbers: Iterable[str]) -> list[str]:
        for number in numbers:
            if number not in self._order:
                self._order[number] = query_order(number)
        return sorted(numbers, key=self._order.__getitem__)

    def _step(self, system: int, number: str, weight: Fraction) -> Step:
        cited = self._cited.get((system, number))
        if cited is None:
            row = self._index.constraints[system].get(number) if system >= 0 else None
            entry = self._index.entries.get(number)
            if row is not None:
                cited = replace(_cite(row, entry), replayed=self._certify.item(system, row))
            elif entry is not None:  # an order statistic
                cell = self._certify.cell(entry)
                cited = Cited(number, Fraction(1), None, None, entry.sql, entry.query.key, entry.answer, "", cell)
            else:
                cited = Cited(number, Fraction(1), None, int(number.split()[1]))
            self._cited[system, number] = cited
        return Step(cited, weight if cited.scale == 1 else weight * cited.scale)

    def _holds(self, proof: Proof) -> int | None:
        if proof.rule or proof.sides or len(proof.target) != 1:
            return None
        system = self._systems[proof.system]
        if system.features[next(iter(proof.target)) // system.atoms.K].column is not None:
            return None
        ends = proof.ends(self._index.constraints[proof.system])
        return None if ends is None else int(ends[0] > 0)


def _labels(exposure: Exposure) -> dict[int, Record]:
    """The ids of all people whose bound a proof puts in."""
    proofs: dict[int, Proof] = {}
    waiting = [f.proof for f in (*exposure.findings, *exposure.ranges) if f.proof is not None]
    while waiting:
        proof = waiting.pop()
        if id(proof) not in proofs:
            proofs[id(proof)] = proof
            waiting.extend(earlier for *_, earlier in proof.known)
    rows = sorted({b.row for p in proofs.values() for s in p.sides for b in s.bounds if b.row is not None})
    return dict(zip(rows, exposure.roster.labels(np.array(rows, dtype=np.int64)), strict=True)) if rows else {}


def _cite(row: Constraint, entry: Entry | None) -> Cited:
    scale = row.scale or Fraction(1)  # a quotient row keeps its own weight
    ends = None
    if row.lo is not None and row.hi is not None:
        ends = (row.lo, row.hi)
        if row.scale and (row.scale != 1 or row.offset):
            lo, hi = sorted((end + row.offset) / row.scale for end in ends)
            ends = (lo, hi)
    if row.fact is not None or entry is None:
        return Cited(row.number, scale, ends, row.fact)
    return Cited(row.number, scale, ends, None, entry.sql, entry.query.key, entry.answer, _form(row, entry))


def _form(row: Constraint, entry: Entry) -> str:
    """What of a query a proof adds up, where it is not the answer itself: empty for a plain sum, count or average."""
    if row.scale:
        return ""
    if entry.query.aggregate is Aggregate.VAR:
        return "sum of squares"
    if entry.answer is None or entry.answer.value is None:
        return "number of people"
    return f"{QUOTIENT} - {entry.answer.value} × denominator"
