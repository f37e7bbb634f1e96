"""People counted by conditions on their records: who is shown to have what, from the counts alone.

Forced first, then differences of counts, then small components exactly; again until nothing is new.
Four grades: shown to have, shown not to have, one of his (some record of his, nobody says which), and narrowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Finding, Proof, Status, query_order
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.rules.counts import left_of_cells
from keyhole.datasets import Roster, Source
from keyhole.gather.evidence import Contradiction, Evidence
from keyhole.model.cells import Partition, partition_column
from keyhole.model.people import Counting, Formula
from keyhole.model.predicate import Has, Leaf, Scalar, format_predicate
from keyhole.solve.counting import OPEN, Conflict, Forced, Network, solve

HAS, HAS_NOT, ONE_OF_HIS, NARROWED = "shown to have", "shown not to have", "one of his", "narrowed"
FORCED = "the counts leave no other possibility"
LARGE = "counts of people by conditions on their records were too many to be decided together"
APART = "counts of people were judged apart from sums of the same private columns"


@dataclass(slots=True)
class ShownPeople:
    """What the counts show of people. `grades` counts people by grade; `missed` says what was not decided."""

    findings: list[Finding] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    grades: dict[str, int] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)


def shown_people(evidence: Evidence, known: Known, roster: Roster, source: Source | None) -> ShownPeople:
    """Everything that follows. Cost: see `keyhole.solve.counting`."""
    counting = evidence.counting
    if counting is None:
        return ShownPeople()
    found = ShownPeople()
    state = Forced(Network.of(counting))
    try:
        truth = None if source is None else _Truth(counting, source)
        decided = solve(counting, state, truth)
    except Conflict as conflict:
        names = sorted({counting.counts[i].number for i in conflict.counts}, key=query_order)
        listed = ", ".join(f"Q{q}" for q in names)
        reason = f"{listed} cannot all be true of the people there are"
        found.contradictions.append(Contradiction(tuple(names), reason, reducible=True))
        found.missed.add("some answers contradict each other")
        return found
    _Report(counting, state, known, roster, found).run()
    looked = {a.leaf.column for a in counting.atoms if not isinstance(a.leaf, Has)}
    if not decided:
        found.missed.add(LARGE)
    if any(looked & set(s.columns) for s in evidence.systems) or evidence.knowledge.facts:
        found.missed.add(APART)
    return found


class _Truth:
    """Atoms in the true table, looked up when they are asked for."""

    def __init__(self, counting: Counting, source: Source) -> None:
        self._counting, self._source = counting, source
        self._known: dict[int, NDArray[np.int8]] = {}

    def __call__(self, atom: int) -> NDArray[np.int8]:
        if atom not in self._known:
            leaf = self._counting.atoms[atom].leaf
            self._known[atom] = self._source.truths([leaf])[leaf]
        return self._known[atom]


class _Report:
    def __init__(self, counting: Counting, state: Forced, known: Known, roster: Roster, found: ShownPeople) -> None:
        self.counting, self.state, self.known, self.roster, self.found = counting, state, known, roster, found
        self.proofs: dict[int, Proof] = {}
        self.about: dict[tuple[int, int, bool], Proof] = {}
        self.some: dict[tuple[int, int], Proof] = {}
        self.own: dict[tuple[int, tuple[tuple[int, bool], ...]], Proof] = {}
        self.rows_of: dict[int, list[int]] = {}
        for r, p in enumerate(counting.person.tolist()):
            self.rows_of.setdefault(p, []).append(r)

    def run(self) -> None:
        have: dict[str, set[int]] = {grade: set() for grade in (HAS, HAS_NOT, ONE_OF_HIS, NARROWED)}
        said: list[tuple[int, tuple[int, ...], Leaf, str, int]] = []
        for number, atom in enumerate(self.counting.atoms):
            values = self._values(number)
            told = (atom.at >= 0) & (values[np.maximum(atom.at, 0)] != OPEN) if atom.count else np.zeros(0, dtype=bool)
            for r in np.flatnonzero(told).tolist():
                holds, why = self._of(number, int(atom.at[r]))
                if why == 0:
                    continue  # nothing but public things say so
                have[HAS if holds else HAS_NOT].add(int(self.counting.person[r]))
                if isinstance(atom.leaf, Has):
                    said.append((int(self.counting.person[r]), (int(r),), atom.leaf, HAS if holds else HAS_NOT, why))
        self._own_columns()
        self._rows(said)
        self._one_of_his(have)
        self._narrowed(have)
        self.found.grades = {grade: len(people) for grade, people in have.items()}

    def _values(self, atom: int) -> np.ndarray:
        offset = self.state.net.offsets[atom]
        return self.state.value[offset : offset + self.counting.atoms[atom].count]

    def _of(self, atom: int, instance: int) -> tuple[bool, int]:
        v = self.state.net.offsets[atom] + instance
        return bool(self.state.value[v] == 1), int(self.state.why[v])

    def proof(self, why: int) -> Proof:
        """The answers that a value follows from."""
        if why not in self.proofs:
            counts = sorted(self.state.sets[why])
            names = sorted({self.counting.counts[i].number for i in counts}, key=query_order)
            self.proofs[why] = Proof(-1, dict.fromkeys(names, Fraction(1)), rule=FORCED, counted={"counts": counts})
        return self.proofs[why]

    def _about(self, proof: Proof, why: int, atom: int, holds: bool) -> Proof:
        """The same answers, for one condition."""
        key = (why, atom, holds)
        if key not in self.about:
            self.about[key] = replace(proof, counted={**(proof.counted or {}), "atom": atom, "holds": holds})
        return self.about[key]

    def _counted_in(self, proof: Proof, why: int, count: int) -> Proof:
        """The same answers, for somebody whom a count has."""
        if (why, count) not in self.some:
            self.some[why, count] = replace(proof, counted={**(proof.counted or {}), "some": count})
        return self.some[why, count]

    def _of_the_record(self, proof: Proof, why: int, held: tuple[tuple[int, bool], ...]) -> Proof:
        """The same answers, for conditions on one column of a record."""
        if (why, held) not in self.own:
            self.own[why, held] = replace(proof, counted={**(proof.counted or {}), "own": held})
        return self.own[why, held]

    def _own_columns(self) -> None:
        """Conditions on the record's own private columns: values, ranges, and what they are not."""
        by_column: dict[str, list[int]] = {}
        for number, atom in enumerate(self.counting.atoms):
            if not isinstance(atom.leaf, Has):
                by_column.setdefault(atom.leaf.column, []).append(number)
        for name, numbers in by_column.items():
            column = self.known.schema.find(name)
            assert column is not None
            cut = partition_column(
                column, [self.counting.atoms[i].leaf for i in numbers], self.known.evidence.prior(name)
            )
            values = np.stack([self._values(i) for i in numbers])
            for r in np.flatnonzero((values != OPEN).any(axis=0)).tolist():
                if any(self.counting.atoms[i].at[r] < 0 for i in numbers[:1]):
                    continue
                self.found.claims += self._left(r, cut, numbers, values[:, r])

    def _left(self, r: int, cut: Partition, numbers: list[int], values: np.ndarray) -> Iterator[Claim]:
        told = {self.counting.atoms[i].leaf: bool(v) for i, v in zip(numbers, values, strict=True) if v != OPEN}
        cells = [c for c in cut.cells if not c.null]
        kept = [c for c in cells if all(cut.truth(leaf, c) is holds for leaf, holds in told.items())]
        lost = [c for c in cells if c not in kept]
        if not kept or not lost:
            return
        used = [self._of(i, r)[1] for i, v in zip(numbers, values, strict=True) if v != OPEN]
        why = self.state.all_of(used)
        proof = self.proof(why)
        if proof.weights:
            held = tuple((i, bool(v)) for i, v in zip(numbers, values.tolist(), strict=True) if v != OPEN)
            proof = self._of_the_record(proof, why, held)
            yield left_of_cells(r, cut.column, kept, lost, proof, self.known.evidence.prior(cut.column.name))

    def _rows(self, said: list[tuple[int, tuple[int, ...], Leaf, str, int]]) -> None:
        """Rows of other tables that somebody is shown to have, or not to have."""
        merged: dict[tuple[int, Leaf, str, int], list[int]] = {}
        for person, rows, leaf, grade, why in said:
            merged.setdefault((person, leaf, grade, why), []).extend(rows)
        first = [rows[0] for rows in merged.values()]
        labels = self._labels(first)
        for (person, leaf, grade, why), about in merged.items():
            status = Status.EXPOSED if grade == HAS else Status.INFERRED
            table = leaf.table if isinstance(leaf, Has) else ""
            form = in_words(leaf, grade == HAS)
            if len(about) < len(self.rows_of[person]):
                form += f" (record {', '.join(str(r + 1) for r in sorted(about))})"
            about_atom = next(i for i, a in enumerate(self.counting.atoms) if a.leaf == leaf)
            self._add(labels[about[0]], about, table, status, form, grade, why, about_atom)

    def _labels(self, rows: list[int]) -> dict[int, Mapping[str, Scalar | None]]:
        at = sorted(set(rows))
        named = self.roster.labels(np.array(at, dtype=np.int64)) if at else []
        return dict(zip(at, named, strict=True))

    def _add(
        self,
        label: Mapping[str, Scalar | None],
        rows: Sequence[int],
        column: str,
        status: Status,
        form: str,
        grade: str,
        why: int,
        atom: int | None = None,
        some: int | None = None,
    ) -> None:
        proof = self.proof(why)
        if some is not None:
            proof = self._counted_in(proof, why, some)
        if atom is not None:
            proof = self._about(proof, why, atom, grade == HAS)
        value = True if grade == HAS else False if grade == HAS_NOT else None
        about = tuple(sorted(rows))
        self.found.findings.append(
            Finding(label, about[0], column, status, value, None, None, proof, form=form, rows=about, grade=grade)
        )

    def _one_of_his(self, have: dict[str, set[int]]) -> None:
        """Somebody is counted, and none of his records is known to be why."""
        seen: set[tuple[int, str]] = set()
        said = []
        for number, count in enumerate(self.counting.counts):
            for formula, _ in count.formulas:
                owners, literals = self.state.net.formulas[id(formula)]
                true = self.state.of(literals) == 1
                for owner, literal in zip(owners[true].tolist(), literals[true].tolist(), strict=True):
                    rows = self._open_rows(formula, owner)
                    why = int(self.state.reasons(np.array([literal]))[0])
                    if len(rows) > 1 and why:
                        words = formula_in_words(self.counting, formula)
                        person = int(self.counting.person[rows[0]])
                        if (person, words) not in seen:
                            seen.add((person, words))
                            said.append((person, rows, words, why, number))
        labels = self._labels([rows[0] for _, rows, *_ in said])
        for person, rows, words, why, number in said:
            have[ONE_OF_HIS].add(person)
            form = f"one of {len(rows)} records: {words}"
            self._add(labels[rows[0]], rows, "records", Status.INFERRED, form, ONE_OF_HIS, why, some=number)

    def _open_rows(self, formula: Formula, owner: int) -> list[int]:
        """The records of an owner that may be why he is counted; none if one of them surely is."""
        found = []
        for clause in formula.clauses:
            for r in clause.rows[formula.owner[clause.rows] == owner].tolist():
                truths = [self._literal(a, wanted, r) for a, wanted in clause.literals]
                if all(t == 1 for t in truths):
                    return []
                if 0 not in truths:
                    found.append(r)
        return sorted(set(found))

    def _literal(self, atom: int, wanted: bool, r: int) -> int:
        at = int(self.counting.atoms[atom].at[r])
        value = 0 if at < 0 else int(self._values(atom)[at])
        return value if value == OPEN else int(bool(value) == wanted)

    def _narrowed(self, have: dict[str, set[int]]) -> None:
        """People of whom no more is known than that two things are not both so."""
        known = have[HAS] | have[HAS_NOT] | have[ONE_OF_HIS]
        for gate in self.state.net.ands:
            out = self.state.of(gate.out) == 0
            open_ = (self.state.of(gate.inputs.ravel()).reshape(gate.inputs.shape) == OPEN).all(axis=0)
            have[NARROWED] |= set(self.counting.person[np.flatnonzero(out & open_)].tolist())
        have[NARROWED] -= known


def in_words(leaf: Leaf, holds: bool) -> str:
    """A condition as what somebody has.

    >>> from keyhole.model.predicate import Comparison
    >>> in_words(Has("visits", (("id", "id"),), Comparison("ward", "=", "B")), False)
    'has no row in visits with "ward" = \\'B\\''
    """
    if not isinstance(leaf, Has):
        return format_predicate(leaf) if holds else f"NOT {format_predicate(leaf)}"
    asked = format_predicate(leaf.where)
    return f"has {'a' if holds else 'no'} row in {leaf.table}" + ("" if asked == "TRUE" else f" with {asked}")


def formula_in_words(counting: Counting, formula: Formula) -> str:
    """The clauses of a formula as text."""
    parts = []
    for clause in formula.clauses:
        parts.append(" and ".join(in_words(counting.atoms[a].leaf, wanted) for a, wanted in clause.literals))
    return " or ".join(dict.fromkeys(parts))
