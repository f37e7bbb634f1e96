"""A verdict in words: the sentence, the table, the arithmetic that a person can follow."""

from __future__ import annotations

import html as markup
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from keyhole.audit.base import (
    Exposure,
    Finding,
    Group,
    Proof,
    Status,
    answer_weight,
    name_of,
    query_order,
    row_form,
    visible,
)
from keyhole.transcript import simplest_decimal

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 20


def formula(finding: Finding | Group, exposure: Exposure) -> str:
    """`Q1 - Q2 - Q3 = Jeremy Doe's blood sugar = 5.2`."""
    proof = finding.proof
    if proof is None:
        return ""
    if isinstance(finding, Group):
        who = f"total {finding.column} of {len(finding.records)} people"
    else:
        who = f"{finding.who}'s {finding.column}"
    value = finding.total if isinstance(finding, Group) else finding.value
    if proof.rule:
        names = " and ".join("Q" + q for q in proof.weights)
        return f"{names}: {proof.rule}; {who} {_claim(finding)}"
    left = _sum([(weight, _name(q, proof, exposure)) for q, weight in _weights(proof, exposure)], proof)
    held = _indicator(finding, proof, exposure)
    if held is not None:
        return f"{left} = {held}, so {who} {_claim(finding)}"
    if not isinstance(finding, Group) and finding.status is Status.INFERRED:
        return f"{left}: {who} {_claim(finding)}"
    return f"{left} = {who}" + ("" if value is None else f" = {value}")


def _name(q: str, proof: Proof, exposure: Exposure) -> str:
    """Q3, or what of Q3 is meant where the answer itself is not what is added up."""
    if q.startswith("fact"):
        return q
    form = row_form(q, proof.system, exposure.evidence)
    return f"({form} of Q{q})" if form else f"Q{q}"


