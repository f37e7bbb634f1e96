"""A GROUP BY over a private column whose values nobody declared tells which values there are, and of nobody which.

Everybody is then known to have one of the keys that were shown. Said of each person that is a finding; said of all it
is the domain of the column, which is to be declared. So where everybody with a value has been told no more than that
there is no other group, it is told once, as the reason why the verdict is not complete; who is known more narrowly than
that stays a finding.
"""

from __future__ import annotations

from collections.abc import Iterable

from keyhole.audit.base import Finding, Status
from keyhole.evidence import Evidence, System
from keyhole.predicate import Scalar
from keyhole.query import OTHER_GROUPS


def without_domains(
    findings: Iterable[Finding], evidence: Evidence
) -> tuple[list[Finding], dict[str, tuple[Scalar, ...]]]:
    """The findings that say more than which values a column has; and the columns of which just that was told."""
    kept = list(findings)
    rest = {e.number for e in evidence.transcript.entries if e.query.label == OTHER_GROUPS}
    told: dict[str, tuple[Scalar, ...]] = {}
    for system in evidence.systems:
        for part in system.partitions:
            name = part.column.name
            if part.column.kind.numeric or evidence.prior(name).values is not None:
                continue
            mine = [f for f in kept if f.column == name and (f.allowed or f.status is Status.EXPOSED)]
            values = dict.fromkeys(v for f in mine for v in (f.allowed or (f.value,)) if v is not None)
            news = [f for f in mine if not (set(f.allowed) == set(values) and _only(f, rest))]
            if len({f.row for f in mine}) == _present(system, name, evidence.n) and len(news) < len(mine):
                told[name] = tuple(sorted(values, key=str))
                dropped = {id(f) for f in mine} - {id(f) for f in news}
                kept = [f for f in kept if id(f) not in dropped]
    return kept, told


def _only(finding: Finding, rest: set[str]) -> bool:
    """Does a finding rest on nothing but that there is no other group?"""
    return finding.proof is not None and bool(finding.proof.weights) and finding.proof.weights.keys() <= rest


def _present(system: System, name: str, n: int) -> int:
    """How many records have a value."""
    where = system.present.get(name)
    return n if where is None else int(system.atoms.sizes[system.atoms.mask(where)].sum())
