"""How large a purchase must be, for a share of the budget or an accuracy; and whether a table is worth its price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.defence.budget.loss import Neighbours, Unit, parse_exact
from keyhole.defence.planner.columns import CutAxis
from keyhole.defence.planner.estimates import assume_people
from keyhole.defence.planner.layout import Layout
from keyhole.defence.planner.purchases import Order, choose_form
from keyhole.defence.tables.error_bars import ErrorLaw
from keyhole.defence.tables.inference import Functional, Inference
from keyhole.defence.tables.noisy_tables import (
    COUNT,
    LAWS,
    BoughtTable,
    Dose,
    Generation,
    NoiseLaw,
    Quantity,
    noise_for,
    round_noise_up,
)
from keyhole.errors import PrivacyParameterError

HORIZON = 100  # questions that are expected where nothing is said
SPEND = Fraction(1, 10)  # of what is left, on one file


@dataclass(frozen=True, slots=True)
class WantedError:
    """The error bar that is asked for: in units of the answer, or as a share of the largest possible one.

    >>> WantedError.parse("5%"), WantedError.parse("500").amount
    (WantedError(amount=0.05, share=True), 500.0)
    """

    amount: float
    share: bool = False

    @classmethod
    def parse(cls, text: str) -> WantedError:
        """`500`, or `5%`."""
        share = text.strip().endswith("%")
        amount = float(parse_exact(text.strip().removesuffix("%"), "--error"))
        if not 0 < amount < math.inf:
            raise PrivacyParameterError(f"--error {text} must be above 0: write 500, or a share: 5%")
        return cls(amount / 100 if share else amount, share)

    def in_people(self, layout: Layout, n: int | None) -> float:
        """The accuracy (people; sums scaled to [0, 1] a person) at which the bar of a number is what is asked for.

        A sum's bar is that of the noise. An average's is for the group size assumed: an error of the sum counts once,
        one of the count by half the range, the largest distance from the middle. Public knowledge alone.
        """
        wanted = layout.wanted
        if wanted.kind not in ("linear", "average"):
            raise PrivacyParameterError(f"{wanted.label}: --error is for COUNT, SUM and AVG; or set [budget] accuracy")
        width, largest = 0.0, abs(float(wanted.offset))
        for quantity, part in layout.sums.items():
            width += abs(float(part.factor)) * (1 if quantity.counts else 2 * quantity.reach)
            largest += abs(float(part.factor)) * quantity.reach
        if wanted.kind == "average":
            people = assume_people(layout, n)
            if people is None:
                raise PrivacyParameterError(f"{wanted.label}: --error of an average needs a public number of people")
            return (self.amount * largest if self.share else self.amount) * people / (1.5 * width or 1.0)
        if self.share and n is None:
            raise PrivacyParameterError("--error as a share needs a public number of people: write it as a number")
        return (self.amount * largest * (n or 0) if self.share else self.amount) / (width or 1.0)


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """`accuracy` is a share of n (people, under add-remove) for numbers scaled to [0, 1]; None means: share out what
    is left over `horizon` questions, or `spend` of it over the statements of a file. `anyway` sells answers that say
    next to nothing. `delta` is at which a budget in rho is also told as an epsilon.
    """

    beta: float = 0.05
    accuracy: float | None = None
    horizon: int = HORIZON
    spend: Fraction = SPEND
    anyway: bool = False
    delta: Fraction = Fraction(0)
    delta_for_keys: Fraction = Fraction(0)
    error: WantedError | None = None


@dataclass(frozen=True, slots=True)
class Rented:
    """What was paid so far for single numbers on columns without a table: the ski-rental side of a purchase."""

    paid: Fraction = Fraction(0)
    questions: int = 0


def size_number(layout: Layout, spend: Fraction, unit: Unit, neighbours: Neighbours, question: str) -> Order | None:
    """The number of its own that costs `spend`; None if it cannot be one number."""
    if not layout.is_one_number:
        return None
    doses = noise_for(spend, list_secret_quantities(layout, neighbours), LAWS[unit], "number", neighbours)
    return Order(layout.axes, tuple(doses), LAWS[unit], layout, question)


def list_secret_quantities(layout: Layout, neighbours: Neighbours) -> list[Quantity]:
    """What must be bought; the count of everybody is public under replace-one."""
    public = neighbours == "replace-one" and layout.count.whole
    return [m for m in layout.wanted.quantities if not (m == COUNT and public)] or [COUNT]


def size_table(
    spend: Fraction, axes: Sequence[CutAxis], quantities: Sequence[Quantity], law: NoiseLaw, neighbours: Neighbours
) -> Order:
    """The table that costs at most `spend`."""
    doses = tuple(noise_for(spend, quantities, law, choose_form(axes), neighbours))
    return Order(tuple(sorted(axes, key=lambda a: a.key)), doses, law)


def size_table_for(
    layout: Layout, spend: Fraction, unit: Unit, neighbours: Neighbours, quantities: Sequence[Quantity] = ()
) -> Order:
    """The table over the question's columns that costs `spend`; it always has the count."""
    return size_table(
        spend, layout.axes, sorted({COUNT, *layout.wanted.quantities, *quantities}), LAWS[unit], neighbours
    )