def _indicator(finding: Finding | Group, proof: Proof, exposure: Exposure) -> int | None:
    """1 or 0 where a proof is about one person being in a private cell, else None."""
    system = exposure.evidence.systems[proof.system]
    if isinstance(finding, Group) or len(proof.target) != 1:
        return None
    feature = system.features[next(iter(proof.target)) // system.atoms.K]
    ends = proof.interval(system)
    return None if feature.column is not None or ends is None else int(ends[0] > Fraction(1, 2))


def arithmetic(finding: Finding | Group, exposure: Exposure) -> str:
    """`32.1 - 15.5 - 11.4 = 5.2`: the same with the answers put in; empty if an answer is missing."""
    proof = finding.proof
    value = finding.total if isinstance(finding, Group) else finding.value
    if proof is None or proof.rule or value is None or _indicator(finding, proof, exposure) is not None:
        return ""
    system = exposure.evidence.systems[proof.system]
    rows = {row.number: row for row in system.rows}
    parts = []
    for q, weight in _weights(proof, exposure):
        row = rows[q]
        if row.lo is None or row.hi is None:
            return ""
        lo, hi = row.lo, row.hi
        if row.scale:
            lo, hi = sorted(((lo + row.offset) / row.scale, (hi + row.offset) / row.scale))
        parts.append((weight, str(simplest_decimal(lo, hi))))
    return f"{_sum(parts, proof)} = {value}"


def _weights(proof: Proof, exposure: Exposure) -> list[tuple[str, Fraction]]:
    rows = {row.number: row for row in exposure.evidence.systems[proof.system].rows}
    pairs = [(q, answer_weight(rows[q], w)) for q, w in sorted(proof.weights.items(), key=lambda p: query_order(p[0]))]
    return sorted(pairs, key=lambda pair: pair[1] < 0)  # what is added first, then what is taken away


def _sum(parts: list[tuple[Fraction, str]], proof: Proof) -> str:
    text = ""
    for weight, name in parts:
        size = abs(weight)
        factor = (
            "" if size == 1 else f"{size} × " if size.denominator == 1 else f"{size.numerator}/{size.denominator} × "
        )
        name = f"({name})" if name.startswith("-") and (text or weight < 0) else name
        sign = ("-" if weight < 0 else "") if not text else (" - " if weight < 0 else " + ")
        text += f"{sign}{factor}{name}"
    if proof.constant:
        known = simplest_decimal(abs(proof.constant), abs(proof.constant))
        sign = ("-" if proof.constant < 0 else "") if not text else (" - " if proof.constant < 0 else " + ")
        text += f"{sign}{known}"
    return text or "0"


def _claim(finding: Finding | Group) -> str:
    if isinstance(finding, Group):
        return f"is {finding.total}"
    if finding.status is Status.EXPOSED:
        return f"is {finding.value}"
    if finding.allowed:
        return f"is one of {', '.join(map(str, finding.allowed))}"
    if finding.lo is not None or finding.hi is not None:
        lo = "-∞" if finding.lo is None else str(finding.lo)
        hi = "∞" if finding.hi is None else str(finding.hi)
        return f"lies in [{lo}, {hi}]"
    return f"is not {' nor '.join(map(str, finding.excluded))}" if finding.excluded else "is narrowed down"


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def sentence(exposure: Exposure) -> str:
    """The verdict in one or two sentences."""
    people = len({f.row for f in exposure.exposed})
    narrowed = len({f.row for f in exposure.inferred} - {f.row for f in exposure.exposed})
    log = _count(exposure.queries, "query", "queries")
    if people:
        verb = "is" if people == 1 else "are"
        first = f"{people} of {exposure.records} people {verb} exposed by {log}."
    elif narrowed:
        first = f"Nobody of {exposure.records} people is exposed exactly by {log}."
    else:
        first = f"Nobody of {exposure.records} people is exposed by {log}."
    if narrowed:
        more = "more " if people else ""
        first += f" Something new is known of {narrowed} {more}{'person' if narrowed == 1 else 'people'}."
    if exposure.groups:
        n = len(exposure.groups)
        first += f" The total of {n} small {'group' if n == 1 else 'groups'} is determined."
    if exposure.contradictions:
        first += " Some answers contradict each other or the data, so this is not an all-clear."
    waiting = len(exposure.unjudged) + len(exposure.refused)
    if waiting:
        what = "query was" if waiting == 1 else "queries were"
        first += f" {waiting} {what} not judged, so this is not an all-clear."
    return first


def render(exposure: Exposure) -> Iterator[RenderableType]:
    """The verdict for a terminal."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    colour = {0: "green", 1: "red"}.get(exposure.exit_code, "yellow")
    yield Text(sentence(exposure), style=f"bold {colour}")
    if exposure.findings:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name in ("who", "column", "what is known", "singled out"):
            table.add_column(name, overflow="fold")
        for f in exposure.findings[:SHOWN]:
            known = (
                f"= {f.value}"
                if f.status is Status.EXPOSED and f.value is not None
                else ("determined" if f.status is Status.EXPOSED else _claim(f))
            )
            table.add_row(escape(f.who), escape(f.column), escape(known), "yes" if f.singled_out else "no")
        yield ""
        yield table
        if len(exposure.findings) > SHOWN:
            yield f"... and {len(exposure.findings) - SHOWN} more (--format json lists all)"
        yield ""
        yield Text("Why:", style="bold")
        for line, style in _reasons(exposure):
            yield Text("  " + line, style=style)
        yield from _legend(exposure)
    if exposure.groups:
        yield ""
        yield Text(
            "Groups whose total is determined (the general search is hard; these were found by testing atoms, "
            "queries, differences and reduced rows):",
            style="bold",
        )
        for g in exposure.groups[:SHOWN]:
            names = ", ".join(name_of(r) for r in g.records)
            yield Text(f"  {names}: {formula(g, exposure)}")
    for c in exposure.contradictions[:SHOWN]:
        yield Text(f"Contradiction: {c.reason}", style="yellow")
    for u in exposure.unjudged[:SHOWN]:
        yield Text(f"Not judged: Q{u.number} ({u.reason}): {_short(u.sql)}", style="yellow")
    for r in exposure.refused[:SHOWN]:
        yield Text(f"Refused: Q{r.number}: {r.error}", style="yellow")
    for name, listed in (
        ("contradictions", exposure.contradictions),
        ("not judged", exposure.unjudged),
        ("refused", exposure.refused),
    ):
        if len(listed) > SHOWN:
            yield f"... and {len(listed) - SHOWN} more {name} (--format json lists all)"
    yield ""
    yield Text(
        f"{exposure.records} people, {exposure.queries} queries, {exposure.atoms} atoms, rank {exposure.rank}. "
        f"Promise: {exposure.promise}.",
        style="dim",
    )
    if exposure.assumed:
        kinds = ", ".join(f"{name} {kind}" for name, kind in exposure.assumed.items())
        yield Text(f"Assumed, from the values: {kinds} (kind = ... in keyhole.toml declares it).", style="dim")


def _reasons(exposure: Exposure) -> Iterator[tuple[str, str]]:
    """The proofs, one line each and its arithmetic; people who share a rule share a line."""
    shared: dict[tuple[object, ...], list[str]] = {}
    for f in exposure.findings[:SHOWN]:
        if f.proof is not None and f.proof.rule:
            key = (tuple(f.proof.weights), f.proof.rule, f.column, _claim(f))
            shared.setdefault(key, []).append(f.who)
    for f in exposure.findings[:SHOWN]:
        if f.proof is not None and f.proof.rule:
            names = shared.pop((tuple(f.proof.weights), f.proof.rule, f.column, _claim(f)), [])
            if names:
                used = " and ".join("Q" + q for q in f.proof.weights)
                people = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
                yield f"{used}: {f.proof.rule}; {f.column} of {people} {_claim(f)}", ""
            continue
        yield formula(f, exposure), ""
        worked = arithmetic(f, exposure)
        if worked:
            yield worked, "dim"


def _legend(exposure: Exposure) -> Iterator[RenderableType]:
    """The statements behind the numbers that were used."""
    from rich.text import Text

    used: dict[str, None] = {}
    for f in exposure.findings[:SHOWN]:
        if f.proof is not None:
            used.update(dict.fromkeys(q for q in f.proof.weights if not q.startswith("fact")))
    entries = {e.number: e for e in exposure.evidence.transcript.entries}
    for q in sorted(used, key=query_order)[: 2 * SHOWN]:
        entry = entries[q]
        key = ", ".join(f"{k} = {v}" for k, v in entry.query.key)
        value = entry.answer.value if entry.answer is not None else None
        said = "" if value is None else f"  → {_trim(value)}"
        yield Text(f"  Q{q}: {_short(entry.sql)}{f' [{key}]' if key else ''}{said}", style="dim")


def _trim(value: Decimal | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{value.normalize():f}"


def _short(sql: str, width: int = 110) -> str:
    flat = visible(" ".join(sql.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def html(exposure: Exposure) -> str:
    """The verdict for a notebook."""
    rows = "".join(
        f"<tr><td>{markup.escape(f.who)}</td><td>{markup.escape(f.column)}</td><td>{f.status}</td>"
        f"<td>{markup.escape(str(f.value if f.value is not None else _claim(f)))}</td>"
        f"<td><code>{markup.escape(formula(f, exposure))}</code></td></tr>"
        for f in exposure.findings[:SHOWN]
    )
    table = f"<table><tr><th>who</th><th>column</th><th>status</th><th>value</th><th>proof</th></tr>{rows}</table>"
    return f"<p><b>{markup.escape(sentence(exposure))}</b></p>{table if rows else ''}"
