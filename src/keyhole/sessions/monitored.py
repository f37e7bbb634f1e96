"""`monitored`: whatever is asked is answered exactly and written down, and only the custodian is told what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keyhole.auditing.online.admission import Permission
from keyhole.book import BookEntry, Mark
from keyhole.errors import QueryError
from keyhole.sessions.audited import NOTHING_MORE, Audited, Heard
from keyhole.sessions.reply import Ending, Exact, Reply


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
        return super().write(kind if self._is_representable(asked) else Mark.UNJUDGED, asked, answer, analyst, about)

    def _is_representable(self, asked: Heard) -> bool:
        """Can an auditor take it into account? It may refuse it all the same, for what was declared."""
        return self._said.verdict is not Permission.REFUSED or self.auditor.objection(asked.text) is None

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
        return super().rows(asked) if self._is_representable(asked) else []

    def remarks(self) -> dict[str, object]:
        """What the auditor would have done."""
        return {"verdict": str(self._said.verdict), "why": self._said.reason}
