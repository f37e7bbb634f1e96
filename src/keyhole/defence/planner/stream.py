"""A declared stream: all statements of a file planned for together, with a pilot for what their answers may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.answering import Priced
from keyhole.defence.budget.loss import round_down
from keyhole.defence.planner.allocation import Allocation
from keyhole.defence.planner.asks import AskedStatement, Wanted
from keyhole.defence.planner.choice import Chooser, Keys
from keyhole.defence.planner.columns import CutAxis
from keyhole.defence.planner.holdings import PILOT
from keyhole.defence.planner.laid import Laid, lay
from keyhole.defence.planner.orders import Buying, Purchase, sized
from keyhole.defence.planner.quantiles import buy_quantile, loss_of_epsilon, quantile_mark
from keyhole.defence.planner.terms import PlanTerms
from keyhole.defence.planner.tree import buy_tree
from keyhole.defence.planner.ways import cuts_of
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
class StreamPlan:
    """Statements that are about to be asked, until the first of them is: then all is bought for them, at once."""

    stream: StreamPlanner
    expected: Mapping[str, AskedStatement]
    bought: bool = False

    def waits_for(self, mark: str, analyst: str | None) -> bool:
        """Is it one of those that a plan is still to be made for? With nothing left none is made: what follows from
        earlier purchases is then told, and the rest refused.
        """
        new = mark in self.expected and mark not in self.stream.chooser.holdings.noted
        return new and not self.bought and self.stream.spend(analyst) > 0

    def buy(self, analyst: str | None) -> None:
        """The pilot, the plan, the tables; on the open page."""
        self.bought = True
        self.stream.buy([q for m, q in self.expected.items() if m not in self.stream.chooser.holdings.noted], analyst)
        self.stream.chooser.settled |= set(self.expected)

    def priced(self, sql: str, mark: str, analyst: str | None) -> Priced:
        """The first statement bears the price of the plan."""
        spend = self.stream.spend(analyst)
        first = next(m for m in self.expected if self.waits_for(m, analyst))
        unit, share = self.stream.chooser.unit, float(self.stream.terms.spend)
        if mark != first:
            return Priced(
                sql, Fraction(0), "from the plan for the whole file, whose price stands at its first statement"
            )
        how = (
            f"the price of a plan for all {len(self.expected)} statements together, not of this one: {share:.0%} of "
            f"what is left, {unit} {float(spend):.4g}, "
            f"{float(PILOT_SHARE):.0%} of it for a pilot; tables follow from the pilot (--spend says how much)"
        )
        return Priced(sql, spend, how)


@dataclass(slots=True, eq=False)
class StreamPlanner:
    """Plans and buys for many statements with one budget (see `Allocation` for how much of each table)."""

    chooser: Chooser
    buying: Buying
    terms: PlanTerms
    axes: dict[str, CutAxis] = field(default_factory=dict)

    def expected(self, found: Mapping[str, AskedStatement]) -> StreamPlan:
        """These are about to be asked."""
        return StreamPlan(self, found)

    def spend(self, analyst: str | None) -> Fraction:
        """What the file may spend."""
        return round_down(self.chooser.holdings.ledger.left(analyst) * self.terms.spend, 6)

    def buy(self, questions: Sequence[AskedStatement], analyst: str | None) -> None:
        """Quantiles first (each by itself), then the pilot, then tables in a generation of their own: they were chosen
        by looking at the pilot, so the pilot is not combined with them.
        """
        total = self.spend(analyst)
        if total <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=total, requested=0
            )
        total = round_down(total / self.chooser.holdings.ledger.times, 6)
        parts = [(wanted, keys) for q in questions for wanted, keys in q.parts]
        quantiles = {quantile_mark(w): w for w, _ in parts if w.kind == "quantile"}
        distinct = [q for q in questions if q.wanted[0].distinct]
        linear = [(w, keys) for w, keys in parts if w.kind != "quantile" and not w.distinct]
        alone = len(quantiles) + len(distinct)
        reserve = total if not linear else min(total / 2, total * QUANTILE * alone)
        each = round_down(reserve / max(1, alone), 6)
        ranked = list(quantiles.values())
        ways = [
            (m, buy_tree if self.chooser.by_tree(m[0], ranked) else buy_quantile) for m in self.chooser.trees(ranked)
        ]
        for many, buy in ways:
            loss = loss_of_epsilon(each * len(many), self.chooser.unit, self.chooser.neighbours)
            if self.chooser.useful.hides_ranks(many[0], loss, tree=buy is buy_tree):
                continue  # given up
            buy(self.buying, self.chooser.part(many[0], ()), loss, analyst, many[0].label)
        for question in distinct:
            order = self.chooser.distinct(question, each)
            if self.chooser.useful.says_nothing(order):
                continue  # given up
            self.buying.buy(order, self.chooser.holdings.latest, analyst, question.sql)
        if not linear:
            return
        self._cut(linear)
        rest = total - (reserve if alone else 0)
        laid = [(self._laid(w, keys), keys) for w, keys in linear]
        asked = [(each, keys) for each, keys in laid if each.axes or not self._public(each)]
        if not asked:
            return
        number = self.chooser.holdings.latest + 2  # after that of the pilot
        pilot = self._pilot([each for each, _ in asked], rest * PILOT_SHARE, analyst)
        rows = [row for each, _ in asked for row in self._rows(each, pilot)]
        for order in self._orders([each for each, _ in asked], rows, rest * (1 - PILOT_SHARE)):
            self.buying.buy(order, number, analyst, "a plan for a whole file")

    def _public(self, laid: Laid) -> bool:
        return self.chooser.holdings.n is not None and all(m == COUNT for m in laid.wanted.quantities)

    # --- cells --------------------------------------------------------------------------------------------------------

    def _cut(self, parts: Sequence[tuple[Wanted, Keys]]) -> None:
        """One partition for each column: cut where some statement cuts it, and nowhere else."""
        cuts: dict[str, set[int]] = {}
        for wanted, keys in parts:
            for name, found in cuts_of(wanted, [column for _, column in keys], self.chooser.columns).items():
                cuts.setdefault(name, set()).update(found)
        for name, found in cuts.items():
            column = self.chooser.columns.of(name)
            self.axes[name] = CutAxis.of(column.at(found) if isinstance(column, Cuts) else column)

    def _laid(self, wanted: Wanted, keys: Keys) -> Laid:
        names = [column for _, column in keys]
        cuts = cuts_of(wanted, names, self.chooser.columns)
        return lay(wanted, names, [self.axes[name] for name in cuts])

    # --- the pilot ----------------------------------------------------------------------------------------------------

    def _pilot(self, asked: Sequence[Laid], spend: Fraction, analyst: str | None) -> Generation:
        """One-way tables of all columns named, and one sum for each column that is summed; in equal parts."""
        axes = {axis.key: axis for laid in asked for axis in laid.axes}
        sums = sorted({m for laid in asked for m in laid.wanted.quantities if m != COUNT and m.power == 1})
        each = round_down(spend / (len(axes) + len(sums)), 6)
        number, law, neighbours = self.chooser.holdings.latest + 1, LAWS[self.chooser.unit], self.chooser.neighbours
        orders = [sized(each, (axis,), (COUNT,), law, neighbours) for axis in axes.values()]
        for order in orders:  # all of them, or none
            check_drawable(order.doses, law)
        means = [sized(each, (), (quantity,), law, neighbours) for quantity in sums]
        for order in (*orders, *(m for m in means if is_drawable(m.doses, law))):
            self.buying.buy(order, number, analyst, PILOT)
        return self.chooser.holdings.generation(number)

    def _people(self, pilot: Generation) -> float:
        if pilot.n is not None:
            return float(pilot.n)
        totals = [t.values[0].sum() for t in pilot.tables if t.names]
        return float(max(1.0, np.median(totals))) if totals else 1.0

    def _guess(self, laid: Laid, pilot: Generation) -> Floats:
        """Counts of all groups if columns were independent: n times the pilot's shares."""
        people = self._people(pilot)
        vectors = []
        for axis in laid.axes:
            counts = pilot.of(COUNT).estimate((axis.key,))
            assert counts is not None
            share = np.maximum(counts, 0.5)
            vectors.append(share / share.sum())
        found = laid.count
        table = np.array(people)
        for vector in vectors:
            table = np.multiply.outer(table, vector)
        return np.maximum(found.within(table), SMALLEST_GUESS)

    def _mean(self, quantity: Quantity, pilot: Generation) -> float:
        """Of u, a person's part in a centred sum."""
        if not pilot.covers(quantity, ()):
            return 0.0  # nothing was bought of it: the middle of its range
        value = pilot.of(quantity).estimate(())
        assert value is not None
        mean = float(value) / self._people(pilot)
        return min(max(mean, -quantity.reach), quantity.reach)

    # --- what is needed -----------------------------------------------------------------------------------------------

    def _rows(self, laid: Laid, pilot: Generation) -> Iterator[AnswerRow]:
        """One for each group that is worth planning for: its variance by residuals, and what it may be off by."""
        guess = laid.ordered(self._guess(laid, pilot)).ravel()
        kind = "group" if laid.keys else laid.wanted.kind + ("" if set(laid.sums) == {COUNT} else " of sums")
        known = laid.count.whole and self.chooser.holdings.n is not None
        for count in guess:
            if laid.keys and count < CROWD:
                continue
            factors, within = self._error(laid, float(count), pilot)
            matters: dict[Residual, float] = {}
            for quantity, factor in factors.items():
                if quantity == COUNT and known:
                    continue
                functional = laid.count if quantity not in laid.sums else laid.sums[quantity].functional
                for keep, size in functional.matters().items():
                    if not keep and quantity == COUNT and self.chooser.holdings.n is not None:
                        continue
                    matters[quantity, keep] = matters.get((quantity, keep), 0.0) + factor**2 * size
            if matters:
                yield AnswerRow(matters, within, kind)

    def _error(self, laid: Laid, count: float, pilot: Generation) -> tuple[dict[Quantity, float], float]:
        """By what errors of count and sums enter the answer, and a tenth of what the answer may be."""
        wanted, factors = laid.wanted, {}
        if wanted.kind == "linear":
            value = 0.0
            for quantity, part in laid.sums.items():
                factors[quantity] = float(part.factor)
                mean = 1.0 if quantity == COUNT else self._mean(quantity, pilot)
                value += float(part.factor) * mean * count
            return factors, RELATIVE * max(abs(value), self._floor(laid) * count)
        ratio, value = 0.0, float(wanted.offset)
        for quantity, part in laid.sums.items():
            factor = 1.0 / quantity.reach if wanted.kind != "average" else float(part.factor)
            mean = self._mean(quantity, pilot) if quantity.power == 1 else quantity.reach / 2
            factors[quantity] = factor / count
            ratio += factor * mean
        factors[COUNT] = -ratio / count
        value = value + ratio if wanted.kind == "average" else 0.2
        return factors, RELATIVE * max(abs(value), self._floor(laid))

    def _floor(self, laid: Laid) -> float:
        """A hundredth of the widest that one person adds: nothing is planned to be finer."""
        return 0.01 * max(abs(float(p.factor)) * m.reach for m, p in laid.sums.items())

    # --- the tables ---------------------------------------------------------------------------------------------------

    def _orders(self, asked: Sequence[Laid], rows: Sequence[AnswerRow], spend: Fraction) -> list[Purchase]:
        """The tables to buy, sized by need."""
        law, neighbours = LAWS[self.chooser.unit], self.chooser.neighbours
        candidates = list(dict.fromkeys(_candidate(laid) for laid in asked))
        axes = {axis.key: axis for laid in asked for axis in laid.axes}
        sizes = {key: axis.size for key, axis in axes.items()}
        need = _problem(candidates, rows, sizes, self.chooser.unit == "epsilon", neighbours == "add-remove")
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
                order = sized(amount, [axes[name] for name in names], quantities, law, neighbours)
                if is_drawable(order.doses, law):
                    orders.append(order)
        return orders


def _candidate(laid: Laid) -> tuple[Names, tuple[Quantity, ...]]:
    return laid.names, tuple(sorted({COUNT, *laid.wanted.quantities})) if laid.names else laid.wanted.quantities


def _problem(
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
        costs[at] = _unit_cost(quantities, bool(names), linear, added)
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


def _unit_cost(quantities: Sequence[Quantity], table: bool, linear: bool, added: bool) -> float:
    """The price of unit precision (1/variance, sums relative to their reach): as `price`, in floats."""
    count, sums = float(COUNT in quantities), float(sum(m != COUNT for m in quantities))
    if linear:  # precision 1 is a scale of 2^(-1/2)
        moved = count + sums if added else max((2 if table else 1) * (count + sums), 2 * sums)
        return moved * 2**0.5
    moved = count + sums if added else max((2 if table else 1) * (count + sums), 4 * sums)
    return moved / 2


__all__ = ["AnswerRow", "StreamPlan", "StreamPlanner"]
