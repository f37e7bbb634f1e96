"""Second tables by exchange: two people whom the log does not tell apart swap all that is private of them.

Their records lie in the same atoms, so every statement of the log, whatever it computes of private things, answers as
before: the true table with two people exchanged is another one with the same answers. A function of somebody's private
things is open if it is not the same for all people whom he may be exchanged with. Shown here, of each class of such
people: no sum over their records is the same for all (the vectors of their values span the whole space, an exact rank
modulo a prime), nor whether some record of theirs satisfies what the log asks, nor what a statement that is no sum
would answer of each of them alone. Needs the true table, and answers that are those of it.
Cost: a pass over the records for each condition; a rank for each class, of as many people as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.people_sums import SURE, PeopleSums, Residual, Summand
from keyhole.datasets import PrivateValues, Source
from keyhole.encode.states import key_pattern
from keyhole.gather.answers import finish
from keyhole.model.cells import partition_column
from keyhole.model.predicate import Has, Leaf, Opaque, quote_name
from keyhole.model.query import Aggregate, Query
from keyhole.model.transcript import Answer
from keyhole.solve.rowspace.null_vectors import PRIME, null_space

Column = NDArray[np.int64]  # of each record, a residue
MOST_RECORDS = 12  # of one person, up to which his values are looked at together
MOST_QUERIES = 5_000
SPARE = 40  # people beyond the number of values, whose vectors are tried for a rank

NO_TRUTH = (
    "what private conditions tell of people with several records is not shown to leave them open: without the data"
)
FACTS = "facts about single people are known, so that people cannot be exchanged"
ALONE = "somebody with several records or rows differs from everybody else, and is not shown to be open"
ALIKE = "people with several records or rows, whom the log does not tell apart, are alike in something"
FIGURE = "public figures under conditions on private things were asked, and people of different figures are no pair"
OTHER = "the answers are not those of the data, so that people cannot be exchanged in it"


class Exchange:
    """Shows people open by exchanging them; `gap` says why not all are, empty if they are."""

    def __init__(self, sums: PeopleSums, source: Source | None) -> None:
        self.sums, self.source = sums, source
        self.schema = sums.schema
        self._truths: dict[Leaf, NDArray[np.int8]] = {}
        self._values: dict[str, PrivateValues] = {}
        self._residuals: dict[Residual, set[int]] = {}
        self._residue_of: dict[str, Column] = {}
        self._added: dict[Summand, Column] = {}
        self._held: dict[Residual, NDArray[np.bool_]] = {}
        self._kept: dict[tuple[Leaf, ...], list[int]] = {}
        self._keyed: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def gap(self) -> str:
        """Why somebody is not shown to be open, as the end of a sentence."""
        if self.source is None:
            return NO_TRUTH
        if self.sums.evidence.knowledge.facts:
            return FACTS
        if any(not r.dimension and not r.secret for r in self.schema.related):
            return "who has rows in a table is public, so that people with different rows cannot be exchanged"
        leaves, addends, others, touched = self._asked()
        if any(isinstance(leaf, Opaque) for leaf in leaves):
            return ALIKE
        if any(e.query.aggregate is Aggregate.PUBLIC for e in self.sums.entries):
            return FIGURE
        for people in self._classes(leaves, touched):
            why = self._class_gap(people, leaves, addends, others)
            if why:
                return why
        return "" if self._answers_are_true() else OTHER

    # what the log asks

    def _asked(
        self,
    ) -> tuple[dict[Leaf, set[int]], dict[Summand, set[int]], list[tuple[Query, set[int]]], set[int]]:
        """The atoms in which a condition, a sum, a statement that is no sum, and anything private is asked."""
        leaves: dict[Leaf, set[int]] = {}
        addends: dict[Summand, set[int]] = {}
        others: list[tuple[Query, set[int]]] = []
        everywhere: set[int] = set()
        for entry in self.sums.entries:
            query = entry.query
            touched: set[int] = set()
            for term in (*query.terms, *query.per):
                for residual, atoms in self.sums.residuals(term.where):
                    here = set(atoms.tolist())
                    if residual != SURE:
                        self._residuals.setdefault(residual, set()).update(here)
                    for leaf in (x for literals in residual for x, _ in literals):
                        leaves.setdefault(leaf, set()).update(here)
                    if term.column is not None and self._number(term.column):
                        addends.setdefault(Summand(term.column, term.power, SURE), set()).update(here)
                        addends.setdefault(Summand(term.column, term.power, residual), set()).update(here)
                    if term.column is not None or residual != SURE:
                        touched |= here
            everywhere |= touched
            if touched and (query.aggregate is not Aggregate.SUM or query.test is not None):
                others.append((query, touched))
        return leaves, addends, others, everywhere

    def _number(self, name: str) -> bool:
        column = self.schema.find(name)
        return column is not None and column.kind.numeric

    # whom one may be exchanged with

    def _classes(self, leaves: dict[Leaf, set[int]], touched: set[int]) -> Iterator[NDArray[np.int64]]:
        """People with records in the same atoms and rows shared alike, as people x records."""
        person, atom = self.sums.person, self.sums.atoms.of
        shared = [self._instances(leaf) for leaf in leaves if isinstance(leaf, Has)]
        counted = (e.query.terms[0].weight for e in self.sums.entries if e.query.aggregate is Aggregate.PEOPLE)
        shared += [self._looked_at((sql,)) for sql in dict.fromkeys(counted) if sql is not None]
        order = np.lexsort((atom, person))
        starts = np.flatnonzero(np.diff(person[order], prepend=-2))
        found: dict[tuple[object, ...], list[NDArray[np.int64]]] = {}
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            rows = order[start:end]
            if touched.isdisjoint(atom[rows].tolist()):
                continue
            key: tuple[object, ...] = (atom[rows].tobytes(), *(key_pattern(at[rows]) for at in shared))
            alone = int(person[rows[0]]) < 0 or any((at[rows] == -2).any() for at in shared)
            found.setdefault((*key, int(rows[0])) if alone else key, []).append(rows)
        for people in found.values():
            yield np.stack(people)

    def _instances(self, leaf: Has) -> NDArray[np.int64]:
        return self._looked_at(tuple(quote_name(mine) for mine, _ in leaf.on))

    def _looked_at(self, keys: tuple[str, ...]) -> NDArray[np.int64]:
        """Which key a record has: -1 none, -2 one that another person has too."""
        if keys not in self._keyed:
            self._keyed[keys] = self._of_keys(keys)
        return self._keyed[keys]

    def _of_keys(self, keys: tuple[str, ...]) -> NDArray[np.int64]:
        at = self.sums.roster.classes(keys)
        keyed = at >= 0
        least = np.full(int(at.max(initial=-1)) + 1, np.iinfo(np.int64).max)
        most = np.full(len(least), -1)
        np.minimum.at(least, at[keyed], self.sums.person[keyed])
        np.maximum.at(most, at[keyed], self.sums.person[keyed])
        shared = keyed.copy()
        shared[keyed] = least[at[keyed]] != most[at[keyed]]
        return np.where(shared, -2, at)

    # are they different in everything?

    def _class_gap(
        self,
        people: NDArray[np.int64],
        leaves: dict[Leaf, set[int]],
        addends: dict[Summand, set[int]],
        others: Sequence[tuple[Query, set[int]]],
    ) -> str:
        if len(people) < 2 or people.shape[1] > MOST_RECORDS:
            return ALONE
        atoms = self.sums.atoms.of[people[0]].tolist()
        columns: list[Column] = []
        for addend, there in addends.items():
            columns += [self._sum(addend)[people[:, j]] for j, k in enumerate(atoms) if k in there]
        chosen = self._independent(leaves, set(atoms))
        seen: set[tuple[Leaf, int]] = set()
        for leaf, there in leaves.items():
            asked = [j for j, k in enumerate(atoms) if k in there and self._own(leaf, people[0, j])]
            if not asked:
                continue
            truths = self._truth(leaf)[people[:, asked]] == 1
            if any(len(np.unique(each)) < 2 for each in truths.T):
                return ALIKE
            for j in asked if leaf in chosen else ():
                at = self._instances(leaf)[people[0, j]] if isinstance(leaf, Has) else people[0, j]
                if (leaf, int(at)) not in seen:
                    seen.add((leaf, int(at)))
                    columns.append((self._truth(leaf)[people[:, j]] == 1).astype(np.int64))
        for residual, there in self._residuals.items():
            asked = [j for j, k in enumerate(atoms) if k in there]
            if asked and len(np.unique(self._holds(residual)[people[:, asked]].any(axis=1))) < 2:
                return ALIKE
        if columns and not _spans(np.stack(columns, axis=1)):
            return ALIKE
        return "" if all(self._differ(query, people, atoms, there) for query, there in others) else ALIKE

    def _independent(self, leaves: dict[Leaf, set[int]], atoms: set[int]) -> set[Leaf]:
        """The conditions without those that follow from the others whatever a value is: one of all categories."""
        asked = [leaf for leaf, there in leaves.items() if there & atoms]
        found: set[Leaf] = {leaf for leaf in asked if isinstance(leaf, Has)}
        own = [leaf for leaf in asked if not isinstance(leaf, Has | Opaque)]
        for name in {leaf.column for leaf in own}:
            mine = tuple(leaf for leaf in own if leaf.column == name)
            if mine not in self._kept:
                column = self.schema.find(name)
                assert column is not None
                cells = [c for c in partition_column(column, mine, self.sums.evidence.prior(name)).cells if not c.null]
                self._kept[mine] = _pivots(np.array([[t is True for t in c.truths] for c in cells], dtype=np.int64))
            found |= {mine[i] for i in self._kept[mine]}
        return found

    def _own(self, leaf: Leaf, row: int) -> bool:
        """Is a condition open for this record: has it a key, or a value that is not NULL?"""
        return self._truth(leaf)[row] >= 0 and (not isinstance(leaf, Has) or self._instances(leaf)[row] >= 0)

    def _differ(self, query: Query, people: NDArray[np.int64], atoms: list[int], there: set[int]) -> bool:
        """Would a statement that is no sum answer differently of each of them alone?"""
        asked = [j for j, k in enumerate(atoms) if k in there]
        if not asked:
            return True
        holds = np.zeros((len(people), len(asked)), dtype=np.bool_)
        for residual, where in self.sums.residuals(query.terms[0].where):
            inside = np.isin(self.sums.atoms.of[people[:, asked]], where)
            holds |= inside & self._holds(residual)[people[:, asked]]
        column = query.terms[0].column
        if column is None:
            return len(np.unique(holds.any(axis=1))) > 1
        if query.aggregate is Aggregate.SUM:
            return True  # sums over his records differ, which is shown of all of them together
        seen = set()
        values = self._exact(column)
        for rows, chosen in zip(people[:, asked].tolist(), holds.tolist(), strict=True):
            seen.add(_statistic(query, sorted(values(r) for r, h in zip(rows, chosen, strict=True) if h)))
            if len(seen) > 1:
                return True
        return False

    # values in the true table

    def _truth(self, leaf: Leaf) -> NDArray[np.int8]:
        if leaf not in self._truths:
            assert self.source is not None
            self._truths[leaf] = self.source.truths([leaf])[leaf]
        return self._truths[leaf]

    def _holds(self, residual: Residual) -> NDArray[np.bool_]:
        if residual in self._held:
            return self._held[residual]
        found = self._held[residual] = np.zeros(self.sums.roster.n, dtype=np.bool_)
        for literals in residual:
            each = np.ones(self.sums.roster.n, dtype=np.bool_)
            for leaf, holds in literals:
                each &= (self._truth(leaf) == 1) == holds
            found |= each
        return found

    def _private(self, name: str) -> PrivateValues:
        if name not in self._values:
            assert self.source is not None
            self._values[name] = self.source.values(name)
        return self._values[name]

    def _residues(self, name: str) -> Column:
        if name not in self._residue_of:
            self._residue_of[name] = self._made_residues(name)
        return self._residue_of[name]

    def _made_residues(self, name: str) -> Column:
        held = self._private(name)
        if held.units is not None:
            found = np.array([int(u) % PRIME for u in held.units], dtype=np.int64)
        else:
            found = np.array([_residue(float(v)) for v in held.floats], dtype=np.int64)
        return np.where(held.present, found, 0)

    def _exact(self, name: str) -> Callable[[int], Fraction]:
        held = self._private(name)
        if held.units is None:
            return lambda row: Fraction(float(held.floats[row]))
        units = held.units
        return lambda row: Fraction(int(units[row]), 10**held.digits)

    def _sum(self, addend: Summand) -> Column:
        """What a record adds, modulo the prime."""
        if addend not in self._added:
            found = self._residues(addend.column or "")
            if addend.power == 2:
                found = found * found % PRIME
            self._added[addend] = np.where(self._holds(addend.residual), found, 0)
        return self._added[addend]

    def _answers_are_true(self) -> bool:
        """Are the answers of the log those of the data?"""
        if len(self.sums.entries) > MOST_QUERIES:
            return False
        source = self.source
        assert source is not None
        return all(e.answer is not None and answers_truly(source, e.query, e.answer) for e in self.sums.entries)


def answers_truly(source: Source, query: Query, answer: Answer) -> bool:
    """Is an answer that of the data, up to floating point?"""
    value = source.evaluate(replace(query, test=None, digits=None))
    if value is None or answer.null:
        return value is None and answer.null
    told = finish(Fraction(value), Fraction(0), query)
    if isinstance(answer.value, bool):
        return told.value == answer.value
    dust = abs(Fraction(value)) / 10**9
    low = answer.lo is None or answer.lo <= Fraction(value) + dust
    return low and (answer.hi is None or answer.hi >= Fraction(value) - dust)


def _statistic(query: Query, values: Sequence[Fraction]) -> Fraction | None:
    """An order statistic, or a variance, of one person's sorted values; None of nobody's.

    >>> from keyhole.model.query import Term
    >>> _statistic(Query(Aggregate.MEDIAN, (Term("x"),)), [Fraction(1), Fraction(4)])
    Fraction(5, 2)
    """
    if not values:
        return None
    k = len(values)
    if query.aggregate in (Aggregate.MIN, Aggregate.MAX):
        return values[0 if query.aggregate is Aggregate.MIN else -1]
    if query.aggregate is Aggregate.VAR:
        return sum((v * v for v in values), Fraction(0)) / k - (sum(values, Fraction(0)) / k) ** 2
    if query.aggregate is Aggregate.QUANTILE_DISC:
        return values[max(ceil(query.level * k) - 1, 0)]
    at = query.level * (k - 1)
    low = floor(at)
    return values[low] + (at - low) * (values[min(low + 1, k - 1)] - values[low])


def _residue(value: float) -> int:
    top, per = value.as_integer_ratio()
    return top * pow(per, -1, PRIME) % PRIME


def _pivots(truths: NDArray[np.int64]) -> list[int]:
    """Columns whose differences over the rows no others add up to.

    >>> _pivots(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]]))
    [0, 1]
    """
    kept: list[int] = []
    for j in range(truths.shape[1]):
        some = truths[:, [*kept, j]]
        if null_space((some[1:] - some[0]) % PRIME)[0] > len(kept):
            kept.append(j)
    return kept


def _spans(vectors: NDArray[np.int64]) -> bool:
    """Do the differences of these rows span the whole space?

    >>> _spans(np.array([[1, 0], [0, 1], [1, 1]])), _spans(np.array([[1, 0], [0, 1], [2, -1]]))
    (True, False)
    """
    distinct = np.unique(vectors, axis=0)
    d = distinct.shape[1]
    if len(distinct) <= d:
        return False
    chosen = distinct[np.linspace(0, len(distinct) - 1, min(len(distinct), d + SPARE)).astype(np.int64)]
    return bool(null_space((chosen[1:] - chosen[0]) % PRIME)[0] == d)
