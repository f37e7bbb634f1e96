"""Which way a question goes, and why: what is known already, one number of its own, a table, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss, Neighbours, Unit, round_down, round_up
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.known_answers import KnownAnswer, explain_free, find_known_answers
from keyhole.defence.planner.layout import Layout, find_cuts, lay_out, lay_out_for_purchase
from keyhole.defence.planner.purchases import Order, Purchases, number_question
from keyhole.defence.planner.quantiles import (
    WORTH,
    epsilon_for_ranks,
    is_fine_enough,
    loss_of_epsilon,
    quantile_mark,
    tree_mark,
)
from keyhole.defence.planner.sizing import (
    PlanTerms,
    Rented,
    add_order,
    find_cheapest_number,
    find_cheapest_table,
    is_worth_a_table,
    size_number,
    size_table_for,
)
from keyhole.defence.planner.usefulness import MORE, Usefulness
from keyhole.defence.planner.wanted import WantedNumber, WantedStatement
from keyhole.defence.tables.noisy_tables import Generation
from keyhole.errors import BudgetExhausted, UnsupportedQuery

AGAIN = 1.5  # what is known is bought again if its variance is more than so many times that of a purchase
TRIED = 45  # round numbers: fifteen powers of ten
WIDE = "bought anew: the bar of what was released before is over 1.2 times that of this purchase, or over half of all"
WIDER = "bought anew: the bar of what was released before is wider than the accuracy asked for"
VAGUE = "the bar of what was released before is over half of everybody, which says next to nothing (--anyway shows it)"


@dataclass(frozen=True, slots=True)
class NotSold:
    """Why a question is not sold."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The way: what is answered from what, what must be bought first, and what else it could have been."""

    known: tuple[KnownAnswer, ...]
    orders: tuple[tuple[Order, int], ...] = ()  # with the generation that each goes to
    quantiles: tuple[tuple[WantedNumber, Loss], ...] = ()
    how: str = ""
    notes: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        """Must nothing be bought?"""
        return not self.orders and not self.quantiles


