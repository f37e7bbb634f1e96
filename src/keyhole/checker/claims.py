"""A verdict.json as claims: who, which column, what is said of him, and by which proof."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

UNSETTLED = ("open", "limit")  # statuses that say no more than a range, if that


class Unreadable(Exception):
    """The verdict, the log or the data cannot be read: nothing was checked."""


@dataclass(frozen=True)
class Addend:
    """One addend of a proof: a weight on a cell of a statement, on a fact, or on a public constant (`known`)."""

    weight: Fraction
    query: str = ""
    sql: str | None = None
    key: Mapping[str, Any] | None = None
    column: int | None = None
    answer: Any = None
    answered: bool = False
    form: str = ""
    rule: str = ""
    squares: Mapping[str, Any] | None = None
    besides: Sequence[Mapping[str, Any]] | None = None
    fact: Mapping[str, Any] | None = None
    known: Fraction | None = None
    exactly: Fraction | None = None
    rounded: Fraction | None = None  # how far the true number may lie from the answer
    noise: Fraction = Fraction(0)  # how far the answer may lie from what the statement gives
    side: str = ""
    ends: tuple[Fraction | None, Fraction | None] | None = None  # of an answer that is no equation
    bound: Mapping[str, Any] | None = None  # people at an end of what is known of them
    test: Mapping[str, Any] | None = None  # op, value, offset, noise: what a yes-or-no question compares


@dataclass(frozen=True)
class Claimed:
    """What is said of one record's value, or of the total of several (`status` group); `proof` is what it rests on."""

    status: str
    records: tuple[Mapping[str, Any], ...]
    row: int | None
    column: str
    value: Any
    lo: Any
    hi: Any
    excluded: tuple[Any, ...]
    allowed: tuple[Any, ...]
    proof: tuple[Addend, ...]
    certificate: Mapping[str, Any]
    rows: tuple[int, ...] = ()  # of a person with several records: those that it is about, from 1

    @property
    def who(self) -> str:
        """The ids as text."""
        return "; ".join(", ".join(str(v) for v in record.values()) for record in self.records)


@dataclass(frozen=True)
class Claims:
    """What a verdict claims, and what it says of its source; nothing of it is believed."""

    claims: tuple[Claimed, ...]
    source: Mapping[str, Any]
    records: int | None
    priors: Mapping[str, tuple[Any, Any]]
    contradictions: int


