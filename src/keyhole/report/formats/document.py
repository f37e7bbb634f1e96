"""A verdict as the document that `keyhole audit --format json` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from keyhole.errors import DIFFERS
from keyhole.gather.evidence import Constraint, Evidence, System, Unjudged
from keyhole.report.cases import EXPOSED, LIMIT, OPEN, Argument, Bounding, Case, PlainVerdict, Record, Step
from keyhole.report.documents.json_text import (
    json_answer,
    json_fraction,
    json_labels,
    json_number,
    json_values,
)
from keyhole.report.documents.verdict import (
    AssumedValues,
    ContradictingAnswers,
    ExposedValue,
    GroupTotal,
    InferredFeature,
    Interval,
    JudgedWarning,
    ProofItem,
    QueryMap,
    RefusedStatement,
    RowsHandedOut,
    UnjudgedStatement,
    VerdictDocument,
)
from keyhole.report.words.measures import name_promise, suggest_measures
from keyhole.report.words.proofs import explain_case
from keyhole.report.words.sentence import summarize_verdict

SQUARES = 60  # at most so many rows and columns
LOOKED = 5  # queries of one row that are looked at
MAX_OPEN = 100_000  # records x columns up to which open intervals are listed one by one

ProofOf: TypeAlias = Callable[[Case], tuple[ProofItem, ...]]


def lists_everybody(verdict: PlainVerdict) -> bool:
    """Are there few enough people to list those who stay open?"""
    return verdict.records * len(verdict.source.private) <= MAX_OPEN


def describe_verdict(verdict: PlainVerdict, everybody: Sequence[Record]) -> VerdictDocument:
    """The verdict as a document. `everybody` has the id of each record in order, or nobody if they are too many."""
    proofs: dict[int, tuple[ProofItem, ...]] = {}  # one tuple for each proof, however often it stands there

    def proof(case: Case) -> tuple[ProofItem, ...]:
        if id(case.argument) not in proofs:
            proofs[id(case.argument)] = tuple(_proof_items(case.argument))
        return proofs[id(case.argument)]

    return VerdictDocument(
        sentence=summarize_verdict(verdict),
        measures=tuple(suggest_measures(verdict)),
        proved=name_promise(verdict),
        records=verdict.records,
        people=verdict.people,
        queries=verdict.queries,
        statements=verdict.statements,
        complete=verdict.complete,
        atoms=verdict.atoms,
        rank=verdict.rank,
        promise=verdict.promise,
        assumed=dict(verdict.assumed),
        source=verdict.source,
        exposed=tuple(_describe_exposed(case, proof(case)) for case in verdict.exposed),
        by_assumption=tuple(
            AssumedValues(
                column=group.column,
                people=group.people,
                why=group.why,
                proof=tuple(_steps(group.steps, Fraction(0), group.rule)),
            )
            for group in verdict.by_assumption
        ),
        features=tuple(_describe_feature(case, proof(case)) for case in verdict.inferred if case.form),
        grades=dict(verdict.grades),
        groups=tuple(_describe_group(case, proof(case)) for case in verdict.groups),
        rows=tuple(
            RowsHandedOut(
                query=rows.number,
                sql=rows.sql,
                columns=rows.columns,
                records=rows.records,
                singled_out=rows.singled_out,
            )
            for rows in verdict.rows
        ),
        intervals=tuple(_intervals(verdict, everybody, proof)),
        unjudged=tuple(
            UnjudgedStatement(
                query=u.number,
                sql=u.sql,
                reason=u.reason,
                report=_report(u),
                may_show_rows=_may_show_rows(verdict, u.number),
            )
            for u in verdict.unjudged
        ),
        refused=tuple(
            RefusedStatement(query=r.number, sql=r.sql, error=r.error, may_show_rows=_may_show_rows(verdict, r.number))
            for r in verdict.refused
        ),
        contradictions=tuple(
            ContradictingAnswers(
                queries=c.queries, sql=tuple(verdict.disputed.get(q, "") for q in c.queries), reason=c.reason
            )
            for c in verdict.contradictions
        ),
        warnings=tuple(JudgedWarning(query=w.number, sql=w.sql, reason=w.reason) for w in verdict.nobody),
    )


def _may_show_rows(verdict: PlainVerdict, number: str) -> bool:
    """May a statement that is not judged hand out rows with private values?"""
    return number.partition(".")[0] in verdict.may_show_rows


def _report(unjudged: Unjudged) -> str | None:
    """What may be sent to us, where our reading is at fault: the statement without its constants."""
    if unjudged.reason != DIFFERS:
        return None
    from keyhole.sql.statements.redact import remove_constants

    return remove_constants(unjudged.sql)


def _describe_exposed(case: Case, proof: tuple[ProofItem, ...]) -> ExposedValue:
    several = bool(case.form)  # a person with several records, or his rows in other tables
    return ExposedValue(
        record=json_labels(case.records[0]),
        row=case.rows[0],
        column=case.column,
        value=json_number(case.value),
        why=_why(case),
        proof=proof,
        certificate=_certificate(case.argument),
        singled_out=case.singled_out,
        first=case.first,
        person=json_labels(case.records[0]) if several else None,
        form=case.form,
        rows=case.rows if several else (),
        grade=case.grade if several else "",
        private=case.private,
        assumed=bool(case.assumed),
    )


def _describe_feature(case: Case, proof: tuple[ProofItem, ...]) -> InferredFeature:
    """Something new about a person that is no value of one record."""
    return InferredFeature(
        person=json_labels(case.records[0]),
        form=case.form,
        rows=case.rows,
        grade=case.grade,
        column=case.column,
        status=case.status,
        why=_why(case),
        proof=proof,
        certificate=_certificate(case.argument),
        first=case.first,
        if_shown=case.if_shown,
        private=case.private,
        assumed=bool(case.assumed),
    )


def _describe_group(case: Case, proof: tuple[ProofItem, ...]) -> GroupTotal:
    """The total of several people."""
    return GroupTotal(
        records=tuple(map(json_labels, case.records)),
        rows=case.rows,
        column=case.column,
        total=json_number(case.value),
        why=_why(case),
        proof=proof,
        certificate=_certificate(case.argument),
        first=case.first,
        private=case.private,
    )


def _why(case: Case) -> tuple[str, ...]:
    return tuple(explain_case(case).splitlines())


def _intervals(verdict: PlainVerdict, everybody: Sequence[Record], proof: ProofOf) -> Iterator[Interval]:
    """One of each record and private column; without `everybody`, of those alone of whom something is proved."""
    proved = [case for case in (*verdict.ranges, *verdict.findings) if not case.form and not case.private]
    proved.sort(key=lambda case: not case.assumed)  # what needs no assumption replaces what does
    cases = {(case.rows[0], case.column): case for case in proved}
    if everybody:
        pairs = [(row, name, record) for row, record in enumerate(everybody, 1) for name in verdict.source.private]
    else:
        listed = [case for case in (*verdict.findings, *verdict.ranges) if not case.form and not case.private]
        pairs = [(case.rows[0], case.column, case.records[0]) for case in listed]
    for row, column, record in pairs:
        yield _describe_interval(verdict, record, row, column, cases.get((row, column)), proof)
    for case in verdict.findings:
        if not case.form and case.private:
            yield _describe_interval(verdict, case.records[0], case.rows[0], case.column, case, proof)


def _describe_interval(
    verdict: PlainVerdict, record: Record, row: int, column: str, case: Case | None, proof: ProofOf
) -> Interval:
    """What is left of one value; `case` is what is proved of it, None where nothing is."""
    prior = verdict.priors[column]
    declared = (json_number(prior.lo), json_number(prior.hi))
    status = OPEN if case is None else case.status
    interval = Interval(
        record=json_labels(record),
        column=column,
        lo=declared[0],
        hi=declared[1],
        prior=declared,
        # the search for more was stopped, so nobody is shown to be open
        status=LIMIT if status == OPEN and (row, column) in verdict.limited else status,
        proof=(),
        row=None if verdict.people == verdict.records else row,  # the id alone does not say which record
    )
    if case is None:
        return interval
    return replace(
        interval,
        lo=json_number(case.lo),
        hi=json_number(case.hi),
        proof=proof(case),
        certificate=_certificate(case.argument),
        first=case.first,
        why=None if case.status == EXPOSED else _why(case),
        tight=case.tight if case.argument.ends else None,
        if_shown=case.if_shown,
        assumed=bool(case.assumed),
        excluded=tuple(map(json_number, case.excluded)),
        allowed=tuple(map(json_number, case.allowed)),
        value=case.value if isinstance(case.value, str) else None,
        private=case.private,
    )


def _proof_items(argument: Argument) -> Iterator[ProofItem]:
    if not argument.ends:
        yield from _steps(argument.steps, argument.constant, argument.rule)
    for end in argument.ends:
        yield from (replace(item, side=end.side) for item in _steps(end.steps, end.constant))
        yield from (replace(_describe_bound(each), side=end.side) for each in end.bounds)


def _steps(steps: Sequence[Step], constant: Fraction, rule: str = "") -> Iterator[ProofItem]:
    for step in steps:
        cited = step.cited
        if cited.fact is not None:
            yield replace(cited.replayed, fact=cited.fact, weight=str(step.weight))
            continue
        item = replace(
            cited.replayed, query=cited.number, sql=cited.sql, weight=str(step.weight), form=cited.form, rule=rule
        )
        yield item if cited.answer is None else replace(item, answer=json_answer(cited.answer))
    if constant:
        yield ProofItem(known=str(constant), weight="1")


def _describe_bound(each: Bounding) -> ProofItem:
    """People at their bound: one by his id, several by how many they are and by a query that they are all in."""
    used = each.used
    return replace(
        each.replayed,
        fact=used.fact,
        bound=used.bound,
        each=json_fraction(used.each),
        weight=str(used.weight),
        own=used.own,
        record=None if used.own or each.record is None else json_labels(each.record),
        people=None if used.own or each.record is not None else used.people,
        of=used.of or None,
    )


def _certificate(argument: Argument) -> dict[str, Any]:
    """What a replay needs besides the proof."""
    certificate: dict[str, Any] = json_values(argument.certificate)
    if argument.known:
        certificate["known"] = [_describe_known(case) for case in argument.known]
    return certificate


def _describe_known(case: Case) -> dict[str, Any]:
    """A claim that another proof rests on, with its own proof."""
    return {
        "record": json_labels(case.records[0]),
        "row": case.rows[0],
        "column": case.column,
        "status": case.status,
        "value": json_number(case.value),
        "lo": json_number(case.lo),
        "hi": json_number(case.hi),
        "proof": tuple(_proof_items(case.argument)),
        "certificate": _certificate(case.argument),
    }


def describe_query_map(evidence: Evidence) -> QueryMap:
    """`queries` and `people` (names of rows and columns) and `shares`: of those people, how many the query counts.

    Of many queries, rows are consecutive ones; of many people, columns are neighbours in the order of the queries they
    are in. The system with the most queries is shown. Cost: a pass over its atoms for each query looked at.
    """
    systems = [(s, [c for c in s.constraints if c.fact is None]) for s in evidence.systems]
    system, rows = max(systems, key=lambda each: len(each[1]), default=(None, []))
    if system is None or not rows:
        return QueryMap()
    blocks = _split_rows(rows)
    order = _sort_atoms(system, [block[0] for block in blocks])
    sizes = system.atoms.sizes[order].astype(np.float64)
    starts, people = _group_atoms(sizes)
    shares = []
    for block in blocks:
        picked = block[:: max(1, len(block) // LOOKED)]
        counted = sum(np.add.reduceat(sizes * _mark_counted(system, c)[order], starts) for c in picked)
        shares.append([round(float(v), 3) for v in counted / (people * len(picked))])
    return QueryMap(
        queries=tuple(map(_name_rows, blocks)),
        people=tuple(f"{int(n):,} people" if n > 1 else "1 person" for n in people),
        shares=tuple(map(tuple, shares)),
    )


def _split_rows(rows: Sequence[Constraint]) -> list[Sequence[Constraint]]:
    size = -(-len(rows) // SQUARES)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _name_rows(block: Sequence[Constraint]) -> str:
    first, last = block[0].number, block[-1].number
    return f"Q{first}" if first == last else f"Q{first} to Q{last}"


def _mark_counted(system: System, constraint: Constraint) -> NDArray[np.bool_]:
    found = np.zeros(system.atoms.K, dtype=np.bool_)
    for part in constraint.parts:
        found |= system.atoms.mask(part.where)
    return found


def _sort_atoms(system: System, rows: Sequence[Constraint]) -> NDArray[np.int64]:
    """The atoms sorted by their queries, the first query first."""
    keys = [~_mark_counted(system, c) for c in reversed(rows)]
    return np.lexsort(keys).astype(np.int64) if keys else np.arange(system.atoms.K)


def _group_atoms(sizes: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Neighbouring atoms put together, about equally many people each: where they start, and how many they are."""
    if len(sizes) <= SQUARES:
        starts = np.arange(len(sizes))
    else:
        before = np.cumsum(sizes) - sizes
        starts = np.unique(np.searchsorted(before, np.linspace(0, sizes.sum(), SQUARES, endpoint=False)))
    return starts, np.add.reduceat(sizes, starts)
