"""Tables that may be combined, and what follows from all of them: values with the exact law of their error."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product as every
from math import prod

import numpy as np

from keyhole.defence.tables.bought import BoughtTable
from keyhole.defence.tables.functional import Functional
from keyhole.defence.tables.quantity import COUNT, Quantity
from keyhole.defence.tables.residuals import Floats, Inference, Names, component, subsets
from keyhole.defence.tables.tails import ErrorLaw, laplace_terms


@dataclass(slots=True, eq=False)
class Generation:
    """All tables that were bought without looking at the values of each other.

    A purchase that was chosen by looking at released values begins the next generation, and its tables are not combined
    with those of earlier ones: bars would otherwise miss more often than they say.

    `n` is the number of people where it is public. Cost of an answer: flat in the number of tables, for Gaussian noise;
    for Laplace noise the first question of its shape looks at all tables that share an axis with it.
    """

    n: int | None
    tables: list[BoughtTable] = field(default_factory=list)
    known: dict[Quantity, Inference] = field(default_factory=dict)
    laws: dict[object, ErrorLaw] = field(default_factory=dict)

    def add(self, table: BoughtTable) -> None:
        """One table more."""
        self.tables.append(table)
        for dose, values in zip(table.doses, table.values, strict=True):
            self.of(dose.quantity).add(table.names, values.astype(np.float64), table.precision(dose))
        self.laws.clear()

    def of(self, quantity: Quantity) -> Inference:
        """What is known of a quantity."""
        if quantity not in self.known:
            total = float(self.n) if quantity == COUNT and self.n is not None else None
            self.known[quantity] = Inference(total)
        return self.known[quantity]

    def covers(self, quantity: Quantity, names: Names) -> bool:
        """Is every residual of these axes known?"""
        info = self.of(quantity).info
        return all(info.get(keep, 0.0) > 0 for keep in subsets(names) if keep or not (quantity == COUNT and self.n))

    def variance(self, quantity: Quantity, asked: Functional) -> float:
        """Of the worst group's error."""
        inference = self.of(quantity)
        if asked.vectors is not None:
            return 0.0 if asked.empty else inference.variance(asked.names, asked.profiles)
        return max(inference.dense(asked.names, asked.dense(group)) for group in every(*map(range, asked.groups)))

    def value(self, quantity: Quantity, asked: Functional) -> Floats:
        """The estimate for every group."""
        return asked.within(self.of(quantity).table(asked.names, asked.sizes))

    def law(self, quantity: Quantity, asked: Functional) -> ErrorLaw:
        """Of the error of each group; where groups differ, one whose bar is at least that of each."""
        if asked.empty or (quantity == COUNT and self.n is not None and asked.whole):
            return ErrorLaw()
        relevant = [t for t in self.tables if t.holds(quantity)]
        if all(t.law == "gaussian" for t in relevant):
            return ErrorLaw(self.variance(quantity, asked), (), 1.0)
        at = (quantity, asked.names, asked.keys, asked.profiles) if asked.vectors is not None else None
        if at is None or at not in self.laws:
            found = self._law(quantity, asked, relevant)
            if at is None:
                return found
            self.laws[at] = found
        return self.laws[at]

    def _law(self, quantity: Quantity, asked: Functional, relevant: list[BoughtTable]) -> ErrorLaw:
        if not np.isfinite(self.variance(quantity, asked)):
            return ErrorLaw(float("inf"))
        worst = ErrorLaw()
        for group in _representatives(asked):
            here = ErrorLaw(0.0, (), 1.0)
            weights = asked.dense(group)
            for table in relevant:
                part = self._law_of(quantity, asked.names, weights, table)
                here = here.plus(part)
            worst = worst.over(here)
        return worst

    def _law_of(self, quantity: Quantity, names: Names, weights: Floats, table: BoughtTable) -> ErrorLaw:
        """What one table's noise adds to the error: its weights in the combined estimate, cell by cell."""
        found = table.of(quantity)
        assert found is not None
        dose, values = found
        inference, precision = self.of(quantity), table.precision(dose)
        sizes = dict(zip(table.names, values.shape, strict=True))
        moved = np.zeros(values.shape)
        for keep in subsets(tuple(name for name in table.names if name in names)):
            if not keep and inference.known is not None:
                continue
            here = precision / prod(sizes[name] for name in table.names if name not in keep)
            part = component(weights, names, keep) * (here / inference.info[keep])
            moved += part.reshape([sizes[name] if name in keep else 1 for name in table.names])
        if table.law == "gaussian":
            return ErrorLaw(float((moved**2).sum()) / precision, (), 1.0)
        return ErrorLaw(0.0, laplace_terms(moved, float(dose.noise)), 1.0)


def _representatives(asked: Functional) -> list[tuple[int, ...]]:
    """Groups that stand for all: one, where the condition is a product (the others are the same up to order)."""
    if asked.vectors is None:
        return list(every(*map(range, asked.groups)))
    return [tuple(int(np.argmax(asked.vectors[axis])) for axis in asked.keys)]
