"""Purchases: what can be bought, how it is bought, and everything that was bought and is in the book.

An `Order` is a table over axes, or one number of its own; its price is known before it is made. The `Buyer` charges,
then reads, draws and writes on one page. `Purchases` has the bought tables, by generation, as the book tells them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.numbers import Cuts
from keyhole.book import BookEntry, Mark
from keyhole.defence.budget.ledger import KeptRelease, Ledger, Purchase
from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.noise import NoiseSource
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.planner.layout import Layout
from keyhole.defence.planner.wanted import WantedStatement
from keyhole.defence.tables.inference import Names
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
    price,
)
from keyhole.model.numbers import format_fraction
from keyhole.model.predicate import format_literal, format_predicate, quote_name

TABLE = "table"
NUMBER = "number "
PILOT = "pilot"  # what a plan looked at: its tables answer nothing


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """A purchase, before it is made: its price is known. `layout` is the number it buys; None: the whole table."""

    axes: tuple[CutAxis, ...]
    doses: tuple[Dose, ...]
    law: NoiseLaw
    layout: Layout | None = None
    question: str = ""  # of a number: under what it is kept
    people: bool = False  # does it count people?

    @property
    def form(self) -> PurchaseForm:
        """A table, or one number; a table over no axis has one cell, so nobody can move two of them."""
        return choose_form(self.axes) if self.layout is None else "number"

    def loss(self, neighbours: Neighbours) -> Loss:
        """The price."""
        return price(self.doses, self.law, self.form, neighbours)

    def cost(self, ledger: Ledger, neighbours: Neighbours) -> Loss:
        """What a person pays for it: a count of people is changed by 1 by each, however many rows he has."""
        counts_people = self.layout is not None and self.layout.wanted.is_distinct and self.people
        loss = self.loss(neighbours)
        return loss if counts_people else ledger.per_person(loss)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the axes."""
        return tuple(axis.key for axis in self.axes)

    def __str__(self) -> str:
        what = " and ".join(str(d.quantity) for d in self.doses)
        if self.layout is not None:
            return f"one number ({what}, {self.law})"
        over = " x ".join(f"{axis.column.name} {axis.size}" for axis in self.axes) or "everybody"
        return f"a table of {what} over {over} ({self.law})"


def choose_form(axes: Sequence[CutAxis]) -> PurchaseForm:
    """What a table over these axes is priced as.

    With K rows a person, replaced by m' of K where there were m, the one cell of everybody moves by |m - m'| <= K in
    the count and by at most (m + m') reach in a sum; c (m - m')^2 + S (m + m')^2 is convex, so largest at a corner:
    K^2 max(c + S, 4S), which is K^2 times the price of one number, and not of two cells.

    >>> choose_form(())
    'number'
    """
    return "table" if axes else "number"


