"""One cell of a declared column, as a column of its own: what a GROUP BY looks at within a group."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from keyhole.defend.declared import Declared, Truths
from keyhole.predicate import Leaf, Scalar

Memo = dict[tuple[int, int], Any]


@dataclass(frozen=True, slots=True)
class OneCell:
    """`column`, narrowed to one cell. `memo` holds what the whole column says, for all groups of one statement: it is
    keyed by identity, so it must not outlive the statement.

    >>> from keyhole.defend.categories import Categories
    >>> from keyhole.predicate import Comparison
    >>> OneCell(Categories("sex", ("F", "M")), 1, {}).truths(Comparison("sex", "=", "M")).tolist()
    [4]
    """

    column: Declared
    cell: int
    memo: Memo = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def size(self) -> int:
        """One cell."""
        return 1

    def truths(self, leaf: Leaf) -> Truths:
        """What records of this cell can say."""
        key = (id(self.column), id(leaf))
        if key not in self.memo:
            self.memo[key] = (self.column.truths(leaf), leaf)  # the leaf is kept: its identity stays its own
        found: Truths = self.memo[key][0][self.cell : self.cell + 1]
        return found

    def keys(self) -> tuple[Scalar, ...]:
        """The declared value of this cell."""
        return (self.column.keys()[self.cell],)

    def amounts(self) -> tuple[list[Fraction], Fraction]:
        """What this cell adds to a SUM."""
        key = (id(self.column), 0)
        if key not in self.memo:
            self.memo[key] = self.column.amounts()
        amounts, half = self.memo[key]
        return [amounts[self.cell]], half

    def describe(self, cell: int) -> str:
        """The cell in words."""
        return self.column.describe(self.cell + cell)

    def code(self) -> str:
        """Every record of the group is in the one cell."""
        return "0"

    def fault(self) -> str | None:
        """That of the column."""
        return self.column.fault()
