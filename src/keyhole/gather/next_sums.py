"""Comparisons with sums of numbers on a grid: SUM(x) > 0 of bits is at least 1."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from keyhole.evidence import Constraint, Evidence
from keyhole.gather.answers import THRESHOLD
from keyhole.gather.quotients import Quotients
from keyhole.schema import Schema
from keyhole.transcript import Entry


def with_next_sums(evidence: Evidence, schema: Schema) -> Evidence:
    """The evidence with the ends of comparisons moved to the next sum that there can be.

    A comparison with the very number, not one that dust may have pushed across, leaves that number out. DOUBLEs on a
    grid of halves, quarters and so on are added without dust. For guesses: the auditor keeps to the ends that its
    certificates say. Cost: O(rows).
    """
    entries = {e.number: e for e in evidence.transcript.entries if e.query.test is not None and not e.query.per}
    if not entries:
        return evidence
    systems = []
    for system in evidence.systems:
        sums = Quotients(system.features, schema, evidence.knowledge, evidence.n)
        rows = (_next(c, entries[c.number], sums) if c.number in entries else c for c in system.constraints)
        systems.append(replace(system, constraints=tuple(rows)))
    return replace(evidence, systems=tuple(systems))


def _next(row: Constraint, entry: Entry, sums: Quotients) -> Constraint:
    test, answer, over = entry.query.test, entry.answer, sums.over(row.parts)
    if row.judged_as != THRESHOLD or over is None or test is None or answer is None or row.scale != 1:
        return row
    if not isinstance(answer.value, bool):
        return row
    at, held = Fraction(test.value) - row.offset, answer.value
    exact = answer.noise is None and not row.offset and sums.dyadic(row.parts)
    low, high = (None if end is None else at if exact else end for end in (row.lo, row.hi))
    if low is not None:
        beyond = low == at and test.op == (">" if held else "<=")
        low = Fraction(floor(low * over) + 1 if beyond else ceil(low * over), over)
    if high is not None:
        short = high == at and test.op == ("<" if held else ">=")
        high = Fraction(ceil(high * over) - 1 if short else floor(high * over), over)
    return replace(row, lo=low, hi=high)
