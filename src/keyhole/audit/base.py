"""What an auditor says: a proved statement per record, with its proof."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Protocol

from keyhole.evidence import Contradiction, Evidence, Row, System, Unjudged
from keyhole.knowledge import Prior
from keyhole.predicate import Scalar
from keyhole.query import Aggregate
from keyhole.tables import Roster
from keyhole.transcript import Refusal, simplest_decimal

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult


class Status(StrEnum):
    """How much is known of a value: all of it, more than before, nothing new."""

    EXPOSED = "exposed"
    INFERRED = "inferred"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a value is determined.

    Linear: the rows of `system`, times `weights`, add up to the functional `target` (unknown -> coefficient); then
    value = sum of weight * scale * answer, plus `constant`. Extreme (`rule` is not empty): the counts of the named
    queries are as large, or as small, as they can be.
    """

    system: int
    weights: Mapping[str, Fraction]
    target: Mapping[int, int] = field(default_factory=dict)
    constant: Fraction = Fraction(0)
    rule: str = ""

    def verify(self, evidence: Evidence) -> bool:
        """Check a linear proof again in exact arithmetic, from the evidence alone.

        Of a proof by `rule` only this is checked: the queries it names are there and are equations. That they suffice
        is a law of auditors (`keyhole.checks.auditors`), which examines them alone.
        """
        system = evidence.systems[self.system]
        total: dict[int, Fraction] = {}
        rows = {row.number: row for row in system.rows}
        for number, weight in self.weights.items():
            if number not in rows or not rows[number].exact:
                return False
            for at, c in system.coefficients(rows[number]).items():
                total[at] = total.get(at, Fraction(0)) + weight * c
        if self.rule:
            return all(number in rows for number in self.weights)
        return {at: c for at, c in total.items() if c} == {at: Fraction(c) for at, c in self.target.items()}

    def interval(self, system: System) -> tuple[Fraction, Fraction] | None:
        """The value, from the proof applied to the answers; None if an answer is missing."""
        lo = hi = Fraction(0)
        for row in system.rows:
            weight = self.weights.get(row.number)
            if weight is None:
                continue
            if row.lo is None or row.hi is None:
                return None
            ends = (weight * row.lo, weight * row.hi)
            lo, hi = lo + min(ends), hi + max(ends)
        return lo, hi


@dataclass(frozen=True, slots=True)
class Finding:
    """What is proved of one record's private value. `lo` and `hi` are None where unbounded or not a number.

    `row` counts from 0, as arrays do; the JSON form counts from 1.
    """

    record: Mapping[str, Scalar | None]
    row: int
    column: str
    status: Status
    value: Scalar | None
    lo: Decimal | None
    hi: Decimal | None
    proof: Proof | None
    singled_out: bool = False
    excluded: tuple[Scalar, ...] = ()
    allowed: tuple[Scalar, ...] = ()

    @property
    def who(self) -> str:
        """The record's id as text."""
        return name_of(self.record)


@dataclass(frozen=True, slots=True)
class Group:
    """People whose total is determined, none of them alone."""

    records: tuple[Mapping[str, Scalar | None], ...]
    rows: tuple[int, ...]
    column: str
    total: Decimal | None
    proof: Proof


