"""A declared column: finitely many cells, and what a condition says of each.

Whatever a table holds has a cell: numbers outside their range are clamped into it and rounded to the step, undeclared
values have a cell of their own or count as NULL, and NULL has one or counts as a declared value. So nothing about the
data can make loading or a question fail.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keyhole.model.predicate import Leaf, Scalar

Truths = NDArray[np.uint8]
FALSE, NULL, TRUE = 1, 2, 4  # a cell's truth is the set of what its records can say: these bits, or'ed together


class Declared(Protocol):
    """One declared column, cut into cells; the NULL cell is the last."""

    @property
    def name(self) -> str:
        """The column's name, as the table spells it."""

    @property
    def size(self) -> int:
        """How many cells, the NULL cell included."""

    def truths(self, leaf: Leaf) -> Truths:
        """For each cell, the set of truth values that records in it can give to a condition on this column."""

    def keys(self) -> tuple[Scalar, ...]:
        """The declared values, in cell order; refused where a cell holds several."""

    def amounts(self) -> tuple[list[Fraction], Fraction]:
        """What each cell adds to a SUM, and by how much a record in it may differ from that at most."""

    def describe(self, cell: int) -> str:
        """A cell in words."""

    def code(self) -> str:
        """An SQL expression that gives a record's cell number."""
