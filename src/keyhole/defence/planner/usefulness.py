"""What is not sold, and not told again, without being asked to: an answer whose bar is over half of all it could be.

From the declaration, the price and public n alone. Where n is a secret (add-remove neighbours, several rows a person)
only numbers of different values have a range that is known, so only they are held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt

import numpy as np

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.budget.ledger import KeptRelease
from keyhole.defence.budget.loss import Loss
from keyhole.defence.mechanisms.base import half_of_everybody
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.estimates import assume_people, expect_bar, widest_bar
from keyhole.defence.planner.known_answers import KnownAnswer
from keyhole.defence.planner.layout import Layout
from keyhole.defence.planner.purchases import Order, Purchases
from keyhole.defence.planner.quantiles import BoughtQuantile, BoughtTree, epsilon_of, list_candidates, size_tree
from keyhole.defence.planner.sizing import add_order
from keyhole.defence.planner.wanted import WantedNumber, WantedStatement
from keyhole.defence.tables.noisy_tables import Dose, Generation, NoiseLaw

LESS = "which says next to nothing: nothing was spent. "
MORE = "ask for a smaller --error, or say --anyway"
NOBODY = KeptRelease(0, {}, ())


@dataclass(frozen=True, slots=True, eq=False)
class Usefulness:
    """Holds bars against what an answer could be. `anyway` sells answers that say next to nothing too."""

    columns: Partitions
    purchases: Purchases
    beta: float
    anyway: bool

    @property
    def half(self) -> Fraction | None:
        """Half of everybody; None: nobody may know, or anything goes."""
        return half_of_everybody(self.purchases.n, anyway=self.anyway)

    def is_vague(self, answer: KnownAnswer) -> bool:
        """Is the bar of what is known more than half of all it could be? Then it is not told without being asked to."""
        if answer.wanted.is_distinct:
            doses = [(dose, table.law) for table in answer.generation.tables for dose in table.doses]
            return any(self._hides_values(dose, law) for dose, law in doses)
        if self.half is None:
            return False
        if answer.quantile is not None:
            return answer.quantile.ranks(self.beta) > self.half
        if max(answer.layout.bars(answer.generation, self.beta).values(), default=0.0) > self.half:
            return True
        return not answer.is_public and self._hides_ratio(answer.layout, answer.layout, answer.generation)

    def _hides_ratio(self, layout: Layout, seen: Layout, tables: Generation) -> bool:
        """Would the bar of an average or a spread be over half of all it can be, in a group of the size assumed?"""
        if layout.wanted.kind not in ("average", "variance", "deviation") or self.anyway:
            return False
        people = assume_people(layout, self.purchases.n)
        bar = expect_bar(seen, tables, self.beta, people).bar
        return people is not None and (bar is None or bar > widest_bar(layout))

    def hides_distinct(self, order: Order) -> bool:
        """Is the bar of a number of different values over half of all that it could be?"""
        return self._hides_values(order.doses[0], order.law)

    def _hides_values(self, dose: Dose, law: NoiseLaw) -> bool:
        name = dose.quantity.column
        if self.anyway or name in self.columns.ids:
            return False
        column = self.columns.of(name)
        most = column.steps + 1 if isinstance(column, Cuts) else len(column.values)
        return dose.error_law(law).bar(self.beta) > most / 2

    def hides_ranks(self, wanted: WantedNumber, loss: Loss, *, tree: bool) -> bool:
        """Would a quantile's rank be off by more than half of everybody?"""
        if self.half is None:
            return False
        column = self.columns.number(wanted.column)
        bought: BoughtTree | BoughtQuantile = BoughtQuantile(0, epsilon_of(loss), len(list_candidates(column)), NOBODY)
        if tree:
            dose, law = size_tree(loss, loss.neighbours)
            points, width = column.steps + 1, ceil(sqrt(column.steps + 1))
            bought = BoughtTree(np.zeros(-(-points // width)), np.zeros(points), width, law, dose.noise, NOBODY)
        return bought.ranks(self.beta) > self.half

    def explain_tables(
        self, question: WantedStatement, orders: Sequence[tuple[Order, int]], layouts: Sequence[Layout], price: str
    ) -> str:
        """Why tables and numbers are not sold; empty if they are. `price` says what they would cost."""
        for order, _ in orders:
            if order.layout is not None and order.layout.wanted.is_distinct and self.hides_distinct(order):
                what = f"{order.layout.wanted.label}: the bar would be over half of all values there are, "
                return what + LESS + MORE[0].upper() + MORE[1:]
        if self.half is None:
            return ""
        trial = Generation(self.purchases.n)
        for order, number in orders:
            trial = add_order(trial if trial.tables else self.purchases.look_at(number), order)
        for layout in layouts:
            if layout.wanted.kind == "quantile":
                continue
            seen, tables = layout, trial
            if len(orders) == 1 and orders[0][0].layout is not None:
                public_n = self.purchases.n if layout.count.whole else None
                seen, tables = layout.without_axes(), add_order(Generation(public_n), orders[0][0])
            if max(seen.bars(tables, self.beta).values(), default=0.0) > self.half:
                what = f"{layout.wanted.label or question.sql}: for {price} the bar would be over half of everybody, "
                return what + LESS + "Ask for fewer groups, " + MORE
            if self._hides_ratio(layout, seen, tables):
                people = assume_people(layout, self.purchases.n)
                what = f"{layout.wanted.label or question.sql}: for {price} the bar would be over half of the possible "
                what += f"range in a group of {people} people, {LESS}"
                return what + "Ask about a larger group, or fewer at once, " + MORE
        return ""

    def explain_quantile(self, wanted: WantedNumber, loss: Loss, price: str, *, tree: bool) -> str:
        """Why a quantile is not sold; empty if it is."""
        if not self.hides_ranks(wanted, loss, tree=tree):
            return ""
        return f"{wanted.label}: for {price} its rank could be off by over half of everybody, {LESS}A{MORE[1:]}"
