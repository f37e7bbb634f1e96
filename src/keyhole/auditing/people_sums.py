"""An answer as a sum over people of what each adds to it, whatever the private conditions are.

SUM, COUNT and AVG with a public denominator add up, over records, coefficient x column where a condition holds. What of
the condition is public is decided for each record; the rest, its *residual*, is a function of private things. Two
answers that add up the same column under the same residual on the same records add up the same number, known or not:
one unknown for each (records that the log treats alike, column, residual). These are linear equations for sums under
EXISTS, under conditions on private columns and for counts alike; that unknowns are tied otherwise is not used, so what
follows is sound, and not all there is. Cost: a step for each (answer, class of records that it looks at).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.datasets import Roster
from keyhole.errors import UnsupportedQuery
from keyhole.gather.answers import interval, radius
from keyhole.gather.evidence import Evidence
from keyhole.model.forms import find_private_leaves
from keyhole.model.people import Conjunct, Literals, list_conjuncts
from keyhole.model.predicate import Has, IsNull, Opaque, Predicate, quote_name
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Role
from keyhole.model.transcript import Entry

Residual: TypeAlias = frozenset[Literals]  # it holds iff all literals of one of these hold; {{}} is TRUE, {} FALSE
SURE: Residual = frozenset((frozenset(),))
NEVER: Residual = frozenset()
Columns: TypeAlias = Mapping[int, Fraction]
MOST_ENTRIES = 1_000_000  # coefficients that are written down


@dataclass(frozen=True, slots=True)
class Summand:
    """What is added up of a record: its column (None: one) to a power, where the residual holds."""

    column: str | None
    power: int
    residual: Residual


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """lo <= sum of coefficient x unknown <= hi; `exact`: lo = hi up to the dust of floating-point sums.

    The sum is `scale` x the answer as it was printed - `offset`.
    """

    number: str
    coefficients: Columns
    lo: Fraction
    hi: Fraction
    exact: bool
    scale: Fraction
    offset: Fraction


@dataclass(frozen=True, slots=True)
class Unknown:
    """An addend over the records of one atom of a class of people whom the log does not tell apart."""

    people: int
    atom: int
    addend: Summand


class TooManyCoefficients(Exception):
    """More coefficients than are written down."""


class PeopleSums:
    """The unknowns and equations of a log. `person[r]` is whose record r is (-1: nobody's), `alone` the people of
    whom no other looks the same to the log, by class."""

    def __init__(self, evidence: Evidence, roster: Roster) -> None:
        self.evidence, self.roster, self.schema = evidence, roster, roster.schema
        self.secret = frozenset(c.name for c in self.schema.columns if c.secret)
        left = {u.number for u in evidence.unjudged}
        noisy = (e for e in evidence.transcript.entries if e.answer is not None and e.answer.noise is None)
        self.entries = [e for e in noisy if e.number not in left and looks_at_secrets(e.query, self.secret)]
        self._split: dict[Predicate, tuple[Conjunct, ...]] = {}
        self.entries = [e for e in self.entries if self._splits(e.query)]
        wheres = [where for e in self.entries for where in _wheres(e.query)]
        conditions = dict.fromkeys(c.public for where in wheres for c in self.split(where))
        self.null = {c.name: IsNull(c.name) for c in self.schema.columns if c.secret and c.nullable}
        conditions |= dict.fromkeys(self.null.values())
        weights = dict.fromkeys(t.weight for e in self.entries for t in _terms(e.query) if _weighted(e.query, t))
        self.atoms: Atoms = roster.atoms(tuple(conditions), tuple(w for w in weights if w is not None))
        self.person = self._owners()
        self.of_class, self.alone = _classes(self.person, self.atoms.of)
        self.places = _places(self.of_class, self.atoms.of)
        self.unknowns: list[Unknown] = []
        self._number: dict[Unknown, int] = {}
        self._residuals: dict[Predicate, list[tuple[Residual, NDArray[np.int64]]]] = {}
        self._written = 0

    def split(self, where: Predicate) -> tuple[Conjunct, ...]:
        """A condition by what of it is public."""
        if where not in self._split:
            self._split[where] = list_conjuncts(where, self.secret)
        return self._split[where]

    def _splits(self, query: Query) -> bool:
        try:
            for where in _wheres(query):
                self.split(where)
        except UnsupportedQuery:
            return False
        return True

    def _owners(self) -> NDArray[np.int64]:
        ids = [quote_name(c.name) for c in self.schema.of_role(Role.ID)]
        return self.roster.classes(ids) if ids else np.arange(self.roster.n, dtype=np.int64)

    def residuals(self, where: Predicate) -> list[tuple[Residual, NDArray[np.int64]]]:
        """What is left of a condition in each atom where something is: (residual, atoms)."""
        if where not in self._residuals:
            parts = self.split(where)
            held = np.stack([self._may_hold(c) for c in parts]) if parts else np.zeros((0, self.atoms.K), bool)
            patterns, which = np.unique(held, axis=1, return_inverse=True)
            found = []
            for i, pattern in enumerate(patterns.T):
                chosen = [c.literals for c, here in zip(parts, pattern.tolist(), strict=True) if here]
                if residual := _shortest(chosen):
                    found.append((residual, np.flatnonzero(which.ravel() == i)))
            self._residuals[where] = found
        return self._residuals[where]

    def _may_hold(self, part: Conjunct) -> NDArray[np.bool_]:
        """In which atoms its public condition holds, and no column that must satisfy something is NULL."""
        found: NDArray[np.bool_] = self.atoms.mask(part.public)
        for leaf, holds in part.literals:
            if holds and not isinstance(leaf, Has | Opaque) and leaf.column in self.null:
                found = found & ~self.atoms.mask(self.null[leaf.column])
        return found

    def equations(self) -> Iterator[Equation]:
        """Every answer that is linear in what people add to it."""
        for entry in self.entries:
            found = self._equation(entry)
            if found is not None and found.coefficients:
                yield found

    def _equation(self, entry: Entry) -> Equation | None:
        query, answer = entry.query, entry.answer
        if query.aggregate is not Aggregate.SUM or query.test is not None or answer is None or answer.lo is None:
            return None
        scale = Fraction(1)
        if query.per:
            below = self.known_sum(query.per)
            if not below:
                return None
            scale = below
        dust = radius(query, answer.lo, self.roster.n, self.schema, self.evidence.knowledge)
        about = interval(query, answer, dust)
        if about.lo is None or about.hi is None:
            return None
        coefficients: dict[int, Fraction] = {}
        offset = Fraction(0)
        for term in query.terms:
            offset += self._add(term, coefficients)
        lo, hi = sorted((about.lo * scale - offset, about.hi * scale - offset))
        return Equation(entry.number, {u: c for u, c in coefficients.items() if c}, lo, hi, about.exact, scale, offset)

    def known_sum(self, terms: Sequence[Term]) -> Fraction | None:
        """A sum of public things under public conditions; None if it is not such a sum."""
        total = Fraction(0)
        for term in terms:
            if term.column is not None:
                return None
            for residual, atoms in self.residuals(term.where):
                if residual != SURE:
                    return None
                sizes = self.atoms.sizes[atoms].tolist()
                total += sum((w * n for w, n in zip(self._times(term, atoms), sizes, strict=True)), Fraction(0))
        return total

    def _times(self, term: Term, atoms: NDArray[np.int64]) -> list[Fraction]:
        if term.weight is None:
            return [term.factor] * len(atoms)
        found = self.atoms.weight(term.weight)
        return [term.factor * Fraction(int(v), int(found.over)) for v in found.values[atoms]]

    def _add(self, term: Term, into: dict[int, Fraction]) -> Fraction:
        """Adds what a term adds up; what of it is public is returned."""
        public = Fraction(0)
        for residual, atoms in self.residuals(term.where):
            times = self._times(term, atoms)
            if term.column is None and residual == SURE:
                public += sum((w * int(n) for w, n in zip(times, self.atoms.sizes[atoms], strict=True)), Fraction(0))
                continue
            addend = Summand(term.column, term.power, residual)
            for atom, weight in zip(atoms.tolist(), times, strict=True):
                self._written += len(self.places[atom])
                if self._written > MOST_ENTRIES:
                    raise TooManyCoefficients
                for people in self.places[atom]:
                    number = self._numbered(Unknown(people, atom, addend))
                    into[number] = into.get(number, Fraction(0)) + weight
        return public

    def _numbered(self, unknown: Unknown) -> int:
        if unknown not in self._number:
            self._number[unknown] = len(self.unknowns)
            self.unknowns.append(unknown)
        return self._number[unknown]

    def rows(self, person: int, atom: int) -> list[int]:
        """The records of somebody in an atom."""
        return np.flatnonzero((self.person == person) & (self.atoms.of == atom)).tolist()

    def candidates(self, query: Query) -> NDArray[np.int64]:
        """The records that a query may look at, by what is public."""
        chosen = np.zeros(self.atoms.K, dtype=np.bool_)
        for where in _wheres(query):
            for _, atoms in self.residuals(where):
                chosen[atoms] = True
        return np.flatnonzero(chosen[self.atoms.of])


def looks_at_secrets(query: Query, secret: frozenset[str]) -> bool:
    """Is it more than a public figure?"""
    return query.aggregate is not Aggregate.PUBLIC or any(
        find_private_leaves(where, secret) for where in _wheres(query)
    )


def _terms(query: Query) -> tuple[Term, ...]:
    return (*query.terms, *query.per)


def _wheres(query: Query) -> tuple[Predicate, ...]:
    return (*(t.where for t in _terms(query)), *query.needs)


def _weighted(query: Query, term: Term) -> bool:
    return query.aggregate not in (Aggregate.PEOPLE, Aggregate.PUBLIC) and term.weight is not None


def _shortest(chosen: Iterable[Literals]) -> Residual:
    """Without what another one holds whenever it does."""
    found = set(chosen)
    return frozenset(c for c in found if not any(other < c for other in found))


def _classes(person: NDArray[np.int64], atom: NDArray[np.int32]) -> tuple[NDArray[np.int64], dict[int, int]]:
    """(class of each record: its person's, whose records lie in the same atoms; class -> person where he is alone)."""
    order = np.lexsort((atom, person))
    owner = person[order]
    starts = np.flatnonzero(np.diff(owner, prepend=-2))
    numbers: dict[bytes, int] = {}
    of = np.zeros(len(person), dtype=np.int64)
    members: dict[int, list[int]] = {}
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        mine = order[start:end]
        who = int(owner[start])
        key = atom[mine].tobytes() if who >= 0 else b"nobody"
        number = numbers.setdefault(key, len(numbers))
        of[mine] = number
        members.setdefault(number, []).append(who)
    return of, {c: who[0] for c, who in members.items() if len(who) == 1 and who[0] >= 0}


def _places(of_class: NDArray[np.int64], atom: NDArray[np.int32]) -> dict[int, list[int]]:
    """The classes of people that have records in an atom."""
    pairs = np.unique(np.stack([atom.astype(np.int64), of_class]), axis=1)
    found: dict[int, list[int]] = {int(k): [] for k in np.unique(atom)}
    for k, people in pairs.T.tolist():
        found[k].append(people)
    return found
