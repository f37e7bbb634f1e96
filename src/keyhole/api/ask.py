"""`keyhole.ask`: private answers against a durable budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

from msgspec import UNSET

from keyhole.config import Config
from keyhole.config.arguments import BudgetArguments, TableArguments
from keyhole.config.settings import Settings, settings
from keyhole.defence.answering import PriceQuote, PrivateAnswer
from keyhole.defence.budget.loss import Loss, Number
from keyhole.errors import KeyholeError
from keyhole.logs.open import read_log
from keyhole.model.query import Refused
from keyhole.report.documents.json_text import to_builtins
from keyhole.report.documents.sessions import AnswersDocument
from keyhole.report.replies import describe_answer, describe_price
from keyhole.sessions.open import open_private_session
from keyhole.sessions.private import Private


@dataclass(frozen=True, slots=True, repr=False)
class Answers:
    """The answers, or the prices of a dry run, with the state of the budget afterwards."""

    answers: tuple[PrivateAnswer, ...]
    prices: tuple[PriceQuote, ...]
    dry_run: bool
    spent: Fraction
    left: Fraction
    budget: Loss
    ledger: str
    n: int | None
    releases: tuple[str, ...] = ()  # what was released, as lines of a transcript that `keyhole attack` reads
    fault: KeyholeError | None = None  # what stopped the run: the statements after the last answer were not asked

    @property
    def refused(self) -> int:
        """How many statements were not answered (would not be, in a dry run)."""
        return sum(a.refused is not None for a in self.answers) + sum(p.refused is not None for p in self.prices)

    def __repr__(self) -> str:
        made, what = (self.prices, "priced") if self.dry_run else (self.answers, "answered")
        left = f"{self.budget.unit} {float(max(self.left, Fraction(0))):g} left"
        return f"<Answers: {len(made) - self.refused} {what}, {self.refused} refused, {left}>"

    def _repr_html_(self) -> str:
        from keyhole.report.html.sessions import render_answers_fragment

        return render_answers_fragment(self.document())

    def document(self) -> AnswersDocument:
        """What `keyhole ask -f FILE --format json` writes."""
        answers = (
            map(describe_price, self.prices) if self.dry_run else (describe_answer(a, self.n) for a in self.answers)
        )
        return AnswersDocument(
            answers=tuple(answers),
            spent=float(self.spent),
            budget=float(self.budget.amount),
            unit=self.budget.unit,
            left=float(max(self.left, Fraction(0))) if self.dry_run else None,
            dry_run=self.dry_run,
            ledger=UNSET if self.dry_run else self.ledger,
        )

    def to_json(self) -> dict[str, Any]:
        """As the contract has it."""
        return to_builtins(self.document())


def ask(
    statements: str | Path | Sequence[str],
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    mechanism: str | None = None,
    accuracy: float | str | None = None,
    beta: float | None = None,
    horizon: int | None = None,
    analyst: str | None = None,
    book: str | Path | None = None,
    spend: Number | None = None,
    anyway: bool = False,
    error: str | None = None,
    dry_run: bool = False,
    **table: Unpack[TableArguments],
) -> Answers:
    """Answer COUNT, SUM and AVG with differential privacy; every answer carries its error bar and its price.

    `statements` is a path, SQL text or a list. `config` declares the domains of columns and the budget; the ledger file
    is charged before anything is returned. The other words are those of the command.

    >>> import pyarrow as pa
    >>> import tempfile
    >>> people = pa.table({"name": [f"p{i}" for i in range(100)], "sex": ["F", "M"] * 50})
    >>> told = Config.parse('[columns.public.sex]\\nvalues = ["F", "M"]')
    >>> found = ask(["SELECT COUNT(*) FROM people WHERE sex = 'F'", "SELECT MAX(name) FROM people"],
    ...                data=people, id="name", config=told, epsilon=1, book=f"{tempfile.mkdtemp()}/book.keyhole")
    >>> found.refused, float(found.spent)
    (1, 1.0)
    """
    given = settings(**table)
    terms = BudgetArguments(epsilon, delta, mechanism, accuracy, beta, horizon, analyst, book, spend, anyway, error)
    found = answer_statements(statements, given, terms, table.get("config"), dry_run=dry_run)
    if found.fault is not None:
        raise found.fault
    return found


def answer_statements(
    statements: str | Path | Sequence[str],
    given: Settings,
    terms: BudgetArguments,
    config: Config | str | Path | None,
    *,
    dry_run: bool = False,
) -> Answers:
    """The answers under merged settings, which came from `config`. A dry run spends nothing.

    A fault after the first answer is not raised but kept beside what was answered: that was paid for, so it is shown.
    """
    asked = [line.sql for line in read_log(statements)] if isinstance(statements, str | Path) else list(statements)
    with open_private_session(given, terms, config, dry_run=dry_run) as session:
        assert isinstance(session.policy, Private)
        policy, answering = session.policy, session.policy.answering
        ledger, n = answering.setting.ledger, answering.setting.n
        ledger.check_analyst(terms.analyst)
        if dry_run:
            answering.expect(asked, terms.analyst)
        quotes = answering.dry_run(asked, terms.analyst) if dry_run else ()
        prices = tuple(policy.show_price(quote, terms.analyst) for quote in quotes)
        replies, fault = ([], None) if dry_run else session.ask_until(asked, terms.analyst)
        if fault is not None and not replies:
            raise fault
        made = tuple(
            r.noisy or policy.show_answer(answering.refused(r.sql, Refused(r.reason), terms.analyst), terms.analyst)
            for r in replies
        )
        lines = tuple(answering.lines(made))
        left = policy.show_amount(ledger.left(terms.analyst), terms.analyst)
        spent, cap = policy.show_amount(ledger.spent(), None), ledger.cap
        total = Loss(cap.unit, cap.show(cap.total.amount), cap.total.delta, cap.total.neighbours)
        return Answers(made, prices, dry_run, spent, left, total, session.book.name, n, lines, fault)
