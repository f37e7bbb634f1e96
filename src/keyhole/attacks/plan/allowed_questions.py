"""The questions an attacker may ask: how they give the total of a cell, and on small rosters all of them, one by one.

A cell that is too small to be asked about is written by differencing and trackers: each condition c = v as a difference
of allowed ones: all - (c <> v), (c >= v) - (c > v), and so on; multiplied out, d such conditions take 2^d questions.
With OR, a general tracker T does it in three: q(C or T) + q(C or not T) - q(everybody).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np

from keyhole.attacks.design.tracker import find_general_tracker
from keyhole.attacks.plan.profiles import Profiles
from keyhole.attacks.plan.question import EVERYBODY, OPERATORS, CodeCondition, Conjunction, Question
from keyhole.solve.rowspace import RowMatrix, RowSpace

Terms = tuple[tuple[int, CodeCondition | None], ...]  # signs and conditions; None: no condition
Way = tuple[tuple[int, Question], ...]
LARGEST = 3000  # questions
TRIPLES = 700  # questions of which all pairs are tried
LISTS = 6  # values of a column of which all subsets are listed
Weighted = dict[Question, Fraction]


@dataclass(frozen=True, slots=True, eq=False)
class AllowedQuestions:
    """The allowed language: operators, the smallest group, the most columns in a question.

    >>> import numpy as np
    >>> from keyhole.attacks.plan.question import CodedColumn
    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> roster = Profiles.of_codes((sex,), np.array([[0, 1, 1, 1]]), np.ones(4, bool))
    >>> AllowedQuestions(roster, frozenset({"=", "<>"}), 2, 1).of((CodeCondition(0, "=", (0,)),))
    ((1, ((),)), (-1, ((CodeCondition(column=0, op='<>', codes=(0,)),),)))
    >>> AllowedQuestions(roster, frozenset({"=", "<>"}), 2, 1).told
    'conditions on one column (of sex) with =, <>; groups of at least 2 people'
    """

    profiles: Profiles
    operators: frozenset[str]
    least: int
    most: int
    _found: dict[frozenset[int], tuple[CodeCondition, CodeCondition] | None] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The language in words."""
        columns = ", ".join(column.name for column in self.profiles.columns) or "none"
        words = ", ".join(op for op in OPERATORS if op in self.operators)
        most = f"at most {self.most} columns" if self.most > 1 else "one column"
        least = f"at least {self.least} people" if self.least > 1 else "any size"
        return f"conditions on {most} (of {columns}) with {words}; groups of {least}"

    def of(self, cell: Conjunction) -> Way | None:
        """The fewest questions, with signs, that add up to a cell; None if no allowed ones do."""
        choices = sorted(product(*(self.written(c) for c in cell)), key=lambda chosen: _count_questions(chosen))
        tracked = self._general(cell) if "OR" in self.operators else None
        for chosen in choices:
            if tracked is not None and _count_questions(chosen) > 3:
                break
            way = _multiply_out(chosen)
            if all(self.profiles.size(question) >= self.least for _, question in way):
                return way
        return tracked

    def written(self, cell: CodeCondition) -> list[Terms]:
        """One equality as signed allowed conditions, all ways."""
        column, [v] = self.profiles.columns[cell.column], cell.codes
        last = len(column.values) - 1
        found: list[Terms] = []

        def term(op: str, *codes: int) -> CodeCondition:
            return CodeCondition(cell.column, op, codes)

        if "=" in self.operators:
            found.append(((1, cell),))
        if "<>" in self.operators:
            found.append(((1, None), (-1, term("<>", v))))
        if v > last:  # NULL has no place in a range or a list
            return found
        if "IN" in self.operators:
            others = tuple(w for w in range(last + 1) if w != v)
            found.append(((1, term("IN", v)),))
            if others and not column.nullable:
                found.append(((1, None), (-1, term("IN", *others))))
            elif others:
                found.append(((1, term("IN", *range(last + 1))), (-1, term("IN", *others))))
        if ">" in self.operators:
            found.append(((1, term(">=", v)),) if v == last else ((1, term(">=", v)), (-1, term(">", v))))
        if "<" in self.operators:
            found.append(((1, term("<=", v)),) if v == 0 else ((1, term("<=", v)), (-1, term("<", v))))
        if "BETWEEN" in self.operators:
            found.append(((1, term("BETWEEN", v, v)),))
            if v < last:
                found.append(((1, term("BETWEEN", v, last)), (-1, term("BETWEEN", v + 1, last))))
            if v > 0:
                found.append(((1, term("BETWEEN", 0, v)), (-1, term("BETWEEN", 0, v - 1))))
        return found

    def tracker(self, cell: Conjunction) -> tuple[CodeCondition, CodeCondition] | None:
        """A condition T and its negation, both large enough, on a column that the cell leaves room for."""
        used = frozenset(c.column for c in cell)
        if used not in self._found:
            self._found[used] = self._tracker(used)
        return self._found[used]

    def _tracker(self, used: frozenset[int]) -> tuple[CodeCondition, CodeCondition] | None:
        pairs = []
        for at, column in enumerate(self.profiles.columns):
            if len(used | {at}) > self.most:
                continue
            if {"=", "<>"} <= self.operators:
                pairs += [(CodeCondition(at, "=", (v,)), CodeCondition(at, "<>", (v,))) for v in range(column.codes)]
            if {"<", ">"} <= self.operators and not column.nullable:
                pairs += [
                    (CodeCondition(at, "<=", (v,)), CodeCondition(at, ">", (v,))) for v in range(len(column.values) - 1)
                ]
        sizes = [(i, self.profiles.size(((T,),))) for i, (T, _) in enumerate(pairs)]
        found = find_general_tracker(sizes, self.profiles.n, self.least)
        return None if found is None else pairs[found]

    def _general(self, cell: Conjunction) -> Way | None:
        found = self.tracker(cell)
        if found is None or "=" not in self.operators or not cell:
            return None
        T, rest = found
        return ((1, (cell, (T,))), (1, (cell, (rest,))), (-1, EVERYBODY))


