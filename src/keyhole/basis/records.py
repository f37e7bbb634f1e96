"""The records themselves as a basis: who matches a public condition, with the parts that analysts repeat kept.

One condition costs one pass of the engine. Its leaves (`dept = 'legal'`, `age >= 30`) come back in other statements;
a leaf seen for the second time is evaluated apart and kept, and a condition whose leaves are all kept needs no engine.
Kleene's logic on pairs of bit sets: the records where a condition is true, and those where it is false; NULL is in
neither.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.base import Weights
from keyhole.basis.bits import Words, pack
from keyhole.model.predicate import IsNull, Kleene, Leaf, Opaque, Predicate, Truth, fold, leaves, negation, to_sql

Support: TypeAlias = Callable[[Predicate], NDArray[np.int64]]  # the records for which a condition is true
Sides: TypeAlias = tuple[Words, Words]  # where it is true, where it is false

KEPT = 256  # leaves: n/4 bytes each, so at most 64 bytes a record
REMEMBERED = 100_000  # leaves seen once


class Records:
    """Public conditions as bits over n records. `support` and `weigh` ask the engine; as seldom as possible.

    Equal to the engine's answer for every condition, NULLs included. Memory: at most KEPT * n / 4 bytes.

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

    def __init__(self, n: int, support: Support, weigh: Callable[[str], Weights]) -> None:
        self.count = n
        self._support = support
        self.weight = weigh
        self._all = pack(np.ones(n, dtype=np.bool_))
        self._none = np.zeros_like(self._all)
        self._kept: OrderedDict[str, Sides] = OrderedDict()  # by the SQL of a leaf
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._null: dict[str, Words] = {}  # who has no value, by column
        self._bits: Kleene[Sides] = Kleene(
            constant=self._constant,
            leaf=lambda leaf: self._kept[to_sql(leaf)],
            negate=lambda sides: (sides[1], sides[0]),
            certain=lambda sides: (sides[0], ~sides[0] & self._all),
            every=lambda parts: (_meet(parts, 0), _join(parts, 1)),
            some=lambda parts: (_join(parts, 0), _meet(parts, 1)),
        )

    def bits(self, where: Predicate) -> Words:
        """The records for which a condition is true."""
        asked = {to_sql(leaf): leaf for leaf in leaves(where)}
        for sql, leaf in asked.items():
            if sql not in self._kept and sql in self._seen and len(asked) <= KEPT:
                self._kept[sql] = self._sides(leaf)
        if all(sql in self._kept for sql in asked):
            found = fold(where, self._bits)[0]
            for sql in asked:
                self._kept.move_to_end(sql)
        else:
            found = self._asked(where)
            self._seen.update(dict.fromkeys(sql for sql in asked if sql not in self._kept))
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    def _sides(self, leaf: Leaf) -> Sides:
        """Where a leaf is true, and where it is false: where it is neither true nor its column NULL."""
        true = self._asked(leaf)
        if isinstance(leaf, Opaque):
            return true, self._asked(negation(leaf))
        if isinstance(leaf, IsNull):
            return true, ~true & self._all
        if leaf.column not in self._null:
            self._null[leaf.column] = self._asked(IsNull(leaf.column))
        return true, ~(true | self._null[leaf.column]) & self._all

    def _asked(self, predicate: Predicate) -> Words:
        """One pass of the engine."""
        mask = np.zeros(self.count, dtype=np.bool_)
        mask[self._support(predicate)] = True
        return pack(mask)

    def _constant(self, value: Truth) -> Sides:
        return (self._all if value is True else self._none, self._all if value is False else self._none)


def _meet(parts: Sequence[Sides], side: int) -> Words:
    return reduce(np.bitwise_and, (part[side] for part in parts))


def _join(parts: Sequence[Sides], side: int) -> Words:
    return reduce(np.bitwise_or, (part[side] for part in parts))
