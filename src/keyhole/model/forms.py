"""What a query asks, in mathematics and without data: sums of factor * weight * 1[where] on features.

The unknowns of a record are features: a private column, its square, or either restricted to the private cells that the
log tells apart, and the 0/1 indicators of those cells. Over a basis (atoms, records, declared cells) a form becomes a
row: see `keyhole.basis`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod

from keyhole.errors import UnsupportedQuery
from keyhole.model.cells import Cell, Partition, partition_column
from keyhole.model.predicate import (
    FALSE,
    NULL,
    TRUE,
    Constant,
    Has,
    IsNull,
    Leaf,
    Opaque,
    Predicate,
    PrivateLeaf,
    find_leaves,
    make_and,
    make_not,
    make_or,
    quote_name,
    replace_leaves,
)
from keyhole.model.prior import Knowledge
from keyhole.model.query import Query, Term
from keyhole.model.schema import Schema

MAX_JOINT_CELLS = 4096
_CONSTANTS = {truth: Constant(truth) for truth in (True, False, None)}
UNIT = Fraction(1)
ONE = -1  # the feature that is 1 for every record: public knowledge

Unknown = tuple[str | None, int]  # column and power; None: an indicator
Family = tuple[str | None, int, tuple[str, ...]]  # column, power, and whose cells are told apart


@dataclass(frozen=True, slots=True)
class Feature:
    """An unknown per record: `column ** power` restricted to some private cells, or their 0/1 indicator (column None).

    `guard` is the public condition (which private columns are NULL) under which the feature exists for a record, None
    for always. `cells` are joint cells: one Cell for each private column that conditions on this unknown look at.
    """

    column: str | None
    power: int
    cells: tuple[tuple[Cell, ...], ...]
    guard: Predicate | None = None

    @property
    def conditioned(self) -> tuple[str, ...]:
        """The private columns whose cells it tells apart; features of one column that share them add up."""
        return tuple(cell.column for cell in self.cells[0]) if self.cells else ()


@dataclass(frozen=True, slots=True)
class Part:
    """`factor * SUM(weight * feature)` over the records that satisfy `where`, a public condition."""

    feature: int
    where: Predicate = TRUE
    factor: Fraction = UNIT
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """`top / per`: what one number of an answer is made of; an empty `per` stands for 1."""

    top: tuple[Part, ...]
    per: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of them."""
        return (*self.top, *self.per)


def combine_parts(parts: Iterable[Part], *others: tuple[Fraction, Iterable[Part]]) -> tuple[Part, ...]:
    """parts + factor * others, with like parts added up.

    >>> combine_parts([Part(0)], (Fraction(-1), [Part(0), Part(1)]))
    (Part(feature=1, where=Constant(value=True), factor=Fraction(-1, 1), weight=None),)
    """
    found: dict[tuple[int, Predicate, str | None], Fraction] = {}
    for sign, each in ((Fraction(1), parts), *others):
        for p in each:
            at = (p.feature, p.where, p.weight)
            found[at] = found.get(at, Fraction(0)) + sign * p.factor
    return tuple(Part(f, where, c, w) for (f, where, w), c in found.items() if c and where != FALSE)


def select_private_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """What a form asks of private values."""
    return tuple(p for p in parts if p.feature != ONE)


def select_public_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """What anybody knows of a form."""
    return tuple(p for p in parts if p.feature == ONE)


def find_private_leaves(predicate: Predicate, secret: frozenset[str]) -> list[PrivateLeaf]:
    """The conditions on private values; being NULL is public."""
    return [
        leaf
        for leaf in find_leaves(predicate)
        if isinstance(leaf, Has) or (not isinstance(leaf, IsNull | Opaque) and leaf.column in secret)
    ]


def has_private_condition(query: Query, secret: frozenset[str]) -> bool:
    """Does a query have a condition on private values?"""
    return any(find_private_leaves(t.where, secret) for t in (*query.terms, *query.per))


def build_weighted_form(query: Query) -> Form:
    """The form of a query over a basis on which every column is known: each term counts records with a weight.

    >>> from keyhole.model.query import Aggregate
    >>> build_weighted_form(Query(Aggregate.SUM, (Term("pay"),))).top[0].weight
    '"pay"'
    """

    def part(term: Term) -> Part:
        weight = term.weight
        if term.column is not None:
            weight = " * ".join([quote_name(term.column)] * term.power + ([f"({weight})"] if weight else []))
        return Part(ONE, term.where, term.factor, weight)

    return Form(tuple(map(part, query.terms)), tuple(map(part, query.per)))


@dataclass(frozen=True, slots=True)
class _Group:
    """Joint cells that no term of a family tells apart; `reads[i]` is term condition i on them, `pattern` the NULLs."""

    cells: tuple[tuple[Cell, ...], ...]
    reads: tuple[Predicate, ...]
    guard: Predicate
    pattern: tuple[bool, ...]
    feature: int  # ONE: the reference group of its pattern, left out because the indicators add up to one