@dataclass(slots=True, eq=False)
class Purchases:
    """The released tables of this epoch and declaration. `refresh` reads what is new in the book, and nothing twice."""

    ledger: Ledger
    n: int | None
    generations: dict[int, Generation] = field(default_factory=dict)
    rented: list[tuple[frozenset[str], Fraction]] = field(default_factory=list)  # numbers on columns without a table
    pilots: set[int] = field(default_factory=set)  # generations that a plan looked at
    answered: set[str] = field(default_factory=set)  # marks of questions that somebody was given an answer to
    quantiles: dict[str, int] = field(default_factory=dict)  # how many, by column and condition
    cuts: dict[str, list[int]] = field(default_factory=dict)  # of axes whose key does not list them
    seen: tuple[int, str] = (0, "")
    epoch: int = -1

    def refresh(self) -> None:
        """Catch up with the book; start again if the book took something back, or the epoch is another."""
        book = self.ledger.book
        last = book.state.last
        if last is None or (self.seen == (last.seq, last.hash) and self.epoch == book.state.epoch):
            return
        if self.epoch != book.state.epoch or (self.seen[0] and not book.has(*self.seen)):
            self.generations, self.seen, self.epoch = {}, (0, ""), book.state.epoch
            self.rented, self.answered, self.quantiles, self.pilots = [], set(), {}, set()
        for entry in book.entries(self.seen[0]):
            if entry.epoch == self.epoch and entry.kind in (Mark.RELEASE, Mark.TOLD):
                self._take(entry)
        self.seen = (last.seq, last.hash)

    def _take(self, entry: BookEntry) -> None:
        body = entry.body
        domain, _, question = str(body.get("question", "")).partition("/")
        if domain != self.ledger.domain:
            return
        if entry.kind == Mark.TOLD:
            self.answered.add(question)
            return
        if question == TABLE:
            table = BoughtTable.unpacked(body["answer"], body["of"][0], entry.seq)
            self.generation(table.generation).add(table)
            if body.get("sql") == PILOT:
                self.pilots.add(table.generation)
            self.cuts |= body["answer"].get("cuts", {})
            over = {name.partition("|")[0] for name in table.names}
            self.rented = [(columns, paid) for columns, paid in self.rented if not columns <= over]
        elif (mark := body["answer"].get("tree")) is not None:
            self.quantiles[mark] = self.quantiles.get(mark, 0) + 1
        elif question.startswith(NUMBER):
            columns = frozenset(name.partition("|")[0] for name in body["answer"]["over"])
            if all(power for _, _, power, _ in body["answer"]["doses"]):  # a table would not have saved the others
                self.rented.append((columns, self.ledger.book.state.losses[body["of"][0]][0] / self.ledger.times))

    def note_answered(self, mark: str) -> None:
        """Remember, once, that a question was answered from what was there: asked again with a narrower bar it is a
        second look at a value, and its purchase is not combined with what was seen.
        """
        if mark not in self.answered:
            self.ledger.book.append(Mark.TOLD, {"of": [], "question": f"{self.ledger.domain}/{mark}"})
            self.refresh()

    def generation(self, number: int) -> Generation:
        """The tables of one generation."""
        if number not in self.generations:
            self.generations[number] = Generation(self.n)
        return self.generations[number]

    def look_at(self, number: int) -> Generation:
        """The tables of one generation; one that holds none yet is not begun by a look."""
        return self.generations.get(number) or Generation(self.n)

    @property
    def latest(self) -> int:
        """The number of the generation that purchases go to; never that of a pilot."""
        number = max(self.generations, default=0)
        return number + 1 if number in self.pilots else number

    @property
    def answering(self) -> list[int]:
        """The generations that answers are made from, latest first. A pilot's values decided what the plan bought, so
        what the plan left to the pilot was chosen by the pilot's own errors: bars of it would miss more often.
        """
        return sorted((self.generations.keys() - self.pilots) or {0}, reverse=True)

    def for_analyst(self, number: int, analyst: str | None) -> Generation:
        """What an analyst may be told of a generation without a new charge to him that passes his cap.

        All of it, if he has room; else what he was told before.
        """
        whole = self.generation(number)
        if analyst is None or not self.ledger.cap.analysts:
            return whole
        if self.ledger.may_be_told(analyst, [t.charge for t in whole.tables]):
            return whole
        known_charges = self.ledger.book.state.told.get(analyst, set())
        part = Generation(self.n)
        for table in whole.tables:
            if table.charge in known_charges:
                part.add(table)
        return part

    def axes_of(self, generation: Generation, columns: Partitions) -> dict[str, list[CutAxis]]:
        """The partitions of number columns that the tables of a generation have, from their keys."""
        axes: dict[str, dict[str, CutAxis]] = {}
        for table in generation.tables:
            for key in table.names:
                name, bar, cuts = key.partition("|")
                column = columns.columns.get(name)
                if not bar or not isinstance(column, Cuts) or key in axes.get(name, {}):
                    continue
                listed = self.cuts.get(key)
                starts = listed if listed is not None else ([int(c) for c in cuts.split(",")] if cuts else [])
                axes.setdefault(name, {})[key] = CutAxis(key, column.at(starts))
        return {name: list(each.values()) for name, each in axes.items()}

    def tell(self, tables: Iterable[BoughtTable], analyst: str | None) -> list[int]:
        """Write down that an analyst is told what follows from tables; their entries in the book."""
        used = list(tables)
        for table in used:
            self.ledger.tell(analyst, KeptRelease(table.entry, {}, (table.charge,)))
        return [table.entry for table in used]


def number_question(question: WantedStatement) -> str:
    """Under what a number of its own is kept."""
    return f"{NUMBER}{question.mark}"


def find_used_tables(generation: Generation, needed: Iterable[tuple[Quantity, Names]]) -> list[BoughtTable]:
    """The tables whose noise is in the answer to questions about these quantities and axes."""
    wanted, used = list(needed), []
    for table in generation.tables:
        for quantity, names in wanted:
            shared = any(name in table.names for name in names)
            public = quantity == COUNT and generation.n is not None
            if table.holds(quantity) and (shared or not public):
                used.append(table)
                break
    return used


