"""A declared stream: all statements of a file planned for together, with a pilot for what their answers may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.answering import PriceQuote
from keyhole.defence.budget.loss import round_down
from keyhole.defence.planner.choice import Chooser
from keyhole.defence.planner.columns import CutAxis
from keyhole.defence.planner.layout import Layout, find_cuts, lay_out, lay_out_for_purchase
from keyhole.defence.planner.purchases import PILOT, Buyer, Order
from keyhole.defence.planner.quantiles import buy_quantile, buy_tree, loss_of_epsilon, quantile_mark
from keyhole.defence.planner.sizing import size_table
from keyhole.defence.planner.wanted import GroupingKeys, WantedNumber, WantedStatement
from keyhole.defence.tables.allocation import Allocation
from keyhole.defence.tables.inference import Floats, Names, subsets
from keyhole.defence.tables.noisy_tables import COUNT, LAWS, Generation, Quantity, check_drawable, is_drawable
from keyhole.errors import BudgetExhausted

PILOT_SHARE = Fraction(1, 20)
QUANTILE = Fraction(4, 1000)  # of the budget of a file, for each quantile
RELATIVE = 0.1  # an answer is wanted within this share of what it may be
SMALLEST_GUESS = 20.0
CROWD = 100.0  # groups whose guessed count is below are not planned for
LEAST_SHARE = 1e-7  # tables that would get less of the budget are not bought

Residual = tuple[Quantity, Names]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerRow:
    """One number that is planned for: how its variance is made of residuals, what it may be off by, and its weight."""

    matters: Mapping[Residual, float]
    within: float
    kind: str


@dataclass(slots=True, eq=False)
class FilePlan:
    """Statements that are about to be asked, until the first of them is: then all is bought for them, at once.

    `Allocation` says how much of each table is bought.
    """

    chooser: Chooser
    buyer: Buyer
    expected: Mapping[str, WantedStatement]  # by mark
    bought: bool = False
    axes: dict[str, CutAxis] = field(default_factory=dict)

    def waits_for(self, mark: str, analyst: str | None) -> bool:
        """Is it one of those that a plan is still to be made for? With nothing left none is made: what follows from
        earlier purchases is then told, and the rest refused.
        """
        new = mark in self.expected and mark not in self.chooser.purchases.answered
        return new and not self.bought and self.spend(analyst) > 0

    def buy(self, analyst: str | None) -> None:
        """The pilot, the plan, the tables; on the open page."""
        self.bought = True
        answered = self.chooser.purchases.answered
        self._buy_for([question for mark, question in self.expected.items() if mark not in answered], analyst)
        self.chooser.settled |= set(self.expected)

    def price(self, sql: str, mark: str, analyst: str | None) -> PriceQuote:
        """The first statement bears the price of the plan."""
        spend = self.spend(analyst)
        first = next(m for m in self.expected if self.waits_for(m, analyst))
        share, price = float(self.chooser.terms.spend), self.chooser.purchases.ledger.cap.say(spend, analyst)
        if mark != first:
            return PriceQuote(
                sql, Fraction(0), "from the plan for the whole file, whose price stands at its first statement"
            )
        how = (
            f"the price of a plan for all {len(self.expected)} statements together, not of this one: {share:.0%} of "
            f"what is left, {price}, "
            f"{float(PILOT_SHARE):.0%} of it for a pilot; tables follow from the pilot ([budget] spend says how much)"
        )
        return PriceQuote(sql, spend, how)

    def spend(self, analyst: str | None) -> Fraction:
        """What the file may spend."""
        return round_down(self.chooser.purchases.ledger.left(analyst) * self.chooser.terms.spend, 6)

    def _buy_for(self, questions: Sequence[WantedStatement], analyst: str | None) -> None:
        """Quantiles first (each by itself), then the pilot, then tables in a generation of their own: they were chosen
        by looking at the pilot, so the pilot is not combined with them.
        """
        purchases, total = self.chooser.purchases, self.spend(analyst)
        if total <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=total, requested=0
            )
        total = round_down(total / purchases.ledger.times, 6)
        parts = [(wanted, keys) for q in questions for wanted, keys in q.parts]
        quantiles = {quantile_mark(w): w for w, _ in parts if w.kind == "quantile"}
        distinct = [q for q in questions if q.wanted[0].is_distinct]
        linear = [(w, keys) for w, keys in parts if w.kind != "quantile" and not w.is_distinct]
        alone = len(quantiles) + len(distinct)
        reserve = total if not linear else min(total / 2, total * QUANTILE * alone)
        each = round_down(reserve / max(1, alone), 6)
        self._buy_quantiles(list(quantiles.values()), each, analyst)
        for question in distinct:
            order = self.chooser.order_distinct(question, each)
            if not self.chooser.usefulness.hides_distinct(order):  # else it is given up
                self.buyer.buy(order, purchases.latest, analyst, question.sql)
        if not linear:
            return
        self._cut_columns(linear)
        layouts = [self._lay_out(wanted, keys) for wanted, keys in linear]
        secret = [layout for layout in layouts if layout.axes or not self._is_public(layout)]
        if not secret:
            return
        rest = total - (reserve if alone else 0)
        number = purchases.latest + 2  # after that of the pilot
        pilot = self._buy_pilot(secret, rest * PILOT_SHARE, analyst)
        rows = [row for layout in secret for row in self._list_rows(layout, pilot)]
        for order in self._order_tables(secret, rows, rest * (1 - PILOT_SHARE)):
            self.buyer.buy(order, number, analyst, "a plan for a whole file")

    def _buy_quantiles(self, quantiles: Sequence[WantedNumber], each: Fraction, analyst: str | None) -> None:
        chooser = self.chooser
        groups = [(many, chooser.is_worth_a_tree(many[0], quantiles)) for many in chooser.group_by_tree(quantiles)]
        for many, tree in groups:
            loss = loss_of_epsilon(each * len(many), chooser.unit, chooser.neighbours)
            if not chooser.usefulness.hides_ranks(many[0], loss, tree=tree):  # else they are given up
                layout = lay_out_for_purchase(many[0], (), chooser.columns)
                (buy_tree if tree else buy_quantile)(self.buyer, layout, loss, analyst, many[0].label)

    def _is_public(self, layout: Layout) -> bool:
        return self.chooser.purchases.n is not None and all(m == COUNT for m in layout.wanted.quantities)

    # --- cells --------------------------------------------------------------------------------------------------------

    def _cut_columns(self, parts: Sequence[tuple[WantedNumber, GroupingKeys]]) -> None:
        """One partition for each column: cut where some statement cuts it, and nowhere else."""
        cuts: dict[str, set[int]] = {}
        for wanted, keys in parts:
            for name, points in find_cuts(wanted, [column for _, column in keys], self.chooser.columns).items():
                cuts.setdefault(name, set()).update(points)
        for name, points in cuts.items():
            column = self.chooser.columns.of(name)
            self.axes[name] = CutAxis.of(column.at(points) if isinstance(column, Cuts) else column)

    def _lay_out(self, wanted: WantedNumber, keys: GroupingKeys) -> Layout:
        names = [column for _, column in keys]
        cuts = find_cuts(wanted, names, self.chooser.columns)
        return lay_out(wanted, names, [self.axes[name] for name in cuts])

    # --- the pilot ----------------------------------------------------------------------------------------------------

    def _buy_pilot(self, asked: Sequence[Layout], spend: Fraction, analyst: str | None) -> Generation:
        """One-way tables of all columns named, and one sum for each column that is summed; in equal parts."""
        axes = {axis.key: axis for layout in asked for axis in layout.axes}
        sums = sorted({m for layout in asked for m in layout.wanted.quantities if m != COUNT and m.power == 1})
        each = round_down(spend / (len(axes) + len(sums)), 6)
        number, law, neighbours = self.chooser.purchases.latest + 1, LAWS[self.chooser.unit], self.chooser.neighbours
        orders = [size_table(each, (axis,), (COUNT,), law, neighbours) for axis in axes.values()]
        for order in orders:  # all of them, or none
            check_drawable(order.doses, law)
        means = [size_table(each, (), (quantity,), law, neighbours) for quantity in sums]
        for order in (*orders, *(m for m in means if is_drawable(m.doses, law))):
            self.buyer.buy(order, number, analyst, PILOT)
        return self.chooser.purchases.generation(number)

    def _count_people(self, pilot: Generation) -> float:
        if pilot.n is not None:
            return float(pilot.n)
        totals = [t.values[0].sum() for t in pilot.tables if t.names]
        return float(max(1.0, np.median(totals))) if totals else 1.0

    def _guess_counts(self, layout: Layout, pilot: Generation) -> Floats:
        """Counts of all groups if columns were independent: n times the pilot's shares."""
        people = self._count_people(pilot)
        vectors = []
        for axis in layout.axes:
            counts = pilot.of(COUNT).estimate((axis.key,))
            assert counts is not None
            share = np.maximum(counts, 0.5)
            vectors.append(share / share.sum())
        table = np.array(people)
        for vector in vectors:
            table = np.multiply.outer(table, vector)
        return np.maximum(layout.count.within(table), SMALLEST_GUESS)

    def _guess_mean(self, quantity: Quantity, pilot: Generation) -> float:
        """Of u, a person's part in a centred sum."""
        if not pilot.covers(quantity, ()):
            return 0.0  # nothing was bought of it: the middle of its range
        value = pilot.of(quantity).estimate(())
        assert value is not None
        mean = float(value) / self._count_people(pilot)
        return min(max(mean, -quantity.reach), quantity.reach)

    # --- what is needed -----------------------------------------------------------------------------------------------

    def _list_rows(self, layout: Layout, pilot: Generation) -> Iterator[AnswerRow]:
        """One for each group that is worth planning for: its variance by residuals, and what it may be off by."""
        guess = layout.order_groups(self._guess_counts(layout, pilot)).ravel()
        kind = "group" if layout.keys else layout.wanted.kind + ("" if set(layout.sums) == {COUNT} else " of sums")
        known = layout.count.whole and self.chooser.purchases.n is not None
        for count in guess:
            if layout.keys and count < CROWD:
                continue
            factors, within = self._find_error(layout, float(count), pilot)
            matters: dict[Residual, float] = {}
            for quantity, factor in factors.items():
                if quantity == COUNT and known:
                    continue
                functional = layout.count if quantity not in layout.sums else layout.sums[quantity].functional
                for keep, size in functional.matters().items():
                    if not keep and quantity == COUNT and self.chooser.purchases.n is not None:
                        continue
                    matters[quantity, keep] = matters.get((quantity, keep), 0.0) + factor**2 * size
            if matters:
                yield AnswerRow(matters, within, kind)

    def _find_error(self, layout: Layout, count: float, pilot: Generation) -> tuple[dict[Quantity, float], float]:
        """By what errors of count and sums enter the answer, and a tenth of what the answer may be."""
        wanted, factors = layout.wanted, {}
        if wanted.kind == "linear":
            value = 0.0
            for quantity, part in layout.sums.items():
                factors[quantity] = float(part.factor)
                mean = 1.0 if quantity == COUNT else self._guess_mean(quantity, pilot)
                value += float(part.factor) * mean * count
            return factors, RELATIVE * max(abs(value), self._find_floor(layout) * count)
        ratio, value = 0.0, float(wanted.offset)
        for quantity, part in layout.sums.items():
            factor = 1.0 / quantity.reach if wanted.kind != "average" else float(part.factor)
            mean = self._guess_mean(quantity, pilot) if quantity.power == 1 else quantity.reach / 2
            factors[quantity] = factor / count
            ratio += factor * mean
        factors[COUNT] = -ratio / count
        value = value + ratio if wanted.kind == "average" else 0.2
        return factors, RELATIVE * max(abs(value), self._find_floor(layout))

    def _find_floor(self, layout: Layout) -> float:
        """A hundredth of the widest that one person adds: nothing is planned to be finer."""
        return 0.01 * max(abs(float(p.factor)) * m.reach for m, p in layout.sums.items())

    # --- the tables ---------------------------------------------------------------------------------------------------

    def _order_tables(self, asked: Sequence[Layout], rows: Sequence[AnswerRow], spend: Fraction) -> list[Order]:
        """The tables to buy, sized by need."""
        law, neighbours = LAWS[self.chooser.unit], self.chooser.neighbours
        candidates = list(dict.fromkeys(_list_candidate(layout) for layout in asked))
        axes = {axis.key: axis for layout in asked for axis in layout.axes}
        sizes = {key: axis.size for key, axis in axes.items()}
        need = _state_problem(candidates, rows, sizes, self.chooser.unit == "epsilon", neighbours == "add-remove")
        budget = float(spend)
        precision = need.solve(budget)
        paid = need.costs * (np.sqrt(precision) if need.linear else precision)
        kept = paid >= LEAST_SHARE * budget
        share = np.where(kept, paid, 0.0)
        share = share / share.sum() * 0.999999
        orders = []
        for (names, quantities), part in zip(candidates, share, strict=True):
            if part > 0:
                amount = round_down(spend * Fraction(float(part)), 6)
                order = size_table(amount, [axes[name] for name in names], quantities, law, neighbours)
                if is_drawable(order.doses, law):
                    orders.append(order)
        return orders