class Unknowns:
    """The features of all terms that are solved together, and the form of any of their queries.

    Private conditions are refined to common cells first: SUM(x) = SUM(x*1[x>5]) + SUM(x*1[x<=5]). Indicators are made
    column by column, and of joint cells only where some condition ties columns: counts of other columns say nothing
    linear of them. One indicator of each such set is left out for each pattern of NULLs, since they add up to one; it
    reappears as a public part.
    """

    def __init__(self, terms: Iterable[Term], schema: Schema, knowledge: Knowledge) -> None:
        self._secret = schema.private_names
        conditions: dict[str, list[Leaf]] = {}
        asked: dict[tuple[Unknown, Predicate], set[str]] = {}
        for term in terms:
            found = find_private_leaves(term.where, self._secret)
            for leaf in found:
                assert not isinstance(leaf, Opaque)
                conditions.setdefault(leaf.column, []).append(leaf)
            if term.column is not None or found:
                asked[_unknown(term), term.where] = {leaf.column for leaf in found}
        columns = {name: schema.find(name) for name in sorted(conditions)}
        self.partitions: tuple[Partition, ...] = tuple(
            partition_column(column, conditions[name], knowledge.prior(name))
            for name, column in columns.items()
            if column is not None
        )
        self._parts = {part.column.name: part for part in self.partitions}
        self._family: dict[tuple[Unknown, Predicate], Family] = _families(asked)
        wheres: dict[Family, list[Predicate]] = {}
        for (_, where), family in self._family.items():
            wheres.setdefault(family, []).append(where)
        if any(prod(len(self._parts[name].cells) for name in names) > MAX_JOINT_CELLS for *_, names in wheres):
            raise UnsupportedQuery(
                f"the private conditions cut the data into more than {MAX_JOINT_CELLS} cells: audit fewer together"
            )
        self.features: list[Feature] = []
        self._groups = {family: self._grouped(family, tuple(each)) for family, each in wheres.items()}
        self._numbers = {family: {where: at for at, where in enumerate(each)} for family, each in wheres.items()}

    def form(self, query: Query) -> Form:
        """The form of a query whose terms were given."""
        return Form(self.parts(query.terms), self.parts(query.per))

    def parts(self, terms: Iterable[Term]) -> tuple[Part, ...]:
        """A sum of terms over the features; what is public of it on `ONE`."""
        parts: list[Part] = []
        for term in terms:
            if term.column is None and not find_private_leaves(term.where, self._secret):
                parts.append(Part(ONE, term.where, term.factor, term.weight))
                continue
            family = self._family[_unknown(term), term.where]
            number, groups = self._numbers[family][term.where], self._groups[family]
            for g in groups:
                if g.reads[number] == FALSE:
                    continue
                part = Part(g.feature, make_and(g.reads[number], g.guard), term.factor, term.weight)
                parts.append(part)
                if g.feature == ONE:  # 1[reference cell] = 1 - the other indicators of its NULL pattern
                    others = [o.feature for o in groups if o.pattern == g.pattern and o.feature != ONE]
                    parts.extend(replace(part, feature=f, factor=-term.factor) for f in others)
        return combine_parts(parts)

    def _grouped(self, family: Family, wheres: tuple[Predicate, ...]) -> list[_Group]:
        column, power, names = family
        parts = [self._parts[name] for name in names]
        joined = list(product(*(part.cells for part in parts)))
        patterns = list(dict.fromkeys(_pattern(joint) for joint in joined))
        classes: dict[tuple[tuple[Predicate, ...], tuple[bool, ...]], list[tuple[Cell, ...]]] = {}
        for joint in joined:
            truth = _truths(parts, joint)
            reads = tuple(_read(where, truth) for where in wheres)
            classes.setdefault((reads, _pattern(joint) if column is None else ()), []).append(joint)
        last = {key[1]: key for key in classes}
        grouped = []
        for key, joints in classes.items():
            values = list(dict.fromkeys(_pattern(joint) for joint in joints))
            guard = TRUE if len(values) == len(patterns) else make_or(*(_guard(parts, p) for p in values))
            number = ONE
            if column is not None or last[key[1]] is not key:
                number = len(self.features)
                self.features.append(Feature(column, power, tuple(joints), None if guard == TRUE else guard))
            grouped.append(_Group(tuple(joints), key[0], guard, values[0], number))
        return grouped


def _unknown(term: Term) -> Unknown:
    return term.column, term.power if term.column else 1


def _families(asked: Mapping[tuple[Unknown, Predicate], set[str]]) -> dict[tuple[Unknown, Predicate], Family]:
    """The family of each unknown under a condition: all conditions on one column are one, on indicators those tied."""
    tied: dict[Unknown, list[set[str]]] = {}
    for (unknown, _), names in asked.items():
        sets = tied.setdefault(unknown, [])
        near = [each for each in sets if unknown[0] is not None or each & names]
        tied[unknown] = [*(each for each in sets if each not in near), names.union(*near)]
    return {
        (unknown, where): (
            *unknown,
            next(tuple(sorted(each)) for each in tied[unknown] if unknown[0] is not None or each & names),
        )
        for (unknown, where), names in asked.items()
    }


def _truths(parts: Sequence[Partition], joint: Sequence[Cell]) -> dict[Leaf, Constant]:
    """Each private condition on a cell."""
    found: dict[Leaf, Constant] = {}
    for part, cell in zip(parts, joint, strict=True):
        found.update(zip(part.leaves, map(_CONSTANTS.__getitem__, cell.truths), strict=True))
    return found


def _guard(parts: Sequence[Partition], pattern: tuple[bool, ...]) -> Predicate:
    asked: list[Predicate] = []
    for part, null in zip(parts, pattern, strict=True):
        if part.column.nullable:
            is_null = IsNull(part.column.name)
            asked.append(is_null if null else make_not(is_null))
    return make_and(*asked)


def _read(where: Predicate, truth: Mapping[Leaf, Constant]) -> Predicate:
    """A condition once the private cell is fixed: a public predicate."""
    read = replace_leaves(where, lambda leaf: truth.get(leaf, leaf))
    return FALSE if read == NULL else read


def _pattern(joint: Sequence[Cell]) -> tuple[bool, ...]:
    return tuple(cell.null for cell in joint)
