"""`private`: answers with differential privacy, charged to the budget in the book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from keyhole.auditing.online.admission import Admission
from keyhole.basis.cells.possible_range import PossibleRange, find_possible_ranges
from keyhole.defence.answering import Answering, PriceQuote, PrivateAnswer
from keyhole.defence.budget.loss import Loss
from keyhole.defence.planner.planner import Planner
from keyhole.errors import QueryError
from keyhole.model.query import Refused
from keyhole.model.schema import Schema
from keyhole.sessions.reply import BudgetState, Outcome, Reply


@dataclass(frozen=True, slots=True, eq=False)
class Private:
    """Whatever can be read and paid for is answered, with noise; nothing depends on the data but the noisy numbers."""

    answering: Answering | Planner
    epoch: int  # of the book, that the data at hand is

    @property
    def schema(self) -> Schema:
        """The columns that questions may name."""
        return self.answering.schema

    @property
    def unit(self) -> str:
        """What prices are shown in: epsilon or rho."""
        return str(self.answering.setting.ledger.cap.unit)

    def budget(self, analyst: str | None) -> BudgetState:
        """What prices are held against."""
        ledger = self.answering.setting.ledger
        cap, left = ledger.cap, max(ledger.left(analyst), Fraction(0))
        return BudgetState(self.unit, cap.show(cap.of(cap.account_of(analyst)), analyst), cap.show(left, analyst))

    def show_amount(self, amount: Fraction, analyst: str | None) -> Fraction:
        """What the book counts, in the unit that the budget is written in."""
        return self.answering.setting.ledger.cap.show(amount, analyst)

    def show_answer(self, answer: PrivateAnswer, analyst: str | None) -> PrivateAnswer:
        """An answer with its price in the unit of the budget, and as a share of it."""
        cost, left, own = (self.show_amount(amount, analyst) for amount in (answer.cost, answer.left, answer.own))
        return replace(answer, cost=cost, left=left, own=own, share=self._share(answer.cost, analyst))

    def show_price(self, price: PriceQuote, analyst: str | None) -> PriceQuote:
        """A price in the unit of the budget, and as a share of it."""
        return replace(price, cost=self.show_amount(price.cost, analyst), share=self._share(price.cost, analyst))

    def _share(self, cost: Fraction, analyst: str | None) -> Fraction:
        cap = self.answering.setting.ledger.cap
        return cost / cap.of(cap.account_of(analyst))

    def read(self, text: str, analyst: str | None = None) -> Any:
        """COUNT, SUM and AVG over declared cells."""
        try:
            return self.answering.read(text)
        except QueryError as error:
            return Refused(str(error))

    def recall(self, request: Any, analyst: str | None) -> Reply | None:
        """What was released before and is good enough; it counts for an analyst who is told it first."""
        self._ready(analyst)
        found = self.answering.recall(request, analyst)
        return None if found is None else self._reply(request, found, analyst)

    def remember(self, request: Any, analyst: str | None) -> None:
        """Nothing: what somebody is told first is written down."""

    def admit(self, request: Any, analyst: str | None) -> None:
        """The price decides, when it is charged."""

    def release(self, request: Any, admission: Admission | None, analyst: str | None) -> Reply:
        """Charge, draw, write down."""
        self.answering.setting.ledger.charged.clear()
        return self._reply(request, self.answering.answer(request, analyst), analyst)

    def _reply(self, request: Any, answer: PrivateAnswer, analyst: str | None) -> Reply:
        made = replace(self.show_answer(answer, analyst), ranges=self._find_ranges(request))
        if made.refused is not None:
            return Reply(made.sql, Outcome.REFUSED, made.refused.reason, noisy=made)
        if made.entry is None:  # it is public
            return Reply(made.sql, Outcome.ANSWERED, made.how, noisy=made)
        receipt = self.answering.setting.ledger.book.receipt(made.entry)
        return Reply(made.sql, Outcome.ANSWERED, made.how, noisy=made, entry=made.entry, receipt=receipt)

    def _find_ranges(self, request: Any) -> tuple[PossibleRange, ...]:
        """Between which numbers each number of the statement lies, from declarations and public n."""
        columns: Mapping[str, object]
        if isinstance(self.answering, Planner):
            statement, columns = request.question.statement, self.answering.columns.columns
        else:
            statement, columns = request.statement, self.answering.declared_columns
        return find_possible_ranges(statement.queries, columns, self.answering.setting.n)

    def _ready(self, analyst: str | None) -> None:
        self.answering.setting.ledger.check_analyst(analyst)
        self.answering.setting.ledger.book.check_epoch(self.epoch)

    def settled(self, reply: Reply) -> None:
        """Nothing is kept that the book does not say."""

    def complete(self, request: Any, reply: Reply) -> Reply:
        """It is complete."""
        return reply

    def check(self, request: Any, analyst: str | None) -> Reply:
        """The price: it depends on the declaration and on what was released."""
        self._ready(analyst)
        (raw,) = self.answering.dry_run([request.sql], analyst)
        price = self.show_price(raw, analyst)
        outcome = Outcome.ALLOWED if price.refused is None else Outcome.REFUSED
        return Reply(request.sql, outcome, price.how if price.refused is None else price.refused.reason, price=price)

    def catch_up(self) -> None:
        """Nothing is kept that the book does not say."""

    def expect(self, texts: Sequence[str], analyst: str | None) -> None:
        """What is left is shared out, or one plan is made."""
        self.answering.expect(texts, analyst)


@dataclass(frozen=True, slots=True, eq=False)
class DryRun(Private):
    """A dry run on a copy of the book: what each question costs, and what it would leave to the next. No count is read:
    the planner buys from tables in which nobody is counted, of other mechanisms the price alone is charged.
    """

    seen: set[str] = field(default_factory=set)  # what would have been released by now

    def recall(self, request: Any, analyst: str | None) -> None:
        """Nothing is shown."""
        self._ready(analyst)

    def release(self, request: Any, admission: Admission | None, analyst: str | None) -> Reply:
        """Its price; the next question finds so much less."""
        rehearsed = isinstance(self.answering, Planner) and self.answering.plan is None
        if rehearsed:
            assert isinstance(self.answering, Planner)
            self.answering.setting.ledger.charged.clear()
            price = self.answering.rehearse(request, analyst)
        elif request.question.fingerprint() in self.seen:
            price = PriceQuote(request.sql, Fraction(0), "released before")
        else:
            (price,) = self.answering.dry_run([request.sql], analyst)
        if price.refused is not None:
            return Reply(request.sql, Outcome.REFUSED, price.refused.reason, price=price)
        if not rehearsed:
            self._charge(request, price, analyst)
        shown = replace(self.show_price(price, analyst), ranges=self._find_ranges(request))
        return Reply(request.sql, Outcome.ALLOWED, price.how, price=shown)

    def _charge(self, request: Any, price: PriceQuote, analyst: str | None) -> None:
        self.seen.add(request.question.fingerprint())
        ledger = self.answering.setting.ledger
        if price.cost:
            total = ledger.cap.total
            ledger.spend(Loss(total.unit, price.cost, Fraction(0), total.neighbours), analyst=analyst, what=request.sql)