def number(value: Any) -> Fraction | None:
    """A JSON number as it is written; None if it is none.

    >>> number(Decimal("0.1")), number("x"), number(True)
    (Fraction(1, 10), None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal | Fraction | float):
        return None
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        return None


def parse(text: str) -> Claims:
    """The text of a verdict.json."""
    try:
        raw = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise Unreadable(f"the verdict is not JSON: {error}") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("exposed"), list):
        raise Unreadable("this is no verdict: it has no list `exposed` (write one with keyhole audit --format json)")
    try:
        source = raw.get("source") or {}
        intervals = [i for i in raw.get("intervals", ()) if i.get("status") not in UNSETTLED or i.get("proof")]
        priors = {str(i["column"]): (i["prior"][0], i["prior"][1]) for i in raw.get("intervals", ()) if i.get("prior")}
        groups = raw.get("groups", ())
        whole = [e for e in raw["exposed"] if not e.get("form")]
        forms = [e for e in (*raw["exposed"], *raw.get("features", ())) if e.get("form")]
        claims = (*_people(whole, intervals), *map(_form, forms), *map(_group, groups))
        return Claims(claims, source, raw.get("records"), priors, len(raw.get("contradictions", ())))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise Unreadable(f"the verdict has not the fields of docs/json.md: {type(error).__name__} {error}") from None


def _people(exposed: Sequence[Mapping[str, Any]], intervals: Sequence[Mapping[str, Any]]) -> Iterator[Claimed]:
    """Those exposed, each with his range put to it; and those of whom something else is known."""
    row = any("row" in i for i in intervals)
    ranges: dict[str, Mapping[str, Any]] = {}
    others = []  # said twice of one person: each is a claim of its own
    for i in intervals:
        if _name(i, row=row) in ranges:
            others.append(i)
        else:
            ranges[_name(i, row=row)] = i
    for e in exposed:
        i = ranges.get(_name(e, row=row)) or {}
        same = i.get("proof") == e["proof"] and i.get("status") == "exposed"
        if same:
            del ranges[_name(e, row=row)]  # else it stays a claim of its own
        value = e["value"]
        lo, hi = (i.get("lo", value), i.get("hi", value)) if same else (value, value)
        yield Claimed("exposed", (e["record"],), e["row"], e["column"], value, lo, hi, (), (), *_proof(e["proof"], e))
    for i in (*ranges.values(), *others):
        lists = (tuple(i.get("excluded", ())), tuple(i.get("allowed", ())))
        value = i.get("value", i["lo"]) if i["status"] == "exposed" else None
        yield Claimed(
            i["status"],
            (i["record"],),
            i.get("row"),
            i["column"],
            value,
            i["lo"],
            i["hi"],
            *lists,
            *_proof(i["proof"], i),
        )


def known_before(claim: Claimed) -> Iterator[Claimed]:
    """The claims about others that a proof rests on, with their own proofs."""
    for e in claim.certificate.get("known") or ():
        value = e["value"] if e["status"] == "exposed" else None
        yield Claimed(
            e["status"], (e["record"],), e["row"], e["column"], value, e["lo"], e["hi"], (), (), *_proof(e["proof"], e)
        )


def _name(entry: Mapping[str, Any], *, row: bool = False) -> str:
    """Whose value it is; with `row` ids repeat, and the row tells records apart."""
    return json.dumps([entry["record"], entry["column"], entry["row"] if row else None], default=str, sort_keys=True)


def _form(e: Mapping[str, Any]) -> Claimed:
    """What is said of a person with several records, or of his rows in other tables."""
    value = e.get("value")
    about = (e.get("status", "exposed"), (e["person"],), None, e["column"], value, value, value, (), ())
    return Claimed(*about, *_proof(e["proof"], e), tuple(int(r) for r in e["rows"]))


def _group(g: Mapping[str, Any]) -> Claimed:
    total, found = g["total"], _proof(g["proof"], g)
    return Claimed("group", tuple(g["records"]), None, g["column"], total, total, total, (), (), *found)


def _proof(
    items: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]
) -> tuple[tuple[Addend, ...], Mapping[str, Any]]:
    cited = tuple(item(each) for each in items)
    given = entry.get("certificate")
    if given is None:  # an older verdict: a sum of answers needs no more than its weights
        plain = not any(c.rule or c.form for c in cited)
        given = {"kind": "identity" if plain and entry.get("status") != "inferred" else "none"}
    return cited, dict(given)


def item(raw: Mapping[str, Any]) -> Addend:
    """One entry of a proof."""
    weight, side = Fraction(str(raw["weight"])), str(raw.get("side", ""))
    given = raw.get("ends")
    ends = None if given is None else (_fraction(given[0]), _fraction(given[1]))
    if "bound" in raw:
        return Addend(weight, side=side, bound=raw)
    if "known" in raw:
        return Addend(weight, known=Fraction(str(raw["known"])), side=side)
    if "fact" in raw:
        return Addend(weight, fact=raw, side=side, ends=ends)
    return Addend(
        weight,
        str(raw["query"]),
        raw.get("sql"),
        raw.get("key"),
        raw.get("column"),
        raw.get("answer"),
        "answer" in raw,
        raw.get("form", ""),
        raw.get("rule", ""),
        raw.get("squares"),
        raw.get("besides"),
        exactly=Fraction(raw["exactly"]) if "exactly" in raw else None,
        rounded=Fraction(raw["rounded"]) if "rounded" in raw else None,
        noise=Fraction(str(raw.get("noise", "0"))),
        side=side,
        ends=ends,
        test=raw.get("test"),
    )


def _fraction(text: Any) -> Fraction | None:
    return None if text is None else Fraction(str(text))
