"""A GROUP BY over a private column whose values nobody declared tells which values there are, and of nobody which.

Everybody is then known to have one of the keys that were shown. Said of each person that is a finding; said of all it
is the domain of the column, which is to be declared. So where everybody with a value has been told no more than that
there is no other group, it is told once, as the reason why the verdict is not complete; who is known more narrowly than
that stays a finding. Numbers, and buckets of them, are no different where no range of theirs is declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from keyhole.auditing.base import Finding, Status
from keyhole.gather.evidence import Evidence, System
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Prior
from keyhole.model.query import OTHER_GROUPS
from keyhole.model.transcript import Entry


def without_domains(
    findings: Iterable[Finding], evidence: Evidence
) -> tuple[list[Finding], dict[str, tuple[Scalar, ...]]]:
    """The findings that say more than which values a column has; and the columns of which just that was told."""
    kept = list(findings)
    rest = _of_several(evidence.transcript.entries)
    told: dict[str, tuple[Scalar, ...]] = {}
    for system in evidence.systems:
        for part in system.partitions:
            name, number = part.column.name, part.column.kind.numeric
            prior = evidence.prior(name)
            if prior.values is not None or (number and prior != Prior() and not prior.is_assumed):
                continue
            mine = [f for f in kept if f.column == name and (_set_of(f) or f.status is Status.EXPOSED)]
            told_of_all = _Domain.of(mine)
            news = [f for f in mine if not (told_of_all.is_all_of(f) and _only(f, rest))]
            if len({f.row for f in mine}) == _present(system, name, evidence.n) and len(news) < len(mine):
                told[name] = tuple(sorted(told_of_all.values or (), key=None if number else str))
                dropped = {id(f) for f in mine} - {id(f) for f in news}
                kept = [f for f in kept if id(f) not in dropped]
    return kept, told


def _of_several(entries: Iterable[Entry]) -> set[str]:
    """What says that there is no other group, where there is more than one: a single bucket has everybody's value."""
    rest: dict[str, list[str]] = {}
    keys: dict[str, set[str]] = {}
    for entry in entries:
        statement, query = entry.number.partition(".")[0], entry.query
        if query.label == OTHER_GROUPS:
            rest.setdefault(statement, []).append(entry.number)
        else:
            keys.setdefault(statement, set()).add(str(query.key))
    return {number for statement, numbers in rest.items() if len(keys.get(statement, ())) > 1 for number in numbers}


def _set_of(finding: Finding) -> bool:
    """Does a finding say in which set of values one is: a list, or a range?"""
    return bool(finding.allowed) or finding.lo is not None or finding.hi is not None


@dataclass(frozen=True, slots=True)
class _Domain:
    """What several findings leave open together: the values, None if some of them are ranges; else their ends."""

    values: frozenset[Scalar] | None
    lo: Decimal | None
    hi: Decimal | None
    excluded: frozenset[Scalar]  # by all of them

    @classmethod
    def of(cls, mine: Sequence[Finding]) -> _Domain:
        inferred = [f for f in mine if f.status is not Status.EXPOSED]
        values = {v for f in mine for v in (f.allowed or (f.value,)) if v is not None}
        lows, highs = [f.lo for f in mine if f.lo is not None], [f.hi for f in mine if f.hi is not None]
        return cls(
            frozenset(values) if all(f.allowed for f in inferred) else None,
            min(lows) if lows and len(lows) == len(mine) else None,
            max(highs) if highs and len(highs) == len(mine) else None,
            frozenset.intersection(*(frozenset(f.excluded) for f in inferred)) if inferred else frozenset(),
        )

    def is_all_of(self, finding: Finding) -> bool:
        """Is what one of the findings leaves open as wide as that?"""
        if finding.status is Status.EXPOSED or finding.form:
            return False
        if self.values is not None:
            return self.values == set(finding.allowed)
        ends = (finding.lo, finding.hi) == (self.lo, self.hi)
        return ends and not finding.allowed and self.excluded.issuperset(finding.excluded)


def _only(finding: Finding, rest: set[str]) -> bool:
    """Does a finding rest on nothing but that there is no other group?"""
    return finding.proof is not None and bool(finding.proof.weights) and finding.proof.weights.keys() <= rest


def _present(system: System, name: str, n: int) -> int:
    """How many records have a value."""
    where = system.present.get(name)
    return n if where is None else int(system.atoms.sizes[system.atoms.mask(where)].sum())
