"""Laws of every auditor, and a liar for each.

from tests.laws.auditors import LAWS
for law in LAWS:
    law.check(MyAuditor())
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from tests.laws.brute import determined_rows
from tests.laws.law import Law, Specimen
from tests.laws.worlds import WORLDS, evidence_of, verdict

from keyhole.auditing import Auditor, Exposure, Finding, Judge, Proof, Status
from keyhole.datasets import Roster
from keyhole.gather.evidence import Evidence

SPECIMENS: tuple[Specimen[Auditor], ...] = (Specimen("Judge", Judge()),)


def truth_lies_inside_the_interval(auditor: Auditor) -> None:
    """What is claimed of a record is true of it."""
    for world in WORLDS:
        if not world.consistent:
            continue
        truth = world.truth()
        for f in verdict(auditor, world):
            text = truth[f.who]
            assert text != "", f"{world.name}: {f.who} is NULL but has a finding"
            value = Decimal(text)
            assert f.lo is None or f.lo <= value, f"{world.name}: {f.who} is {value}, below {f.lo}"
            assert f.hi is None or value <= f.hi, f"{world.name}: {f.who} is {value}, above {f.hi}"
            assert f.status is not Status.EXPOSED or f.value == value, f"{world.name}: {f.who} is not {f.value}"
            assert value not in f.excluded, f"{world.name}: {f.who} is {value}, which was excluded"


def more_queries_never_widen_an_interval(auditor: Auditor) -> None:
    """What was exposed by a part of a log stays exposed by the whole."""
    for world in WORLDS:
        lines = world.lines()
        before: set[tuple[int, str]] = set()
        for count in range(len(lines) + 1):
            after = {(f.row, f.column) for f in verdict(auditor, world, lines[:count]).exposed}
            assert before <= after, f"{world.name}: {before - after} forgotten after {count} statements"
            before = after


def equals_brute_force_on_few_records(auditor: Auditor) -> None:
    """On public conditions exactly those are exposed whose unit vector lies in the row space."""
    for world in WORLDS:
        source = world.source()
        evidence = evidence_of(world, source)
        if any(len(s.features) != 1 for s in evidence.systems):
            continue
        exposed = {f.row for f in auditor.examine(evidence, source.roster).exposed}
        assert exposed == determined_rows(evidence), f"{world.name}: {exposed} != {determined_rows(evidence)}"


def every_proof_verifies_in_exact_arithmetic(auditor: Auditor) -> None:
    """Proofs are checked again from the evidence alone, and give the value that is claimed.

    A proof by rule is not checked by `verify`, which must then not say that it holds: what it names is examined alone.
    """
    for world in WORLDS:
        found = verdict(auditor, world)
        for f in found:
            assert f.proof is not None, f"{world.name}: {f.who} without a proof"
            if f.proof.rule:
                unchecked = not f.proof.verify(found.evidence)
                assert unchecked, f"{world.name}: the proof for {f.who} is said to hold, and was not checked"
                again = auditor.examine(only(found.evidence, f.proof), found.roster)
                same = any((g.row, g.column, g.status, g.value) == (f.row, f.column, f.status, f.value) for g in again)
                assert same, f"{world.name}: the queries named for {f.who} do not suffice"
                continue
            assert f.proof.verify(found.evidence), f"{world.name}: the proof for {f.who} does not hold"
            ends = f.proof.interval(found.evidence.systems[f.proof.system])
            if world.consistent and f.status is Status.EXPOSED and isinstance(f.value, Decimal):
                assert ends is not None
                assert ends[0] <= Fraction(f.value) <= ends[1], f"{world.name}: the proof for {f.who} gives {ends}"


def only(evidence: Evidence, proof: Proof) -> Evidence:
    """The evidence with no constraints but those that a proof names."""
    systems = tuple(
        replace(s, constraints=tuple(c for c in s.constraints if number == proof.system and c.number in proof.weights))
        for number, s in enumerate(evidence.systems)
    )
    return replace(evidence, systems=systems)


def empty_log_exposes_nobody(auditor: Auditor) -> None:
    """Without answers there is nothing to prove."""
    world = next(w for w in WORLDS if w.name == "empty_log")
    assert not verdict(auditor, world).findings


def relabelled_records_are_exposed_alike(auditor: Auditor) -> None:
    """The order of the rows does not matter."""
    for world in WORLDS:
        head, *rows = world.table.strip().splitlines()
        turned = replace(world, table="\n".join([head, *reversed(rows), ""]))
        first = {(f.who, f.value) for f in verdict(auditor, world).exposed}
        second = {(f.who, f.value) for f in verdict(auditor, turned).exposed}
        assert first == second, f"{world.name}: {first} != {second}"


@dataclass(frozen=True, slots=True)
class _Tampering:
    """An honest auditor whose findings are tampered with."""

    tamper: Callable[[Exposure], Exposure]

    def examine(self, evidence: Evidence, roster: Roster) -> Exposure:
        return self.tamper(Judge().examine(evidence, roster))


def _rows(exposure: Exposure, rows: range) -> list[Finding]:
    labels = exposure.roster.labels(np.array(rows, dtype=np.int64))
    return [
        Finding(label, row, "x", Status.EXPOSED, Decimal(1), Decimal(1), Decimal(1), Proof(0, {}))
        for row, label in zip(rows, labels, strict=True)
    ]


def _off_by_one(exposure: Exposure) -> Exposure:
    changed = tuple(
        replace(f, value=f.value + 1, lo=f.value + 1, hi=f.value + 1) if isinstance(f.value, Decimal) else f
        for f in exposure
    )
    return replace(exposure, findings=changed)


def _forgetful(exposure: Exposure) -> Exposure:
    return exposure if exposure.queries < 2 else replace(exposure, findings=())


def _careless(exposure: Exposure) -> Exposure:
    doubled = []
    for f in exposure:
        assert f.proof is not None
        weights = {q: 2 * w for q, w in f.proof.weights.items()}
        doubled.append(replace(f, proof=replace(f.proof, weights=weights)))
    return replace(exposure, findings=tuple(doubled))


def _paranoid(exposure: Exposure) -> Exposure:
    return replace(exposure, findings=tuple(_rows(exposure, range(exposure.records))))


def _first_row_only(exposure: Exposure) -> Exposure:
    return replace(exposure, findings=tuple(f for f in exposure if f.row < 2))


LAWS: tuple[Law[Auditor], ...] = (
    Law(truth_lies_inside_the_interval, (Specimen("off by one", _Tampering(_off_by_one)),)),
    Law(more_queries_never_widen_an_interval, (Specimen("forgetful", _Tampering(_forgetful)),)),
    Law(equals_brute_force_on_few_records, (Specimen("forgetful", _Tampering(_forgetful)),)),
    Law(every_proof_verifies_in_exact_arithmetic, (Specimen("careless", _Tampering(_careless)),)),
    Law(empty_log_exposes_nobody, (Specimen("paranoid", _Tampering(_paranoid)),)),
    Law(relabelled_records_are_exposed_alike, (Specimen("first rows only", _Tampering(_first_row_only)),)),
)
