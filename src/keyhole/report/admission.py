"""Whom an answer would expose, and how: what the custodian reads of a decision, never the analyst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from keyhole.auditing.online.admission import Admission


def explained(verdict: Admission) -> Iterator[str]:
    """The people, the proof of the first and its statements, as lines."""
    for item in verdict.who:
        to = f", to {_name(item.insider)}" if item.insider is not None else ""
        yield f"  exposed: {_name(item.record)}'s {item.form if item.rows else item.column}{to}"
    steps = verdict.steps()
    if steps:
        first = verdict.who[0]
        rest = f" + a multiple of {_name(first.insider)}'s" if first.insider is not None else ""
        what = f"{_name(first.record)}'s {first.form or first.column}" if first.rows or not first.form else first.form
        yield f"  proof: {formula(steps)} = {what}{rest}"
        for step in steps:
            if "query" in step:
                yield f"    Q{step['query']}: {' '.join(str(step['sql']).split())}"
        if any("of" in item for item in steps):
            yield "    (a number made of several private sums counts as telling each of them: meant is the sum named)"


def _name(record: Mapping[str, object]) -> str:
    return ", ".join(f"row {v}" if k == "row" else str(v) for k, v in record.items())


def formula(steps: list[dict[str, Any]]) -> str:
    """The steps as a sum.

    >>> formula([{"query": "2", "weight": "1"}, {"query": "1", "weight": "-2"}, {"known": "3", "weight": "1"}])
    'Q2 - 2 Q1 + 3'
    """
    text = ""
    for item in steps:
        weight = Fraction(item["known"] if "known" in item else item["weight"])
        size = abs(weight)
        asked = f"({item['of']} in Q{item['query']})" if "of" in item else f"Q{item.get('query')}"
        name = str(size) if "known" in item else asked if size == 1 else f"{size} {asked}"
        sign = "-" if weight < 0 else "+"
        text += f" {sign} {name}" if text else f"-{name}" if weight < 0 else name
    return text
