"""Transcript and knowledge in mathematics: lo <= A x <= hi over atoms.

Atoms are classes of records that every query of the log treats alike. The unknowns of a `System` are the
(feature, atom) pairs, in feature-major order: unknown number f*K + k is the total of feature f over atom k.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.cells import Cell, Partition
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