def find_cheapest_number(
    layout: Layout, target: float, beta: float, unit: Unit, neighbours: Neighbours, question: str
) -> Order | None:
    """The cheapest number of its own whose bars are within the target."""
    if not layout.is_one_number:
        return None
    law, doses = LAWS[unit], []
    for quantity in list_secret_quantities(layout, neighbours):
        reach = target * (1 if quantity.counts else 2 * quantity.reach) - 0.5
        if reach <= 0:
            return None
        doses.append(Dose(quantity, find_noise(reach, beta, law)))
    return Order(layout.axes, tuple(doses), law, layout, question)


def find_noise(reach: float, beta: float, law: NoiseLaw) -> Fraction:
    """The noise of one draw whose bar is `reach`."""
    if law == "gaussian":
        return _round_down(Fraction((reach / ErrorLaw(1.0).bar(beta)) ** 2))
    return _round_down(Fraction(reach / ErrorLaw(0.0, ((1.0, 1),)).bar(beta)))


def _round_down(noise: Fraction) -> Fraction:
    """Six digits, rounded down: a bar that is kept."""
    return round_noise_up(noise) * Fraction(999_999, 1_000_000)


def find_cheapest_table(
    layout: Layout, generation: Generation, target: float, beta: float, unit: Unit, neighbours: Neighbours
) -> Order:
    """The cheapest table over the question's axes with which this question is within the target, together with what
    its generation knows already (inverse variance); and unless it asks for single values only, the product question
    over the axes that would then be known least. Found by bisection on the noise; exact tails.
    """
    wanted, everything = [functional for _, functional in layout.needed], not layout.asks_points_alone
    law, quantities = LAWS[unit], sorted({COUNT, *layout.wanted.quantities})
    power = 2 if law == "gaussian" else 1

    def make_order(noise: float) -> Order:
        doses = []
        for quantity in quantities:  # a sum's target is a share of its whole range, two reaches wide
            width = 1 if quantity.counts else 2**power
            doses.append(Dose(quantity, _round_down(Fraction(noise) * quantity.reach**power * width)))
        return Order(layout.axes, tuple(doses), law)

    def is_enough(order: Order) -> bool:
        trial = add_order(generation, order)
        for quantity in quantities:
            limit = target * (1 if quantity.counts else 2 * quantity.reach)
            names = layout.names
            worst = [Functional.product(names, trial.of(quantity).worst(names))] if everything else []
            if any(trial.law(quantity, functional).bar(beta) > limit for functional in (*wanted, *worst)):
                return False
        return True

    low, high = 1e-12, max(1.0, target) ** 2 * 4
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_enough(make_order(middle)) else (low, middle)
        if high / low < 1.0005:
            break
    return make_order(low)


def add_order(generation: Generation, order: Order) -> Generation:
    """A generation as it would be after a purchase, without the purchase's numbers: for errors alone."""
    trial = Generation(generation.n, list(generation.tables))
    for quantity in {d.quantity for d in order.doses} | set(generation.known):
        held = generation.of(quantity)
        trial.known[quantity] = Inference(held.known, dict(held.info), dict(held.moments), dict(held.sizes))
    shape = tuple(axis.size for axis in order.axes) if order.layout is None else ()
    names = order.names if order.layout is None else ()
    trial.add(BoughtTable(names, order.law, order.doses, tuple(np.zeros(shape, np.int64) for _ in order.doses)))
    return trial


def is_worth_a_table(table: Fraction, number: Fraction, rented: Rented) -> bool:
    """Ski rental: buy the table as soon as all that is then paid is at most twice what either way alone would cost.

    With q questions of one price: paid + table <= 2 min(q * price, table). Never more than twice the better of the two,
    at every prefix (Karlin, Manasse, Rudolph and Sleator 1988 for the ratio 2).

    >>> is_worth_a_table(Fraction(2), Fraction(1), Rented()), is_worth_a_table(Fraction(8), Fraction(1), Rented())
    (True, False)
    """
    alone = rented.paid + number
    return rented.paid + table <= 2 * min(alone, table)
