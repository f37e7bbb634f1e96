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
from keyhole.defence.base import half_of_everybody
from keyhole.defence.budget.ledger import Kept
from keyhole.defence.budget.loss import Loss
from keyhole.defence.planner.asks import AskedStatement, Wanted
from keyhole.defence.planner.chosen import Chosen, Found
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.holdings import Holdings
from keyhole.defence.planner.orders import Purchase, number_laid
from keyhole.defence.planner.quantiles import BoughtQuantile, candidates, epsilon_of
from keyhole.defence.planner.single import bars, with_order
from keyhole.defence.planner.terms import PlanTerms
from keyhole.defence.planner.tree import BoughtTree, tree_dose
from keyhole.defence.planner.ways import AskedPart
from keyhole.defence.tables.noisy_tables import Dose, Generation, NoiseLaw

VAGUE = "the bar of what was released before is over half of everybody, which says next to nothing (--anyway shows it)"
LESS = "which says next to nothing: nothing was spent. "
MORE = "allow more with a smaller --horizon, or say --anyway"
NOBODY = Kept(0, {}, ())


@dataclass(frozen=True, slots=True, eq=False)
class Usefulness:
    """Holds bars against what an answer could be."""

    columns: Partitions
    holdings: Holdings
    terms: PlanTerms

    @property
    def half(self) -> Fraction | None:
        """Half of everybody; None: nobody may know, or anything goes."""
        return half_of_everybody(self.holdings.n, anyway=self.terms.anyway)

    def vague(self, found: Found) -> bool:
        """Is the bar of what is known more than half of all it could be? Then it is not told without being asked to."""
        if found.wanted.distinct:
            doses = [(dose, table.law) for table in found.generation.tables for dose in table.doses]
            return any(self._hides_values(dose, law) for dose, law in doses)
        if self.half is None:
            return False
        if found.quantile is not None:
            return found.quantile.ranks(self.terms.beta) > self.half
        return max(bars(found.laid, found.generation, self.terms.beta).values(), default=0.0) > self.half

    def says_nothing(self, order: Purchase) -> bool:
        """Is the bar of a number of different values over half of all that it could be?"""
        return self._hides_values(order.doses[0], order.law)

    def _hides_values(self, dose: Dose, law: NoiseLaw) -> bool:
        name = dose.quantity.column
        if self.terms.anyway or name in self.columns.ids:
            return False
        column = self.columns.of(name)
        most = column.steps + 1 if isinstance(column, Cuts) else len(column.values)
        return dose.error_law(law).bar(self.terms.beta) > most / 2

    def hides_ranks(self, wanted: Wanted, loss: Loss, *, tree: bool) -> bool:
        """Would a quantile's rank be off by more than half of everybody?"""
        if self.half is None:
            return False
        column = self.columns.number(wanted.column)
        made: BoughtTree | BoughtQuantile = BoughtQuantile(0, epsilon_of(loss), len(candidates(column)), NOBODY)
        if tree:
            dose, law = tree_dose(loss, loss.neighbours)
            points, width = column.steps + 1, ceil(sqrt(column.steps + 1))
            made = BoughtTree(np.zeros(-(-points // width)), np.zeros(points), width, law, dose.noise, NOBODY)
        return made.ranks(self.terms.beta) > self.half

    def why_not(self, question: AskedStatement, chosen: Chosen, parts: Sequence[AskedPart], price: str) -> str:
        """Why a purchase is not sold; empty if it is. `price` says what it would cost."""
        for order, _ in chosen.orders:
            if order.laid is not None and order.laid.wanted.distinct and self.says_nothing(order):
                what = f"{order.laid.wanted.label}: the bar would be over half of all values there are, "
                return what + LESS + MORE[0].upper() + MORE[1:]
        if self.half is None:
            return ""
        trial = Generation(self.holdings.n)
        for order, number in chosen.orders:
            trial = with_order(trial if trial.tables else self.holdings.generation(number), order)
        for part in parts:
            if part.wanted.kind == "quantile":
                continue
            laid, there = part.laid, trial
            if len(chosen.orders) == 1 and chosen.orders[0][0].laid is not None:
                known = self.holdings.n if laid.count.whole else None
                laid, there = number_laid(laid), with_order(Generation(known), chosen.orders[0][0])
            if max(bars(laid, there, self.terms.beta).values(), default=0.0) > self.half:
                what = f"{part.wanted.label or question.sql}: for {price} the bar would be over half of everybody, "
                return what + LESS + "Ask for fewer groups, " + MORE
        return ""

    def why_no_quantile(self, wanted: Wanted, loss: Loss, price: str, *, tree: bool) -> str:
        """Why a quantile is not sold; empty if it is."""
        if not self.hides_ranks(wanted, loss, tree=tree):
            return ""
        return f"{wanted.label}: for {price} its rank could be off by over half of everybody, {LESS}A{MORE[1:]}"


__all__ = ["VAGUE", "Usefulness"]
