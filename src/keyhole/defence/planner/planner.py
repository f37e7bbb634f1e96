"""The planner's face to a session: statements are read, planned, bought where they must be, and answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from keyhole.basis.cells.domain import Domain
from keyhole.book.noisy_tables import table_lines
from keyhole.defence.answering import ExpectedBar, PriceQuote, PrivateAnswer
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import epsilon_at
from keyhole.defence.declared_domain import make_asking_schema
from keyhole.defence.noise import NoiseSource, exact_noise
from keyhole.defence.planner.choice import Choice, Chooser, NotSold
from keyhole.defence.planner.columns import Partitions
from keyhole.defence.planner.estimates import estimate_groups, expect_bar
from keyhole.defence.planner.file_plan import FilePlan
from keyhole.defence.planner.group_quantiles import (
    buy_groups,
    check_groups,
    explain_not_sold,
    order_groups,
    price_orders,
    recall_groups,
)
from keyhole.defence.planner.known_answers import KnownAnswer
from keyhole.defence.planner.layout import lay_out_for_purchase
from keyhole.defence.planner.purchases import Buyer, Purchases
from keyhole.defence.planner.quantiles import buy_quantile, buy_tree, note_coarseness
from keyhole.defence.planner.sizing import PlanTerms
from keyhole.defence.planner.unknown_keys import buy_keys, describe_keys, list_groups, order_keys, recall_keys
from keyhole.defence.planner.usefulness import Usefulness
from keyhole.defence.planner.wanted import WantedStatement, read_wanted
from keyhole.defence.tables.margins import Margins
from keyhole.defence.workload import Estimate, GroupKey
from keyhole.errors import BudgetExhausted, PrivacyParameterError, QueryError
from keyhole.model.query import Refused
from keyhole.model.schema import Schema
from keyhole.sql import lower_statement

REMEMBERED = 4096  # texts whose reading is kept


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """A statement that was read."""

    sql: str
    question: WantedStatement


@dataclass(frozen=True, slots=True)
class PlanSetting:
    """What a session must know of the budget and of n to show the answers."""

    ledger: Ledger
    n: int | None


class Planner:
    """Answers statements by the cheapest safe way, against one book; the planner's face to a session.

    A purchase may depend on what is public and on what was released, never on true values; its charge is fixed before
    the data is read, and charge and table are one commit. Whatever cannot be read, planned or paid is refused alone.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Partitions,
        margins: Margins,
        ledger: Ledger,
        terms: PlanTerms,
        noise: NoiseSource | None = None,
    ) -> None:
        self._schema = make_asking_schema(schema, Domain(tuple(columns.columns.values())))
        self.columns, self.margins, self.terms = columns, margins, terms
        n = margins.n if margins.neighbours == "replace-one" and ledger.rows == 1 else None
        self.setting = PlanSetting(ledger, n)
        self.purchases = Purchases(ledger, n)
        self.buyer = Buyer(schema.table, columns, margins, ledger, self.purchases, noise or exact_noise())
        usefulness = Usefulness(columns, self.purchases, terms.beta, terms.anyway)
        unit = ledger.cap.total.unit
        self.chooser = Chooser(columns, self.purchases, terms, usefulness, margins.neighbours, unit)
        self.plan: FilePlan | None = None
        self._read: dict[str, PlannedStatement] = {}
        self._used: dict[int, None] = {}  # entries of the book that answers were made from, in the order of use

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The columns as they are asked about."""
        return self._schema

    def read(self, sql: str) -> PlannedStatement:
        """A statement as numbers wanted; `QueryError` from the text and the declaration alone."""
        statement = self._read.get(sql)
        if statement is None:
            question = read_wanted(lower_statement(sql, self._schema), self.columns)
            if question.has_grouped_quantiles:
                check_groups(question, self.chooser)
            else:
                self.chooser.lay_out_all(question)  # refused here, if its cells cannot be laid out
            if len(self._read) >= REMEMBERED:
                self._read.clear()
            statement = self._read[sql] = PlannedStatement(sql, question)
        return statement

    def expect(self, statements: Sequence[str], analyst: str | None) -> None:
        """These are about to be asked: they are planned for together when the first of them is asked."""
        questions = {}
        for sql in statements:
            try:
                question = self.read(sql).question
            except QueryError:
                continue
            if not question.unknown and not question.has_grouped_quantiles:
                questions[question.mark] = question
        several = len(questions) > 1
        self.chooser.listed = frozenset(questions) if several else frozenset()
        self.plan = FilePlan(self.chooser, self.buyer, questions) if several else None

    # --- answering ----------------------------------------------------------------------------------------------------

    def recall(self, request: PlannedStatement, analyst: str | None) -> PrivateAnswer | None:
        """What is free: public, released before, or following from what was, if it is good enough."""
        self.purchases.refresh()
        if request.question.unknown:
            return self._answer_keys(request, Fraction(0), "released before", analyst)
        if request.question.has_grouped_quantiles:
            return self._answer_quantiles(request, Fraction(0), "released before", analyst)
        if self.plan is not None and self.plan.waits_for(request.question.mark, analyst):
            return None
        try:
            choice = self.chooser.choose(request.question, analyst)
        except (BudgetExhausted, PrivacyParameterError):  # nothing is free, and nothing can be bought: refused alone
            return None
        if isinstance(choice, NotSold) or not choice.is_free or not self._may_be_told(choice, analyst):
            return None
        return self._answer_choice(request, choice, Fraction(0), analyst)

    def answer(self, request: PlannedStatement, analyst: str | None) -> PrivateAnswer:
        """Plan, charge, read, write down; on the open page."""
        ledger, question = self.setting.ledger, request.question
        before = ledger.spent()
        try:
            if question.unknown:
                keys = buy_keys(self.buyer, self.chooser, question, analyst)
                answered = self._answer_keys(request, ledger.spent() - before, f"buys {keys}", analyst)
                assert answered is not None
                return answered
            if question.has_grouped_quantiles:
                return self._buy_grouped_quantiles(request, before, analyst)
            if self.plan is not None and self.plan.waits_for(question.mark, analyst):
                self.plan.buy(analyst)
                self.purchases.refresh()
            choice = self.chooser.choose(question, analyst)
            if isinstance(choice, NotSold):
                return self.refused(request.sql, Refused(choice.reason), analyst)
            if not choice.is_free:
                self._buy(request, choice, analyst)
                choice = self.chooser.choose_after(question, analyst, choice)
            if not self._may_be_told(choice, analyst):
                why = f"what was released before would answer this, and showing it would pass the cap of {analyst}"
                return self.refused(request.sql, Refused(why), analyst)
        except BudgetExhausted as error:
            return self.refused(
                request.sql, Refused(f"{error}{self._suggest_accuracy(request, analyst)}", unpaid=True), analyst
            )
        except PrivacyParameterError as error:
            return self.refused(request.sql, Refused(str(error)), analyst)
        return self._answer_choice(request, choice, ledger.spent() - before, analyst)

    def _buy(self, request: PlannedStatement, choice: Choice, analyst: str | None) -> None:
        """All that the choice must buy first."""
        for order, generation in choice.orders:
            self.buyer.buy(order, generation, analyst, request.sql)
        quantiles = [wanted for wanted in request.question.wanted if wanted.kind == "quantile"]
        trees = [
            self.chooser.is_worth_a_tree(wanted, quantiles) for wanted, _ in choice.quantiles
        ]  # before any is bought
        for (wanted, loss), tree in zip(choice.quantiles, trees, strict=True):
            layout = lay_out_for_purchase(wanted, (), self.columns)
            (buy_tree if tree else buy_quantile)(self.buyer, layout, loss, analyst, request.sql)
        self.purchases.refresh()

    def _buy_grouped_quantiles(self, request: PlannedStatement, before: Fraction, analyst: str | None) -> PrivateAnswer:
        """Quantiles of all groups, at one price."""
        orders = order_groups(request.question, self.chooser, analyst)
        if why := explain_not_sold(orders, self.chooser):
            return self.refused(request.sql, Refused(why), analyst)
        buy_groups(self.buyer, self.chooser, request.question, orders, analyst)
        how = f"buys {', '.join(map(str, orders))}"
        answered = self._answer_quantiles(request, self.setting.ledger.spent() - before, how, analyst)
        assert answered is not None
        return answered

    def _answer_keys(
        self, request: PlannedStatement, cost: Fraction, how: str, analyst: str | None
    ) -> PrivateAnswer | None:
        """Keys that nobody declared, from what was released."""
        ledger, beta = self.setting.ledger, self.terms.beta
        kept = recall_keys(ledger, request.question, analyst)
        if kept is None:
            return None
        ledger.tell(analyst, kept)
        self._used[kept.entry] = None
        groups, notes = tuple(list_groups(kept, request.question, beta)), (describe_keys(kept),)
        left, how = ledger.left(analyst), how + self._state_epsilon()
        return PrivateAnswer(
            request.sql, True, groups, beta, cost, left, self.margins.neighbours, how, None, notes, entry=kept.entry
        )

    def _answer_quantiles(
        self, request: PlannedStatement, cost: Fraction, how: str, analyst: str | None
    ) -> PrivateAnswer | None:
        """Quantiles of groups, from what was released."""
        ledger, wanted, beta = self.setting.ledger, request.question.wanted, self.terms.beta
        known = recall_groups(request.question, self.chooser, analyst)
        if known is None or not ledger.may_be_told(
            analyst, [at for _, best in known for each in best for at in each.kept.of or ()]
        ):
            return None
        self.purchases.note_answered(request.question.mark)
        groups = []
        for key, best in known:
            estimates = (b.estimate(w, self.columns, beta) for b, w in zip(best, wanted, strict=True))
            groups.append((key, tuple(estimates)))
            for each in best:
                ledger.tell(analyst, each.kept)
                self._used[each.kept.entry] = None
        notes = tuple(n for n in (*(w.note or note_coarseness(w, self.columns) for w in wanted),) if n)
        notes = (*notes, *self._describe_left_out(request))
        left, how = ledger.left(analyst), how + self._state_epsilon()
        entry = max(b.kept.entry for _, best in known for b in best)
        return PrivateAnswer(
            request.sql, True, tuple(groups), beta, cost, left, self.margins.neighbours, how, None, notes, entry=entry
        )

    def _answer_choice(
        self, request: PlannedStatement, choice: Choice, cost: Fraction, analyst: str | None
    ) -> PrivateAnswer:
        """From what is known, in the order of the question's parts."""
        ledger, question = self.setting.ledger, request.question
        entries: list[int] = []
        columns: list[list[Estimate]] = []
        for known in choice.known:
            columns.append(self._estimate(known))
            entries += known.tell(self.purchases, analyst)
        self.purchases.note_answered(question.mark)
        self._used.update(dict.fromkeys(entries))
        groups = tuple(self._list_groups(question, columns))
        coarse = (note_coarseness(w, self.columns) for w in question.wanted if w.kind == "quantile")
        rows = ledger.rows
        bounded = f"of each person at most {rows} rows count, those of the smallest keyed hash" if rows > 1 else ""
        notes = tuple(note for note in (*(w.note for w in question.wanted), *coarse, bounded) if note)
        notes = (*notes, *self._describe_left_out(request), *choice.notes)
        left, how = ledger.left(analyst), choice.how + self._state_epsilon()
        answered = PrivateAnswer(
            request.sql,
            question.is_grouped,
            groups,
            self.terms.beta,
            cost,
            left,
            self.margins.neighbours,
            how,
            None,
            notes,
        )
        return replace(answered, entry=max(entries)) if entries else answered

    def _estimate(self, known: KnownAnswer) -> list[Estimate]:
        if known.quantile is not None:
            return [known.quantile.estimate(known.wanted, self.columns, self.terms.beta)]
        return estimate_groups(known.layout, known.generation, self.terms.beta)

    def refused(self, sql: str, why: Refused, analyst: str | None) -> PrivateAnswer:
        """A statement that got no numbers."""
        left, neighbours = self.setting.ledger.left(analyst), self.margins.neighbours
        return PrivateAnswer(sql, False, (), self.terms.beta, Fraction(0), left, neighbours, "", why)

    def _may_be_told(self, choice: Choice, analyst: str | None) -> bool:
        """Has the analyst room for everything that the answer is made from, together?"""
        return self.setting.ledger.may_be_told(analyst, [at for known in choice.known for at in known.charges()])

    def _state_epsilon(self) -> str:
        """What a budget in rho promises so far, as an epsilon."""
        spent = self.setting.ledger.spent()
        if self.chooser.unit != "rho" or not self.terms.delta or not spent:
            return ""
        delta, keys = self.terms.delta, self.terms.delta_for_keys
        return f"; all so far is epsilon {float(epsilon_at(spent, delta - keys)):.4g} at delta {float(delta):g}"

    def _describe_left_out(self, request: PlannedStatement) -> tuple[str, ...]:
        """Whom a GROUP BY does not show, from the declaration."""
        columns = dict.fromkeys(column for keys in request.question.sets for _, column in keys)
        names = [name for name in columns if self.columns.of(name).missing is None]
        if not names:
            return ()
        listed = ", ".join(names)
        return (f"groups are the declared values of {listed}: records with NULL or any other value are in no group",)

    def _list_groups(
        self, question: WantedStatement, columns: Sequence[list[Estimate]]
    ) -> Iterator[tuple[GroupKey, tuple[Estimate, ...]]]:
        for at, keys in enumerate(question.sets):
            axes = [self.columns.key_values(column) for _, column in keys]
            width = len(question.wanted)
            rows = zip(*columns[at * width : (at + 1) * width], strict=True)
            for values, row in zip(product(*axes), rows, strict=True):
                if not question.admits(keys, values):
                    continue
                yield tuple((name, v) for (name, _), v in zip(keys, values, strict=True)), tuple(row)

    # --- prices -------------------------------------------------------------------------------------------------------

    def dry_run(self, statements: Sequence[str], analyst: str | None = None) -> list[PriceQuote]:
        """What each statement would cost and why, with the alternatives; spends nothing and reads nothing."""
        self.purchases.refresh()
        prices, seen = [], set()
        for sql in statements:
            try:
                statement = self.read(sql)
            except QueryError as error:
                prices.append(PriceQuote(sql, Fraction(0), "", Refused(str(error))))
                continue
            mark = statement.question.mark
            if mark in seen:
                prices.append(PriceQuote(sql, Fraction(0), "released before"))
                continue
            waits = self.plan is not None and self.plan.waits_for(mark, analyst)
            price = self.plan.price(sql, mark, analyst) if waits and self.plan else self._price(statement, analyst)
            prices.append(price)
            if price.refused is None:
                seen.add(mark)
        return prices

    def rehearse(self, request: PlannedStatement, analyst: str | None) -> PriceQuote:
        """What a statement costs and how wrong its numbers will be: it is answered, on a copy of the book and from
        tables in which nobody is counted (`NobodysMargins`), so that the next one finds what it would find.
        """
        self.purchases.refresh()
        quote = self._price(request, analyst)
        if quote.refused is not None:
            return quote
        made = self.answer(request, analyst)
        if made.refused is not None:
            return PriceQuote(request.sql, Fraction(0), "", made.refused)
        return replace(quote, cost=made.cost, bars=self._expect_bars(request, analyst))

    def _expect_bars(self, request: PlannedStatement, analyst: str | None) -> tuple[ExpectedBar, ...]:
        question, beta = request.question, self.terms.beta
        if question.unknown or question.has_grouped_quantiles:
            return ()
        choice = self.chooser.choose(question, analyst)
        if isinstance(choice, NotSold) or not choice.is_free:
            return ()
        return tuple(
            expect_bar(known.layout, known.generation, beta)
            if known.quantile is None
            else ExpectedBar(None, math.ceil(known.quantile.ranks(beta)))
            for known in choice.known[: len(question.wanted)]
        )

    def _price(self, request: PlannedStatement, analyst: str | None) -> PriceQuote:
        try:
            if request.question.unknown:
                if recall_keys(self.setting.ledger, request.question, analyst) is not None:
                    return PriceQuote(request.sql, Fraction(0), "released before")
                order = order_keys(self.chooser, analyst)
                self.setting.ledger.check(order.loss, analyst=analyst)
                return PriceQuote(request.sql, order.loss.amount, f"buys {order}")
            if request.question.has_grouped_quantiles:
                return self._price_grouped_quantiles(request, analyst)
            choice = self.chooser.choose(request.question, analyst)
        except (BudgetExhausted, PrivacyParameterError) as error:
            unpaid = isinstance(error, BudgetExhausted)
            return PriceQuote(request.sql, Fraction(0), "", Refused(str(error), unpaid))
        if isinstance(choice, NotSold):
            return PriceQuote(request.sql, Fraction(0), "", Refused(choice.reason))
        cost = self.chooser.cost(choice, self.setting.ledger)
        rest = max(self.setting.ledger.left(analyst), Fraction(0))
        if cost > rest:
            why = self.setting.ledger.cap.explain_too_dear(cost, rest, analyst)
            why += self._suggest_accuracy(request, analyst)
            return PriceQuote(request.sql, Fraction(0), "", Refused(why, unpaid=True))
        return PriceQuote(request.sql, cost, choice.how, None, (*choice.notes, *choice.alternatives))

    def _suggest_accuracy(self, request: PlannedStatement, analyst: str | None) -> str:
        if request.question.unknown or request.question.has_grouped_quantiles:
            return ""
        return self.chooser.suggest_accuracy(request.question, analyst)

    def _price_grouped_quantiles(self, request: PlannedStatement, analyst: str | None) -> PriceQuote:
        if recall_groups(request.question, self.chooser, analyst) is not None:
            return PriceQuote(request.sql, Fraction(0), "released before")
        orders = order_groups(request.question, self.chooser, analyst)
        if why := explain_not_sold(orders, self.chooser):
            return PriceQuote(request.sql, Fraction(0), "", Refused(why))
        price = price_orders(orders, self.setting.ledger)
        self.setting.ledger.check(price, analyst=analyst)
        return PriceQuote(request.sql, price.amount, f"buys {', '.join(map(str, orders))}")

    def lines(self, made: Iterable[PrivateAnswer]) -> Iterator[str]:
        """What was released, as lines of a transcript: every purchase that the answers were made from, once."""
        for _ in made:
            pass
        for seq in sorted(self._used):
            answer = self.setting.ledger.book.entry(seq).body["answer"]
            yield from table_lines(answer) if answer.get("kind") in ("table", "number") else answer.get("lines", ())
