"""Which claims become findings: not what facts say by themselves, what the data refute, or what is told of everybody.

A GROUP BY over a private column whose values nobody declared tells which values there are, and of nobody which.
Everybody is then known to have one of the keys that were shown. Where these are all the values that are assumed
possible, that is nothing new of anybody: it is told once, as the reason why the verdict is not complete, whether all
people were in the GROUP BY or some, and whether the list is of keys or was written down. Who is known more narrowly
than that stays a finding. Where no list is assumed (many values, no data), a list that everybody with a value was told,
and no more than that there is no other group, is the domain too. Numbers, and buckets of them, are no different where
no range of theirs is declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.assumed_domains import assume_domain
from keyhole.auditing.base import Finding, Status, query_order
from keyhole.auditing.end_proof import known_ends
from keyhole.auditing.known import Known
from keyhole.datasets import Source
from keyhole.gather.evidence import Contradiction, Evidence, System
from keyhole.model.predicate import Comparison, Leaf, Membership, Scalar, format_predicate
from keyhole.model.prior import Prior
from keyhole.model.query import OTHER_GROUPS
from keyhole.model.schema import Column
from keyhole.model.transcript import Entry


def beyond_facts(findings: Iterable[Finding], known: Known) -> list[Finding]:
    """The findings without those that repeat the one value which facts and declarations leave; any other value stays.

    Cost: one look at the facts for each finding, where there are facts about single people at all.
    """
    systems = [s for s in known.evidence.systems if s.bounds]
    return [f for f in findings if not any(_repeats(f, system, known) for system in systems)]


def _repeats(finding: Finding, system: System, known: Known) -> bool:
    if finding.status is not Status.EXPOSED or finding.form or not known.numeric(finding.column):
        return False
    at = next((f for f, each in enumerate(system.features) if each.column == finding.column), None)
    if at is None or finding.value is None:
        return False
    unknown = at * system.atoms.K + int(system.atoms.of[finding.row])
    left = known.grid(finding.column).sole(*known_ends(system, known.evidence, unknown))
    return left is not None and left == Fraction(str(finding.value))


DUST = Fraction(1, 10**6)  # how far a value of floats may be from what exact answers give, as a share


class Refuted:
    """Which findings are false of the data. Nothing is looked up unless some answer or fact is not true of them."""

    def __init__(self, evidence: Evidence, source: Source | None) -> None:
        self._source = source if evidence.contradictions else None
        self._truths: dict[str, list[Fraction | None]] = {}
        self._conditions: dict[Leaf, NDArray[np.int8]] = {}

    def by_data(self, f: Finding) -> bool:
        """Is a value, a range or a list not the one that the record has? A form over several is not looked at."""
        if self._source is None or f.form or f.rows:
            return False
        if f.lo is None and f.hi is None:
            return any(self._truth(condition)[f.row] == 0 for condition in _conditions(f))
        truth = self._values(f.column)[f.row]
        if truth is None:
            return False
        dust = DUST * max(Fraction(1), abs(truth))
        return (f.lo is not None and truth < Fraction(f.lo) - dust) or (
            f.hi is not None and truth > Fraction(f.hi) + dust
        )

    def among(self, findings: Iterable[Finding]) -> list[tuple[Finding, Contradiction]]:
        """The findings that are false, each with what gives it."""
        return [(f, _said(f)) for f in findings if f.proof is not None and self.by_data(f)]

    def _truth(self, condition: Leaf) -> NDArray[np.int8]:
        if condition not in self._conditions:
            assert self._source is not None
            self._conditions[condition] = self._source.truths([condition])[condition]
        return self._conditions[condition]

    def _values(self, column: str) -> list[Fraction | None]:
        if column not in self._truths:
            assert self._source is not None
            held = self._source.values(column)
            exact = held.units
            numbers = (
                (Fraction(float(v)) for v in held.floats)
                if exact is None
                else (Fraction(int(v), 10**held.digits) for v in exact)
            )
            self._truths[column] = [v if there else None for v, there in zip(numbers, held.present, strict=True)]
        return self._truths[column]


def _conditions(f: Finding) -> Iterator[Leaf]:
    """What a claim without ends says of the record's value."""
    if f.status is Status.EXPOSED and f.value is not None:
        yield Comparison(f.column, "=", f.value)
    if f.allowed:
        yield Membership(f.column, f.allowed)
    yield from (Comparison(f.column, "<>", value) for value in f.excluded)


def _said(f: Finding) -> Contradiction:
    assert f.proof is not None
    names = tuple(sorted(f.proof.weights, key=query_order))
    listed = " and ".join(n if n.startswith("fact") else f"Q{n}" for n in names)
    given = f"in [{f.lo}, {f.hi}]"
    if f.lo is None and f.hi is None:
        given = " and ".join(format_predicate(condition).partition(" ")[2] for condition in _conditions(f))
    elif f.status is Status.EXPOSED and isinstance(f.value, Decimal):
        given = f"= {f.value}"
    gives = "gives" if len(names) == 1 else "together give"
    return Contradiction(names, f"{listed} {gives} {f.who}'s {f.column} {given}, which is not so in the data")


def without_domains(
    findings: Iterable[Finding], evidence: Evidence, source: Source | None = None
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
            if wide := _lists_of_all(mine, part.column, source):
                told[name] = tuple(sorted(wide[0].allowed, key=None if number else str))
                dropped = set(map(id, wide))
                kept = [f for f in kept if id(f) not in dropped]
                continue
            told_of_all = _Domain.of(mine)
            news = [f for f in mine if not (told_of_all.is_all_of(f) and _only(f, rest))]
            if len({f.row for f in mine}) == _present(system, name, evidence.n) and len(news) < len(mine):
                told[name] = tuple(sorted(told_of_all.values or (), key=None if number else str))
                dropped = {id(f) for f in mine} - {id(f) for f in news}
                kept = [f for f in kept if id(f) not in dropped]
    return kept, told


def _lists_of_all(mine: Sequence[Finding], column: Column, source: Source | None) -> list[Finding]:
    """The findings that list all values that are assumed of a column. Cost: a scan, where there are lists."""
    lists = [f for f in mine if f.status is Status.INFERRED and f.allowed and not f.form]
    if not lists or source is None:
        return []
    domain = assume_domain(column, source)
    return [f for f in lists if domain.is_within(f.allowed)]


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


def limited(known: Known) -> frozenset[tuple[int, str]]:
    """(row, column): a time limit, Ctrl-C or too many tables ended the search; neither listed nor shown to be open.

    What is proved of them stays as it is: the best proved range, which may be wider than it need be.
    """
    return frozenset(
        (row, name)
        for number, system in enumerate(known.evidence.systems)
        if number not in known.shown
        for row, name in _stopped(known, number, system)
        if (said := known.of(row, name)) is None or said.status is Status.OPEN
    )


def _stopped(known: Known, number: int, system: System) -> Iterator[tuple[int, str]]:
    searched = known.searched.get(number)
    early = searched is not None and bool(searched.ranges.stopped)
    if not early and number not in known.limits:
        return
    searched_columns, settled = set[str](), set[tuple[int, str]]()
    if searched is not None:
        made = searched.bounded
        for j, found in enumerate(searched.ranges.of):
            searched_columns.add(made.column(j))
            if found.wider(searched.apart(found)) or found.tight:
                settled.add((made.atom(j), made.column(j)))
    names = set(system.columns) if number in known.limits else searched_columns
    for name in sorted(names):
        left = np.array([(k, name) not in settled for k in range(system.atoms.K)], dtype=np.bool_)
        yield from ((int(row), name) for row in np.flatnonzero(left[system.atoms.of]))
