"""A verdict as JSON: the fields of docs/json.md, and a writer that keeps every digit of a number."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

from keyhole.errors import DIFFERS
from keyhole.gather.evidence import Unjudged
from keyhole.model.numbers import shorten_fraction
from keyhole.model.predicate import Scalar
from keyhole.model.transcript import Answer
from keyhole.report.formats.provenance import Provenance
from keyhole.report.plain import (
    EXPOSED,
    LIMIT,
    OPEN,
    Argument,
    Bounding,
    Case,
    Cited,
    Plain,
    Record,
    Step,
)
from keyhole.report.words.sentence import sentence
from keyhole.report.words.text import why

MAX_OPEN = 100_000  # records x columns up to which open intervals are listed one by one
MAX_DIGITS = 400  # a longer number is written with an exponent


def lists_everybody(verdict: Plain) -> bool:
    """Are there few enough people to list those who stay open?"""
    return verdict.records * len(verdict.source.private) <= MAX_OPEN


def as_json(verdict: Plain, everybody: Sequence[Record]) -> dict[str, Any]:
    """The fields of the contract. `everybody` has the id of each record in order, or nobody if they are too many."""
    proofs: dict[int, list[dict[str, Any]]] = {}  # one list for each proof, however often it stands there

    def proof(case: Case) -> list[dict[str, Any]]:
        found = proofs.get(id(case.argument))
        if found is None:
            found = proofs[id(case.argument)] = list(_items(case.argument))
        return found

    return {
        "sentence": sentence(verdict),
        "records": verdict.records,
        "people": verdict.people,
        "queries": verdict.queries,
        "statements": asdict(verdict.statements),
        "complete": verdict.complete,
        "atoms": verdict.atoms,
        "rank": verdict.rank,
        "promise": verdict.promise,
        "assumed": dict(verdict.assumed),
        "source": _source(verdict.source),
        "exposed": [
            {
                "record": _record(case.records[0]),
                "row": case.rows[0],
                "column": case.column,
                "value": number(case.value),
                "why": why(case).splitlines(),
                "proof": proof(case),
                "certificate": certificate(case.argument),
                "singled_out": case.singled_out,
                "first": _first(case),
                **_personal(case),
                **_roles(case),
                **_assumed(case),
            }
            for case in verdict.exposed
        ],
        "by_assumption": [
            {"column": f.column, "people": f.people, "why": f.why, "proof": list(_steps(f.steps, Fraction(0)))}
            for f in verdict.by_assumption
        ],
        "features": [_feature(case, proof(case)) for case in verdict.inferred if case.form],
        "grades": dict(verdict.grades),
        "groups": [_group(case, proof(case)) for case in verdict.groups],
        "rows": [
            {
                "query": rows.number,
                "sql": rows.sql,
                "columns": list(rows.columns),
                "records": rows.records,
                "singled_out": rows.singled_out,
            }
            for rows in verdict.rows
        ],
        "intervals": list(_intervals(verdict, everybody, proof)),
        "unjudged": [
            {"query": u.number, "sql": u.sql, "reason": u.reason} | _report(u) | _may_show(verdict, u.number)
            for u in verdict.unjudged
        ],
        "refused": [
            {"query": r.number, "sql": r.sql, "error": r.error} | _may_show(verdict, r.number) for r in verdict.refused
        ],
        "contradictions": [
            {"queries": list(c.queries), "sql": [verdict.disputed.get(q, "") for q in c.queries], "reason": c.reason}
            for c in verdict.contradictions
        ],
        "warnings": [{"query": w.number, "sql": w.sql, "reason": w.reason} for w in verdict.nobody],
    }


def _may_show(verdict: Plain, number: str) -> dict[str, Any]:
    """A mark on a statement that is not judged and may hand out rows with private values."""
    return {"may_show_rows": True} if number.partition(".")[0] in verdict.may_show_rows else {}


def _report(unjudged: Unjudged) -> dict[str, Any]:
    """What may be sent to us, where our reading is at fault: the statement without its constants."""
    if unjudged.reason != DIFFERS:
        return {}
    from keyhole.sql.statements.redact import without_constants

    return {"report": without_constants(unjudged.sql)}


def _source(source: Provenance) -> dict[str, Any]:
    return {
        "table": source.table,
        "id": list(source.id),
        "private": list(source.private),
        "hidden": list(source.hidden),
        "dialect": source.dialect,
        "version": source.version,
        "kinds": dict(source.kinds),
    }


def _status(verdict: Plain, case: Case | None, row: int, column: str) -> str:
    """How a range is to be read: `limit` where the search for more was stopped, so that nobody is shown to be open."""
    status = OPEN if case is None else case.status
    return LIMIT if status == OPEN and (row, column) in verdict.limited else status


def _intervals(
    verdict: Plain, everybody: Sequence[Record], proof: Callable[[Case], list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    found = [c for c in (*verdict.ranges, *verdict.findings) if not c.form and not c.private]
    found.sort(key=lambda c: not c.assumed)
    known = {(case.rows[0], case.column): case for case in found}
    ranges = {name: (number(prior.lo), number(prior.hi)) for name, prior in verdict.priors.items()}
    if everybody:
        pairs = [(row, name, record) for row, record in enumerate(everybody, 1) for name in verdict.source.private]
    else:
        listed = [case for case in (*verdict.findings, *verdict.ranges) if not case.form and not case.private]
        pairs = [(case.rows[0], case.column, case.records[0]) for case in listed]
    others = [case for case in verdict.findings if not case.form and case.private]
    told = [(row, name, record, known.get((row, name))) for row, name, record in pairs]
    for row, name, record, case in (*told, *((c.rows[0], c.column, c.records[0], c) for c in others)):
        lo, hi = ranges[name] if case is None else (number(case.lo), number(case.hi))
        item = {
            "record": _record(record),
            "column": name,
            "lo": lo,
            "hi": hi,
            "prior": list(ranges[name]),
            "status": _status(verdict, case, row, name),
            "proof": [] if case is None else proof(case),
        }
        if verdict.people != verdict.records:  # the id alone does not say which record
            item["row"] = row
        if case is not None:
            item["certificate"] = certificate(case.argument)
            if case.first is not None:
                item["first"] = _first(case)
            if case.status != EXPOSED:
                item["why"] = why(case).splitlines()
        if case is not None and case.argument.ends:
            item["tight"] = case.tight
        if case is not None and case.if_shown:
            item["if_shown"] = True
        if case is not None:
            item |= _assumed(case)
        if case is not None and case.excluded:
            item["excluded"] = [number(v) for v in case.excluded]
        if case is not None and case.allowed:
            item["allowed"] = [number(v) for v in case.allowed]
        if case is not None and isinstance(case.value, str):
            item["value"] = case.value
        if case is not None:
            item |= _roles(case)
        yield item


def _assumed(case: Case) -> dict[str, Any]:
    """Does it need that only the values assumed from the data are possible?"""
    return {"assumed": True} if case.assumed else {}


def _personal(case: Case) -> dict[str, Any]:
    """What is said of a person with several records, or of his rows in other tables; nothing for a single value."""
    if not case.form:
        return {}
    said = {"person": _record(case.records[0]), "form": case.form, "rows": list(case.rows)}
    return said | ({"grade": case.grade} if case.grade else {})


def _group(case: Case, proof: list[dict[str, Any]]) -> dict[str, Any]:
    """The total of several people."""
    return {
        "records": [_record(r) for r in case.records],
        "rows": list(case.rows),
        "column": case.column,
        "total": number(case.value),
        "why": why(case).splitlines(),
        "proof": proof,
        "certificate": certificate(case.argument),
        "first": _first(case),
        **_roles(case),
    }


def _roles(case: Case) -> dict[str, Any]:
    """The private columns, where something is proved under other roles than those of the verdict."""
    return {"private": list(case.private)} if case.private else {}


def _feature(case: Case, proof: list[dict[str, Any]]) -> dict[str, Any]:
    """Something new about a person that is no value of one record."""
    return _personal(case) | {
        "column": case.column,
        "status": case.status,
        "why": why(case).splitlines(),
        "proof": proof,
        "certificate": certificate(case.argument),
        "first": _first(case),
        **({"if_shown": True} if case.if_shown else {}),
        **_roles(case),
        **_assumed(case),
    }


def _first(case: Case) -> dict[str, Any] | None:
    """The statement that completed it; None if facts alone do."""
    return None if case.first is None else case.first.to_json()


def _items(argument: Argument) -> Iterator[dict[str, Any]]:
    if not argument.ends:
        yield from _steps(argument.steps, argument.constant, argument.rule)
    for end in argument.ends:
        side = {"side": end.side}
        yield from (item | side for item in _steps(end.steps, end.constant))
        yield from (_bound(each) | side for each in end.bounds)


def _steps(steps: Sequence[Step], constant: Fraction, rule: str = "") -> Iterator[dict[str, Any]]:
    for step in steps:
        cited = step.cited
        if cited.fact is not None:
            yield {"fact": cited.fact, "weight": str(step.weight), **plainly(cited.replayed)}
            continue
        item: dict[str, Any] = {"query": cited.number, "sql": cited.sql, "weight": str(step.weight)}
        if cited.answer is not None:
            item["answer"] = _answer(cited)
        if cited.form:
            item["form"] = cited.form
        if rule:
            item["rule"] = rule
        yield item | plainly(cited.replayed)
    if constant:
        yield {"known": str(constant), "weight": "1"}


def _bound(each: Bounding) -> dict[str, Any]:
    """People at their bound: one by his id, several by how many they are and by a query that they are all in."""
    used = each.used
    item: dict[str, Any] = {} if used.fact is None else {"fact": used.fact}
    each_at = number(shorten_fraction(used.each))
    item |= {"bound": used.bound, "each": each_at, "weight": str(used.weight)}
    if used.own:
        item["own"] = True
    elif each.record is not None:
        item["record"] = _record(each.record)
    else:
        item["people"] = used.people
    if used.of:
        item["of"] = used.of
    item |= plainly(each.replayed)
    return item


def certificate(argument: Argument) -> Any:
    """What a replay needs besides the proof."""
    found = plainly(argument.certificate)
    if argument.known:
        found["known"] = [_known(case) for case in argument.known]
    return found


def _known(case: Case) -> dict[str, Any]:
    """A claim that another proof rests on, with its own proof."""
    return {
        "record": _record(case.records[0]),
        "row": case.rows[0],
        "column": case.column,
        "status": case.status,
        "value": number(case.value),
        "lo": number(case.lo),
        "hi": number(case.hi),
        "proof": list(_items(case.argument)),
        "certificate": certificate(case.argument),
    }


def plainly(data: Any) -> Any:
    """Values inside mappings and lists as JSON has them; weights as text."""
    if isinstance(data, Mapping):
        return {str(name): plainly(each) for name, each in data.items()}
    if isinstance(data, list | tuple):
        return [plainly(each) for each in data]
    if isinstance(data, Answer):
        return _said(data)
    return str(data) if isinstance(data, Fraction) else number(data)


def _answer(cited: Cited) -> Any:
    """An answer as a transcript has it."""
    assert cited.answer is not None
    return _said(cited.answer)


def _said(answer: Answer) -> Any:
    if answer.value is not None or answer.null:
        return number(answer.value)
    lo, hi = (None if end is None else shorten_fraction(end) for end in (answer.lo, answer.hi))
    return {"lo": number(lo), "hi": number(hi)}


def number(value: Scalar | None) -> Any:
    """A value for JSON: a whole decimal is an integer, another a float, but a Decimal where a float has other digits.

    >>> number(Decimal("70")), number(Decimal("5.2")), number(Decimal("0.10000000000000000001"))
    (70, 5.2, Decimal('0.10000000000000000001'))
    """
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        if value.adjusted() < MAX_DIGITS and value == value.to_integral_value():
            return int(value)
        near = float(value)
        return near if Decimal(repr(near)) == value else value
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    return value


def _record(record: Record) -> dict[str, Any]:
    return {name: number(value) for name, value in record.items()}


def dumps(data: Any) -> str:
    """JSON text, indented by two. Integers of any size and decimals keep all their digits; dates become text.

    >>> print(dumps({"value": Decimal("0.10000000000000000001"), "row": 2**70, "none": []}))
    {
      "value": 0.10000000000000000001,
      "row": 1180591620717411303424,
      "none": []
    }
    """
    parts: list[str] = []
    _write(data, "\n", parts.append)
    return "".join(parts)


def _write(data: Any, line: str, put: Callable[[str], None]) -> None:
    """`line` is a line break and the indentation of what stands around."""
    if isinstance(data, str):
        put(encode_basestring(data))
    elif data is None:
        put("null")
    elif isinstance(data, bool):
        put("true" if data else "false")
    elif isinstance(data, int):
        put(int.__repr__(data))
    elif isinstance(data, float):
        put(float.__repr__(data) if isfinite(data) else "null")
    elif isinstance(data, Decimal):
        put("null" if not data.is_finite() else f"{data:f}" if abs(data.adjusted()) < MAX_DIGITS else str(data))
    elif isinstance(data, Mapping):
        _members([*data.items()], "{}", line, put)
    elif isinstance(data, list | tuple):
        _members([(None, item) for item in data], "[]", line, put)
    else:
        put(encode_basestring(str(data)))


def _members(items: list[tuple[Any, Any]], brackets: str, line: str, put: Callable[[str], None]) -> None:
    inner = line + "  "
    before = brackets[0] + inner
    for name, item in items:
        put(before if name is None else f"{before}{encode_basestring(str(name))}: ")
        _write(item, inner, put)
        before = "," + inner
    put(brackets if not items else line + brackets[1])
