"""`monitored`: whatever is asked is answered exactly and written down, and only the custodian is told what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keyhole.audit.admission import Permission
from keyhole.book import BookEntry, Mark
from keyhole.errors import QueryError
from keyhole.session.audited import NOTHING_MORE, Audited, Heard
from keyhole.session.reply import Ending, Exact, Reply


class Monitored(Audited):
    """Answers whatever can be read. Each entry of the book says what an auditor would have done; nobody else is told.

    It protects nobody: it is for finding out, with `keyhole audit BOOK`, what a population's questions give away. It
    is never a default.
    """

    unguarded = True

    def may_recall(self, entry: BookEntry) -> bool:
        """Whatever was answered is given again."""
        return True

    def admit(self, asked: Heard, analyst: str | None) -> Reply | None:
        """Refuse only what cannot be read."""
        said = self._said = self.admission(asked)
        if asked.statement is not None:
            return None
        self.auditor.seen()
        return Reply(asked.text, Ending.REFUSED, said.reason, admission=said)

    def release(self, asked: Heard, analyst: str | None) -> Reply:
        """Answer, and say nothing of what it gives away."""
        made = super().release(asked, analyst)
        return replace(made, reason="", admission=None)

    def write(
        self,
        kind: Mark,
        asked: Heard,
        answer: Exact | None,
        analyst: str | None,
        about: Mapping[str, Any] = NOTHING_MORE,
    ) -> BookEntry:
        """What no auditor can account for is marked so, for whoever audits this population later."""
        refused = self._said.verdict is Permission.REFUSED
        return super().write(Mark.UNJUDGED if refused else kind, asked, answer, analyst, about)

    def settled(self, reply: Reply) -> None:
        """What an auditor can represent counts; the rest is counted as not judged."""
        if reply.entry is None or reply.entry <= self._upto:
            return
        try:
            self.auditor.record(reply.sql)
        except QueryError:
            self.auditor.unjudged(reply.sql)
        self._upto, self._mark = reply.entry, str(reply.receipt)

    def rows(self, asked: Heard) -> list[dict[str, object]]:
        """What it tells; nothing, where no auditor can say."""
        return [] if self._said.verdict is Permission.REFUSED else super().rows(asked)

    def remarks(self) -> dict[str, object]:
        """What the auditor would have done."""
        return {"verdict": str(self._said.verdict), "why": self._said.reason}
