"""Counts over people as a network of 0/1 variables: atoms, conjunctions of them, "some record of his", and sums.

A literal is 2 * variable, plus 1 if it is negated; variable 0 is false. Formulas and conjunctions that several counts
share are one variable each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.model.people import BoundedCount, Clause, Counting, Formula

Ints: TypeAlias = NDArray[np.int64]
FALSE, TRUE = 0, 1  # literals of variable 0


@dataclass(frozen=True, slots=True, eq=False)
class AndGate:
    """out[i] is the conjunction of inputs[:, i]."""

    out: Ints  # literals
    inputs: Ints  # k x m literals


@dataclass(frozen=True, slots=True, eq=False)
class OrGate:
    """out[j] is the disjunction of the inputs i with segment[i] = j; segments ascend."""

    out: Ints
    inputs: Ints
    segment: Ints


@dataclass(frozen=True, slots=True, eq=False)
class SumGate:
    """lo <= sum of weight * literal <= hi, in integers; `weights` None: each counts 1. `count` says which answer."""

    count: int
    literals: Ints
    weights: NDArray[np.object_] | None
    lo: int | None
    hi: int | None


@dataclass(slots=True)
class Network:
    """`offsets[a]` is the first variable of atom a; `formulas` have the literal of each owner who can be counted."""

    size: int = 1
    offsets: list[int] = field(default_factory=list)
    ands: list[AndGate] = field(default_factory=list)
    ors: list[OrGate] = field(default_factory=list)
    sums: list[SumGate] = field(default_factory=list)
    implied: list[tuple[Ints, Ints]] = field(default_factory=list)  # literal -> literal
    exclusive: list[Ints] = field(default_factory=list)  # k x n literals: at most one of each column is true
    formulas: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)  # id of a formula -> owners, their literals

    @classmethod
    def of(cls, counting: Counting) -> Network:
        """Build it. Cost: one step for each record that a clause looks at."""
        return _Wiring(counting).network()


class _Wiring:
    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.net = Network()
        for atom in counting.atoms:
            self.net.offsets.append(self.net.size)
            self.net.size += atom.count
        self.conjunctions: dict[tuple[tuple[int, bool], ...], Ints] = {}
        self.shared: dict[tuple[object, ...], tuple[Ints, Ints]] = {}

    def network(self) -> Network:
        for number, count in enumerate(self.counting.counts):
            self.add(number, count)
        for tie in self.counting.ties:
            self.net.implied.append((self.instances(*tie.left, tie.pairs[0]), self.instances(*tie.right, tie.pairs[1])))
        for atoms in self.counting.exclusive:
            self.net.exclusive.append(np.stack([self.literals(a, True) for a in atoms]))
        return self.net

    def instances(self, atom: int, holds: bool, at: Ints) -> Ints:
        """The literals of some instances of an atom."""
        return 2 * (self.net.offsets[atom] + at) + (not holds)

    def literals(self, atom: int, holds: bool) -> Ints:
        """The literal of an atom on each record."""
        at = self.counting.atoms[atom].at
        found = np.where(at >= 0, 2 * (self.net.offsets[atom] + at), FALSE)
        return found if holds else found ^ 1

    def conjunction(self, wanted: tuple[tuple[int, bool], ...]) -> Ints:
        """The literal of a conjunction on each record."""
        if not wanted:
            return np.full(self.counting.n, TRUE, dtype=np.int64)
        if len(wanted) == 1:
            return self.literals(*wanted[0])
        if wanted not in self.conjunctions:
            inputs = np.stack([self.literals(*each) for each in wanted])
            out = 2 * (self.net.size + np.arange(self.counting.n, dtype=np.int64))
            self.net.size += self.counting.n
            self.net.ands.append(AndGate(out, inputs))
            self.conjunctions[wanted] = out
        return self.conjunctions[wanted]

    def formula(self, formula: Formula) -> tuple[Ints, Ints]:
        """(owners that can be counted, the literal of each)."""
        clauses = [(c, tuple(sorted(c.literals))) for c in formula.clauses]
        key = (formula.owner.tobytes(), *((wanted, c.rows.tobytes()) for c, wanted in clauses))
        if key not in self.shared:
            self.shared[key] = self._formula(formula, clauses)
        self.net.formulas[id(formula)] = self.shared[key]
        return self.shared[key]

    def _formula(
        self, formula: Formula, clauses: list[tuple[Clause, tuple[tuple[int, bool], ...]]]
    ) -> tuple[Ints, Ints]:
        owners, inputs = [], []
        for clause, wanted in clauses:
            rows = clause.rows[formula.owner[clause.rows] >= 0]
            owners.append(formula.owner[rows])
            inputs.append(self.conjunction(wanted)[rows])
        owner = np.concatenate(owners) if owners else np.zeros(0, dtype=np.int64)
        given = np.concatenate(inputs) if inputs else np.zeros(0, dtype=np.int64)
        both = np.unique(owner[given != FALSE] * (2 * self.net.size) + given[given != FALSE])  # the same literal once
        pairs = np.stack(np.divmod(both, 2 * self.net.size))
        who, starts, sizes = np.unique(pairs[0], return_index=True, return_counts=True)
        found = pairs[1][starts] if len(who) else np.zeros(0, dtype=np.int64)
        several = np.flatnonzero(sizes > 1)
        if len(several):
            inside = np.isin(pairs[0], who[several])
            out = 2 * (self.net.size + np.arange(len(several), dtype=np.int64))
            self.net.size += len(several)
            segment = np.searchsorted(who[several], pairs[0][inside])
            self.net.ors.append(OrGate(out, pairs[1][inside], segment))
            found = found.copy()
            found[several] = out
        return who, found

    def add(self, number: int, count: BoundedCount) -> None:
        """One sum: formulas with one coefficient for all stay 0/1."""
        made = [(self.formula(formula), coefficients) for formula, coefficients in count.formulas]
        literals = [found for (_, found), _ in made]
        joined = np.concatenate(literals) if literals else np.zeros(0, dtype=np.int64)
        weights: list[Fraction] = []
        if len(made) != 1 or made[0][1] is not None:
            for (who, _), coefficients in made:
                weights += [Fraction(1) if coefficients is None else coefficients[w] for w in who.tolist()]
        literals_once, times = np.unique(joined, return_counts=True)
        if not weights and (times > 1).any():  # several owners look at one row of another table
            joined, weights = literals_once, [Fraction(int(k)) for k in times]
        if not weights:
            lo, hi = whole_end(count.lo, up=True), whole_end(count.hi, up=False)
            self.net.sums.append(SumGate(number, joined, None, lo, hi))
            return
        scale = lcm(*(w.denominator for w in weights), 1)
        whole = np.array([int(w * scale) for w in weights], dtype=object)
        low, high = (None if end is None else end * scale for end in (count.lo, count.hi))
        self.net.sums.append(SumGate(number, joined, whole, whole_end(low, up=True), whole_end(high, up=False)))


def whole_end(end: Fraction | None, *, up: bool) -> int | None:
    """The next whole number inside."""
    if end is None:
        return None
    return -((-end.numerator) // end.denominator) if up else end.numerator // end.denominator