@dataclass(slots=True, eq=False)
class Chooser:
    """Chooses from the declaration, the book and what was released; no data is in reach."""

    columns: Partitions
    purchases: Purchases
    terms: PlanTerms
    usefulness: Usefulness
    neighbours: Neighbours
    unit: Unit
    settled: set[str] = field(default_factory=set)  # what a plan was made for: it buys no more for them
    listed: frozenset[str] = frozenset()  # the statements of a file: a plan is theirs, whatever its bars

    def choose(self, question: WantedStatement, analyst: str | None) -> Choice | NotSold:
        """The cheapest way that is good enough."""
        layouts = [(layout, self._find_known(layout, question, analyst)) for layout in self.lay_out_all(question)]
        mark = question.mark
        again = mark in self.purchases.answered or mark in self.settled
        target = self.target()
        if self.terms.error is not None:
            target = min(self.terms.error.in_people(layout, self.purchases.n) for layout, _ in layouts)
        if target is not None:
            return self._choose_by_target(question, layouts, target, analyst, again=again)
        return self._choose_by_share(question, layouts, analyst, again=again)

    def choose_after(self, question: WantedStatement, analyst: str | None, bought: Choice) -> Choice:
        """The answer from what is known once the purchase was made."""
        known = [self._find_known(layout, question, analyst)[0] for layout in self.lay_out_all(question)]
        return Choice(tuple(known), (), (), bought.how, bought.notes)

    def lay_out_all(self, question: WantedStatement) -> list[Layout]:
        """Every number of every grouping set, over the axes that a purchase would have."""
        return [
            lay_out_for_purchase(wanted, [column for _, column in keys], self.columns)
            for wanted, keys in question.parts
        ]

    def _find_known(self, layout: Layout, question: WantedStatement, analyst: str | None) -> list[KnownAnswer]:
        return find_known_answers(layout, question, self.purchases, self.columns, self.terms.beta, analyst)

    # --- prices -------------------------------------------------------------------------------------------------------

    def target(self) -> float | None:
        """The accuracy asked for, in people."""
        if self.terms.accuracy is None:
            return None
        return self.terms.accuracy * (self.purchases.n if self.purchases.n is not None else 1)

    def share(self, analyst: str | None) -> Fraction:
        """Where no accuracy is asked for: what is left, over the questions still expected."""
        left = self.purchases.ledger.left(analyst)
        if left <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=left, requested=0
            )
        expected = max(1, self.terms.horizon - len(self.purchases.answered))
        return round_down(left / self.purchases.ledger.times / expected, 6)

    def cost(self, choice: Choice, ledger: Ledger) -> Fraction:
        """Of what must be bought, in the unit of the budget."""
        losses = [order.cost(ledger, self.neighbours) for order, _ in choice.orders]
        losses += [ledger.per_person(loss) for _, loss in choice.quantiles]
        return sum((ledger.price(loss).amount for loss in losses), Fraction(0))

    def suggest_accuracy(self, question: WantedStatement, analyst: str | None) -> str:
        """Which round accuracy could be paid where the one asked for is too dear, in words; empty if none was asked
        for, or none can. From the declaration, the price and the book alone. Cost: a choice for each number tried.
        """
        ledger, wanted = self.purchases.ledger, self.terms.accuracy
        left, most = ledger.left(analyst), 0.5 if self.purchases.n is not None else float("inf")
        wanted = None if self.terms.error is not None else wanted
        if wanted is None or left <= 0:
            return ""
        for tried, accuracy in enumerate(round_numbers(wanted)):
            if tried == TRIED or accuracy > most:
                return ""
            other = replace(self, terms=replace(self.terms, accuracy=accuracy))
            choice = other.choose(question, analyst)
            if not isinstance(choice, NotSold) and other.cost(choice, ledger) <= left:
                return f". It cannot be afforded; accuracy = {accuracy:g} under [budget] could"
        return ""

    # --- for a share of the budget ------------------------------------------------------------------------------------

    def _choose_by_share(
        self, question: WantedStatement, layouts: Sequence[tuple[Layout, list[KnownAnswer]]], analyst: str | None, *,
        again: bool,
    ) -> Choice | NotSold:  # fmt: skip
        free: list[KnownAnswer] = []
        missing: list[Layout] = []
        share: Fraction | None = None
        anew = False
        mark, poor = question.mark, self.purchases.ledger.left(analyst) <= 0  # then nothing better can be bought
        for layout, ways in layouts:
            best = ways[0] if ways else None
            vague = best is not None and mark not in self.listed and self.usefulness.is_vague(best)
            if vague and poor:
                label = layout.wanted.label or question.sql
                return NotSold(f"{label}: {VAGUE}, and nothing is left to buy a better one")
            if best is not None and not vague and (again or poor or best.quantile is not None or best.is_public):
                free.append(best)
                continue
            if mark in self.settled and best is None:
                return NotSold("the plan for the whole file gave this answer up: ask it by itself")
            if share is None:
                share = self.share(analyst)
            if best is not None and not vague and not self._is_worth_again(best, layout, share / _count_parts(layouts)):
                free.append(best)
            else:
                missing.append(layout)
                anew |= best is not None
        if not missing or share is None:
            return Choice(tuple(free), how=explain_free(free, self.purchases))
        choice = self._order_missing(question, missing, share)
        choice = replace(choice, known=tuple(free), notes=(WIDE,) if anew else ())
        return self._hold_against_range(question, choice, missing, analyst)

    def _hold_against_range(
        self, question: WantedStatement, choice: Choice, missing: Sequence[Layout], analyst: str | None
    ) -> Choice | NotSold:
        """The choice, if what it buys for the missing numbers says more than that they are possible."""
        price = self.purchases.ledger.cap.say(self.cost(choice, self.purchases.ledger), analyst)
        ranked = [layout.wanted for layout in missing if layout.wanted.kind == "quantile"]
        reasons = [self.usefulness.explain_tables(question, choice.orders, missing, price)]
        for wanted, loss in choice.quantiles:
            tree = self.is_worth_a_tree(wanted, ranked)
            reasons.append(self.usefulness.explain_quantile(wanted, loss, price, tree=tree))
        reason = next((reason for reason in reasons if reason), "")
        return NotSold(reason) if reason else choice

    def _is_worth_again(self, known: KnownAnswer, layout: Layout, share: Fraction) -> bool:
        """Is what is known so much worse than what the share would buy by itself that it is worth paying again?

        Shares drift upwards with every question that was free, so without a margin the same table would be bought again
        for nothing but its rounding.
        """
        order = self._order_table(layout, share)
        bought = layout.variances(add_order(Generation(self.purchases.n), order))
        held = known.layout.variances(known.generation)
        return any(held[quantity] > AGAIN * bought.get(quantity, 0.0) for quantity in held)

    def _order_missing(self, question: WantedStatement, missing: Sequence[Layout], share: Fraction) -> Choice:
        """One purchase for each set of axes, the share divided among them; quantiles one each."""
        by_axes: dict[tuple[str, ...], list[Layout]] = {}
        quantiles = [layout.wanted for layout in missing if layout.wanted.kind == "quantile"]
        for layout in missing:
            if layout.wanted.kind != "quantile":
                by_axes.setdefault(layout.names, []).append(layout)
        each = share / (len(by_axes) + len(quantiles))
        orders = []
        for first, *others in by_axes.values():
            if others:
                quantities = sorted({quantity for layout in others for quantity in layout.wanted.quantities})
                order = size_table_for(first, each, self.unit, self.neighbours, quantities)
            elif question.is_one_number:
                order = self._order_number(question, first, each)
            else:
                order = self._order_table(first, each)
            orders.append((order, self.purchases.latest))
        groups = self.group_by_tree(quantiles)
        losses = [(many[0], loss_of_epsilon(each * len(many), self.unit, self.neighbours)) for many in groups]
        names = [str(order) for order, _ in orders]
        for wanted, _ in losses:
            tree = self.is_worth_a_tree(wanted, quantiles)
            names.append(f"a tree of counts of {wanted.column}, for every quantile" if tree else _name_quantile(wanted))
        return Choice((), tuple(orders), tuple(losses), f"buys {', '.join(names)}")

    def _order_number(self, question: WantedStatement, layout: Layout, share: Fraction) -> Order:
        """A table under zCDP; under pure epsilon a number, unless its columns were asked before."""
        if layout.wanted.is_distinct:
            return self.order_distinct(question, share)
        if self.unit == "epsilon":
            mine = frozenset(axis.column.name for axis in layout.axes)
            if not any(mine == columns for columns, _ in self.purchases.rented):
                number = size_number(layout, share, self.unit, self.neighbours, number_question(question))
                if number is not None:
                    return number
        return self._order_table(layout, share)

    def _order_table(self, layout: Layout, share: Fraction) -> Order:
        if layout.axes:
            return size_table_for(layout, share, self.unit, self.neighbours)
        number = size_number(layout, share, self.unit, self.neighbours, "table")
        assert number is not None  # everybody: a table of one cell is a number
        return Order((), number.doses, number.law)

    def order_distinct(self, question: WantedStatement, share: Fraction) -> Order:
        """A number of different values. Of people: it costs a person the same, however many rows he has; so his whole
        share buys it.
        """
        (layout,) = self.lay_out_all(question)
        order = size_number(layout, share, self.unit, self.neighbours, number_question(question))
        assert order is not None
        if layout.wanted.column not in self.columns.ids:
            return order
        rows = Fraction(self.purchases.ledger.rows) ** (2 if order.law == "gaussian" else 1)
        doses = tuple(replace(dose, noise=dose.noise / rows) for dose in order.doses)
        return replace(order, doses=doses, people=True)

    def group_by_tree(self, quantiles: Sequence[WantedNumber]) -> list[list[WantedNumber]]:
        """Quantiles that are bought together: those of one column and condition, where a tree is worth it."""
        groups: dict[str, list[WantedNumber]] = {}
        for wanted in quantiles:
            mark = tree_mark(wanted) if self.is_worth_a_tree(wanted, quantiles) else quantile_mark(wanted)
            groups.setdefault(mark, []).append(wanted)
        return list(groups.values())

    def is_worth_a_tree(self, wanted: WantedNumber, others: Sequence[WantedNumber] = ()) -> bool:
        """Is a tree worth it? On a small grid, from the third quantile of a column under one condition on."""
        mark = tree_mark(wanted)
        known = self.purchases.quantiles.get(mark, 0) + max(1, sum(tree_mark(other) == mark for other in others))
        return known >= WORTH and is_fine_enough(self.columns.number(wanted.column))

    # --- for an accuracy ----------------------------------------------------------------------------------------------

    def _choose_by_target(
        self, question: WantedStatement, layouts: Sequence[tuple[Layout, list[KnownAnswer]]], target: float,
        analyst: str | None, *, again: bool,
    ) -> Choice | NotSold:  # fmt: skip
        beta = self.terms.beta
        free: list[KnownAnswer] = []
        orders: list[tuple[Order, int]] = []
        quantiles: list[tuple[WantedNumber, Loss]] = []
        alternatives: list[str] = []
        missing: list[Layout] = []
        anew = False
        for layout, ways in layouts:
            if layout.wanted.kind == "quantile":
                fits = [way for way in ways if way.quantile is not None and way.quantile.ranks(beta) <= target]
            else:
                fits = [way for way in ways if way.layout.is_within(target, way.generation, beta)]
            if fits and question.mark not in self.listed and self.usefulness.is_vague(fits[0]):
                return NotSold(f"{layout.wanted.label or question.sql}: {VAGUE}. A{MORE[1:]}")
            if fits:
                free.append(fits[0])
                continue
            anew |= bool(ways)
            missing.append(layout)
            if layout.wanted.kind == "quantile":
                epsilon = epsilon_for_ranks(target, beta, self.columns.number(layout.wanted.column).steps + 1)
                loss = loss_of_epsilon(round_up(epsilon), self.unit, self.neighbours, exact_epsilon=True)
                quantiles.append((layout.wanted, loss))
                continue
            order, generation, others = self._rent_or_buy(question, layout, target, again=again and bool(ways))
            orders.append((order, generation))
            alternatives += others
        if not orders and not quantiles:
            return Choice(tuple(free), how=explain_free(free, self.purchases))
        names = [*(str(order) for order, _ in orders), *(_name_quantile(wanted) for wanted, _ in quantiles)]
        how, notes = f"buys {', '.join(names)}", (WIDER,) if anew else ()
        choice = Choice(tuple(free), tuple(orders), tuple(quantiles), how, notes, tuple(alternatives))
        return choice if question.mark in self.listed else self._hold_against_range(question, choice, missing, analyst)

    def _rent_or_buy(
        self, question: WantedStatement, layout: Layout, target: float, *, again: bool
    ) -> tuple[Order, int, list[str]]:
        """Ski rental between numbers and the table of the columns that were rented so far (or of its own columns)."""
        beta, number, say = self.terms.beta, None, self.purchases.ledger.cap.say
        at = self.purchases.latest + 1 if again else self.purchases.latest
        generation = Generation(self.purchases.n) if again else self.purchases.generation(at)
        if question.is_one_number:
            number = find_cheapest_number(layout, target, beta, self.unit, self.neighbours, number_question(question))
        if layout.wanted.is_distinct and number is not None:
            return replace(number, people=layout.wanted.column in self.columns.ids), at, []
        wide, rented = self._add_rented_columns(layout)
        table = find_cheapest_table(wide, generation, target, beta, self.unit, self.neighbours)
        dear = table.loss(self.neighbours).amount
        if number is None:
            return table, at, [f"alternative: {table} at {say(dear)}"]
        cheap = number.loss(self.neighbours).amount
        if wide.axes and is_worth_a_table(dear, cheap, rented):
            return table, at, [f"alternative: {number}, {say(cheap)}"]
        return number, at, [f"alternative: {table}, {say(dear)}"]

    def _add_rented_columns(self, layout: Layout) -> tuple[Layout, Rented]:
        """The question over its columns and those of the numbers bought before, where that is not too large."""
        mine = {axis.column.name for axis in layout.axes}
        union = mine.union(*(columns for columns, _ in self.purchases.rented))
        paid = sum((amount for _, amount in self.purchases.rented), Fraction(0))
        rented = Rented(paid, len(self.purchases.rented))
        if union == mine:
            return layout, rented
        cuts = find_cuts(layout.wanted, layout.keys, self.columns)
        axes = [self.columns.make_axis(name, cuts.get(name, {1})) for name in sorted(union)]
        try:
            return lay_out(layout.wanted, layout.keys, axes), rented
        except UnsupportedQuery:  # too many cells together
            return layout, rented


def round_numbers(above: float) -> Iterator[float]:
    """1, 2 and 5 times powers of ten, from the first that is larger.

    >>> from itertools import islice
    >>> list(islice(round_numbers(0.03), 4))
    [0.05, 0.1, 0.2, 0.5]
    """
    power = -15
    while True:
        for digit in (1, 2, 5):
            number = float(f"{digit}e{power}")
            if number > above:
                yield number
        power += 1


def _name_quantile(wanted: WantedNumber) -> str:
    return f"{wanted.label} by the exponential mechanism"


def _count_parts(layouts: Sequence[tuple[Layout, list[KnownAnswer]]]) -> int:
    """Among how many purchases a share is divided, if everything had to be bought."""
    quantiles = sum(layout.wanted.kind == "quantile" for layout, _ in layouts)
    tables = {
        layout.names
        for layout, ways in layouts
        if layout.wanted.kind != "quantile" and not (ways and ways[0].is_public)
    }
    return max(1, quantiles + len(tables))
