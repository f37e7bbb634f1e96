"""Transcript and knowledge in mathematics: lo <= A x <= hi over atoms.

Atoms are classes of records that every query of the log treats alike. The unknowns of a `System` are the
(feature, atom) pairs, in feature-major order: unknown number f*K + k is the total of feature f over atom k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.cells import Cell, Partition
from keyhole.errors import CannotHonour
from keyhole.knowledge import Knowledge, Prior
from keyhole.query import Query
from keyhole.transcript import Answer, Noise, Transcript


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Records grouped by (matches, public weights).

    `of[r]` is the atom of record r, `sizes[k]` how many records it has, `first[k]` one of them. Bit k of `bits[p]`
    (little-endian words) says whether atom k satisfies predicate p; `weights[j][k]` is the value of weight j there.
    """

    of: NDArray[np.int32]
    sizes: NDArray[np.int64]
    first: NDArray[np.int64]
    bits: NDArray[np.uint64]
    weights: tuple[tuple[Fraction, ...], ...] = ()

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the literature
        """How many atoms."""
        return len(self.sizes)

    def mask(self, predicate: int) -> NDArray[np.bool_]:
        """Which atoms satisfy a predicate."""
        raw = np.unpackbits(self.bits[predicate].view(np.uint8), bitorder="little", count=self.K)
        return raw.astype(np.bool_)


@dataclass(frozen=True, slots=True)
class Feature:
    """An unknown per record: `column ** power` restricted to some private cells, or their 0/1 indicator (column None).

    `guard` is the index of the public predicate (which private columns are NULL) under which the feature exists for a
    record, None for always. `cells` are joint cells: one Cell per conditioned private column of the system.
    """

    column: str | None
    power: int
    cells: tuple[tuple[Cell, ...], ...]
    guard: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One addend of a row: `factor * weight * 1[predicate]` on a feature."""

    feature: int
    predicate: int
    factor: Fraction = Fraction(1)
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One linear statement: `lo <= sum of entries <= hi`, where answer * scale - offset is the sum of entries.

    `exact` rows are equations (up to the stated radius of floating-point sums); the others are intervals, one-sided or
    noisy. `judged_as` names why a row is not exact.
    """

    number: str
    entries: tuple[Entry, ...]
    scale: Fraction
    offset: Fraction
    lo: Fraction | None
    hi: Fraction | None
    noise: Noise | None = None
    exact: bool = True
    judged_as: str = ""
    fact: int | None = None


@dataclass(frozen=True, slots=True)
class OrderFact:
    """A MIN, MAX, MEDIAN or VAR answer over the records of one predicate: carried for the auditors that judge them."""

    number: str
    query: Query
    predicate: int
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class Equal:
    """A variance of zero: everybody under a predicate has the same value, the average that `partner` answered."""

    number: str
    partner: str
    column: str
    predicate: int


