"""An exposure as plain data, made once: who is exposed, with proofs whose statements can be named and replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import (
    AssumedGroup,
    Assumption,
    Exposure,
    Finding,
    Group,
    Proof,
    Status,
    query_order,
)
from keyhole.auditing.end_proof import BoundUsed, EndProof
from keyhole.datasets import Roster
from keyhole.gather.evidence import OF_TABLE, Constraint, Unjudged
from keyhole.model.predicate import quote_name
from keyhole.model.query import Aggregate
from keyhole.model.schema import Role
from keyhole.model.transcript import Entry
from keyhole.report.cases import (
    EXPOSED,
    GROUP,
    INFERRED,
    Argument,
    AssumedFinding,
    Bounding,
    Case,
    Cited,
    EndArgument,
    PlainVerdict,
    Record,
    Step,
)
from keyhole.report.documents.verdict import Completion, Provenance, StatementCounts
from keyhole.report.formats.certificate import NOT_TOLD, RATIO, WITHOUT_PART, Certifier

QUOTIENT = "numerator"


def describe_exposure(exposure: Exposure) -> PlainVerdict:
    """An exposure as plain data. Cost: a step for each query that each proof names."""
    own = _describe_reading(exposure)
    findings, groups, priors = [*own.findings], [*own.groups], dict(own.priors)
    by_assumption, declaring, rows = [*own.by_assumption], dict(own.declaring), {r.number: r for r in own.rows}
    for other in map(_describe_reading, exposure.readings):
        findings += [replace(case, private=other.source.private) for case in other.findings]
        groups += [replace(case, private=other.source.private) for case in other.groups]
        priors = {**other.priors, **priors}
        by_assumption += other.by_assumption
        declaring = {**other.declaring, **declaring}
        rows = {r.number: r for r in other.rows} | rows
    own = replace(own, by_assumption=tuple(by_assumption), declaring=declaring, rows=tuple(rows.values()))
    return replace(own, findings=tuple(findings), groups=tuple(groups), priors=priors)


def _describe_reading(exposure: Exposure) -> PlainVerdict:
    cites = _Citations(exposure)
    assuming = None if exposure.assumption is None else _Citations(exposure.assumption.exposure, assumed=True)
    findings, by_assumption = _all_findings(exposure, cites, assuming)
    source = _describe_source(exposure)
    return PlainVerdict(
        records=exposure.records,
        people=exposure.roster.people,
        queries=exposure.queries,
        judged=exposure.judged,
        atoms=exposure.atoms,
        rank=exposure.rank,
        promise=exposure.promise,
        assumed=exposure.assumed,
        nobody=(*{each.number: each for each in exposure.evidence.nobody}.values(), *_list_doubts(exposure, source)),
        complete=exposure.complete,
        gap=exposure.gap,
        exit_code=exposure.exit_code,
        doubt=exposure.doubt,
        statements=count_statements(exposure),
        source=source,
        priors={name: exposure.evidence.prior(name) for name in source.private},
        findings=findings,
        groups=tuple(_make_group_case(g, cites) for g in exposure.groups),
        unjudged=exposure.unjudged,
        refused=exposure.refused,
        contradictions=exposure.contradictions,
        ranges=tuple(_make_case(f, cites) for f in exposure.ranges),
        grades=exposure.grades,
        limited=frozenset((row + 1, name) for row, name in exposure.limited),
        rows=exposure.handed_out,
        may_show_rows=exposure.evidence.transcript.may_show_rows,
        disputed=_find_disputed(exposure),
        by_assumption=by_assumption,
        declaring={} if exposure.assumption is None else exposure.assumption.columns,
    )


def _describe_source(exposure: Exposure) -> Provenance:
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


def _list_doubts(exposure: Exposure, source: Provenance) -> Iterator[Unjudged]:
    """Doubts about the table that the promise does not tell, because another gap comes first."""
    return (Unjudged(f"{OF_TABLE}{source.table}", "", doubt) for doubt in exposure.doubts if doubt != exposure.gap)


def count_statements(exposure: Exposure) -> StatementCounts:
    """The statements of the log behind an exposure."""
    texts = {entry.number.partition(".")[0]: entry.sql for entry in exposure.evidence.transcript.entries}
    refused = {r.number.partition(".")[0]: r.sql for r in exposure.refused}
    unjudged = {u.number.partition(".")[0]: u.sql for u in exposure.unjudged}
    texts |= unjudged | refused
    unjudged = {number: sql for number, sql in unjudged.items() if number not in refused}
    repeats = _count_repeats(exposure)

    def count(numbers: Iterable[str]) -> int:
        return sum(repeats.get(number, 1) for number in numbers)

    total, waiting, left = count(texts), count(unjudged), count(refused)
    return StatementCounts(
        total=total,
        judged=total - waiting - left,
        unjudged=waiting,
        refused=left,
        distinct=len(set(texts.values())),
        noisy=count(_find_noisy(exposure) - unjudged.keys() - refused.keys()),
        failed=0 if exposure.log is None else exposure.log.failed,
        ignored=0 if exposure.log is None else exposure.log.ignored,
    )


def _count_repeats(exposure: Exposure) -> dict[str, int]:
    """How often each statement came, where more than once."""
    log = exposure.log
    if log is None:
        return {}
    found = {str(line.number): line.repeats for line in log.lines}
    found |= {refusal.number: refusal.repeats for refusal in (*log.refused, *log.unjudged)}
    return found


def _find_noisy(exposure: Exposure) -> set[str]:
    """The statements with an answer that noise was added to."""
    return {q.partition(".")[0] for q, noise in exposure.noisy.items() if noise.kind != "rounded"}


def _all_findings(
    exposure: Exposure, cites: _Citations, assuming: _Citations | None
) -> tuple[tuple[Case, ...], tuple[AssumedFinding, ...]]:
    """Everybody; and those whose finding needs the assumption by statement and group."""
    if exposure.assumption is None or assuming is None:
        return tuple(_make_case(f, cites) for f in exposure.findings), ()
    reasons = {(row, g.column): _explain_assumed(g) for g in exposure.assumption.groups for row in g.rows}
    findings = []
    for f in exposure.findings:
        if f.assumed:
            case = replace(_make_case(f, assuming), assumed=reasons[f.row, f.column])
            if f.status is not Status.EXPOSED:
                case = replace(case, argument=replace(case.argument, certificate=NOT_TOLD))
            findings.append(case)
        else:
            findings.append(_make_case(f, cites))
    return tuple(findings), tuple(_group_assumed(exposure.assumption, findings))


def _group_assumed(assumption: Assumption, findings: Sequence[Case]) -> Iterator[AssumedFinding]:
    arguments = {(case.rows[0] - 1, case.column): case.argument for case in findings if case.assumed}
    for each in assumption.groups:
        rows = tuple(row for row in each.rows if (row, each.column) in arguments)
        if not rows:  # all of it is listed under other roles of the columns
            continue
        group = replace(each, rows=rows, whole=each.whole and rows == each.rows)
        argument = arguments[rows[0], group.column]
        rule = "" if argument.ends else argument.rule
        why = _explain_assumed(group)
        yield AssumedFinding(group.column, group.queries, len(group.rows), why, argument.steps, rule)


def _explain_assumed(group: AssumedGroup) -> str:
    """Why values are determined, in a sentence that names nobody and no value.

    >>> print(_explain_assumed(AssumedGroup("hiv", ("1",), (0, 1), "greatest", True)))
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


