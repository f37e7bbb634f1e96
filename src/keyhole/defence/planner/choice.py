"""Which way a question goes, and why: what is known already, one number of its own, a table, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from keyhole.basis.cells.numbers import Cuts
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss, Neighbours, Unit, round_down, round_up
from keyhole.defence.planner.asks import AskedStatement, Wanted
from keyhole.defence.planner.chosen import Chosen, Found, Keys, NotSold, spoken_orders, why_free
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.planner.estimates import Bounds
from keyhole.defence.planner.holdings import Holdings
from keyhole.defence.planner.laid import lay
from keyhole.defence.planner.orders import Purchase, lone, number_generation, number_laid, number_question
from keyhole.defence.planner.quantiles import epsilon_for_ranks, loss_of_epsilon, quantile_mark, recalled
from keyhole.defence.planner.single import (
    Rented,
    cheapest_number,
    cheapest_table,
    good_enough,
    number_for,
    table_for,
    with_order,
    worth_a_table,
)
from keyhole.defence.planner.terms import PlanTerms
from keyhole.defence.planner.tree import WORTH, recalled_tree, tree_fits, tree_mark
from keyhole.defence.planner.useful import VAGUE, Usefulness
from keyhole.defence.planner.ways import AskedPart, axis_of, cuts_of, inferable, part_of, variances
from keyhole.defence.tables.noisy_tables import BoughtTable, Dose, Generation, Quantity
from keyhole.errors import BudgetExhausted, UnsupportedQuery
from keyhole.model.predicate import Scalar

AGAIN = 1.5  # what is known is bought again if its variance is more than so many times that of a purchase
WIDE = "bought anew: the bar of what was released before is over 1.2 times that of this purchase, or over half of all"
WIDER = "bought anew: the bar of what was released before is wider than the accuracy asked for"


@dataclass(slots=True, eq=False)
class Chooser:
    """Chooses from the declaration, the book and what was released; no data is in reach."""

    columns: Partitions
    holdings: Holdings
    terms: PlanTerms
    neighbours: Neighbours
    unit: Unit
    settled: set[str] = field(default_factory=set)  # what a plan was made for: it buys no more for them
    listed: frozenset[str] = frozenset()  # the statements of a file: a plan is theirs, whatever its bars

    @property
    def useful(self) -> Usefulness:
        """What is not sold without being asked to."""
        return Usefulness(self.columns, self.holdings, self.terms)

    # --- the question -------------------------------------------------------------------------------------------------

    def parts(self, question: AskedStatement) -> list[tuple[Keys, AskedPart]]:
        """Every number of every grouping set, over the axes that a purchase would have."""
        return [(keys, self.part(wanted, keys)) for wanted, keys in question.parts]

    def part(self, wanted: Wanted, keys: Keys) -> AskedPart:
        """One of them."""
        return part_of(wanted, [column for _, column in keys], self.columns)

    def bounds(self, wanted: Wanted) -> Bounds:
        """Between what an average lies, from the declaration."""
        low = high = float(wanted.offset)
        for quantity, each in wanted.sums.items():
            reach = sum(abs(float(f)) for f, _ in each) * quantity.reach
            low, high = low - reach, high + reach
        return low, high

    def key_values(self, column: str) -> tuple[Scalar, ...]:
        """The keys of a grouping column."""
        found = self.columns.of(column)
        return found.at(range(1, found.steps + 1)).keys() if isinstance(found, Cuts) else found.keys()

    # --- what is free -------------------------------------------------------------------------------------------------

    def known(self, part: AskedPart, keys: Keys, question: AskedStatement, analyst: str | None) -> list[Found]:
        """Every way to answer from what was released, the most precise first."""
        wanted, ledger = part.wanted, self.holdings.ledger
        if wanted.kind == "quantile":
            tree = (Found(wanted, keys, part.laid, Generation(None), q) for q in recalled_tree(ledger, wanted, analyst))
            best = sorted(recalled(ledger, wanted, analyst), key=lambda q: q.ranks(self.terms.beta))
            single = (Found(wanted, keys, part.laid, Generation(None), q) for q in best)
            return [*tree, *single]
        ways: list[tuple[float, int, Found]] = []
        for number in self.holdings.answering:
            generation = self.holdings.for_analyst(number, analyst)
            for laid in inferable(part, generation, self.columns, self._axes(generation)):
                ways.append((_worst(variances(laid, generation)), len(ways), Found(wanted, keys, laid, generation)))
        if lone(part.laid) and len(question.wanted) * len(question.sets) == 1:
            for kept in ledger.recall(number_question(question), analyst):
                bought = BoughtTable.unpacked(kept.answer, (kept.of or (0,))[0], kept.entry)
                alone, laid = number_generation(bought, part.laid, self.holdings.n), number_laid(part.laid)
                found = Found(wanted, keys, laid, alone, None, kept)
                ways.append((_worst(variances(laid, alone)), len(ways), found))
        return [found for _, _, found in sorted(ways, key=lambda way: way[:2])]

    def _axes(self, generation: Generation) -> Mapping[str, list[CutAxis]]:
        """The partitions of number columns that were bought, from their keys."""
        found: dict[str, dict[str, CutAxis]] = {}
        for table in generation.tables:
            for key in table.names:
                name, bar, cuts = key.partition("|")
                column = self.columns.columns.get(name)
                if not bar or not isinstance(column, Cuts) or key in found.get(name, {}):
                    continue
                listed = self.holdings.cuts.get(key)
                starts = listed if listed is not None else ([int(c) for c in cuts.split(",")] if cuts else [])
                found.setdefault(name, {})[key] = CutAxis(key, column.at(starts))
        return {name: list(axes.values()) for name, axes in found.items()}

    # --- the choice ---------------------------------------------------------------------------------------------------

    def choose(self, question: AskedStatement, mark: str, analyst: str | None) -> Chosen | NotSold:
        """The cheapest way that is good enough."""
        parts = self.parts(question)
        known = [(keys, part, self.known(part, keys, question, analyst)) for keys, part in parts]
        again = mark in self.holdings.noted or mark in self.settled
        target = self.target()
        if target is not None:
            return self._to_target(question, known, target, analyst, again=again)
        return self._by_share(question, known, analyst, again=again, mark=mark)

    def after(self, question: AskedStatement, mark: str, analyst: str | None, bought: Chosen) -> Chosen:
        """The answer from what is known once the purchase was made."""
        found = []
        for keys, part in self.parts(question):
            ways = self.known(part, keys, question, analyst)
            if part.wanted.kind == "quantile" or not ways:
                found.append(ways[0])
                continue
            found.append(ways[0])
        return Chosen(tuple(found), (), (), bought.how, bought.notes)

    def target(self) -> float | None:
        """The accuracy asked for, in people."""
        if self.terms.accuracy is None:
            return None
        return self.terms.accuracy * (self.holdings.n if self.holdings.n is not None else 1)

    def cost(self, chosen: Chosen, ledger: Ledger) -> Fraction:
        """Of what must be bought, in the unit of the budget."""
        losses = [order.cost(ledger, self.neighbours) for order, _ in chosen.orders]
        losses += [ledger.per_person(loss) for _, loss in chosen.quantiles]
        return sum((ledger.price(loss).amount for loss in losses), Fraction(0))

    def share(self, analyst: str | None) -> Fraction:
        """Where no accuracy is asked for: what is left, over the questions still expected."""
        left = self.holdings.ledger.left(analyst)
        if left <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=left, requested=0
            )
        asked = max(1, self.terms.horizon - len(self.holdings.noted))
        return round_down(left / self.holdings.ledger.times / asked, 6)

    def _by_share(
        self, question: AskedStatement, known: Sequence[tuple[Keys, AskedPart, list[Found]]], analyst: str | None, *,
        again: bool, mark: str,
    ) -> Chosen | NotSold:  # fmt: skip
        free: list[Found] = []
        open_parts: list[tuple[Keys, AskedPart]] = []
        share: Fraction | None = None
        anew = False
        poor = self.holdings.ledger.left(analyst) <= 0  # nothing better can be bought
        for keys, part, ways in known:
            vague = bool(ways) and mark not in self.listed and self.useful.vague(ways[0])
            if vague and poor:
                return NotSold(f"{part.wanted.label or question.sql}: {VAGUE}, and nothing is left to buy a better one")
            given = again or poor or bool(ways and ways[0].quantile is not None)
            if ways and not vague and (given or not variances(ways[0].laid, ways[0].generation)):
                free.append(ways[0])
                continue
            if mark in self.settled and not ways:
                return NotSold("the plan for the whole file gave this answer up: ask it by itself")
            if share is None:
                share = self.share(analyst)
            if ways and not vague and not self._worse(ways[0], part, share / _sets(known)):
                free.append(ways[0])
            else:
                open_parts.append((keys, part))
                anew |= bool(ways)
        if not open_parts or share is None:
            return Chosen(tuple(free), how=why_free(free, self.holdings))
        orders, quantiles = self._buy(question, [part for _, part in open_parts], share)
        asked = [part.wanted for _, part in open_parts if part.wanted.kind == "quantile"]
        trees = {tree_mark(wanted) for wanted in asked if self.by_tree(wanted, asked)}
        how, notes, more = spoken_orders(orders, quantiles, trees)
        notes = (*notes, WIDE) if anew else notes
        chosen = Chosen(tuple(free), tuple(orders), tuple(quantiles), how, notes, more)
        return self._useful(question, chosen, [part for _, part in open_parts])

    def _worse(self, found: Found, part: AskedPart, share: Fraction) -> bool:
        """Is what is known so much worse than what the share would buy by itself that it is worth paying again?

        Shares drift upwards with every question that was free, so without a margin the same table would be bought again
        for nothing but its rounding.
        """
        fresh = with_order(Generation(self.holdings.n), self._order(part, share, None, number_allowed=False))
        bought, held = variances(part.laid, fresh), variances(found.laid, found.generation)
        return any(held[m] > AGAIN * bought.get(m, 0.0) for m in held)

    def _order(
        self, part: AskedPart, share: Fraction, question: AskedStatement | None, *, number_allowed: bool
    ) -> Purchase:
        """A table under zCDP; under pure epsilon a number, unless it is asked by groups or its columns were before."""
        if part.wanted.distinct and question is not None:
            return self.distinct(question, share)
        if number_allowed and question is not None and self.unit == "epsilon":
            mine = frozenset(axis.column.name for axis in part.laid.axes)
            if not any(mine == columns for columns, _ in self.holdings.rented):
                number = number_for(part, share, self.unit, self.neighbours, number_question(question))
                if number is not None:
                    return number
        if not part.laid.axes:  # everybody: a table of one cell is a number
            number = number_for(part, share, self.unit, self.neighbours, "table")
            assert number is not None
            return Purchase((), number.doses, number.law)
        return table_for(part, share, self.unit, self.neighbours)

    def distinct(self, question: AskedStatement, share: Fraction) -> Purchase:
        """A number of different values. Of people: it costs a person the same, however many rows he has; so his whole
        share buys it.
        """
        ((_, part),) = self.parts(question)
        order = number_for(part, share, self.unit, self.neighbours, number_question(question))
        assert order is not None
        if part.wanted.column not in self.columns.ids:
            return order
        rows = Fraction(self.holdings.ledger.rows) ** (2 if order.law == "gaussian" else 1)
        doses = tuple(Dose(d.quantity, d.noise / rows) for d in order.doses)
        return replace(order, doses=doses, people=True)

    def _buy(
        self, question: AskedStatement, parts: Sequence[AskedPart], share: Fraction
    ) -> tuple[list[tuple[Purchase, int]], list[tuple[Wanted, Loss]]]:
        """One purchase for each set of axes, the share divided among them; quantiles one each."""
        by_axes: dict[tuple[str, ...], list[AskedPart]] = {}
        quantiles = [part.wanted for part in parts if part.wanted.kind == "quantile"]
        for part in parts:
            if part.wanted.kind != "quantile":
                by_axes.setdefault(part.laid.names, []).append(part)
        each = share / (len(by_axes) + len(quantiles))
        orders = []
        single = len(question.wanted) * len(question.sets) == 1
        for group in by_axes.values():
            first = group[0]
            if len(group) == 1:
                order = self._order(first, each, question if single else None, number_allowed=single)
            else:
                merged = sorted({m for part in group for m in part.quantities})
                order = table_for(first, each, self.unit, self.neighbours, merged)
            orders.append((order, self.holdings.latest))
        return orders, [
            (many[0], loss_of_epsilon(each * len(many), self.unit, self.neighbours)) for many in self.trees(quantiles)
        ]

    def trees(self, quantiles: Sequence[Wanted]) -> list[list[Wanted]]:
        """Quantiles that are bought together: those of one column and condition, where a tree is worth it."""
        found: dict[str, list[Wanted]] = {}
        for wanted in quantiles:
            mark = tree_mark(wanted) if self.by_tree(wanted, quantiles) else quantile_mark(wanted)
            found.setdefault(mark, []).append(wanted)
        return list(found.values())

    def by_tree(self, wanted: Wanted, asked: Sequence[Wanted] = ()) -> bool:
        """Is a tree worth it? On a small grid, from the third quantile of a column under one condition on."""
        mark = tree_mark(wanted)
        known = self.holdings.ranked.get(mark, 0) + max(1, sum(tree_mark(w) == mark for w in asked))
        return known >= WORTH and tree_fits(self.columns.number(wanted.column))

    def _to_target(
        self, question: AskedStatement, known: Sequence[tuple[Keys, AskedPart, list[Found]]], target: float,
        analyst: str | None, *, again: bool,
    ) -> Chosen | NotSold:  # fmt: skip
        beta, free, orders, quantiles, alternatives = self.terms.beta, [], [], [], []
        anew = False
        for _, part, ways in known:
            if part.wanted.kind == "quantile":
                epsilon = epsilon_for_ranks(target, beta, self.columns.number(part.wanted.column).steps + 1)
                loss = loss_of_epsilon(round_up(epsilon), self.unit, self.neighbours, exact_epsilon=True)
                fits = [way for way in ways if way.quantile is not None and way.quantile.ranks(beta) <= target]
                free += fits[:1]
                quantiles += [] if fits else [(part.wanted, loss)]
                anew |= bool(ways) and not fits
                continue
            fits = [way for way in ways if good_enough(way.laid, way.generation, target, beta)]
            if fits:
                free.append(fits[0])
                continue
            order, generation, told = self._rent_or_buy(question, part, target, again=again and bool(ways))
            orders.append((order, generation))
            anew |= bool(ways)
            alternatives += told
        if not orders and not quantiles:
            return Chosen(tuple(free), how=why_free(free, self.holdings))
        how, notes, more = spoken_orders(orders, quantiles)
        notes = (*notes, WIDER) if anew else notes
        return Chosen(tuple(free), tuple(orders), tuple(quantiles), how, notes, (*more, *alternatives))

    def _rent_or_buy(
        self, question: AskedStatement, part: AskedPart, target: float, *, again: bool
    ) -> tuple[Purchase, int, list[str]]:
        """Ski rental between numbers and the table of the columns that were rented so far (or of its own columns)."""
        beta, number = self.terms.beta, None
        at = self.holdings.latest + 1 if again else self.holdings.latest
        generation = Generation(self.holdings.n) if again else self.holdings.generation(at)
        if len(question.wanted) * len(question.sets) == 1:
            number = cheapest_number(part, target, beta, self.unit, self.neighbours, number_question(question))
        if part.wanted.distinct and number is not None:
            return replace(number, people=part.wanted.column in self.columns.ids), at, []
        wide, rented = self._with_rented(part)
        table = cheapest_table(wide, generation, target, beta, self.unit, self.neighbours)
        dear = table.loss(self.neighbours).amount
        if number is None:
            return table, at, [f"alternative: {table} at {self.unit} {float(dear):.4g}"]
        cheap = number.loss(self.neighbours).amount
        told = [
            f"alternative: {each}, {self.unit} {float(price):.4g}" for each, price in ((number, cheap), (table, dear))
        ]
        if wide.laid.axes and worth_a_table(dear, cheap, rented):
            return table, at, told[:1]
        return number, at, told[1:]

    def _with_rented(self, part: AskedPart) -> tuple[AskedPart, Rented]:
        """The question over its columns and those of the numbers bought before, where that is not too large."""
        mine = {axis.column.name for axis in part.laid.axes}
        union = mine.union(*(columns for columns, _ in self.holdings.rented))
        paid = sum((amount for _, amount in self.holdings.rented), Fraction(0))
        rented = Rented(paid, len(self.holdings.rented))
        if union == mine:
            return part, rented
        cuts = cuts_of(part.wanted, part.keys, self.columns)
        axes = [axis_of(name, cuts.get(name, {1}), self.columns) for name in sorted(union)]
        try:
            return AskedPart(part.wanted, part.keys, lay(part.wanted, part.keys, axes)), rented
        except UnsupportedQuery:  # too many cells together
            return part, rented

    def _useful(self, question: AskedStatement, chosen: Chosen, parts: Sequence[AskedPart]) -> Chosen | NotSold:
        """Not sold without being told so: an answer whose bar is more than half of all it could be."""
        price = f"{self.unit} {float(self.cost(chosen, self.holdings.ledger)):.4g}"
        ranked = [part.wanted for part in parts if part.wanted.kind == "quantile"]
        reasons = [self.useful.why_not(question, chosen, parts, price)]
        for wanted, loss in chosen.quantiles:
            reasons.append(self.useful.why_no_quantile(wanted, loss, price, tree=self.by_tree(wanted, ranked)))
        found = next((reason for reason in reasons if reason), "")
        return NotSold(found) if found else chosen


def _sets(known: Sequence[tuple[Keys, AskedPart, list[Found]]]) -> int:
    """Among how many purchases a share is divided, if everything had to be bought."""
    ranked = sum(part.wanted.kind == "quantile" for _, part, _ in known)
    asked = {part.laid.names for _, part, ways in known if part.wanted.kind != "quantile" and not _given(ways)}
    return max(1, ranked + len(asked))


def _given(ways: Sequence[Found]) -> bool:
    """Is it public?"""
    return bool(ways) and not variances(ways[0].laid, ways[0].generation)


def _worst(found: Mapping[Quantity, float]) -> float:
    return max((v / m.reach**2 for m, v in found.items()), default=0.0)


__all__ = ["Chooser", "Chosen", "Found", "Keys", "NotSold"]
