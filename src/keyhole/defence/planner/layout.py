"""A wanted number laid out over cells: which cells it counts, and what a set of noisy tables says of it.

A number is laid out over the axes that a purchase would have, and again over axes that were bought before, if those
can say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product

import numpy as np

from keyhole.basis.cells.base import Cells
from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.planner.wanted import WantedNumber
from keyhole.defence.tables.error_bars import ErrorLaw
from keyhole.defence.tables.inference import Floats, Functional
from keyhole.defence.tables.margins import check_size
from keyhole.defence.tables.noisy_tables import COUNT, Generation, Quantity
from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import Predicate

MOST_COMBINATIONS = 8  # of partitions that inference is tried on
MOST_GROUPS = 10_000
NO_AXES = Functional((), (), (), None)  # a number of its own: there are no cells to add up


@dataclass(frozen=True, slots=True, eq=False)
class LinearPart:
    """factor * functional, for one quantity; with several conditions the factors are in the weights."""

    factor: Fraction
    functional: Functional


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A wanted number over axes in the order of their keys: `count` is the functional of its condition, `sums` what is
    added up.
    """

    wanted: WantedNumber
    axes: tuple[CutAxis, ...]
    keys: tuple[str, ...]  # columns whose every cell is asked by itself, in the order of GROUP BY
    count: Functional
    sums: Mapping[Quantity, LinearPart]

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the axes."""
        return tuple(axis.key for axis in self.axes)

    @property
    def needed(self) -> list[tuple[Quantity, Functional]]:
        """What must be known, of which some may be public."""
        sums = [(quantity, part.functional) for quantity, part in self.sums.items()]
        return sums if self.wanted.kind == "linear" else [*sums, (COUNT, self.count)]

    @property
    def is_one_number(self) -> bool:
        """Can it be bought as one number? One group, one condition, and no weights but 0 and 1."""
        return self.wanted.kind != "quantile" and not self.keys and len(self.wanted.conditions) == 1

    @property
    def asks_points_alone(self) -> bool:
        """Does it ask for single values alone, one of each column?"""
        return self.count.vectors is not None and all(
            v.sum() <= 1 or axis in self.count.keys for axis, v in enumerate(self.count.vectors)
        )

    def without_axes(self) -> Layout:
        """The same wanted number, over no axis: what one number of its own says of it."""
        sums = {quantity: LinearPart(part.factor, NO_AXES) for quantity, part in self.sums.items()}
        return Layout(self.wanted, (), (), NO_AXES, sums)

    def order_groups(self, values: Floats) -> Floats:
        """Answers of all groups with axes in the order of GROUP BY, without the cells that are nobody's key."""
        order = [axis.column.name for axis in self.axes if axis.column.name in self.keys]
        turned = np.transpose(values, [order.index(key) for key in self.keys]) if self.keys else values
        columns = {axis.column.name: axis.column for axis in self.axes}
        return turned[tuple(slice(len(columns[key].keys())) for key in self.keys)]

    # --- what tables say of it ----------------------------------------------------------------------------------------

    def add_up(self, generation: Generation) -> tuple[Floats, ErrorLaw]:
        """The sum of everything added up, and the law of its error (of the worst group's)."""
        value: Floats = np.zeros(self.count.groups)
        law = ErrorLaw()
        for quantity, part in self.sums.items():
            if _is_public(quantity, part.functional, generation):
                value = value + float(part.factor) * float(generation.n or 0)
                continue
            if part.functional.empty:
                continue
            value = value + float(part.factor) * generation.value(quantity, part.functional)
            law = law.plus(generation.law(quantity, part.functional).times(float(part.factor)))
        return value, law

    def is_known(self, generation: Generation) -> bool:
        """Can it be answered from these tables at all?"""
        return all(
            np.isfinite(generation.variance(quantity, functional)) or functional.empty
            for quantity, functional in self.needed
            if not _is_public(quantity, functional, generation)
        )

    def variances(self, generation: Generation) -> dict[Quantity, float]:
        """Of what must be known, by quantity; nothing for what is public."""
        variances: dict[Quantity, float] = {}
        for quantity, functional in self._secret(generation):
            variances[quantity] = max(variances.get(quantity, 0.0), generation.variance(quantity, functional))
        return variances

    def bars(self, generation: Generation, beta: float) -> dict[Quantity, float]:
        """The bar of every quantity that is needed, over its reach: comparable with a share of people."""
        bars: dict[Quantity, float] = {}
        for quantity, functional in self._secret(generation):
            scale = 1 if quantity.counts else 2 * quantity.reach
            bars[quantity] = max(bars.get(quantity, 0.0), generation.law(quantity, functional).bar(beta) / scale)
        return bars

    def is_within(self, target: float, generation: Generation, beta: float) -> bool:
        """Are all bars within the target (people; sums scaled to [0, 1] a person)?"""
        return all(bar <= target * (1 + 1e-9) for bar in self.bars(generation, beta).values())

    def _secret(self, generation: Generation) -> Iterator[tuple[Quantity, Functional]]:
        for quantity, functional in self.needed:
            if not functional.empty and not _is_public(quantity, functional, generation):
                yield quantity, functional


