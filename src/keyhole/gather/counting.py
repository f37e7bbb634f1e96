"""Counts of people under private conditions as sums of formulas over records: what their answers say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from keyhole.basis import Atoms
from keyhole.datasets import Roster, Source
from keyhole.errors import UnsupportedQuery
from keyhole.gather.answers import finish, interval, radius
from keyhole.gather.evidence import Notes
from keyhole.model.forms import find_private_leaves
from keyhole.model.numbers import round_fraction
from keyhole.model.people import Atom, BoundedCount, Clause, Conjunct, Counting, Formula, Ints, Tied, list_conjuncts
from keyhole.model.predicate import (
    TRUE,
    And,
    Comparison,
    Has,
    IsNull,
    Leaf,
    Membership,
    Predicate,
    PrivateLeaf,
    Scalar,
    evaluate_leaf,
    format_predicate,
    make_and,
    quote_name,
)
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.query import Aggregate, Query
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.model.transcript import Answer, Entry

EXTREMES = (Aggregate.MIN, Aggregate.MAX)
NOT_SUMMED = "a sum of private values under a condition on rows of people is not judged: ask how many they are"


def counts_people(query: Query, schema: Schema, secret: frozenset[str]) -> bool:
    """Is a query judged here: does it count people, or pick public figures, by conditions on private things?"""
    wheres = [*(t.where for t in (*query.terms, *query.per)), *query.needs]
    found = [leaf for where in wheres for leaf in find_private_leaves(where, secret)]
    if any(isinstance(leaf, Has) for leaf in found) or query.aggregate is Aggregate.PEOPLE:
        return True
    if not schema.people or not found or query.aggregate is Aggregate.PUBLIC:
        return False
    if query.aggregate in EXTREMES:
        return True
    return query.aggregate is Aggregate.SUM and not query.columns


def counting(
    entries: Sequence[Entry], roster: Roster, knowledge: Knowledge, source: Source | None, notes: Notes
) -> Counting | None:
    """All such queries as sums over formulas; None if there are none."""
    return _CountReader(roster, knowledge, source, notes).read(entries) if entries else None


class _CountReader:
    def __init__(self, roster: Roster, knowledge: Knowledge, source: Source | None, notes: Notes) -> None:
        self.roster, self.knowledge, self.source, self.notes = roster, knowledge, source, notes
        self.schema = roster.schema
        self.secret = frozenset(c.name for c in self.schema.columns if c.secret)
        self.owners: dict[tuple[str, ...], Ints] = {}
        self.atoms: dict[PrivateLeaf, int] = {}
        self.made: list[Atom] = []
        self.public: Atoms | None = None

    def read(self, entries: Sequence[Entry]) -> Counting:
        asked: list[tuple[Entry, Answer | None]] = []
        for entry in entries:
            answer = entry.answer if entry.answer is not None else self.answer(entry)
            if answer is not None:
                self.notes.answers[entry.number] = answer
            asked.append((entry, answer))
        said = [(entry, found) for entry, answer in asked if (found := self.said(entry, answer)) is not None]
        conditions = [c.public for _, sums in said for s in sums for _, where, _ in s.items for c in self.split(where)]
        nulls = [IsNull(c.name) for c in self.schema.columns if c.secret and c.nullable]
        weights = dict.fromkeys(w for _, sums in said for s in sums for _, _, w in s.items if w is not None)
        wanted = tuple(dict.fromkeys([*conditions, *nulls]))
        self.public = self.roster.atoms(wanted, tuple(weights))
        counts = [c for entry, sums in said for c in self.counted(entry.number, sums)]
        ids = [quote_name(c.name) for c in self.schema.of_role(Role.ID)]
        person = self.owner(*ids) if ids else np.arange(self.roster.n, dtype=np.int64)
        atoms = tuple(self.made)
        return Counting(
            self.roster.n,
            person,
            int(person.max(initial=-1)) + 1,
            atoms,
            tuple(counts),
            ties(atoms, self.schema, self.knowledge),
            exclusive(atoms, self.schema),
            frozenset(entry.number for entry, _ in said),
        )

    def answer(self, entry: Entry) -> Answer | None:
        """The true answer, by the engine."""
        if self.source is None:
            return None
        value = self.source.evaluate(replace(entry.query, test=None, digits=None))
        return finish(None if value is None else Fraction(value), Fraction(0), entry.query)

    def split(self, where: Predicate) -> tuple[Conjunct, ...]:
        return list_conjuncts(where, self.secret)

    # what an answer says

    def said(self, entry: Entry, answer: Answer | None) -> list[_Said] | None:
        """The sums that an answer bounds; None if it is not judged."""
        query = entry.query
        try:
            for term in (*query.terms, *query.per):
                self.split(term.where)
            if answer is None:
                self.notes.leave(entry, "a count of people without its answer")
                return None
            if answer.noise is not None and not answer.noise.bounded:
                return []  # judged: it proves nothing
            if answer.null:
                return self.nobody(entry)
            if query.aggregate is Aggregate.PEOPLE:
                return self.between(query, answer, [_item(query, 0)])
            if query.aggregate in EXTREMES:
                return self.extreme(entry, answer)
            if query.aggregate is not Aggregate.SUM or query.columns:
                return self.somebody(entry)
            return self.ratio(query, answer) if query.per else self.linear(query, answer)
        except UnsupportedQuery as error:
            self.notes.leave(entry, str(error))
            return None

    def nobody(self, entry: Entry) -> list[_Said] | None:
        query = entry.query
        needs = query.needs or tuple(t.where for t in (query.per or query.terms))
        if len(needs) != 1:
            self.notes.leave(entry, "an answer NULL does not say which of its sums was over nobody")
            return None
        return [_Said([(Fraction(1), needs[0], None)], Fraction(0), Fraction(0))]

    def somebody(self, entry: Entry) -> list[_Said] | None:
        """A figure that is not NULL is over somebody; nothing more is used of it."""
        needs = entry.query.needs or tuple(t.where for t in entry.query.terms)
        if len(needs) != 1 or entry.query.test is not None:
            self.notes.leave(entry, NOT_SUMMED)
            return None
        return [_Said([(Fraction(1), needs[0], None)], Fraction(1), None)]

    def between(self, query: Query, answer: Answer, items: list[_Item]) -> list[_Said]:
        about = interval(query, answer, self.dust(query, answer))
        owner = query.terms[0].weight if query.aggregate is Aggregate.PEOPLE else None
        return [_Said(items, about.lo, about.hi, owner)]

    def linear(self, query: Query, answer: Answer) -> list[_Said]:
        return self.between(query, answer, [_item(query, i) for i in range(len(query.terms))])

    def ratio(self, query: Query, answer: Answer) -> list[_Said]:
        """top / per in [lo, hi], over somebody: top - lo * per >= 0 and top - hi * per <= 0."""
        about = interval(query, answer, self.dust(query, answer))
        top = [(t.factor, t.where, t.weight) for t in query.terms]
        if any(t.factor < 0 or t.weight is not None for t in query.per):
            raise UnsupportedQuery("a quotient whose denominator may be negative is not judged")
        found = []
        for end, lo in ((about.lo, True), (about.hi, False)):
            if end is not None:
                below = [(-end * t.factor, t.where, t.weight) for t in query.per]
                found.append(_Said([*top, *below], Fraction(0) if lo else None, None if lo else Fraction(0)))
        return [*found, _Said([(Fraction(1), t.where, None) for t in query.per], Fraction(1), None)]

    def dust(self, query: Query, answer: Answer) -> Fraction:
        if query.aggregate is not Aggregate.SUM or answer.lo is None:
            return Fraction(0)
        return radius(query, answer.lo, self.roster.n, self.schema, self.knowledge)

    def extreme(self, entry: Entry, answer: Answer) -> list[_Said] | None:
        """MIN or MAX: nobody lies beyond it, somebody at it."""
        query, term = entry.query, entry.query.terms[0]
        if query.digits is not None or query.test is not None or answer.lo is None or answer.lo != answer.hi:
            return self.somebody(entry)
        at, above = answer.lo / term.factor, (query.aggregate is Aggregate.MAX) == (term.factor > 0)
        if term.column is None:
            return [_Said([(Fraction(1), term.where, term.weight)], at=at, above=above)]
        column = self.schema.find(term.column)
        if column is None or column.kind not in (Kind.INTEGER, Kind.DECIMAL) or not isinstance(answer.value, Decimal):
            return self.somebody(entry)
        shown = (
            int(at)
            if column.kind is Kind.INTEGER and at.denominator == 1
            else answer.value / round_fraction(term.factor)
        )
        beyond = make_and(term.where, Comparison(column.name, ">" if above else "<", shown))
        there = make_and(term.where, Comparison(column.name, "=", shown))
        return [
            _Said([(Fraction(1), beyond, None)], Fraction(0), Fraction(0)),
            _Said([(Fraction(1), there, None)], Fraction(1), None),
        ]

    # over records

    def counted(self, number: str, sums: Sequence[_Said]) -> Iterator[BoundedCount]:
        for each in sums:
            if each.at is None:
                parts = tuple(self.part(each, item) for item in each.items)
                yield BoundedCount(number, parts, each.lo, each.hi)
                continue
            (_, where, weight), *_ = each.items
            values = self.weights(weight or "")
            far = values > each.at if each.above else values < each.at
            for chosen, lo, hi in ((far, Fraction(0), Fraction(0)), (values == each.at, Fraction(1), None)):
                yield BoundedCount(number, ((self.formula(where, None, chosen), None),), lo, hi)

    def part(self, said: _Said, item: _Item) -> tuple[Formula, tuple[Fraction, ...] | None]:
        factor, where, weight = item
        formula = self.formula(where, said.owner, None)
        if said.owner is not None or (weight is None and factor == 1):
            return formula, None if factor == 1 else (factor,) * formula.owners
        if weight is None:
            return formula, (factor,) * formula.owners
        return formula, tuple(factor * w for w in self.weights(weight))

    def weights(self, sql: str) -> np.ndarray:
        assert self.public is not None
        found = self.public.weight(sql)
        each = np.array([Fraction(int(v), int(found.over)) for v in found.values], dtype=object)
        spread: np.ndarray = each[self.public.of]
        return spread

    def formula(self, where: Predicate, owner: str | None, chosen: np.ndarray | None) -> Formula:
        assert self.public is not None
        clauses = []
        for each in self.split(where):
            rows = self.public.mask(each.public)[self.public.of]
            if chosen is not None:
                rows = rows & chosen.astype(np.bool_)
            literals = tuple(sorted((self.atom(leaf), holds) for leaf, holds in each.literals))
            clauses.append(
                Clause(np.flatnonzero(rows), literals, format_predicate(each.public) if chosen is None else "")
            )
        of = np.arange(self.roster.n, dtype=np.int64) if owner is None else self.owner(owner)
        return Formula(tuple(clauses), of, int(of.max(initial=-1)) + 1, owner)

    def owner(self, *expressions: str) -> Ints:
        if expressions not in self.owners:
            self.owners[expressions] = self.roster.classes(expressions)
        return self.owners[expressions]

    def atom(self, leaf: PrivateLeaf) -> int:
        if leaf not in self.atoms:
            self.atoms[leaf] = len(self.made)
            self.made.append(self._atom(leaf))
        return self.atoms[leaf]

    def _atom(self, leaf: PrivateLeaf) -> Atom:
        n = self.roster.n
        if isinstance(leaf, Has):
            at = self.owner(*(quote_name(mine) for mine, _ in leaf.on))
            return Atom(leaf, at, int(at.max(initial=-1)) + 1)
        at = np.arange(n, dtype=np.int64)
        column = self.schema.find(leaf.column)
        if column is not None and column.nullable:
            assert self.public is not None
            null = self.public.mask(IsNull(column.name))[self.public.of]
            at = np.where(null, -1, at)
        return Atom(leaf, at, n)


_Item = tuple[Fraction, Predicate, str | None]  # factor, condition, public weight


class _Said:
    """lo <= sum of the items <= hi over owners; or, with `at`, the greatest (`above`) or least weight is `at`."""

    __slots__ = ("above", "at", "hi", "items", "lo", "owner")

    def __init__(
        self,
        items: list[_Item],
        lo: Fraction | None = None,
        hi: Fraction | None = None,
        owner: str | None = None,
        at: Fraction | None = None,
        above: bool = True,
    ) -> None:
        self.items, self.lo, self.hi, self.owner, self.at, self.above = items, lo, hi, owner, at, above


def _item(query: Query, i: int) -> _Item:
    term = query.terms[i]
    return term.factor, term.where, None if query.aggregate is Aggregate.PEOPLE else term.weight


# --- ties -------------------------------------------------------------------------------------------------------------
# What one private condition says of another, for certain: containment, and values of one column of which one holds.
# Of a column of the record itself: `= a` excludes `= b`, and ranges contain or exclude each other. Of rows: a row
# that satisfies more conditions satisfies fewer; never that rows with two values cannot both be there. Rows with a
# record's key are rows of its person, where rows were found to name both alike.


def ties(atoms: Sequence[Atom], schema: Schema, knowledge: Knowledge) -> tuple[Tied, ...]:
    """Implications between atoms, with the instances that they are about."""
    found: list[Tied] = []
    by_column: dict[str, list[int]] = {}
    by_table: dict[str, list[int]] = {}
    for number, atom in enumerate(atoms):
        if isinstance(atom.leaf, Has):
            by_table.setdefault(atom.leaf.table, []).append(number)
        else:
            by_column.setdefault(atom.leaf.column, []).append(number)
    for name, numbers in by_column.items():
        column = schema.find(name)
        if column is not None:
            found += _of_column(atoms, numbers, column, knowledge.prior(name))
    for table, numbers in by_table.items():
        related = schema.table_named(table)
        found += _of_rows(atoms, numbers, related.keys if related is not None and related.agrees else ())
    return tuple(found)


def exclusive(atoms: Sequence[Atom], schema: Schema) -> tuple[tuple[int, ...], ...]:
    """Sets of atoms of which at most one holds of a record: a column equal to different values."""
    found: dict[str, list[int]] = {}
    for number, atom in enumerate(atoms):
        if isinstance(atom.leaf, Comparison) and atom.leaf.op == "=":
            column = schema.find(atom.leaf.column)
            if column is None or column.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.TEXT):
                continue  # two ways to write one value would exclude each other
            found.setdefault(atom.leaf.column, []).append(number)
    return tuple(tuple(numbers) for numbers in found.values() if len(numbers) > 1)


def _of_column(atoms: Sequence[Atom], numbers: Sequence[int], column: Column, prior: Prior) -> Iterator[Tied]:
    tried = _tried([atoms[i].leaf for i in numbers], column, prior)
    truths = {i: [evaluate_leaf(atoms[i].leaf, v) for v in tried] for i in numbers} if tried else {}
    for i in truths:
        for j in truths:
            if i >= j:
                continue
            plain = all(isinstance(x := atoms[k].leaf, Comparison) and x.op == "=" for k in (i, j))
            pairs = list(zip(truths[i], truths[j], strict=True))
            same = atoms[i].at[atoms[i].at >= 0]
            if all(not a or b for a, b in pairs):
                yield Tied((i, True), (j, True), (same, same))
            if all(not b or a for a, b in pairs):
                yield Tied((j, True), (i, True), (same, same))
            if not plain and not any(a and b for a, b in pairs):
                yield Tied((i, True), (j, False), (same, same))
            if all(a or b for a, b in pairs):
                yield Tied((i, False), (j, True), (same, same))


def _tried(leaves: Sequence[Leaf], column: Column, prior: Prior) -> list[Scalar]:
    """Values of which every cell that the conditions cut has one; none where that cannot be said."""
    constants: list[Scalar] = []
    for leaf in leaves:
        if isinstance(leaf, Comparison):
            constants.append(leaf.value)
        elif isinstance(leaf, Membership):
            constants += leaf.values
        else:
            return []
    if column.kind.numeric:
        if not all(isinstance(c, int | Decimal) for c in constants):
            return []
        cuts = sorted({Decimal(c) for c in constants})  # type: ignore[arg-type]
        if column.kind is Kind.INTEGER:
            step, base = prior.step or Decimal(1), prior.lo or Decimal(0)  # the next values on the grid lie a step away
            near = (base + step * ((c - base) // step + k) for c in cuts for k in (-2, -1, 0, 1, 2))
            return sorted({v for v in (*near, *cuts) if prior.admits(v)})
        between = [(a + b) / 2 for a, b in itertools.pairwise(cuts)]
        ends = [end for end in (prior.lo, prior.hi) if end is not None]
        some = (cuts[0] - 1, *cuts, *between, cuts[-1] + 1, *ends)
        return [v for v in some if prior.step is not None or prior.admits(v)]
    if column.kind is Kind.BOOLEAN:
        return [True, False]
    ordered = any(isinstance(leaf, Comparison) and leaf.op not in ("=", "<>") for leaf in leaves)
    if column.kind is not Kind.TEXT or ordered:
        return []
    if prior.values is not None:
        return list(prior.values)
    texts = [str(c) for c in dict.fromkeys(constants)]
    return [*texts, "".join(texts) + " and other"]


def _of_rows(atoms: Sequence[Atom], numbers: Sequence[int], agreed: Sequence[tuple[str, str]]) -> Iterator[Tied]:
    """Fewer conditions on the same rows, or on more: joined on fewer keys, or on the person's instead of the record's.

    A row with a key of `agreed` other than the first, which names the person, names one record by all of them.
    """
    records = {own for own, _ in agreed[1:]}
    for i in numbers:
        for j in numbers:
            a, b = atoms[i].leaf, atoms[j].leaf
            assert isinstance(a, Has)
            assert isinstance(b, Has)
            if i == j or not _parts(b.where) <= _parts(a.where):
                continue
            by_record = any(own in records for _, own in a.on) and {own for _, own in b.on} <= {o for o, _ in agreed}
            if set(b.on) <= set(a.on) or by_record:
                both = (atoms[i].at >= 0) & (atoms[j].at >= 0)
                pairs = np.unique(np.stack([atoms[i].at[both], atoms[j].at[both]]), axis=1)
                yield Tied((i, True), (j, True), (pairs[0], pairs[1]))


def _parts(where: Predicate) -> frozenset[Predicate]:
    return frozenset(where.parts) if isinstance(where, And) else frozenset((where,)) - {TRUE}
