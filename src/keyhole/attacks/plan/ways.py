"""How the total of one cell is asked for when the cell is too small to be asked about: differencing and trackers.

Each condition c = v of the cell is written as a difference of allowed ones: all - (c <> v), (c >= v) - (c > v), and so
on; multiplied out, d such conditions take 2^d questions. With OR, a general tracker T does it in three: q(C or T) +
q(C or not T) - q(everybody).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from keyhole.attacks.design.tracker import find_general_tracker
from keyhole.attacks.plan.profiles import Profiles
from keyhole.attacks.plan.question import EVERYBODY, OPERATORS, CodeCondition, Conjunction, Question

Terms = tuple[tuple[int, CodeCondition | None], ...]  # signs and conditions; None: no condition
Way = tuple[tuple[int, Question], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """The allowed language: operators, the smallest group, the most columns in a question.

    >>> import numpy as np
    >>> from keyhole.attacks.plan.question import CodedColumn
    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> roster = Profiles.of_codes((sex,), np.array([[0, 1, 1, 1]]), np.ones(4, bool))
    >>> Ways(roster, frozenset({"=", "<>"}), 2, 1).of((CodeCondition(0, "=", (0,)),))
    ((1, ((),)), (-1, ((CodeCondition(column=0, op='<>', codes=(0,)),),)))
    >>> Ways(roster, frozenset({"=", "<>"}), 2, 1).told
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
        choices = sorted(product(*(self.written(c) for c in cell)), key=lambda chosen: _count(chosen))
        tracked = self._general(cell) if "OR" in self.operators else None
        for chosen in choices:
            if tracked is not None and _count(chosen) > 3:
                break
            way = _expanded(chosen)
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


def _count(chosen: tuple[Terms, ...]) -> int:
    count = 1
    for terms in chosen:
        count *= len(terms)
    return count


def _expanded(chosen: tuple[Terms, ...]) -> Way:
    found = []
    for picked in product(*chosen):
        sign = 1
        for s, _ in picked:
            sign *= s
        found.append((sign, (tuple(condition for _, condition in picked if condition is not None),)))
    return tuple(found)