MAX_OPEN = 100_000  # records x columns up to which open intervals are listed one by one


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """The verdict over a log: iterate it for the findings."""

    evidence: Evidence
    roster: Roster
    findings: tuple[Finding, ...]
    groups: tuple[Group, ...] = ()
    rank: int = 0
    promise: str = ""
    unjudged: tuple[Unjudged, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)  # private columns whose kind was read off their values

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def exposed(self) -> tuple[Finding, ...]:
        """The people whose value is known exactly."""
        return tuple(f for f in self.findings if f.status is Status.EXPOSED)

    @property
    def inferred(self) -> tuple[Finding, ...]:
        """The people of whom something new is known, but not all."""
        return tuple(f for f in self.findings if f.status is Status.INFERRED)

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """The statements that were not understood."""
        return self.evidence.transcript.refused

    @property
    def records(self) -> int:
        """How many people."""
        return self.evidence.n

    @property
    def queries(self) -> int:
        """How many queries were read, parts of statements counted one by one."""
        return len(self.evidence.transcript.entries)

    @property
    def atoms(self) -> int:
        """How many classes of records the log tells apart (added up over separate systems)."""
        return sum(s.atoms.K for s in self.evidence.systems)

    @property
    def exit_code(self) -> int:
        """0 nobody exposed and all judged; 1 somebody exposed or inferred; 3 nobody, but something was not judged."""
        if self.findings or self.groups:
            return 1
        return 3 if self.unjudged or self.refused or self.contradictions else 0

    def to_frame(self) -> pd.DataFrame:
        """The findings as a pandas frame."""
        from keyhole.errors import MissingExtra

        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("to_frame()", "frames") from None
        from keyhole.audit.explain import formula

        rows = [
            {
                **f.record,
                "column": f.column,
                "status": str(f.status),
                "value": _number(f.value),
                "lo": _number(f.lo),
                "hi": _number(f.hi),
                "singled_out": f.singled_out,
                "proof": formula(f, self),
            }
            for f in self.findings
        ]
        ids = [c.name for c in self.roster.schema.columns if c.role == "id"] or ["row"]
        names = [*ids, "column", "status", "value", "lo", "hi", "singled_out", "proof"]
        return pd.DataFrame(rows, columns=names)

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON-ready data."""
        return {
            "records": self.records,
            "queries": self.queries,
            "atoms": self.atoms,
            "rank": self.rank,
            "promise": self.promise,
            "assumed": dict(self.assumed),
            "exposed": [
                {
                    "record": _plain(f.record),
                    "row": f.row + 1,
                    "column": f.column,
                    "value": _number(f.value),
                    "proof": self._proof(f.proof),
                    "singled_out": f.singled_out,
                }
                for f in self.exposed
            ],
            "groups": [
                {
                    "records": [_plain(r) for r in g.records],
                    "column": g.column,
                    "total": _number(g.total),
                    "proof": self._proof(g.proof),
                }
                for g in self.groups
            ],
            "intervals": self._intervals(),
            "unjudged": [{"query": u.number, "sql": u.sql, "reason": u.reason} for u in self.unjudged],
            "refused": [{"query": r.number, "sql": r.sql, "error": r.error} for r in self.refused],
            "contradictions": [{"queries": list(c.queries), "reason": c.reason} for c in self.contradictions],
        }

    def _intervals(self) -> list[dict[str, Any]]:
        listed = {(f.row, f.column): f for f in self.findings}
        private = [c.name for c in self.roster.schema.columns if c.role == "private"]
        found = []
        if self.records * len(private) <= MAX_OPEN:
            import numpy as np

            labels = self.roster.labels(np.arange(self.records))
            pairs = [(row, name, labels[row]) for row in range(self.records) for name in private]
        else:
            pairs = [(f.row, f.column, dict(f.record)) for f in self.findings]
        for row, name, label in pairs:
            prior = _range(self.evidence.prior(name))
            f = listed.get((row, name))
            lo, hi = (f.lo, f.hi) if f is not None else prior
            status = f.status if f is not None else Status.OPEN
            item = {
                "record": _plain(label),
                "column": name,
                "lo": _number(lo),
                "hi": _number(hi),
                "prior": [_number(end) for end in prior],
                "status": str(status),
                "proof": self._proof(f.proof) if f is not None else [],
            }
            if f is not None and f.excluded:
                item["excluded"] = [_number(v) for v in f.excluded]
            if f is not None and f.allowed:
                item["allowed"] = [_number(v) for v in f.allowed]
            if f is not None and isinstance(f.value, str):
                item["value"] = f.value
            found.append(item)
        return found

    def _proof(self, proof: Proof | None) -> list[dict[str, Any]]:
        if proof is None:
            return []
        return proof_items(proof, self.evidence)

    def dumps(self) -> str:
        """The JSON text."""
        return json.dumps(self.to_json(), ensure_ascii=False, indent=2, default=str)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from keyhole.audit.explain import render

        yield from render(self)

    def _repr_html_(self) -> str:
        from keyhole.audit.explain import html

        return html(self)

    def __repr__(self) -> str:
        return (
            f"<Exposure: {len(self.exposed)} exposed, {len(self.inferred)} inferred of {self.records} people, "
            f"{self.queries} {'query' if self.queries == 1 else 'queries'}>"
        )


class Auditor(Protocol):
    """Evidence to Exposure: says only what it can prove."""

    def examine(self, evidence: Evidence, roster: Roster) -> Exposure:
        """Judge the evidence."""


def proof_items(proof: Proof, evidence: Evidence) -> list[dict[str, Any]]:
    """A proof as the list of the JSON contract, sorted by query."""
    rows = {row.number: row for row in evidence.systems[proof.system].rows}
    items: list[dict[str, Any]] = []
    for number, weight in sorted(proof.weights.items(), key=lambda pair: query_order(pair[0])):
        row = rows[number]
        if row.fact is not None:
            items.append({"fact": row.fact, "weight": str(weight)})
            continue
        shown = answer_weight(row, weight)
        item: dict[str, Any] = {"query": number, "sql": evidence.sql_of(number), "weight": str(shown)}
        form = row_form(number, proof.system, evidence)
        if form:
            item["form"] = form
        if proof.rule:
            item["rule"] = proof.rule
        items.append(item)
    if proof.constant and not proof.rule:
        items.append({"known": str(proof.constant), "weight": "1"})
    return items


def row_form(number: str, system: int, evidence: Evidence) -> str:
    """What of a query a proof adds up, where it is not the answer itself: empty for a plain sum, count or average."""
    row = next(r for r in evidence.systems[system].rows if r.number == number)
    entry = next((e for e in evidence.transcript.entries if e.number == number), None)
    if row.scale or entry is None:
        return ""
    if entry.query.aggregate is Aggregate.VAR:
        return "sum of squares"
    if entry.answer is None or entry.answer.value is None:
        return "number of people"
    return f"numerator - {entry.answer.value} × denominator"


def name_of(record: Mapping[str, Scalar | None]) -> str:
    r"""A record's id as text: names stand alone, numbers with their column. Control characters are made visible.

    >>> name_of({"Name": "Ann"}), name_of({"id": 7}), name_of({"Name": "\x1b[31mred"})
    ('Ann', 'id 7', '\\x1b[31mred')
    """
    parts = (visible(v) if isinstance(v, str) else f"{visible(k)} {v}" for k, v in record.items())
    return ", ".join(parts)


def visible(text: str) -> str:
    """Text with its control characters written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def answer_weight(row: Row, weight: Fraction) -> Fraction:
    """The weight on the printed answer: AVG over 3 people counts three times. A quotient row keeps its own weight."""
    return weight * row.scale if row.scale else weight


def query_order(number: str) -> tuple[int, ...]:
    """Sort key of query numbers: 2 before 10, 3.2 after 3."""
    if number.startswith("fact"):
        return (10**9, int(number.split()[1]))
    return tuple(int(part) for part in number.split("."))


def shown_value(ends: tuple[Fraction, Fraction] | None) -> Decimal | None:
    """The value of a proof as a decimal."""
    return None if ends is None else simplest_decimal(*ends)


def outward(lo: Fraction, hi: Fraction) -> tuple[Decimal, Decimal]:
    """An interval as decimals of nine digits, rounded outwards.

    >>> outward(Fraction(1, 3), Fraction(2, 3))
    (Decimal('0.333333333'), Decimal('0.666666667'))
    """
    return Decimal(floor(lo * 10**9)).scaleb(-9), Decimal(ceil(hi * 10**9)).scaleb(-9)


def _range(prior: Prior) -> tuple[Decimal | None, Decimal | None]:
    return prior.lo, prior.hi


def _number(value: Scalar | None) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 2**53 else float(value)
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    return value


def _plain(record: Mapping[str, Scalar | None]) -> dict[str, Any]:
    return {k: _number(v) for k, v in record.items()}