def _is_public(quantity: Quantity, functional: Functional, generation: Generation) -> bool:
    """The count of everybody, where n is no secret."""
    return quantity == COUNT and generation.n is not None and functional.whole


def find_cuts(wanted: WantedNumber, keys: Sequence[str], columns: Partitions) -> dict[str, set[int]]:
    """The columns that a number looks at, with the grid points where it cuts them; every point of a grouping column."""
    cuts = columns.find_cuts(wanted.conditions)
    for key in keys:
        column = columns.of(key)
        if isinstance(column, Cuts):
            if column.steps >= MOST_GROUPS:
                raise UnsupportedQuery(f"GROUP BY {key!r} has {column.steps + 1} groups; at most {MOST_GROUPS}")
            cuts.setdefault(key, set()).update(range(1, column.steps + 1))
        else:
            cuts.setdefault(key, set())
    return cuts


def lay_out_for_purchase(wanted: WantedNumber, keys: Sequence[str], columns: Partitions) -> Layout:
    """A wanted number over the axes that a purchase would have."""
    cuts = find_cuts(wanted, keys, columns)
    return lay_out(wanted, keys, [columns.make_axis(name, points) for name, points in cuts.items()])


def find_known_layouts(
    layout: Layout, generation: Generation, columns: Partitions, bought: Mapping[str, Sequence[CutAxis]]
) -> Iterator[Layout]:
    """The same number over partitions that were bought before, where they can say it."""
    if layout.is_known(generation):
        yield layout
    choices = []
    for name, points in find_cuts(layout.wanted, layout.keys, columns).items():
        column = columns.of(name)
        if isinstance(column, Cuts):
            inside = {c for c in points if 0 < c <= column.steps}
            fit = [a for a in bought.get(name, ()) if isinstance(a.column, Cuts) and inside <= {*a.column.starts}]
            choices.append(fit)
        else:
            choices.append([CutAxis.of(column)])
    for axes in islice(product(*choices), MOST_COMBINATIONS):
        if {axis.key for axis in axes} == {*layout.names}:
            continue
        other = lay_out(layout.wanted, layout.keys, axes)
        if other.is_known(generation):
            yield other


def lay_out(wanted: WantedNumber, keys: Sequence[str], axes: Sequence[CutAxis]) -> Layout:
    """The functionals over the cells of these axes; refused if a condition cuts through a cell, or they are too many.

    Cost: one pass over the cells for each condition.
    """
    ordered = tuple(sorted(axes, key=lambda axis: axis.key))
    check_size([axis.column for axis in ordered])
    names = tuple(axis.key for axis in ordered)
    places = tuple(at for at, axis in enumerate(ordered) if axis.column.name in keys)
    cells = Cells.all(Domain(tuple(axis.column for axis in ordered))) if ordered else None
    kept: dict[Predicate, Functional] = {}
    for where in wanted.conditions:
        if cells is None:
            kept[where] = Functional(names, (), (), None)
        else:
            kept[where] = Functional.of(names, np.broadcast_to(cells.select(where), cells.shape), places)
    sums = {m: _combine([(factor, kept[where]) for factor, where in each]) for m, each in wanted.sums.items()}
    return Layout(wanted, ordered, tuple(keys), kept[wanted.where], sums)


def _combine(parts: Sequence[tuple[Fraction, Functional]]) -> LinearPart:
    """One functional for a quantity: that of its one condition, or the weighted sum of several."""
    if len(parts) == 1:
        return LinearPart(*parts[0])
    first = parts[0][1]
    total = np.zeros(first.sizes)
    for factor, each in parts:
        whole = each.weights if each.vectors is None else Functional.product(each.names, each.vectors).dense()
        assert whole is not None
        total += float(factor) * whole
    return LinearPart(Fraction(1), Functional(first.names, first.sizes, None, total, first.keys))
