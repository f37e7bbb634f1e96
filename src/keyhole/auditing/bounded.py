"""A system as the polytope of all tables that answers and knowledge leave possible.

Unknowns are the totals of atoms; every record of an atom lies in the declared range of its column and in whatever facts
say of it (facts are conditions, so they tell atoms apart). Rows are all answers with a finite end: equations, rounded
and suppressed numbers, thresholds, facts about totals. A column whose values the log tells apart by private conditions,
and squares, are not linear in its values and left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.end_proof import BoundUsed, EndProof, known_ends
from keyhole.auditing.learned import Learned, narrowed
from keyhole.basis import Row
from keyhole.gather.evidence import GIVEN, Constraint, Evidence, System
from keyhole.model.grid import Grid
from keyhole.solve.interval import Polytope, RangeProblem
from keyhole.solve.interval.polytope import End, Side, Weights

MOST_ENTRIES = 40_000_000  # of a system that is searched: 16 bytes each, several times


@dataclass(frozen=True, slots=True, eq=False)
class BoundedSystem:
    """The polytope of a system: row i is `scales[i]` times constraint i, column j is unknown `unknowns[j]`."""

    system: System
    question: RangeProblem
    constraints: tuple[Constraint, ...]
    scales: tuple[Fraction, ...]
    unknowns: tuple[int, ...]
    used: frozenset[str]  # the numbers of all constraints, those included that repeat another
    before: tuple[tuple[End, End], ...]  # of the records of each column, by declarations and facts alone
    learned: Mapping[int, Learned] = field(default_factory=dict)  # unknown -> what other rules know of its records

    def column(self, j: int) -> str:
        """The private column that column j of the polytope is about."""
        return self.system.features[self.unknowns[j] // self.system.atoms.K].column or ""

    def atom(self, j: int) -> int:
        """The atom of column j."""
        return self.unknowns[j] % self.system.atoms.K

    @property
    def whole(self) -> bool:
        """Are all answers of the system at hand?"""
        return len(self.used) == len(self.system.constraints)

    def with_truth(self, totals: Mapping[int, list[Fraction]] | None) -> BoundedSystem:
        """The same, with the true total of each feature over each atom as a table that is possible."""
        if totals is None:
            return self
        K = self.system.atoms.K
        return replace(self, question=replace(self.question, truth=[totals[u // K][u % K] for u in self.unknowns]))

    def beforehand(self, weights: Weights) -> bool:
        """Do weights rest on facts alone?"""
        return all(self.constraints[i].fact is not None for i in weights)

    def weights(self, weights: Weights) -> dict[str, Fraction]:
        """Weights on rows as weights on constraints."""
        return {self.constraints[i].number: w * self.scales[i] for i, w in weights.items() if w}

    def proof(self, j: int, side: Side, end: Fraction, weights: Weights) -> EndProof:
        """The proof of an end of a record of column j: the rows, and one line for each kind of bound put in."""
        by_query = self.weights(weights)
        rows = {self.constraints[i].number: self.constraints[i] for i in weights}
        constant = -sum((w * rows[q].offset for q, w in by_query.items()), Fraction(0))
        return EndProof(side, end, by_query, tuple(self._bounds(j, side, weights)), constant)

    def _bounds(self, j: int, side: Side, weights: Weights) -> Iterator[BoundUsed]:
        P, sign = self.question.polytope, 1 if side == "hi" else -1
        combined = P.combined(weights)
        combined.setdefault(j, Fraction(0))
        used: dict[tuple[bool, str, Fraction, Fraction, int | None, int], list[int]] = defaultdict(list)
        for k, c in combined.items():
            for own, people, w in ((False, P.sizes[k] - (k == j), -c), (True, int(k == j), 1 - c)):
                if people and w:
                    bound = "max" if w * sign > 0 else "min"
                    each = P.records[k][1 if bound == "max" else 0]
                    assert each is not None
                    used[own, bound, each, w, self._fact(k, bound, each), self._by(k, bound)].append(k)
        for (own, bound, each, w, fact, by), columns in used.items():
            people = 1 if own else sum(P.sizes[k] - (k == j) for k in columns)
            alone = people == 1 and columns != [j]
            row = int(self.system.atoms.first[self.atom(columns[0])]) if alone else None
            why = None if by < 0 else self.learned[self.unknowns[columns[0]]].why
            yield BoundUsed(bound, each, w, people, fact, "" if own else self._of(columns, weights), row, own, why)

    def _by(self, k: int, bound: str) -> int:
        """Which claim of another rule gives a bound: one number for all whom it speaks of; -1 if none does."""
        said, at = self.learned.get(self.unknowns[k]), 1 if bound == "max" else 0
        if said is None or self.before[k][at] == (end := (said.lo, said.hi)[at]):
            return -1
        if end is None or self.question.polytope.records[k][at] != end:
            return -1
        return id(said.why[3]) if said.why[3].order is not None else said.why[0]

    def _fact(self, k: int, bound: str, each: Fraction) -> int | None:
        """The fact that gives a bound, if it is not the column's own."""
        for b in self.system.bounds:
            end = b.hi if bound == "max" else b.lo
            if b.column == self.column(k) and end == each and self.system.atoms.holds(b.where, self.atom(k)):
                return b.fact
        return None

    def _of(self, columns: list[int], weights: Weights) -> str:
        """A query of the proof that all of these are in; the smallest of several."""
        P = self.question.polytope
        found = [i for i in weights if self.constraints[i].fact is None and set(columns) <= set(P.row(i)[0])]
        return self.constraints[min(found, key=lambda i: len(P.row(i)[0]))].number if found else ""


