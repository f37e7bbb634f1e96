"""What can be bought: a table over axes, or one number of its own; charged, read, drawn and written on one page."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.budget.ledger import Bought, Ledger
from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.noise import NoiseSource
from keyhole.defence.planner.asks import AskedStatement
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.planner.distinct import distinct_code
from keyhole.defence.planner.holdings import NUMBER, TABLE, Holdings
from keyhole.defence.planner.laid import Laid, Linear
from keyhole.defence.planner.spoken import spoken
from keyhole.defence.tables.inference import Functional
from keyhole.defence.tables.margins import Margins
from keyhole.defence.tables.noisy_tables import (
    COUNT,
    BoughtTable,
    Dose,
    Generation,
    NoiseLaw,
    PurchaseForm,
    Quantity,
    add_noise,
    check_drawable,
    noise_for,
    price,
)
from keyhole.model.predicate import to_sql

NOWHERE = Functional((), (), (), None)  # over no axis: the number itself


@dataclass(frozen=True, slots=True, eq=False)
class Purchase:
    """A purchase, before it is made: its price is known. `laid` is the number it buys; None: the whole table."""

    axes: tuple[CutAxis, ...]
    doses: tuple[Dose, ...]
    law: NoiseLaw
    laid: Laid | None = None
    question: str = ""  # of a number: what it answers
    people: bool = False  # does it count people?

    @property
    def form(self) -> PurchaseForm:
        """A table, or one number; a table over no axis has one cell, so nobody can move two of them."""
        return form_over(self.axes) if self.laid is None else "number"

    def loss(self, neighbours: Neighbours) -> Loss:
        """The price."""
        return price(self.doses, self.law, self.form, neighbours)

    def cost(self, ledger: Ledger, neighbours: Neighbours) -> Loss:
        """What a person pays for it: a count of people is changed by 1 by each, however many rows he has."""
        of_people = self.laid is not None and self.laid.wanted.distinct and self.people
        loss = self.loss(neighbours)
        return loss if of_people else ledger.per_person(loss)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the axes."""
        return tuple(axis.key for axis in self.axes)

    def __str__(self) -> str:
        what = " and ".join(str(d.quantity) for d in self.doses)
        if self.laid is not None:
            return f"one number ({what}, {self.law})"
        over = " x ".join(f"{axis.column.name} {axis.size}" for axis in self.axes) or "everybody"
        return f"a table of {what} over {over} ({self.law})"


def form_over(axes: Sequence[CutAxis]) -> PurchaseForm:
    """What a table over these axes is priced as.

    With K rows a person, replaced by m' of K where there were m, the one cell of everybody moves by |m - m'| <= K in
    the count and by at most (m + m') reach in a sum; c (m - m')^2 + S (m + m')^2 is convex, so largest at a corner:
    K^2 max(c + S, 4S), which is K^2 times the price of one number, and not of two cells.

    >>> form_over(())
    'number'
    """
    return "table" if axes else "number"


def sized(
    spend: Fraction, axes: Sequence[CutAxis], quantities: Sequence[Quantity], law: NoiseLaw, neighbours: Neighbours
) -> Purchase:
    """The table that costs at most `spend`."""
    doses = tuple(noise_for(spend, quantities, law, form_over(axes), neighbours))
    return Purchase(tuple(sorted(axes, key=lambda a: a.key)), doses, law)


def number_question(question: AskedStatement) -> str:
    """Under what a number of its own is kept."""
    return f"{NUMBER}{hashlib.blake2b(question.fingerprint().encode(), digest_size=16).hexdigest()}"


def number_laid(laid: Laid) -> Laid:
    """The same wanted number, over no axis: what one number of its own says of it."""
    return Laid(laid.wanted, (), (), NOWHERE, {m: Linear(p.factor, NOWHERE) for m, p in laid.sums.items()})


def number_generation(bought: BoughtTable, laid: Laid, n: int | None) -> Generation:
    """A generation of one number; n is public if everybody is asked about."""
    made = Generation(n if laid.count.whole else None)
    made.add(bought)
    return made


def lone(laid: Laid) -> bool:
    """Can it be bought as one number? One group, one condition, and no weights but 0 and 1."""
    wanted = laid.wanted
    return wanted.kind != "quantile" and not laid.keys and len(wanted.conditions) == 1


@dataclass(frozen=True, slots=True, eq=False)
class Buying:
    """Makes purchases: charge first, then read, draw, and write; all on the open page."""

    table: str
    columns: Partitions
    margins: Margins
    ledger: Ledger
    holdings: Holdings
    noise: NoiseSource

    def buy(self, order: Purchase, generation: int, analyst: str | None, what: str) -> BoughtTable:
        """The purchase, in the book and in the holdings. `BudgetExhausted` if it cannot be paid: nothing happened."""
        check_drawable(order.doses, order.law)
        self.ledger.spend(order.cost(self.ledger, self.margins.neighbours), analyst=analyst, what=f"{order}: {what}")
        charge = self.ledger.charged[-1]
        true = self._true(order)
        values = tuple(add_noise(v, d, order.law, self.noise) for v, d in zip(true, order.doses, strict=True))
        names = order.names if order.laid is None else ()
        told = spoken(self.table, order.axes, order.doses, order.law, self.columns)
        long = [axis for axis in order.axes if isinstance(axis.column, Cuts) and not _listed(axis)]
        if long:
            told["cuts"] = {axis.key: list(axis.column.starts[1:]) for axis in long if isinstance(axis.column, Cuts)}
        if order.laid is not None:
            told |= {"where": [[to_sql(order.laid.wanted.where)]], "over": list(order.names)}
        made = BoughtTable(names, order.law, order.doses, values, generation, charge, 0, told)
        kept, question = made.packed(), TABLE if order.laid is None else order.question
        entry = self.ledger.remember(question, kept, Bought(what, 0, analyst, (charge,)), kept)
        made = replace(made, entry=entry.seq)
        self.holdings.refresh()
        return made

    def _true(self, order: Purchase) -> tuple[NDArray[np.int64], ...]:
        """What the noise is put on: read after it was paid."""
        axes, quantities = [axis.column for axis in order.axes], [d.quantity for d in order.doses]
        if order.laid is None:
            return self.margins.tables(axes, quantities)
        kept = order.laid.count.dense() == 1
        if order.laid.wanted.distinct:
            code = distinct_code(quantities[0].column, self.columns)
            return (np.array(self.margins.distinct(code, axes, kept), dtype=np.int64),)
        tables = self.margins.tables(axes, quantities)
        return tuple(np.array(values[kept].sum(), dtype=np.int64) for values in tables)


def _listed(axis: CutAxis) -> bool:
    """Does its key say where it is cut?"""
    return (
        isinstance(axis.column, Cuts) and axis.key == f"{axis.column.name}|{','.join(map(str, axis.column.starts[1:]))}"
    )


__all__ = ["COUNT", "Buying", "Purchase", "lone", "number_generation", "number_laid", "number_question", "sized"]
