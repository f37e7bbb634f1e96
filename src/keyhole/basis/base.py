"""The waist: a form over a basis is a row of integers. Written once, used by audit, attack and defence alike.

A basis groups the records into classes that a form cannot tell apart: the atoms of a log, the records themselves, the
cells of a declared domain. On each class a condition is true or not, and a public weight has one value. The records
themselves are the basis of decisions before each answer, so they stand here too (`Records`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import Words, pack, truth_sets, unpack
from keyhole.model.forms import Part
from keyhole.model.predicate import IsNull, Leaf, Opaque, Predicate, find_leaves, fold, format_predicate, make_not

Ints: TypeAlias = NDArray[np.int64]
Integers: TypeAlias = NDArray[Any]  # int64 where all fit into 62 bits, else Python integers
Kept: TypeAlias = tuple[str | None, str]  # who asked, and the SQL of a leaf

NARROW = 1 << 62
SHORT = 10**14  # denominators of decimals as people write them
KEPT = 256  # leaves whose bits `Records` keeps: n/4 bytes each, so at most 64 bytes a record
REMEMBERED = 100_000  # leaves that it has seen once


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A public weight on every class: `values[k] / over`."""

    values: Integers
    over: int

    @classmethod
    def of(cls, weights: Iterable[Fraction]) -> Weights:
        """Fractions over their common denominator.

        >>> Weights.of([Fraction(1, 2), Fraction(3)]).values.tolist()
        [1, 6]
        """
        listed = list(weights)
        over = lcm(*(w.denominator for w in listed))
        return cls(integers([w.numerator * (over // w.denominator) for w in listed]), over)

    @classmethod
    def reduced(cls, values: Ints, over: int) -> Weights:
        """Machine integers over a denominator, without what all of them and it have in common.

        >>> Weights.reduced(np.array([50, 300]), 100)[0]
        Fraction(1, 2)
        """
        narrow = int(values.min(initial=0)) > -NARROW and int(values.max(initial=0)) < NARROW
        exact: Integers = values if narrow else values.astype(object)
        common = gcd(over, int(np.gcd.reduce(exact))) if over > 1 and len(exact) else 1
        return cls(exact // common if common > 1 else exact, over // common)

    def at(self, classes: Ints) -> Weights:
        """The weights of some classes, in their order."""
        return Weights(self.values[classes], self.over)

    @property
    def rounded(self) -> bool:
        """Is one of them a DOUBLE with all its digits: the number that was meant is another, which is not known?

        >>> Weights.of([Fraction(1, 3), Fraction(1, 10)]).rounded, Weights.of([Fraction("0.30000000000000004")]).rounded
        (False, True)
        """
        return self.over > SHORT and any(self.over // gcd(self.over, int(v)) > SHORT for v in self.values.tolist())

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, k: int) -> Fraction:
        return Fraction(int(self.values[k]), self.over)


class Basis(Protocol):
    """Classes of records. `bits` and `weight` depend on public things only."""

    @property
    def count(self) -> int:
        """How many classes."""

    def bits(self, where: Predicate) -> Words:
        """The classes whose records satisfy a condition (Kleene: NULL does not)."""

    def weight(self, sql: str) -> Weights:
        """The value of a public expression on each class."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """`scale` times a form, in integers: one coefficient for each (feature, class), mostly 0.

    A row of zeros and ones (after taking out what all its entries have in common) is kept as bits for each feature,
    any other as the classes and values that are not zero. Unknown number f * count + k is feature f on class k.
    """

    count: int
    scale: Fraction
    masks: Mapping[int, Words] | None
    values: Mapping[int, tuple[Ints, Integers]]

    @property
    def bits(self) -> Words | None:
        """The row as bits, if it is 0/1 on one feature."""
        return next(iter(self.masks.values())) if self.masks is not None and len(self.masks) == 1 else None

    @property
    def wide(self) -> bool:
        """Does some entry need more than 62 bits?"""
        return any(values.dtype == object for _, values in self.values.values())

    def blocks(self) -> dict[int, tuple[Ints, Integers]]:
        """feature -> (classes, values) of its entries that are not zero."""
        if self.masks is None:
            return dict(self.values)
        at = {f: np.flatnonzero(unpack(words, self.count)) for f, words in self.masks.items()}
        return {f: (found, np.ones(len(found), dtype=np.int64)) for f, found in at.items()}

    def sparse(self, stride: int | None = None) -> tuple[Ints, Integers]:
        """(columns, values) of the entries that are not zero; feature f starts at column f * stride."""
        step = self.count if stride is None else stride
        ordered = sorted(self.blocks().items())
        if not ordered:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        columns = np.concatenate([at + f * step for f, (at, _) in ordered])
        return columns.astype(np.int64), np.concatenate([values for _, (_, values) in ordered])

    def items(self) -> dict[int, Fraction]:
        """unknown -> coefficient of the form itself."""
        columns, values = self.sparse()
        return {k: Fraction(int(v)) / self.scale for k, v in zip(columns.tolist(), values.tolist(), strict=True)}

    def dense(self, features: int = 1) -> NDArray[np.float64]:
        """The form's coefficients as doubles, over `features` x classes."""
        found = np.zeros(features * self.count)
        columns, values = self.sparse()
        found[columns] = values.astype(np.float64) / float(self.scale)
        return found

    def spread(self, of: NDArray[np.int32]) -> Row:
        """The same form over a finer basis: `of[j]` is the class of this one in which class j of that one lies."""
        count = len(of)
        if self.masks is not None:
            return Row(count, self.scale, {f: pack(unpack(w, self.count)[of]) for f, w in self.masks.items()}, {})
        values = {}
        for f, (at, entries) in self.values.items():
            dense = np.zeros(self.count, dtype=entries.dtype)
            dense[at] = entries
            values[f] = _nonzero(dense[of])
        return Row(count, self.scale, None, values)


def row(parts: Iterable[Part], basis: Basis) -> Row:
    """The integer row of a sum of parts over a basis. Cost: one pass over the classes for each part.

    >>> from keyhole.basis.atoms import Atoms
    >>> from keyhole.model.predicate import TRUE, Comparison
    >>> F, one = Comparison("sex", "=", "F"), np.array([0, 1], dtype=np.int32)
    >>> atoms = Atoms(one, np.array([1, 1]), one.astype(np.int64), pack(np.array([[True, True], [True, False]])))
    >>> atoms = atoms.named([TRUE, F], [])
    >>> row([Part(0, TRUE), Part(0, F, Fraction(1, 2))], atoms).items()
    {0: Fraction(3, 2), 1: Fraction(1, 1)}
    >>> row([Part(0, TRUE, Fraction(5))], atoms).bits, row([Part(0, TRUE, Fraction(5))], atoms).scale
    (array([3], dtype=uint64), Fraction(1, 5))
    """
    by_feature: dict[int, list[Part]] = {}
    for part in parts:
        by_feature.setdefault(part.feature, []).append(part)
    listed = [part for each in by_feature.values() for part in each]
    factors = {part.factor for part in listed}
    if len(factors) == 1 and len(by_feature) == len(listed) and all(part.weight is None for part in listed):
        (factor,) = factors
        masks = {f: basis.bits(each[0].where) for f, each in sorted(by_feature.items())}
        return Row(basis.count, 1 / factor, masks, {})
    weights = {part.weight: basis.weight(part.weight) for part in listed if part.weight is not None}
    scale = lcm(*((p.factor / (1 if p.weight is None else weights[p.weight].over)).denominator for p in listed))
    values = {}
    for f, each in sorted(by_feature.items()):
        total: Integers = np.zeros(basis.count, dtype=np.int64)
        for part in each:
            weight = None if part.weight is None else weights[part.weight]
            factor = part.factor * scale / (1 if weight is None else weight.over)
            total = _plus(total, unpack(basis.bits(part.where), basis.count), weight, int(factor))
        values[f] = _nonzero(total)
    return _reduced(Row(basis.count, Fraction(scale), None, values))


def measure(made: Row, sizes: Ints | None = None) -> Fraction:
    """The value of a public form: its coefficients times how many records each class has (None: one each)."""
    if sizes is None:
        if made.masks is not None:
            return sum(int(np.bitwise_count(words).sum()) for words in made.masks.values()) / made.scale
        return sum(int(values.astype(object).sum()) for _, values in made.values.values()) / made.scale
    if made.masks is not None:
        total = sum(int(sizes[unpack(words, made.count)].sum()) for words in made.masks.values())
    else:
        total = sum(int((values.astype(object) * sizes[at]).sum()) for at, values in made.values.values())
    return total / made.scale


def integers(values: list[int]) -> Integers:
    """An array of integers: int64 where 62 bits hold them, else Python's."""
    if all(abs(v) < NARROW for v in values):
        return np.array(values, dtype=np.int64)
    wide = np.empty(len(values), dtype=object)
    wide[:] = values
    return wide


def _plus(total: Integers, mask: NDArray[np.bool_], weight: Weights | None, factor: int) -> Integers:
    """total + factor * weight on the mask, in machine integers while nothing can overflow."""
    size = abs(factor) * (1 if weight is None else _largest(weight.values))
    if total.dtype == object or _largest(total) + size >= NARROW:
        total = total.astype(object)
        wide: Integers = mask.astype(object) * (factor if weight is None else weight.values.astype(object) * factor)
        return total + wide
    return total + mask * (np.int64(factor) if weight is None else weight.values * np.int64(factor))


def _largest(values: Integers) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0


def _nonzero(dense: Integers) -> tuple[Ints, Integers]:
    at = np.flatnonzero(dense)
    kept = dense[at]
    return at.astype(np.int64), integers(kept.tolist()) if kept.dtype == object else kept


def _reduced(made: Row) -> Row:
    """Without what all entries have in common; as bits, if then all are one."""
    kept = {f: entry for f, entry in made.values.items() if len(entry[0])}
    if not kept:
        return Row(made.count, made.scale, None, {})
    shared = 0
    for _, values in kept.values():
        shared = gcd(shared, int(np.gcd.reduce(values)))
    signs = {int(v) // shared for _, values in kept.values() for v in (values.min(), values.max())}
    if len(signs) == 1 and abs(next(iter(signs))) == 1:
        masks = {}
        for f, (at, _) in kept.items():
            mask = np.zeros(made.count, dtype=np.bool_)
            mask[at] = True
            masks[f] = pack(mask)
        return Row(made.count, made.scale / (shared * next(iter(signs))), masks, {})
    return Row(made.count, made.scale, None, kept)


class Records:
    """Public conditions as bits over n records. `support` and `weigh` ask the engine; as seldom as possible.

    One condition costs one pass of the engine. Its leaves (`dept = 'legal'`, `age >= 30`) come back in other
    statements; a leaf seen for the second time is evaluated apart and kept, and a condition whose leaves are all kept
    needs no engine. Equal to the engine's answer for every condition, NULLs included. Memory: at most KEPT * n / 4
    bytes. What is kept is kept for `asker`: the time of an answer must not say what others asked about.

    >>> from keyhole.model.predicate import Comparison, IsNull, Not
    >>> ages = [31, 45, None, 28]
    >>> def support(p):  # stands for the engine
    ...     inverse, leaf = isinstance(p, Not), p.part if isinstance(p, Not) else p
    ...     if isinstance(leaf, IsNull):
    ...         return np.array([i for i, a in enumerate(ages) if a is None])
    ...     return np.array([i for i, a in enumerate(ages) if a is not None and (a < leaf.value) is not inverse])
    >>> young, people = Comparison("age", "<", 40), Records(4, support, Weights.of)
    >>> [int(people.bits(p)[0]) for p in (young, Not(young), Not(young))]
    [9, 2, 2]
    """

    def __init__(self, n: int, support: Callable[[Predicate], Ints], weigh: Callable[[str], Weights]) -> None:
        self.count = n
        self._support = support
        self.weight = weigh
        self._all = pack(np.ones(n, dtype=np.bool_))
        self.asker: str | None = None  # whose condition it is that comes next
        self._kept: OrderedDict[Kept, tuple[Words, Words]] = OrderedDict()
        self._seen: OrderedDict[Kept, None] = OrderedDict()
        self._null: dict[str, Words] = {}  # who has no value, by column
        self._algebra = truth_sets(self._all, lambda leaf: self._kept[self.asker, format_predicate(leaf)])

    def bits(self, where: Predicate) -> Words:
        """The records for which a condition is true."""
        parts = {(self.asker, format_predicate(leaf)): leaf for leaf in find_leaves(where)}
        for at, leaf in parts.items():
            if at not in self._kept and at in self._seen and len(parts) <= KEPT:
                self._kept[at] = self._evaluate_leaf(leaf)
        if all(at in self._kept for at in parts):
            matching = fold(where, self._algebra)[0]
            for at in parts:
                self._kept.move_to_end(at)
        else:
            matching = self._ask_engine(where)
            self._seen.update(dict.fromkeys(at for at in parts if at not in self._kept))
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return matching

    def _evaluate_leaf(self, leaf: Leaf) -> tuple[Words, Words]:
        """Where a leaf is true, and where it is false: where it is neither true nor its column NULL."""
        true = self._ask_engine(leaf)
        if isinstance(leaf, Opaque):
            return true, self._ask_engine(make_not(leaf))
        if isinstance(leaf, IsNull):
            return true, ~true & self._all
        if leaf.column not in self._null:
            self._null[leaf.column] = self._ask_engine(IsNull(leaf.column))
        return true, ~(true | self._null[leaf.column]) & self._all

    def _ask_engine(self, predicate: Predicate) -> Words:
        """One pass of the engine."""
        mask = np.zeros(self.count, dtype=np.bool_)
        mask[self._support(predicate)] = True
        return pack(mask)
