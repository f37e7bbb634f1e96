"""The one place where a planned purchase reads the secret: true margins, counted by the engine or from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.domain import DeclaredColumn
from keyhole.basis.cells.numbers import Cuts
from keyhole.datasets import Source
from keyhole.defence.budget.loss import Neighbours
from keyhole.defence.tables.inference import Functional
from keyhole.defence.tables.noisy_tables import COUNT, Quantity, Whole
from keyhole.errors import UnsupportedQuery

MOST_CELLS = 2**22  # of one table


class Margins(Protocol):
    """True tables over any of the declared columns. Only purchases read them, after they are paid."""

    @property
    def neighbours(self) -> Neighbours:
        """Whom the answers protect."""

    @property
    def n(self) -> int:
        """How many records: public under replace-one, a secret under add-remove."""

    def tables(self, axes: Sequence[DeclaredColumn], quantities: Sequence[Quantity]) -> tuple[Whole, ...]:
        """One array a quantity, with an axis for each column."""

    def points(self, column: Cuts, axes: Sequence[DeclaredColumn], kept: NDArray[np.bool_]) -> tuple[Whole, Whole]:
        """Grid points of a column that occur in the kept cells of the axes, increasing, and how often."""

    def distinct(self, code: str, axes: Sequence[DeclaredColumn], kept: NDArray[np.bool_]) -> int:
        """How many different values an SQL expression has in the kept cells of the axes."""

    def keys(
        self, columns: Sequence[str], axes: Sequence[DeclaredColumn], asked: Functional
    ) -> Sequence[tuple[tuple[str, ...], int]]:
        """The values of undeclared columns, as text, among the people asked about, and how many have each."""


@dataclass(frozen=True, slots=True)
class NobodysMargins:
    """Tables in which nobody is counted: a dry run buys from them, so that no true count is in its reach."""

    n: int
    neighbours: Neighbours

    def tables(self, axes: Sequence[DeclaredColumn], quantities: Sequence[Quantity]) -> tuple[Whole, ...]:
        """Zeros."""
        check_size(axes)
        return tuple(np.zeros(tuple(axis.size for axis in axes), dtype=np.int64) for _ in quantities)

    def points(self, column: Cuts, axes: Sequence[DeclaredColumn], kept: NDArray[np.bool_]) -> tuple[Whole, Whole]:
        """None."""
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def distinct(self, code: str, axes: Sequence[DeclaredColumn], kept: NDArray[np.bool_]) -> int:
        """None."""
        return 0

    def keys(
        self, columns: Sequence[str], axes: Sequence[DeclaredColumn], asked: Functional
    ) -> Sequence[tuple[tuple[str, ...], int]]:
        """None."""
        return ()


def check_size(axes: Sequence[DeclaredColumn]) -> None:
    """Refuse a table that no machine should hold; from the declaration alone."""
    cells = prod(axis.size for axis in axes)
    if cells > MOST_CELLS:
        sizes = " x ".join(f"{axis.name} {axis.size}" for axis in axes)
        raise UnsupportedQuery(f"this looks at {cells:.3g} cells ({sizes}); at most 2^22: use fewer columns or cuts")


@dataclass(slots=True, eq=False, repr=False)
class SourceMargins:
    """Counted by one GROUP BY in the engine, when they are first needed."""

    source: Source
    columns: Mapping[str, Cuts]  # of numbers, for their grid points
    neighbours: Neighbours = "replace-one"
    kept: dict[object, tuple[Whole, ...]] = field(default_factory=dict)
    counted: int | None = None

    @property
    def n(self) -> int:
        """One scan, once."""
        if self.counted is None:
            self.counted = int(self.source.tally("0")[1].sum())
        return self.counted

    def tables(self, axes: Sequence[DeclaredColumn], quantities: Sequence[Quantity]) -> tuple[Whole, ...]:
        """One scan for all quantities."""
        at = (tuple(axes), tuple(quantities))
        if at not in self.kept:
            check_size(axes)
            sums = [m for m in quantities if m != COUNT]
            cells, *found = self.source.tallies(_code(axes), [self._summed(m) for m in sums])
            shape = tuple(axis.size for axis in axes)
            made = {}
            for quantity, values in zip((COUNT, *sums), found, strict=True):
                whole = np.zeros(prod(shape), dtype=np.int64)
                whole[cells] = values
                made[quantity] = whole.reshape(shape)
            self.kept[at] = tuple(made[m] for m in quantities)
        return self.kept[at]

    def points(self, column: Cuts, axes: Sequence[DeclaredColumn], kept: NDArray[np.bool_]) -> tuple[Whole, Whole]:
        """By the cell of the axes and the grid point together; NULL has none."""
        point = f"COALESCE({column.point()}, -1)"
        codes, counts = self.source.tally(f"CAST({_code(axes)} AS BIGINT) * {column.steps + 2} + ({point}) + 1")
        cells, points = np.divmod(codes, column.steps + 2)
        inside = kept.ravel()[cells] & (points > 0)
        found = np.zeros(column.steps + 1, dtype=np.int64)
        np.add.at(found, points[inside] - 1, counts[inside])
        at = np.flatnonzero(found)
        return at, found[at]

    def distinct(self, code: str, axes: Sequence[DeclaredColumn], kept: NDArray[np.bool_]) -> int:
        """Counted in the engine."""
        cells = ", ".join(map(str, np.flatnonzero(kept.ravel()).tolist()))
        return self.source.count_distinct(code, f"({_code(axes)}) IN ({cells})" if cells else "FALSE")

    def keys(
        self, columns: Sequence[str], axes: Sequence[DeclaredColumn], asked: Functional
    ) -> Sequence[tuple[tuple[str, ...], int]]:
        """In the order of the keys, whatever the order of the file."""
        cells = ", ".join(map(str, np.flatnonzero(asked.dense().ravel()).tolist()))
        return self.source.count_keys(columns, f"({_code(axes)}) IN ({cells})" if cells else "FALSE")

    def _summed(self, quantity: Quantity) -> str:
        column = self.columns[quantity.column]
        u = f"(2 * ({column.point()}) - {column.steps})"
        return u if quantity.power == 1 else f"(2 * {u} * {u} - {quantity.reach})"


def _code(axes: Sequence[DeclaredColumn]) -> str:
    text = "0"
    for column in axes:
        text = f"({text}) * {column.size} + ({column.code()})"
    return text
