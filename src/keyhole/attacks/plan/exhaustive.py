"""Small rosters: all allowed questions, one by one. The fewest that give somebody away, proved by looking at all."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np

from keyhole.attacks.plan.question import EVERYBODY, CodeCondition, Question
from keyhole.attacks.plan.ways import Ways
from keyhole.solve.rowspace import RowMatrix, RowSpace

LARGEST = 3000  # questions
TRIPLES = 700  # questions of which all pairs are tried
LISTS = 6  # values of a column of which all subsets are listed

Weighted = dict[Question, Fraction]


class Exhaustive:
    """Every question of a language over a small roster.

    `whole` is False if OR or long lists of IN leave some out: then what is not found may still be there.

    >>> from keyhole.attacks.plan.profiles import Profiles
    >>> from keyhole.attacks.plan.question import CodedColumn
    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> roster = Profiles.of_codes((sex,), np.array([[0, 1, 1]]), np.ones(3, bool))
    >>> found = Exhaustive(Ways(roster, frozenset({"=", "<>"}), 2, 1))
    >>> list(found.fewest(0).values()), found.proved(0)
    ([Fraction(1, 1), Fraction(-1, 1)], True)
    """

    def __init__(self, ways: Ways) -> None:
        self.ways = ways
        listed = "IN" not in ways.operators or all(len(c.values) <= LISTS for c in ways.profiles.columns)
        self.whole = "OR" not in ways.operators and listed
        profiles = ways.profiles
        self._valued = np.flatnonzero(profiles.unknowns > 0)
        self.by_mask: dict[int, Question] = {}
        for question in _questions(ways):
            mask = profiles.mask(question)
            if int(profiles.people[mask].sum()) >= ways.least:
                bits = int.from_bytes(np.packbits(mask[self._valued], bitorder="little").tobytes(), "little")
                self.by_mask.setdefault(bits, question)
        self.by_mask.pop(0, None)
        self._space: RowSpace | None = None

    @staticmethod
    def fits(ways: Ways) -> bool:
        """Are there few enough questions to list them all?"""
        total = 0
        for chosen in _column_sets(ways):
            total += prod(_count(ways, c) for c in chosen)
            if total > LARGEST:
                return False
        return ways.profiles.count <= LARGEST

    def fewest(self, profile: int) -> Weighted | None:
        """Questions with weights that add up to one profile: one, two or three if so few do, else by the row space."""
        return self._short(profile) or self._any(profile)

    def proved(self, profile: int) -> bool:
        """Is what `fewest` gives shown to be fewest? (Not where it comes from the row space.)"""
        return self.whole and self._short(profile) is not None

    def _bit(self, profile: int) -> int:
        return 1 << int(np.searchsorted(self._valued, profile))

    def _short(self, profile: int) -> Weighted | None:
        """By one question; two that differ in him alone; three, of which one is the sum of the others elsewhere.

        These are all: on everybody else the weights of three 0/1 rows must cancel, so two of them have the opposite
        weight of the third, or fewer would do.
        """
        bit, asked = self._bit(profile), self.by_mask
        if bit in asked:
            return {asked[bit]: Fraction(1)}
        for mask, question in asked.items():
            if mask & bit and mask ^ bit in asked:
                return {question: Fraction(1), asked[mask ^ bit]: Fraction(-1)}
        if len(asked) > TRIPLES:
            return None
        for b, c in combinations(asked, 2):
            if b & c & ~bit:
                continue
            for a in ((b | c) & ~bit, b | c | bit):
                lead = bool(a & bit) - bool(b & bit) - bool(c & bit)
                if lead and a in asked:
                    share = Fraction(1, lead)
                    return {asked[a]: share, asked[b]: -share, asked[c]: -share}
        return None

    def _any(self, profile: int) -> Weighted | None:
        questions = list(self.by_mask.values())
        if self._space is None:
            masks = [self.ways.profiles.mask(q)[self._valued] for q in questions]
            rows = np.array(masks, dtype=np.int64).reshape(len(questions), len(self._valued))
            self._space = RowSpace(RowMatrix.from_dense(rows), rng=np.random.default_rng(0))
        found = self._space.weights(int(np.searchsorted(self._valued, profile)))
        return None if found is None else {questions[i]: w for i, w in found.items()}


def _column_sets(ways: Ways) -> Iterator[tuple[int, ...]]:
    for size in range(1, min(ways.most, len(ways.profiles.columns)) + 1):
        yield from combinations(range(len(ways.profiles.columns)), size)


def _questions(ways: Ways) -> Iterator[Question]:
    yield EVERYBODY
    for chosen in _column_sets(ways):
        for conditions in product(*(list(_conditions(ways, c)) for c in chosen)):
            yield (tuple(conditions),)


def _count(ways: Ways, c: int) -> int:
    """How many conditions `_conditions` gives, or a few more."""
    allowed, v = ways.operators, len(ways.profiles.columns[c].values)
    lists = 2**v if v <= LISTS else v * (v + 1) // 2
    ranges = v * len({"<", ">"} & allowed) + v * (v + 1) // 2 * ("BETWEEN" in allowed)
    return (v + 1) * len({"=", "<>"} & allowed) + lists * ("IN" in allowed) + ranges


def _conditions(ways: Ways, c: int) -> Iterator[CodeCondition]:
    """Every condition on one column."""
    column, allowed = ways.profiles.columns[c], ways.operators
    values, last = range(len(column.values)), len(column.values) - 1
    for op in ("=", "<>"):
        if op in allowed:
            yield from (CodeCondition(c, op, (v,)) for v in range(column.codes))
    if "IN" in allowed:
        sizes = range(2, len(values) + (1 if column.nullable else 0)) if len(values) <= LISTS else (2, last)
        for size in sizes:
            yield from (CodeCondition(c, "IN", chosen) for chosen in combinations(values, size))
    if "<" in allowed:
        yield from (CodeCondition(c, "<=", (v,)) for v in values)
    if ">" in allowed:
        yield from (CodeCondition(c, ">=", (v,)) for v in values)
    if "BETWEEN" in allowed:
        yield from (CodeCondition(c, "BETWEEN", (a, b)) for a, b in combinations(values, 2))
        yield from (CodeCondition(c, "BETWEEN", (v, v)) for v in values)