def _find_disputed(exposure: Exposure) -> dict[str, str]:
    wanted = {q for c in exposure.contradictions for q in c.queries}
    return {e.number: e.sql for e in exposure.evidence.transcript.entries if e.number in wanted} if wanted else {}


def _make_case(f: Finding, cites: _Citations) -> Case:
    argument = cites.argument(f.proof)
    rows = tuple(row + 1 for row in f.rows or (f.row,))
    said = (f.value, f.lo, f.hi, argument, f.singled_out, f.excluded, f.allowed, f.tight, f.if_shown)
    first = cites.first((f.row,), f.form or f.column)
    place = "" if f.form or len(rows) > 1 else cites.place(f.row)
    return Case(str(f.status), (f.record,), rows, f.column, *said, first, f.form, f.grade, place)


def _make_group_case(g: Group, cites: _Citations) -> Case:
    rows = tuple(row + 1 for row in g.rows)
    argument = cites.argument(g.proof, indicators=False)
    if argument.certificate.get("kind") == "part":
        argument = replace(argument, certificate=WITHOUT_PART)
    first = cites.first(g.rows, g.column)
    return Case(GROUP, g.records, rows, g.column, g.total, g.total, g.total, argument, first=first)


class _Citations:
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
        self._labels = _label_bounds(exposure)
        self._firsts = exposure.firsts
        self._lines = {} if exposure.log is None else {line.number: line for line in exposure.log.lines}
        self._repeated = exposure.roster.schema.repeated
        self._shared_ids = _rows_that_share_an_id(exposure.roster) if self._repeated else np.zeros(0, dtype=np.bool_)

    def first(self, rows: tuple[int, ...], column: str) -> Completion | None:
        """The statement that completed a finding, by its rows from 0; None if facts alone prove it."""
        first = self._firsts.get((rows, column))
        if first is None:
            return None
        line = self._lines.get(first.statement)
        analyst, time = (None, None) if line is None else (line.analyst, line.time)
        return Completion(query=str(first.statement), least=first.least, analyst=analyst, time=time)

    def place(self, row: int) -> str:
        """` (row 5)` of the record in row 4 from 0; empty where its id names no other record."""
        return f" (row {row + 1})" if self._repeated and self._shared_ids[row] else ""

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
            place = self.place(row)
            yield Case(status, (record,), (row + 1,), column, value, lo, hi, self.argument(why), place=place)

    def _end(self, system: int, side: EndProof) -> EndArgument:
        steps = tuple(self._step(system, q, side.weights[q]) for q in self._sorted(side.weights))
        bounds = () if self._assumed else tuple(map(self._bounding, side.bounds))
        return EndArgument(side.side, side.end, steps, side.constant, bounds)

    def _bounding(self, b: BoundUsed) -> Bounding:
        record, place = (None, "") if b.row is None else (self._labels[b.row], self.place(b.row))
        return Bounding(b, record, place, "record" if self._repeated else "person", self._certify.fact(b.fact))

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
                cited = replace(_cite_row(row, entry), replayed=self._certify.item(system, row))
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


