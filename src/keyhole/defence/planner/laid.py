"""A wanted number laid over axes: which cells count, and what a set of tables says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.basis.cells.base import Cells
from keyhole.basis.cells.domain import Domain
from keyhole.defence.planner.asks import Wanted
from keyhole.defence.planner.columns import CutAxis
from keyhole.defence.tables.error_bars import ErrorLaw
from keyhole.defence.tables.inference import Floats, Functional
from keyhole.defence.tables.margins import check_size
from keyhole.defence.tables.noisy_tables import COUNT, Generation, Quantity
from keyhole.model.predicate import Predicate


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """factor * functional, for one quantity; with several conditions the factors are in the weights."""

    factor: Fraction
    functional: Functional


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """A wanted number over axes in the order of their keys: `count` is the functional of its condition, `sums` what is
    added up.
    """

    wanted: Wanted
    axes: tuple[CutAxis, ...]
    keys: tuple[str, ...]  # columns whose every cell is asked by itself, in the order of GROUP BY
    count: Functional
    sums: Mapping[Quantity, Linear]

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the axes."""
        return tuple(axis.key for axis in self.axes)

    def ordered(self, found: Floats) -> Floats:
        """Answers of all groups with axes in the order of GROUP BY, without the cells that are nobody's key."""
        order = [axis.column.name for axis in self.axes if axis.column.name in self.keys]
        turned = np.transpose(found, [order.index(key) for key in self.keys]) if self.keys else found
        columns = {axis.column.name: axis.column for axis in self.axes}
        return turned[tuple(slice(len(columns[key].keys())) for key in self.keys)]

    def linear(self, generation: Generation) -> tuple[Floats, ErrorLaw]:
        """The sum of everything added up, and the law of its error (of the worst group's)."""
        value: Floats = np.zeros(self.count.groups)
        law = ErrorLaw()
        for quantity, part in self.sums.items():
            if quantity == COUNT and generation.n is not None and part.functional.whole:
                value = value + float(part.factor) * generation.n
                continue
            if part.functional.empty:
                continue
            value = value + float(part.factor) * generation.value(quantity, part.functional)
            law = law.plus(generation.law(quantity, part.functional).times(float(part.factor)))
        return value, law

    def known(self, generation: Generation) -> bool:
        """Can it be answered from these tables at all?"""
        needed = [(m, p.functional) for m, p in self.sums.items()]
        if self.wanted.kind != "linear":
            needed.append((COUNT, self.count))
        return all(
            np.isfinite(generation.variance(m, f)) or f.empty for m, f in needed if not _public(m, f, generation)
        )


def _public(quantity: Quantity, asked: Functional, generation: Generation) -> bool:
    return quantity == COUNT and generation.n is not None and asked.whole


def lay(wanted: Wanted, keys: Sequence[str], axes: Sequence[CutAxis]) -> Laid:
    """The functionals over the cells of these axes; refused if a condition cuts through a cell, or they are too many.

    Cost: one pass over the cells for each condition.
    """
    ordered = tuple(sorted(axes, key=lambda axis: axis.key))
    check_size([axis.column for axis in ordered])
    places = tuple(at for at, axis in enumerate(ordered) if axis.column.name in keys)
    cells = Cells.all(Domain(tuple(axis.column for axis in ordered))) if ordered else None
    kept: dict[Predicate, Functional] = {}
    for where in wanted.conditions:
        kept[where] = _functional(where, ordered, cells, places)
    sums = {m: _combined([(f, kept[where]) for f, where in each]) for m, each in wanted.sums.items()}
    return Laid(wanted, ordered, tuple(keys), kept[wanted.where], sums)


def _functional(where: Predicate, axes: Sequence[CutAxis], cells: Cells | None, keys: tuple[int, ...]) -> Functional:
    names = tuple(axis.key for axis in axes)
    if cells is None:
        return Functional(names, (), (), None)
    chosen = np.broadcast_to(cells.select(where), cells.shape)
    return Functional.of(names, chosen, keys)


def _combined(parts: Sequence[tuple[Fraction, Functional]]) -> Linear:
    """One functional for a quantity: that of its one condition, or the weighted sum of several."""
    if len(parts) == 1:
        return Linear(*parts[0])
    first = parts[0][1]
    total = np.zeros(first.sizes)
    for factor, each in parts:
        whole = each.weights if each.vectors is None else Functional.product(each.names, each.vectors).dense()
        assert whole is not None
        total += float(factor) * whole
    return Linear(Fraction(1), Functional(first.names, first.sizes, None, total, first.keys))