def bounded(
    system: System, evidence: Evidence, grids: Mapping[str, Grid], learned: Mapping[int, Learned]
) -> BoundedSystem | None:
    """The polytope of a system; None where nothing bounds anything, so that the rank theorem says all there is.

    `grids` has the numeric columns. None also for a system of too many entries: then nothing is searched, and the
    verdict says so.
    """
    K = system.atoms.K
    features = _whole(system, grids)
    asked = [c for c in system.constraints if c.parts and all(p.feature in features for p in c.parts)]
    rows = [c for c in asked if c.lo is not None or c.hi is not None]
    columns = {system.features[f].column or "" for f in features}
    declared = any(grids[name].lo is not None or grids[name].hi is not None for name in columns)
    known = any(b.column in columns for b in system.bounds)
    if not rows or not (declared or known or learned or not all(c.exact for c in rows)):
        return None
    made = [(c, system.row(c)) for c in rows]
    if sum(_entries(row) for _, row in made) > MOST_ENTRIES:
        return None
    made = _distinct(made)
    listed = [row.sparse() for _, row in made]
    touched = np.zeros(system.unknowns, dtype=np.bool_)
    for at in (*(at for at, _ in listed), _ordered(system, features)):
        touched[at] = True
    unknowns = np.flatnonzero(touched)
    unknowns = unknowns[_present(system, unknowns)]
    polytope = _polytope(system, evidence, listed, unknowns, [_ends(c, row.scale) for c, row in made])
    before = polytope.records
    polytope = replace(polytope, records=_met(before, [learned.get(u) for u in unknowns.tolist()]))
    held = {f: grids[system.features[f].column or ""] for f in features}
    used = frozenset(c.number for c in rows)
    rows = [c for c, _ in made]
    strict = {i: edge for i, (c, row) in enumerate(made) if (edge := _edge(c, row.scale)) is not None}
    question = RangeProblem(polytope, [held[f] for f in (unknowns // K).tolist()], strict, _tables(rows))
    question = replace(question, equations=frozenset(i for i, c in enumerate(rows) if c.exact))
    scales, listed_unknowns = tuple(row.scale for _, row in made), tuple(unknowns.tolist())
    return BoundedSystem(system, question, tuple(rows), scales, listed_unknowns, used, before, learned)


def _whole(system: System, grids: Mapping[str, Grid]) -> set[int]:
    """Features that are a numeric column itself, in one piece."""
    found = set()
    for f, feature in enumerate(system.features):
        alone = sum(g.column == feature.column and g.power == 1 for g in system.features) == 1
        if feature.column in grids and feature.power == 1 and alone:
            found.add(f)
    return found


def _distinct(made: list[tuple[Constraint, Row]]) -> list[tuple[Constraint, Row]]:
    """Without constraints that say the same of the same people; the larger edge is kept."""
    found: dict[tuple[object, ...], tuple[Constraint, Row]] = {}
    for c, row in made:
        key = (_digest(row), *_ends(c, row.scale), c.exact)
        first, _ = found.setdefault(key, (c, row))
        edges = [_edge(each, row.scale) for each in (first, c)]
        if edges[1] is not None and (edges[0] is None or edges[1] > edges[0]):
            found[key] = (c, row)
    return list(found.values())


def _digest(row: Row) -> bytes:
    """The same for rows with the same entries: zeros and ones are always kept as bits."""
    if row.masks is not None:
        bits = (str(f).encode() + words.tobytes() for f, words in sorted(row.masks.items()) if words.any())
        return b"bits" + blake2b(b"".join(bits)).digest()
    at, values = row.sparse()
    return blake2b(at.tobytes() + (repr(values.tolist()).encode() if row.wide else values.tobytes())).digest()


def _entries(row: Row) -> int:
    """How many entries of a row are not zero."""
    if row.masks is not None:
        return sum(int(np.bitwise_count(words).sum()) for words in row.masks.values())
    return sum(len(at) for at, _ in row.values.values())


def _ordered(system: System, features: Iterable[int]) -> NDArray[np.int64]:
    """The unknowns of whose records a MIN, a MAX or a quantile was asked: they are bounded too, if by no row."""
    by_column = {system.features[f].column: f * system.atoms.K for f in features}
    found = [np.zeros(0, dtype=np.int64)]
    for fact in system.order:
        base = by_column.get(fact.query.terms[0].column)
        if fact.where is not None and base is not None:
            found.append(base + np.flatnonzero(system.atoms.mask(fact.where)))
    return np.unique(np.concatenate(found))


def _present(system: System, unknowns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The unknowns whose records have a value."""
    K = system.atoms.K
    found = np.ones(len(unknowns), dtype=np.bool_)
    for f, feature in enumerate(system.features):
        where = system.present.get(feature.column or "")
        if where is not None:
            mine = unknowns // K == f
            found[mine] = system.atoms.mask(where)[unknowns[mine] % K]
    return found


def _ends(c: Constraint, scale: Fraction) -> tuple[End, End]:
    lo, hi = (None if end is None else end * scale for end in (c.lo, c.hi))
    return (lo, hi) if scale > 0 else (hi, lo)


def _edge(c: Constraint, scale: Fraction) -> Fraction | None:
    """How far inside its ends a row surely gives its answer; None: on them too."""
    if c.exact or c.fact is not None or c.judged_as == GIVEN or c.edge is None:
        return None
    return c.edge * abs(scale)


def _polytope(
    system: System,
    evidence: Evidence,
    listed: list[tuple[NDArray[np.int64], NDArray[Any]]],
    unknowns: NDArray[np.int64],
    ends: list[tuple[End, End]],
) -> Polytope:
    K = system.atoms.K
    place = np.full(system.unknowns, -1, dtype=np.int64)
    place[unknowns] = np.arange(len(unknowns))
    kept = listed if len(unknowns) == len(place) else [_kept(place[at], values) for at, values in listed]
    start = np.cumsum([0, *(len(at) for at, _ in kept)]).astype(np.int64)
    columns = np.concatenate([at for at, _ in kept])
    entries = np.concatenate([values for _, values in kept])
    records = _records(system, evidence, unknowns)
    sizes = system.atoms.sizes[unknowns % K].tolist()
    return Polytope(start, columns, entries, tuple(ends), records, tuple(sizes))


def _kept(at: NDArray[np.int64], values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Without the entries that have no place."""
    there = at >= 0
    return at[there], values[there]


def _records(system: System, evidence: Evidence, unknowns: NDArray[np.int64]) -> tuple[tuple[End, End], ...]:
    """Between what the records of each unknown lie: looked up once for each pattern of facts."""
    K = system.atoms.K
    pattern = unknowns // K
    for b in system.bounds:
        pattern = np.unique(2 * pattern + system.atoms.mask(b.where)[unknowns % K], return_inverse=True)[1]
    _, first, of = np.unique(pattern, return_index=True, return_inverse=True)
    known = [known_ends(system, evidence, u) for u in unknowns[first].tolist()]
    return tuple([known[each] for each in of.tolist()])


def _met(before: Sequence[tuple[End, End]], said: Sequence[Learned | None]) -> tuple[tuple[End, End], ...]:
    """What is known beforehand, narrowed by what other rules know."""
    return tuple(ends if told is None else narrowed(ends, told) for ends, told in zip(before, said, strict=True))


def _tables(rows: list[Constraint]) -> list[list[int]]:
    """The rows of each statement that gave several."""
    by_statement: dict[str, list[int]] = defaultdict(list)
    for i, c in enumerate(rows):
        if c.fact is None:
            by_statement[c.number.partition(".")[0]].append(i)
    return [table for table in by_statement.values() if len(table) > 1]
