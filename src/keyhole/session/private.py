"""`private`: answers with differential privacy, charged to the budget in the book."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyhole.defend.answering import Answered, Answering, Posed
from keyhole.errors import QueryError
from keyhole.query import Refused
from keyhole.session.reply import Outcome, Reply


@dataclass(frozen=True, slots=True, eq=False)
class Private:
    """Whatever can be read and paid for is answered, with noise; nothing depends on the data but the noisy numbers."""

    answering: Answering

    def read(self, text: str) -> Posed | Refused:
        """COUNT, SUM and AVG over declared cells."""
        try:
            return self.answering.read(text)
        except QueryError as error:
            return Refused(str(error))

    def recall(self, asked: Posed, analyst: str | None) -> Reply | None:
        """What was released before and is good enough; it counts for an analyst who is told it first."""
        self.answering.setting.ledger.check_analyst(analyst)
        found = self.answering.recall(asked, analyst)
        return None if found is None else self._reply(found)

    def admit(self, asked: Posed, analyst: str | None) -> None:
        """The price decides, when it is charged."""

    def release(self, asked: Posed, analyst: str | None) -> Reply:
        """Charge, draw, write down."""
        self.answering.setting.ledger.charged.clear()
        return self._reply(self.answering.answer(asked, analyst))

    def _reply(self, made: Answered) -> Reply:
        if made.refused is not None:
            return Reply(made.sql, Outcome.REFUSED, made.refused.reason, noisy=made)
        receipt = None if made.entry is None else self.answering.setting.ledger.book.receipt(made.entry)
        return Reply(made.sql, Outcome.ANSWERED, made.how, noisy=made, entry=made.entry, receipt=receipt)

    def settled(self, reply: Reply) -> None:
        """Nothing is kept that the book does not say."""

    def expect(self, texts: Sequence[str], analyst: str | None) -> None:
        """What is left is shared out, or one plan is made."""
        self.answering.expect(texts, analyst)
