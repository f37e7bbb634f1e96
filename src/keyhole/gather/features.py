"""The unknowns of a system: private columns refined to the cells that the log tells apart, and terms over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod

from keyhole.cells import Cell, Partition, partition
from keyhole.errors import UnsupportedQuery
from keyhole.evidence import Entry, Feature
from keyhole.knowledge import Knowledge
from keyhole.predicate import (
    FALSE,
    NULL,
    TRUE,
    Constant,
    IsNull,
    Leaf,
    Opaque,
    Predicate,
    conjunction,
    disjunction,
    leaves,
    negation,
    restrict,
)
from keyhole.query import Term
from keyhole.schema import Schema

MAX_JOINT_CELLS = 4096
ONE = -1  # the feature that is 1 for every record: public knowledge

Family = tuple[str | None, int]


def private_leaves(predicate: Predicate, secret: frozenset[str]) -> list[Leaf]:
    """The conditions on private values; being NULL is public."""
    return [leaf for leaf in leaves(predicate) if not isinstance(leaf, IsNull | Opaque) and leaf.column in secret]


@dataclass(slots=True)
class Registry:
    """Numbers the distinct public predicates and weights of a system."""

    predicates: dict[Predicate, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)

    def predicate(self, predicate: Predicate) -> int:
        """The number of a predicate."""
        return self.predicates.setdefault(predicate, len(self.predicates))

    def weight(self, weight: str | None) -> int | None:
        """The number of a weight; None for one."""
        return None if weight is None else self.weights.setdefault(weight, len(self.weights))


@dataclass(frozen=True, slots=True)
class _Group:
    """Joint cells that no term of a family tells apart; `reads[i]` is term condition i on them, `pattern` the NULLs."""

    cells: tuple[tuple[Cell, ...], ...]
    reads: tuple[Predicate, ...]
    guard: Predicate
    pattern: tuple[bool, ...]
    feature: int  # ONE: the reference group of its pattern, left out because the indicators add up to one


class Unknowns:
    """Features of a system, and the linear form of any of its terms over them."""

    def __init__(self, terms: Iterable[Term], schema: Schema, knowledge: Knowledge, registry: Registry) -> None:
        self._secret = frozenset(c.name for c in schema.columns if c.secret)
        self._registry = registry
        self._wheres: dict[Family, dict[Predicate, int]] = {}
        conditions: dict[str, list[Leaf]] = {}
        for term in terms:
            found = private_leaves(term.where, self._secret)
            for leaf in found:
                assert not isinstance(leaf, Opaque)
                conditions.setdefault(leaf.column, []).append(leaf)
            if term.column is not None or found:
                family = self._wheres.setdefault((term.column, term.power if term.column else 1), {})
                family.setdefault(term.where, len(family))
        columns = {name: schema.find(name) for name in sorted(conditions)}
        self.partitions: tuple[Partition, ...] = tuple(
            partition(column, conditions[name], knowledge.prior(name))
            for name, column in columns.items()
            if column is not None
        )
        if prod(len(p.cells) for p in self.partitions) > MAX_JOINT_CELLS:
            raise UnsupportedQuery(
                f"the private conditions cut the data into more than {MAX_JOINT_CELLS} cells: audit fewer together"
            )
        self._joint = list(product(*(p.cells for p in self.partitions)))
        self.features: list[Feature] = []
        self._groups: dict[Family, list[_Group]] = {
            family: self._grouped(family, tuple(wheres)) for family, wheres in self._wheres.items()
        }

    def _grouped(self, family: Family, wheres: tuple[Predicate, ...]) -> list[_Group]:
        indicator = family[0] is None
        patterns = list(dict.fromkeys(_pattern(joint) for joint in self._joint))
        classes: dict[tuple[object, ...], list[tuple[Cell, ...]]] = {}
        for joint in self._joint:
            reads = tuple(self._read(where, joint) for where in wheres)
            key: tuple[object, ...] = (reads, _pattern(joint)) if indicator else (reads,)
            classes.setdefault(key, []).append(joint)
        keys = list(classes)
        last = {key[1]: key for key in keys} if indicator else {}
        found = []
        for kind, joints in classes.items():
            pattern = _pattern(joints[0])
            held = list(dict.fromkeys(_pattern(joint) for joint in joints))
            guard = TRUE if len(held) == len(patterns) else disjunction(*(self._guard(p) for p in held))
            number = ONE
            if not indicator or last[pattern] is not kind:
                number = len(self.features)
                at = None if guard == TRUE else self._registry.predicate(guard)
                self.features.append(Feature(family[0], family[1], tuple(joints), at))
            read = kind[0]
            assert isinstance(read, tuple)
            found.append(_Group(tuple(joints), read, guard, pattern, number))
        return found

    def _read(self, where: Predicate, joint: Sequence[Cell]) -> Predicate:
        """A condition once the private cell is fixed: a public predicate."""
        truth: dict[Leaf, bool | None] = {}
        for part, cell in zip(self.partitions, joint, strict=True):
            truth.update(zip(part.leaves, cell.truths, strict=True))
        read = restrict(where, lambda leaf: Constant(truth[leaf]) if leaf in truth else leaf)
        return FALSE if read == NULL else read

    def _guard(self, pattern: tuple[bool, ...]) -> Predicate:
        parts: list[Predicate] = []
        for part, null in zip(self.partitions, pattern, strict=True):
            if part.column.nullable:
                asked = IsNull(part.column.name)
                parts.append(asked if null else negation(asked))
        return conjunction(*parts)

    def form(self, terms: Iterable[Term]) -> list[Entry]:
        """The linear form of a sum of terms: entries over features, public parts on `ONE`."""
        found: dict[tuple[int, int, int | None], Fraction] = {}

        def add(feature: int, read: Predicate, factor: Fraction, weight: int | None) -> None:
            if read != FALSE:
                at = (feature, self._registry.predicate(read), weight)
                found[at] = found.get(at, Fraction(0)) + factor

        for term in terms:
            weight = self._registry.weight(term.weight)
            family: Family = (term.column, term.power if term.column else 1)
            if term.column is None and not private_leaves(term.where, self._secret):
                add(ONE, term.where, term.factor, weight)
                continue
            number = self._wheres[family][term.where]
            groups = self._groups[family]
            for g in groups:
                read = conjunction(g.reads[number], g.guard)
                add(g.feature, read, term.factor, weight)
                if g.feature == ONE:  # 1[reference cell] = 1 - the other indicators of its NULL pattern
                    for other in groups:
                        if other.pattern == g.pattern and other.feature != ONE:
                            add(other.feature, read, -term.factor, weight)
        return [Entry(f, p, factor, w) for (f, p, w), factor in found.items() if factor]


def _pattern(joint: Sequence[Cell]) -> tuple[bool, ...]:
    return tuple(cell.null for cell in joint)
