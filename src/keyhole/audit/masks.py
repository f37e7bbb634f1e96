"""Who matches a public condition, as bits over the records; the parts that analysts repeat are kept.

One condition costs one pass of the engine. Its leaves (`dept = 'legal'`, `age >= 30`) come back in other statements;
a leaf seen for the second time is evaluated apart and kept, and a condition whose leaves are all kept needs no engine.
Kleene's logic on bits: a leaf has the records where it is true and those where it is false; NULL is in neither.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from keyhole.predicate import And, Constant, IsTrue, Leaf, Not, Or, Predicate, leaves, negation
from keyhole.query import Aggregate, Query, Term
from keyhole.sources import Roster

Words = NDArray[np.uint64]
Side = tuple[Leaf, bool]

KEPT = 512  # bit sets: n/8 bytes each, so at most 64 bytes a record
REMEMBERED = 100_000  # leaves seen once


class Masks:
    """Public conditions as bits over the records, word by word (record k is bit k % 64 of word k // 64).

    Equal to the engine's answer for every condition, NULLs included. Memory: at most KEPT * n / 8 bytes.

    >>> import pyarrow as pa
    >>> from keyhole.knowledge import Columns
    >>> from keyhole.predicate import Comparison
    >>> from keyhole.sources import load_roster
    >>> people = pa.table({"age": [31, 45, None, 28], "pay": [1, 2, 3, 4]})
    >>> masks = Masks(load_roster(people, Columns.checked({"private": {"pay": {}}})))
    >>> young = Comparison("age", "<", 40)
    >>> [int(masks.words(p)[0]) for p in (young, Not(young), Not(young))]
    [9, 2, 2]
    """

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self._words = (roster.n + 63) // 64
        self._all = packed(np.ones(roster.n, dtype=np.bool_))
        self._kept: OrderedDict[Side, Words] = OrderedDict()
        self._seen: OrderedDict[Side, None] = OrderedDict()
        self._faults: dict[tuple[Predicate, str | None], str | None] = {}

    def fault(self, predicate: Predicate, weight: str | None) -> str | None:
        """The engine's objection to a condition or weight, asked once."""
        at = (predicate, weight)
        if at not in self._faults:
            if len(self._faults) >= REMEMBERED:
                self._faults.clear()
            self._faults[at] = self.roster.fault(predicate, weight)
        return self._faults[at]

    def words(self, predicate: Predicate) -> Words:
        """The records for which a condition is true."""
        sides = list(dict.fromkeys(_sides(predicate, True)))
        missing = [side for side in sides if side not in self._kept]
        for side in missing:
            if side in self._seen and len(sides) <= KEPT:
                self._keep(side)
        if all(side in self._kept for side in sides):
            found = self._combined(predicate, True)
            for side in sides:
                self._kept.move_to_end(side)
        else:
            found = self._asked(predicate)
            for side in missing:
                self._seen[side] = None
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    def _keep(self, side: Side) -> None:
        leaf, holds = side
        self._kept[side] = self._asked(leaf if holds else negation(leaf))

    def _asked(self, predicate: Predicate) -> Words:
        """One pass of the engine."""
        mask = np.zeros(self.roster.n, dtype=np.bool_)
        mask[self.roster.support(Query(Aggregate.SUM, (Term(None, predicate),)))] = True
        return packed(mask)

    def _combined(self, predicate: Predicate, holds: bool) -> Words:
        """The records for which a condition is true (or false), from those of its leaves."""
        if isinstance(predicate, Constant):
            return self._all if predicate.value is holds else np.zeros(self._words, dtype=np.uint64)
        if isinstance(predicate, Not):
            return self._combined(predicate.part, not holds)
        if isinstance(predicate, IsTrue):
            found = self._combined(predicate.part, True)
            return found if holds else ~found & self._all
        if isinstance(predicate, And | Or):
            found = self._combined(predicate.parts[0], holds)
            for part in predicate.parts[1:]:
                other = self._combined(part, holds)
                found = found & other if isinstance(predicate, And) is holds else found | other
            return found
        return self._kept[predicate, holds]


def _sides(predicate: Predicate, holds: bool) -> list[Side]:
    """The leaves of which it must be known where they are true, or where they are false."""
    if isinstance(predicate, Constant):
        return []
    if isinstance(predicate, Not):
        return _sides(predicate.part, not holds)
    if isinstance(predicate, IsTrue):
        return _sides(predicate.part, True)
    if isinstance(predicate, And | Or):
        return [side for part in predicate.parts for side in _sides(part, holds)]
    return [(leaf, holds) for leaf in leaves(predicate)]


def packed(mask: NDArray[np.bool_]) -> Words:
    """A mask as words of 64 bits."""
    words = np.zeros((len(mask) + 63) // 64, dtype=np.uint64)
    raw = np.packbits(mask, bitorder="little")
    words.view(np.uint8)[: len(raw)] = raw
    return words


def unpacked(words: Words, n: int) -> NDArray[np.bool_]:
    """Words of 64 bits as a mask."""
    return np.unpackbits(words.view(np.uint8), bitorder="little", count=n).view(np.bool_)
