"""Whole numbers z, lower <= z <= upper, under rows lo <= A z <= hi and choices between rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NO_END = 2**62  # stands for no end


@dataclass(frozen=True, slots=True)
class LinearRow:
    """lo <= sum of coefficient * column <= hi; -NO_END and NO_END stand for no end."""

    columns: tuple[int, ...]
    coefficients: tuple[int, ...]
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class RowChoice:
    """One of several sets of rows holds; `group` is the statement it belongs to."""

    alternatives: tuple[tuple[LinearRow, ...], ...]
    group: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSystem:
    """Sparse rows (`start`, `column`, `coefficient`), their ends, and those of the columns.

    `groups` says to which statement each row belongs, in whose words a contradiction is told. The first `wanted`
    columns are asked for, the others only help to say what is known.
    """

    start: Ints
    column: Ints
    coefficient: Ints
    lo: Ints
    hi: Ints
    lower: Ints
    upper: Ints
    groups: Ints
    choices: tuple[RowChoice, ...] = ()
    wanted: int = -1

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.lo)

    @property
    def columns(self) -> int:
        """How many columns."""
        return len(self.lower)

    @property
    def asked(self) -> int:
        """How many columns are asked for."""
        return self.columns if self.wanted < 0 else self.wanted

    @property
    def row_of(self) -> Ints:
        """The row of each entry."""
        return np.repeat(np.arange(self.rows), np.diff(self.start))

    def products(self, z: Ints) -> Ints:
        """A z."""
        found = np.zeros(self.rows, dtype=np.int64)
        np.add.at(found, self.row_of, self.coefficient * z[self.column])
        return found

    def holds(self, z: Ints) -> bool:
        """Does z meet every row, choice and bound? In whole numbers.

        >>> one = system_of_rows([LinearRow((0, 1), (1, 1), 1, 1)], [0, 0], [1, 1])
        >>> one.holds(np.array([0, 1])), one.holds(np.array([1, 1]))
        (True, False)
        """
        said = self.products(z)
        fits = bool((self.lower <= z).all() and (z <= self.upper).all() and (self.lo <= said).all())
        return fits and bool((said <= self.hi).all()) and all(_chosen(choice, z) for choice in self.choices)


def _chosen(choice: RowChoice, z: Ints) -> bool:
    def fits(row: LinearRow) -> bool:
        total = sum(c * int(z[k]) for k, c in zip(row.columns, row.coefficients, strict=True))
        return row.lo <= total <= row.hi

    return any(all(map(fits, rows)) for rows in choice.alternatives)


def system_of_rows(
    rows: Sequence[LinearRow],
    lower: Sequence[int],
    upper: Sequence[int],
    groups: Sequence[int] | None = None,
    choices: Sequence[RowChoice] = (),
    wanted: int = -1,
) -> IntegerSystem:
    """A system from its rows; each its own group where none is given."""
    start = np.cumsum([0, *(len(row.columns) for row in rows)]).astype(np.int64)
    return IntegerSystem(
        start,
        np.array([k for row in rows for k in row.columns], dtype=np.int64),
        np.array([c for row in rows for c in row.coefficients], dtype=np.int64),
        np.array([row.lo for row in rows], dtype=np.int64),
        np.array([row.hi for row in rows], dtype=np.int64),
        np.array(lower, dtype=np.int64),
        np.array(upper, dtype=np.int64),
        np.array(range(len(rows)) if groups is None else groups, dtype=np.int64),
        tuple(choices),
        wanted,
    )