def _count_questions(chosen: tuple[Terms, ...]) -> int:
    count = 1
    for terms in chosen:
        count *= len(terms)
    return count


def _multiply_out(chosen: tuple[Terms, ...]) -> Way:
    found = []
    for picked in product(*chosen):
        sign = 1
        for s, _ in picked:
            sign *= s
        found.append((sign, (tuple(condition for _, condition in picked if condition is not None),)))
    return tuple(found)


class ExhaustiveSearch:
    """Every question of a language over a small roster.

    `whole` is False if OR or long lists of IN leave some out: then what is not found may still be there.

    >>> from keyhole.attacks.plan.profiles import Profiles
    >>> from keyhole.attacks.plan.question import CodedColumn
    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> roster = Profiles.of_codes((sex,), np.array([[0, 1, 1]]), np.ones(3, bool))
    >>> found = ExhaustiveSearch(AllowedQuestions(roster, frozenset({"=", "<>"}), 2, 1))
    >>> list(found.fewest(0).values()), found.proved(0)
    ([Fraction(1, 1), Fraction(-1, 1)], True)
    """

    def __init__(self, ways: AllowedQuestions) -> None:
        self.ways = ways
        listed = "IN" not in ways.operators or all(len(c.values) <= LISTS for c in ways.profiles.columns)
        self.whole = "OR" not in ways.operators and listed
        profiles = ways.profiles
        self.valued = np.flatnonzero(profiles.unknowns > 0)
        self.by_mask: dict[int, Question] = {}
        for question in _list_questions(ways):
            mask = profiles.mask(question)
            if int(profiles.people[mask].sum()) >= ways.least:
                bits = int.from_bytes(np.packbits(mask[self.valued], bitorder="little").tobytes(), "little")
                self.by_mask.setdefault(bits, question)
        self.by_mask.pop(0, None)
        self._space: RowSpace | None = None

    @staticmethod
    def fits(ways: AllowedQuestions) -> bool:
        """Are there few enough questions to list them all?"""
        total = 0
        for chosen in _list_column_sets(ways):
            total += prod(_count_conditions(ways, c) for c in chosen)
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
        return 1 << int(np.searchsorted(self.valued, profile))

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
            masks = [self.ways.profiles.mask(q)[self.valued] for q in questions]
            rows = np.array(masks, dtype=np.int64).reshape(len(questions), len(self.valued))
            self._space = RowSpace(RowMatrix.from_dense(rows), rng=np.random.default_rng(0))
        found = self._space.weights(int(np.searchsorted(self.valued, profile)))
        return None if found is None else {questions[i]: w for i, w in found.items()}


def _list_column_sets(ways: AllowedQuestions) -> Iterator[tuple[int, ...]]:
    for size in range(1, min(ways.most, len(ways.profiles.columns)) + 1):
        yield from combinations(range(len(ways.profiles.columns)), size)


def _list_questions(ways: AllowedQuestions) -> Iterator[Question]:
    yield EVERYBODY
    for chosen in _list_column_sets(ways):
        for conditions in product(*(list(_list_conditions(ways, c)) for c in chosen)):
            yield (tuple(conditions),)


def _count_conditions(ways: AllowedQuestions, c: int) -> int:
    """How many conditions `_conditions` gives, or a few more."""
    allowed, v = ways.operators, len(ways.profiles.columns[c].values)
    lists = 2**v if v <= LISTS else v * (v + 1) // 2
    ranges = v * len({"<", ">"} & allowed) + v * (v + 1) // 2 * ("BETWEEN" in allowed)
    return (v + 1) * len({"=", "<>"} & allowed) + lists * ("IN" in allowed) + ranges


def _list_conditions(ways: AllowedQuestions, c: int) -> Iterator[CodeCondition]:
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