@dataclass(frozen=True, slots=True)
class Bound:
    """Known bounds of single records of a system's column: those that satisfy a predicate lie in [lo, hi]."""

    column: str
    predicate: int
    lo: Fraction | None
    hi: Fraction | None
    fact: int


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """The joint linear system of private columns that the log ties together."""

    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]
    features: tuple[Feature, ...]
    atoms: Atoms
    rows: tuple[Row, ...]
    order: tuple[OrderFact, ...] = ()
    bounds: tuple[Bound, ...] = ()
    equal: tuple[Equal, ...] = ()
    present: dict[str, int] = field(default_factory=dict)  # column -> predicate "IS NOT NULL", absent if never NULL

    @property
    def unknowns(self) -> int:
        """Number of columns of A."""
        return len(self.features) * self.atoms.K

    def coefficients(self, row: Row) -> dict[int, Fraction]:
        """A row of A, sparse: unknown -> coefficient."""
        found: dict[int, Fraction] = {}
        K = self.atoms.K
        for entry in row.entries:
            for k in np.flatnonzero(self.atoms.mask(entry.predicate)).tolist():
                weight = Fraction(1) if entry.weight is None else self.atoms.weights[entry.weight][k]
                at = entry.feature * K + k
                found[at] = found.get(at, Fraction(0)) + entry.factor * weight
        return {at: c for at, c in found.items() if c}

    def plain(self, row: Row) -> int | None:
        """The predicate of a row that is simply 0/1 on the only feature, else None."""
        if len(self.features) == 1 and len(row.entries) == 1:
            entry = row.entries[0]
            if entry.factor == 1 and entry.weight is None:
                return entry.predicate
        return None

    def value_of(self, column: str, atom: int, power: int = 1) -> dict[int, int] | None:
        """The functional "total of `column` over this atom" in unknowns; None if the log never sums the column."""
        K = self.atoms.K
        found = {}
        for f, feature in enumerate(self.features):
            if feature.column != column or feature.power != power:
                continue
            if feature.guard is None or self.holds(feature.guard, atom):
                found[f * K + atom] = 1
        return found or None

    def holds(self, predicate: int, atom: int) -> bool:
        """Does an atom satisfy a predicate?"""
        return bool((int(self.atoms.bits[predicate, atom >> 6]) >> (atom & 63)) & 1)

    def record_rows(self) -> Iterator[tuple[Row, NDArray[np.float64]]]:
        """Rows over records (single-feature systems): for attacks that work on record coordinates."""
        for row in self.rows:
            dense = np.zeros(self.atoms.K)
            for entry in row.entries:
                mask = self.atoms.mask(entry.predicate)
                weight = 1.0 if entry.weight is None else np.array([float(w) for w in self.atoms.weights[entry.weight]])
                dense += float(entry.factor) * mask * weight
            yield row, dense[self.atoms.of]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Queries whose answers cannot all be true, and why."""

    queries: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A query that is carried but that no auditor judged."""

    number: str
    sql: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """All that follows from a transcript before any auditor or attack looks at it."""

    n: int
    transcript: Transcript
    knowledge: Knowledge
    systems: tuple[System, ...]
    contradictions: tuple[Contradiction, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()

    def sql_of(self, number: str) -> str:
        """The statement text behind a query number."""
        return self._texts[number]

    @property
    def _texts(self) -> dict[str, str]:
        return {entry.number: entry.sql for entry in self.transcript.entries}

    def prior(self, column: str) -> Prior:
        """What was known of a column beforehand."""
        return self.knowledge.prior(column)

    def join(self, other: Evidence) -> Evidence:
        """Both pieces of evidence together: atoms are refined, queries of `other` are numbered on.

        Systems of the same private columns are merged if their private conditions are the same; otherwise the two
        logs must be gathered as one. Cost: one pass over the records for every merged system.
        """
        if self.n != other.n:
            raise CannotHonour(f"evidence about {self.n} records cannot be joined with evidence about {other.n}")
        last = max((int(e.number.split(".")[0]) for e in self.transcript.entries), default=0)

        def renumbered(number: str) -> str:
            head, dot, part = number.partition(".")
            return number if not head.isdigit() else f"{int(head) + last}{dot}{part}"

        entries = tuple(replace(e, number=renumbered(e.number)) for e in other.transcript.entries)
        refused = tuple(replace(r, number=renumbered(r.number)) for r in other.transcript.refused)
        transcript = Transcript((*self.transcript.entries, *entries), (*self.transcript.refused, *refused))
        systems = {s.columns: s for s in self.systems}
        for theirs in other.systems:
            ours = systems.get(theirs.columns)
            tied = {c for columns in systems if columns != theirs.columns for c in columns} & set(theirs.columns)
            if tied:
                raise CannotHonour(f"the logs tie {sorted(tied)[0]!r} to different columns: gather them as one log")
            numbered = _renumber(theirs, renumbered)
            systems[theirs.columns] = numbered if ours is None else _merge(ours, numbered)
        contradictions = tuple(
            replace(c, queries=tuple(renumbered(q) for q in c.queries)) for c in other.contradictions
        )
        unjudged = tuple(replace(u, number=renumbered(u.number)) for u in other.unjudged)
        return Evidence(
            self.n,
            transcript,
            self.knowledge,
            tuple(systems.values()),
            (*self.contradictions, *contradictions),
            (*self.unjudged, *unjudged),
        )


def _renumber(system: System, renumbered: Callable[[str], str]) -> System:
    return replace(
        system,
        rows=tuple(replace(r, number=renumbered(r.number)) for r in system.rows),
        order=tuple(replace(o, number=renumbered(o.number)) for o in system.order),
        equal=tuple(replace(e, number=renumbered(e.number), partner=renumbered(e.partner)) for e in system.equal),
    )


def _merge(a: System, b: System) -> System:
    """One system over atoms that tell apart what either tells apart."""
    shape = [(f.column, f.power, f.cells) for f in a.features]
    if a.partitions != b.partitions or shape != [(f.column, f.power, f.cells) for f in b.features]:
        raise CannotHonour("the logs have different private conditions: gather them as one log")
    pairs = a.atoms.of.astype(np.int64) * b.atoms.K + b.atoms.of
    distinct, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    of = place[inverse.ravel()].astype(np.int32)
    from_a, from_b = (distinct // b.atoms.K)[order], (distinct % b.atoms.K)[order]
    atoms = Atoms(
        of,
        np.bincount(of, minlength=len(order)).astype(np.int64),
        first[order].astype(np.int64),
        np.vstack([_spread(a.atoms, from_a), _spread(b.atoms, from_b)]),
        (
            *(tuple(w[k] for k in from_a.tolist()) for w in a.atoms.weights),
            *(tuple(w[k] for k in from_b.tolist()) for w in b.atoms.weights),
        ),
    )
    shift, heavier = len(a.atoms.bits), len(a.atoms.weights)

    def entry(e: Entry) -> Entry:
        weight = None if e.weight is None else e.weight + heavier
        return replace(e, predicate=e.predicate + shift, weight=weight)

    facts = {r.fact for r in a.rows if r.fact is not None}
    rows = tuple(
        replace(r, entries=tuple(entry(e) for e in r.entries)) for r in b.rows if r.fact is None or r.fact not in facts
    )
    known = {x.fact for x in a.bounds}
    return replace(
        a,
        atoms=atoms,
        rows=(*a.rows, *rows),
        order=(*a.order, *(replace(o, predicate=o.predicate + shift if o.predicate >= 0 else -1) for o in b.order)),
        bounds=(*a.bounds, *(replace(x, predicate=x.predicate + shift) for x in b.bounds if x.fact not in known)),
        equal=(*a.equal, *(replace(e, predicate=e.predicate + shift) for e in b.equal)),
    )


def _spread(atoms: Atoms, chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The bits of some atoms, in a new order."""
    bits = np.zeros((len(atoms.bits), (len(chosen) + 63) // 64), dtype=np.uint64)
    for p in range(len(atoms.bits)):
        packed = np.packbits(atoms.mask(p)[chosen], bitorder="little")
        bits[p].view(np.uint8)[: len(packed)] = packed
    return bits
