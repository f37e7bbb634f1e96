"""Noisy tables: what a table holds in every cell, its price, the table once it was bought, and what many say together.

The price of a purchase follows from how far one person can move all of its cells. Tables of one `Generation` may be
combined; every value that follows from them has the exact law of its error.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product as every
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.budget.loss import Loss, Neighbours, Unit
from keyhole.defence.noise import LARGEST_SCALE, NoiseSource, check_scale, root_above
from keyhole.defence.tables.error_bars import ErrorLaw, laplace_terms
from keyhole.defence.tables.inference import Floats, Functional, Inference, Names, component, subsets

NoiseLaw = Literal["gaussian", "laplace"]
PurchaseForm = Literal["table", "number"]  # cells that a person is in one of | a condition that a person meets or not
Whole = NDArray[np.int64]
LAWS: dict[Unit, NoiseLaw] = {"epsilon": "laplace", "rho": "gaussian"}  # the noise that a budget pays for


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """The count (no column), or the centred sum of a column on its grid: u = 2k - steps for grid point k.

    With `power` 2 it is the sum of 2u^2 - steps^2. One person adds a whole number from -reach to reach. With `power` 0
    it is how many different values of the column there are (of people, where it is the id): one row more or less, or
    another row instead, changes it by 1 at most. It is no sum over cells, so it is bought as one number alone.

    >>> COUNT.reach, Quantity("age", 73).reach, Quantity("age", 73, 2).reach
    (1, 73, 5329)
    """

    column: str = ""
    steps: int = 1
    power: int = 1

    @property
    def reach(self) -> int:
        """The most that one person adds."""
        return self.steps if self.power == 1 else self.steps * self.steps

    @property
    def counts(self) -> bool:
        """Does one row add 0 or 1?"""
        return not self.column or self.power == 0

    def __str__(self) -> str:
        if self.power == 0:
            return f"different values of {self.column}"
        return "count" if not self.column else f"sum of {self.column}" + (" squared" if self.power == 2 else "")


COUNT = Quantity()


@dataclass(frozen=True, slots=True)
class Dose:
    """How much noise a quantity gets in every cell: the variance (Gaussian) or the scale (Laplace), in its own unit."""

    quantity: Quantity
    noise: Fraction

    def error_law(self, law: NoiseLaw) -> ErrorLaw:
        """Of one draw."""
        noise = float(self.noise)
        return ErrorLaw(noise, (), 1.0) if law == "gaussian" else ErrorLaw(0.0, ((noise, 1),), 1.0)

    def transcript_noise(self, law: NoiseLaw) -> dict[str, str | float]:
        """As a line of a transcript states it."""
        scale = float(self.noise) if law == "laplace" else math.sqrt(self.noise)
        return {"kind": f"discrete-{law}", "scale": scale}


def price(doses: Iterable[Dose], law: NoiseLaw, form: PurchaseForm, neighbours: Neighbours) -> Loss:
    """What a purchase costs, exactly: the most that two neighbouring tables can differ, in units of the noise.

    A person adds 1 to a count and -reach to reach to a sum, in one cell. Under replace-one two people differ in two
    cells, or in one with opposite signs. With c the count's 1/variance and S the sums' reach^2/variance, added up,

        Gaussian, table:   rho = max(2(c + S), 4S) / 2        number: max(c + S, 4S) / 2      add-remove: (c + S) / 2
        Laplace, table:    epsilon = 2(c + S)                 number: max(c + S, 2S)          add-remove: c + S

    with 1/scale and reach/scale in the second line (Canonne, Kamath and Steinke 2020 for discrete Gaussian noise on
    whole numbers; Dwork, McSherry, Nissim and Smith 2006). The count is free beside a sum of the same precision.

    >>> one = [Dose(COUNT, Fraction(100)), Dose(Quantity("age", 73), Fraction(100 * 73**2))]
    >>> [str(price(doses, "gaussian", "table", "replace-one").amount) for doses in (one[:1], one[1:], one)]
    ['1/100', '1/50', '1/50']
    """
    listed, power = list(doses), _power(law)
    count = sum((1 / d.noise for d in listed if d.quantity.counts), Fraction(0))
    sums = sum((d.quantity.reach**power / d.noise for d in listed if not d.quantity.counts), Fraction(0))
    moved = count + sums
    if neighbours == "replace-one":
        moved = max((2 if form == "table" else 1) * moved, 2**power * sums)
    if law == "gaussian":
        return Loss("rho", moved / 2, Fraction(0), neighbours)
    return Loss("epsilon", moved, Fraction(0), neighbours)


def _power(law: NoiseLaw) -> int:
    """A dose is a variance under Gaussian noise, so reach enters squared; under Laplace noise it is a scale."""
    return 2 if law == "gaussian" else 1


def noise_for(
    spend: Fraction, quantities: Iterable[Quantity], law: NoiseLaw, form: PurchaseForm, neighbours: Neighbours
) -> list[Dose]:
    """The doses that cost at most `spend`: sums of equal precision (relative to their reach), the count with them.

    >>> doses = noise_for(Fraction(1, 50), [COUNT, Quantity("age", 73)], "gaussian", "table", "replace-one")
    >>> [str(d.noise) for d in doses]
    ['100', '532900']
    """
    listed, power = list(quantities), _power(law)
    unit = price([Dose(m, Fraction(m.reach**power)) for m in listed], law, form, neighbours).amount
    return [Dose(m, round_noise_up(m.reach**power * unit / spend)) for m in listed]


def round_noise_up(noise: Fraction, digits: int = 6) -> Fraction:
    """The smallest number of so many significant digits that is not below: more noise, never less.

    >>> str(round_noise_up(Fraction(1, 3)))
    '166667/500000'
    """
    if noise <= 0:
        return Fraction(0)
    exponent = len(str(noise.numerator)) - len(str(noise.denominator)) - digits
    step = Fraction(10) ** exponent
    return step * -(-noise // step)


@dataclass(frozen=True, slots=True, eq=False)
class BoughtTable:
    """Noisy quantities over the cells of the axes `names`; `values` has one array a quantity.

    Tables of one `generation` may be combined: within it, what was bought and how much of it followed from variances
    and public things alone. `charge` is the entry of the book that paid for it.
    """

    names: Names
    law: NoiseLaw
    doses: tuple[Dose, ...]
    values: tuple[Whole, ...]
    generation: int = 0
    charge: int = 0
    entry: int = 0
    spoken: Mapping[str, Any] = field(default_factory=dict)  # how each cell is asked in SQL, for transcripts

    def precision(self, dose: Dose) -> float:
        """One over the variance of the noise in a cell."""
        noise = float(dose.noise)
        return 1 / noise if self.law == "gaussian" else 1 / (2 * noise * noise)

    def of(self, quantity: Quantity) -> tuple[Dose, Floats] | None:
        """The noise and the noisy cells of one quantity."""
        for dose, values in zip(self.doses, self.values, strict=True):
            if dose.quantity == quantity:
                return dose, values.astype(np.float64)
        return None

    def holds(self, quantity: Quantity) -> bool:
        """Is a quantity in it?"""
        return any(dose.quantity == quantity for dose in self.doses)

    def packed(self) -> dict[str, Any]:
        """For the book; as long, whatever the numbers are."""
        return {
            "kind": "table" if self.names else "number",
            "names": list(self.names),
            "shape": list(self.values[0].shape),
            "law": self.law,
            "doses": [[d.quantity.column, d.quantity.steps, d.quantity.power, str(d.noise)] for d in self.doses],
            "values": [base64.b64encode(v.astype("<i8").tobytes()).decode() for v in self.values],
            "generation": self.generation,
            **self.spoken,
        }

    @classmethod
    def unpacked(cls, kept: dict[str, Any], charge: int, entry: int) -> BoughtTable:
        """From the book.

        >>> made = BoughtTable(("sex",), "laplace", (Dose(COUNT, Fraction(3)),), (np.array([4, -1]),))
        >>> BoughtTable.unpacked(made.packed(), 7, 9).values[0].tolist()
        [4, -1]
        """
        doses = tuple(Dose(Quantity(c, steps, power), Fraction(noise)) for c, steps, power, noise in kept["doses"])
        shape = tuple(kept["shape"])
        values = tuple(np.frombuffer(base64.b64decode(v), dtype="<i8").reshape(shape) for v in kept["values"])
        return cls(tuple(kept["names"]), kept["law"], doses, values, int(kept["generation"]), charge, entry)


def check_drawable(doses: Sequence[Dose], law: NoiseLaw) -> None:
    """Refuse noise that no sampler draws, before anything is charged."""
    for dose in doses:
        check_scale(_scale(dose, law))


def is_drawable(doses: Sequence[Dose], law: NoiseLaw) -> bool:
    """Can a sampler draw all of this noise?"""
    return all(0 < _scale(dose, law) <= LARGEST_SCALE for dose in doses)


def _scale(dose: Dose, law: NoiseLaw) -> Fraction:
    return dose.noise if law == "laplace" else Fraction(root_above(dose.noise))


def add_noise(true: Whole, dose: Dose, law: NoiseLaw, noise: NoiseSource) -> Whole:
    """Independent discrete noise on every cell."""
    draw = noise.gaussian if law == "gaussian" else noise.laplace
    drawn = np.fromiter((draw(dose.noise) for _ in range(true.size)), dtype=np.int64, count=true.size)
    return true + drawn.reshape(true.shape)


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

    def variance(self, quantity: Quantity, functional: Functional) -> float:
        """Of the worst group's error."""
        inference = self.of(quantity)
        if functional.vectors is not None:
            return 0.0 if functional.empty else inference.variance(functional.names, functional.profiles)
        return max(
            inference.dense(functional.names, functional.dense(group))
            for group in every(*map(range, functional.groups))
        )

    def value(self, quantity: Quantity, asked: Functional) -> Floats:
        """The estimate for every group."""
        return asked.within(self.of(quantity).table(asked.names, asked.sizes))

    def law(self, quantity: Quantity, functional: Functional) -> ErrorLaw:
        """Of the error of each group; where groups differ, one whose bar is at least that of each."""
        if functional.empty or (quantity == COUNT and self.n is not None and functional.whole):
            return ErrorLaw()
        relevant = [t for t in self.tables if t.holds(quantity)]
        if all(t.law == "gaussian" for t in relevant):
            return ErrorLaw(self.variance(quantity, functional), (), 1.0)
        at = (
            (quantity, functional.names, functional.keys, functional.profiles)
            if functional.vectors is not None
            else None
        )
        if at is None or at not in self.laws:
            found = self._law(quantity, functional, relevant)
            if at is None:
                return found
            self.laws[at] = found
        return self.laws[at]

    def _law(self, quantity: Quantity, functional: Functional, relevant: list[BoughtTable]) -> ErrorLaw:
        if not np.isfinite(self.variance(quantity, functional)):
            return ErrorLaw(float("inf"))
        worst = ErrorLaw()
        for group in _representatives(functional):
            here = ErrorLaw(0.0, (), 1.0)
            weights = functional.dense(group)
            for table in relevant:
                part = self._law_of(quantity, functional.names, weights, table)
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