def _list_candidate(layout: Layout) -> tuple[Names, tuple[Quantity, ...]]:
    return layout.names, tuple(sorted({COUNT, *layout.wanted.quantities})) if layout.names else layout.wanted.quantities


def _state_problem(
    candidates: Sequence[tuple[Names, tuple[Quantity, ...]]], rows: Sequence[AnswerRow], sizes: Mapping[str, int],
    linear: bool, added: bool,
) -> Allocation:  # fmt: skip
    """The planning problem in arrays; answers that look alike are one row with their weights added up."""
    residuals: dict[Residual, int] = {}
    for names, quantities in candidates:
        for quantity in quantities:
            for keep in subsets(names):
                residuals.setdefault((quantity, keep), len(residuals))
    says, costs = np.zeros((len(residuals), len(candidates))), np.zeros(len(candidates))
    for at, (names, quantities) in enumerate(candidates):
        costs[at] = _price_unit(quantities, bool(names), linear, added)
        for quantity in quantities:
            for keep in subsets(names):
                spread = prod(sizes[name] for name in names if name not in keep)
                says[residuals[quantity, keep], at] = 1 / (quantity.reach**2 * spread)
    kinds = [row.kind for row in rows]
    matters = np.zeros((len(rows), len(residuals)))
    for at, row in enumerate(rows):
        for residual, size in row.matters.items():
            matters[at, residuals[residual]] = size
    weights = np.array([1 / (len(set(kinds)) * kinds.count(kind)) for kind in kinds])
    return Allocation(matters, says, costs, np.array([row.within for row in rows]), weights, linear)


def _price_unit(quantities: Sequence[Quantity], table: bool, linear: bool, added: bool) -> float:
    """The price of unit precision (1/variance, sums relative to their reach): as `price`, in floats."""
    count, sums = float(COUNT in quantities), float(sum(m != COUNT for m in quantities))
    if linear:  # precision 1 is a scale of 2^(-1/2)
        moved = count + sums if added else max((2 if table else 1) * (count + sums), 2 * sums)
        return moved * 2**0.5
    moved = count + sums if added else max((2 if table else 1) * (count + sums), 4 * sums)
    return moved / 2