@dataclass(frozen=True, slots=True, eq=False)
class Buyer:
    """Makes purchases: charge first, then read, draw, and write; all on the open page."""

    table: str
    columns: Partitions
    margins: Margins
    ledger: Ledger
    purchases: Purchases
    noise: NoiseSource

    def buy(self, order: Order, generation: int, analyst: str | None, what: str) -> BoughtTable:
        """The order, in the book and among the purchases. `BudgetExhausted` if it cannot be paid: nothing happened."""
        check_drawable(order.doses, order.law)
        self.ledger.spend(order.cost(self.ledger, self.margins.neighbours), analyst=analyst, what=f"{order}: {what}")
        charge = self.ledger.charged[-1]
        true = self._read_true(order)
        values = tuple(add_noise(v, d, order.law, self.noise) for v, d in zip(true, order.doses, strict=True))
        names = order.names if order.layout is None else ()
        meaning = describe_as_select(self.table, order, self.columns)
        table = BoughtTable(names, order.law, order.doses, values, generation, charge, 0, meaning)
        kept, question = table.packed(), TABLE if order.layout is None else order.question
        entry = self.ledger.remember(question, kept, Purchase(what, 0, analyst, (charge,)), kept)
        self.purchases.refresh()
        return replace(table, entry=entry.seq)

    def _read_true(self, order: Order) -> tuple[NDArray[np.int64], ...]:
        """What the noise is put on: read after it was paid."""
        axes, quantities = [axis.column for axis in order.axes], [d.quantity for d in order.doses]
        if order.layout is None:
            return self.margins.tables(axes, quantities)
        kept = order.layout.count.dense() == 1
        if order.layout.wanted.is_distinct:
            code = self.columns.distinct_code(quantities[0].column)
            return (np.array(self.margins.distinct(code, axes, kept), dtype=np.int64),)
        tables = self.margins.tables(axes, quantities)
        return tuple(np.array(values[kept].sum(), dtype=np.int64) for values in tables)


# --- what the cells mean in SQL, so that a book can be read as a transcript -------------------------------------------


def describe_as_select(table: str, order: Order, columns: Partitions) -> dict[str, Any]:
    """The fields that `keyhole.book.noisy_tables` reads, and the cuts of axes whose keys do not list them."""
    noise = []
    for dose in order.doses:
        scale = dose.noise if order.law == "laplace" else Fraction(math.sqrt(dose.noise))
        noise.append([f"discrete-{order.law}", str(scale)])
    present = [
        axis for axis in order.axes if isinstance(axis.column, Cuts) and axis.column.bins == 1 and axis.size == 2
    ]
    lone = present[0] if len(present) == 1 else None  # that it is there is said by the aggregate itself
    fields: dict[str, Any] = {
        "from": quote_name(table),
        "where": [["", None] if axis is lone else describe_cells(axis) for axis in order.axes],
        "select": [_describe_quantity(dose.quantity, columns, lone) for dose in order.doses],
        "noise": noise,
    }
    cuts = {}
    for axis in order.axes:
        if isinstance(axis.column, Cuts):
            starts = axis.column.starts[1:]
            if axis.key != f"{axis.column.name}|{','.join(map(str, starts))}":
                cuts[axis.key] = list(starts)
    if cuts:
        fields["cuts"] = cuts
    if order.layout is not None:
        fields |= {"where": [[format_predicate(order.layout.wanted.where)]], "over": list(order.names)}
    return fields


def describe_cells(axis: CutAxis) -> list[str]:
    """One SQL condition for each cell, whatever the table holds.

    >>> describe_cells(CutAxis.of(Cuts("age", Fraction(0), Fraction(1), 99, (0, 18))))
    ['"age" < 18', '"age" >= 18', '"age" IS NULL']
    """
    column, name = axis.column, quote_name(axis.column.name)
    if isinstance(column, Categories):
        listed = ", ".join(format_literal(v) for v in column.values)
        conditions = [f"{name} = {format_literal(v)}" for v in column.values]
        if column.missing is not None:
            at = column.values.index(column.missing)
            conditions[at] = f"{conditions[at]} OR {name} IS NULL OR {name} NOT IN ({listed})"
            return conditions
        if column.other:
            return [*conditions, f"{name} NOT IN ({listed})", f"{name} IS NULL"]
        return [*conditions, f"{name} IS NULL OR {name} NOT IN ({listed})"]
    starts = [format_fraction(column.lo + s * column.step) for s in column.starts]
    conditions = []
    for at in range(column.bins):
        low = [f"{name} >= {starts[at]}"] if at else []
        high = [f"{name} < {starts[at + 1]}"] if at + 1 < column.bins else []
        conditions.append(" AND ".join([*low, *high]) or f"{name} IS NOT NULL")
    if column.missing is not None:
        at = sum(1 for s in column.starts if s <= column.missing) - 1
        conditions[at] = f"{conditions[at]} OR {name} IS NULL"
        return conditions
    return [*conditions, f"{name} IS NULL"]


def _describe_quantity(quantity: Quantity, columns: Partitions, present: CutAxis | None) -> list[str]:
    """The SELECT item of a quantity and its unit; a square has none."""
    if quantity == COUNT:
        return ["COUNT(*)" if present is None else f"COUNT({quote_name(present.column.name)})", "1"]
    if quantity.power == 0:
        return [f"COUNT(DISTINCT {quote_name(quantity.column)})", "1"]
    column = columns.number(quantity.column)
    if quantity.power != 1 or (present is not None and present.column.name != column.name):
        return ["", "1"]
    middle = column.lo + column.hi
    sign = "-" if middle >= 0 else "+"
    return [f"SUM(2 * {quote_name(column.name)} {sign} {format_fraction(abs(middle))})", str(column.step)]
