"""One question that was not announced: the cheapest of what is known, one number, and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from keyhole.defence.budget.loss import Neighbours, Unit
from keyhole.defence.planner.laid import Laid
from keyhole.defence.planner.orders import Purchase, lone, sized
from keyhole.defence.planner.ways import AskedPart
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


@dataclass(frozen=True, slots=True)
class Rented:
    """What was paid so far for single numbers on columns without a table: the ski-rental side of a purchase."""

    paid: Fraction = Fraction(0)
    questions: int = 0


def number_for(part: AskedPart, spend: Fraction, unit: Unit, neighbours: Neighbours, question: str) -> Purchase | None:
    """The number of its own that costs `spend`; None if it cannot be one number."""
    if not lone(part.laid):
        return None
    doses = noise_for(spend, needed(part, neighbours), LAWS[unit], "number", neighbours)
    return Purchase(part.laid.axes, tuple(doses), LAWS[unit], part.laid, question)


def needed(part: AskedPart, neighbours: Neighbours) -> list[Quantity]:
    """What must be bought; the count of everybody is public under replace-one."""
    public = neighbours == "replace-one" and part.laid.count.whole
    found = [m for m in part.quantities if not (m == COUNT and public)]
    return found or [COUNT]


def table_for(
    part: AskedPart, spend: Fraction, unit: Unit, neighbours: Neighbours, quantities: Sequence[Quantity] = ()
) -> Purchase:
    """The table over the question's columns that costs `spend`; it always has the count."""
    return sized(spend, part.laid.axes, sorted({COUNT, *part.quantities, *quantities}), LAWS[unit], neighbours)


def bars(laid: Laid, generation: Generation, beta: float) -> dict[Quantity, float]:
    """The bar of every quantity that is needed, in its own unit over its reach: comparable with a share of people."""
    pairs = [(m, p.functional) for m, p in laid.sums.items()]
    if laid.wanted.kind != "linear":
        pairs.append((COUNT, laid.count))
    found: dict[Quantity, float] = {}
    for quantity, functional in pairs:
        if functional.empty or (quantity == COUNT and generation.n is not None and functional.whole):
            continue
        law = generation.law(quantity, functional)
        scale = 1 if quantity.counts else 2 * quantity.reach
        found[quantity] = max(found.get(quantity, 0.0), law.bar(beta) / scale)
    return found


def good_enough(laid: Laid, generation: Generation, target: float, beta: float) -> bool:
    """Are all bars within the target (people; sums scaled to [0, 1] a person)?"""
    return all(bar <= target * (1 + 1e-9) for bar in bars(laid, generation, beta).values())


def cheapest_number(
    part: AskedPart, target: float, beta: float, unit: Unit, neighbours: Neighbours, question: str
) -> Purchase | None:
    """The cheapest number of its own whose bars are within the target."""
    if not lone(part.laid):
        return None
    law, doses = LAWS[unit], []
    for quantity in needed(part, neighbours):
        reach = target * (1 if quantity.counts else 2 * quantity.reach) - 0.5
        if reach <= 0:
            return None
        doses.append(Dose(quantity, noise_within(reach, beta, law)))
    return Purchase(part.laid.axes, tuple(doses), law, part.laid, question)


def noise_within(reach: float, beta: float, law: NoiseLaw) -> Fraction:
    """The noise of one draw whose bar is `reach`."""
    if law == "gaussian":
        return _down(Fraction((reach / ErrorLaw(1.0).bar(beta)) ** 2))
    return _down(Fraction(reach / ErrorLaw(0.0, ((1.0, 1),)).bar(beta)))


def _down(noise: Fraction) -> Fraction:
    """Six digits, rounded down: a bar that is kept."""
    return round_noise_up(noise) * Fraction(999_999, 1_000_000)


def cheapest_table(
    part: AskedPart, generation: Generation, target: float, beta: float, unit: Unit, neighbours: Neighbours
) -> Purchase:
    """The cheapest table over the question's axes with which this question is within the target, together with what
    its generation knows already (inverse variance); and unless it asks for single values only, the product question
    over the axes that would then be known least. Found by bisection on the noise; exact tails.
    """
    asked, everything = [f for _, f in part.needed], not _points(part.laid)
    law, quantities = LAWS[unit], sorted({COUNT, *part.quantities})

    def order(noise: float) -> Purchase:
        doses = tuple(
            Dose(m, _down(Fraction(noise) * (m.reach**2 if law == "gaussian" else m.reach) * _width(m, law)))
            for m in quantities
        )
        return Purchase(part.laid.axes, doses, law)

    def enough(made: Purchase) -> bool:
        trial = with_order(generation, made)
        for quantity in quantities:
            limit = target * (1 if quantity.counts else 2 * quantity.reach)
            names = part.laid.names
            worst = [Functional.product(names, trial.of(quantity).worst(names))] if everything else []
            if any(trial.law(quantity, functional).bar(beta) > limit for functional in (*asked, *worst)):
                return False
        return True

    low, high = 1e-12, max(1.0, target) ** 2 * 4
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if enough(order(middle)) else (low, middle)
        if high / low < 1.0005:
            break
    return order(low)


def _width(quantity: Quantity, law: NoiseLaw) -> int:
    """A sum's target is a share of its whole range, two reaches wide."""
    return 1 if quantity.counts else 4 if law == "gaussian" else 2


def with_order(generation: Generation, order: Purchase) -> Generation:
    """A generation as it would be after a purchase, without the purchase's numbers: for errors alone."""
    trial = Generation(generation.n, list(generation.tables))
    for quantity in {d.quantity for d in order.doses} | set(generation.known):
        held = generation.of(quantity)
        trial.known[quantity] = Inference(held.known, dict(held.info), dict(held.moments), dict(held.sizes))
    shape = tuple(axis.size for axis in order.axes) if order.laid is None else ()
    names = order.names if order.laid is None else ()
    trial.add(BoughtTable(names, order.law, order.doses, tuple(np.zeros(shape, np.int64) for _ in order.doses)))
    return trial


def _points(laid: Laid) -> bool:
    """Does it ask for single values alone, one of each column?"""
    return laid.count.vectors is not None and all(
        v.sum() <= 1 or axis in laid.count.keys for axis, v in enumerate(laid.count.vectors)
    )


def worth_a_table(table: Fraction, number: Fraction, rented: Rented) -> bool:
    """Ski rental: buy the table as soon as all that is then paid is at most twice what either way alone would cost.

    With q questions of one price: paid + table <= 2 min(q * price, table). Never more than twice the better of the two,
    at every prefix (Karlin, Manasse, Rudolph and Sleator 1988 for the ratio 2).

    >>> worth_a_table(Fraction(2), Fraction(1), Rented()), worth_a_table(Fraction(8), Fraction(1), Rented())
    (True, False)
    """
    alone = rented.paid + number
    return rented.paid + table <= 2 * min(alone, table)
