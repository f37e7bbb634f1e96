"""What a table holds in every cell, and how far one person can move all of it: the price of a purchase."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from keyhole.defence.budget.loss import Loss, Neighbours

NoiseLaw = Literal["gaussian", "laplace"]
PurchaseForm = Literal[
    "table", "number"
]  # cells that one person is in one of | one condition that a person meets or not


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
    listed = list(doses)
    if law == "gaussian":
        count = sum((1 / d.noise for d in listed if d.quantity.counts), Fraction(0))
        sums = sum((d.quantity.reach**2 / d.noise for d in listed if not d.quantity.counts), Fraction(0))
        if neighbours == "add-remove":
            moved = count + sums
        else:
            moved = max((2 if form == "table" else 1) * (count + sums), 4 * sums)
        return Loss("rho", moved / 2, Fraction(0), neighbours)
    count = sum((1 / d.noise for d in listed if d.quantity.counts), Fraction(0))
    sums = sum((d.quantity.reach / d.noise for d in listed if not d.quantity.counts), Fraction(0))
    if neighbours == "add-remove":
        moved = count + sums
    else:
        moved = max((2 if form == "table" else 1) * (count + sums), 2 * sums)
    return Loss("epsilon", moved, Fraction(0), neighbours)


def noise_for(
    spend: Fraction, quantities: Iterable[Quantity], law: NoiseLaw, form: PurchaseForm, neighbours: Neighbours
) -> list[Dose]:
    """The doses that cost at most `spend`: sums of equal precision (relative to their reach), the count with them.

    >>> doses = noise_for(Fraction(1, 50), [COUNT, Quantity("age", 73)], "gaussian", "table", "replace-one")
    >>> [str(d.noise) for d in doses]
    ['100', '532900']
    """
    listed = list(quantities)
    if law == "gaussian":
        unit = price([Dose(m, Fraction(m.reach**2)) for m in listed], law, form, neighbours).amount
        return [Dose(m, rounded_noise(m.reach**2 * unit / spend)) for m in listed]
    unit = price([Dose(m, Fraction(m.reach)) for m in listed], law, form, neighbours).amount
    return [Dose(m, rounded_noise(m.reach * unit / spend)) for m in listed]


def rounded_noise(noise: Fraction, digits: int = 6) -> Fraction:
    """The smallest number of so many significant digits that is not below: more noise, never less.

    >>> str(rounded_noise(Fraction(1, 3)))
    '166667/500000'
    """
    if noise <= 0:
        return Fraction(0)
    exponent = len(str(noise.numerator)) - len(str(noise.denominator)) - digits
    step = Fraction(10) ** exponent
    return step * -(-noise // step)