def _rows_that_share_an_id(roster: Roster) -> NDArray[np.bool_]:
    """Of each row: does its id name another record too? Cost: a pass over the ids."""
    person = roster.classes([quote_name(column.name) for column in roster.schema.of_role(Role.ID)])
    shared: NDArray[np.bool_] = (np.bincount(person + 1)[person + 1] > 1) & (person >= 0)  # -1: without an id
    return shared


def _label_bounds(exposure: Exposure) -> dict[int, Record]:
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


def _cite_row(row: Constraint, entry: Entry | None) -> Cited:
    scale = row.scale or Fraction(1)  # a quotient row keeps its own weight
    ends = None
    if row.lo is not None and row.hi is not None:
        ends = (row.lo, row.hi)
        if row.scale and (row.scale != 1 or row.offset):
            lo, hi = sorted((end + row.offset) / row.scale for end in ends)
            ends = (lo, hi)
    if row.fact is not None or entry is None:
        return Cited(row.number, scale, ends, row.fact)
    return Cited(row.number, scale, ends, None, entry.sql, entry.query.key, entry.answer, _name_form(row, entry))


def _name_form(row: Constraint, entry: Entry) -> str:
    """What of a query a proof adds up, where it is not the answer itself: empty for a plain sum, count or average."""
    if row.scale:
        return ""
    if entry.query.aggregate is Aggregate.VAR:
        return "sum of squares"
    if entry.answer is None or entry.answer.value is None:
        return "number of people"
    return f"{QUOTIENT} - {entry.answer.value} × denominator"
