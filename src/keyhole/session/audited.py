"""`audited`: exact answers, given only where they expose nobody; `watch` is the same and withholds them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from keyhole.audit.admission import Admission, Permission
from keyhole.audit.online import OnlineAuditor
from keyhole.book import Book, Mark
from keyhole.errors import BookError, QueryError
from keyhole.knowledge import PrivateColumn
from keyhole.query import Query, Refused, Statement
from keyhole.session.exact import exact
from keyhole.session.reply import Exact, Outcome, Reply
from keyhole.sql import lower
from keyhole.sql.coarser import coarser
from keyhole.tables import GroupKey, Source

NUMBER = 160  # bytes that one exact number takes at most, with its key
PROMISE = "for values without known bounds"
TRIED = 8  # coarser statements that a denial looks at
PRIVATELY = 'ask it under policy = "private"'


@dataclass(frozen=True, slots=True)
class Heard:
    """A statement that was read."""

    text: str
    statement: Statement

    @property
    def question(self) -> str:
        """A digest of what is asked, whatever the spelling of the SQL."""
        parts = [q.canonical() for q in (*self.statement.queries, *self.statement.tested)]
        keys = [(k.name, k.sql) for k in self.statement.keys]
        shape = repr((parts, keys, self.statement.sets, str(self.statement.having)))
        return hashlib.blake2b(shape.encode(), digest_size=16).hexdigest()


class Audited:
    """Admits a statement only if its answer would expose nobody, given everything that was answered and published.

    `source` None: what is admitted is not answered here (`watch`). `columns` is what was declared of private columns:
    one that may have two values only is refused, since a sum of such values can tell everybody's; with other bounds an
    allow names its promise. Decisions use the book and public things alone.
    """

    def __init__(
        self,
        book: Book,
        auditor: OnlineAuditor,
        columns: Mapping[str, PrivateColumn],
        source: Source | None = None,
        *,
        explain: bool = False,
    ) -> None:
        self.book, self.auditor, self._columns, self._source = book, auditor, columns, source
        self._explain = explain
        self._upto = book.state.seq  # entries that the auditor accounts for
        self._epoch = book.state.epoch

    # --- the policy ---------------------------------------------------------------------------------------------------

    def read(self, text: str) -> Heard | Refused:
        """From the text and the schema."""
        try:
            return Heard(text, lower(text, self.auditor.roster.schema))
        except QueryError as error:
            self.auditor.seen()
            return Refused(str(error))

    def recall(self, asked: Heard, analyst: str | None) -> Reply | None:
        """An exact answer of this epoch, given again. `watch` has none."""
        self._catch_up()
        found = self.book.state.releases.get((self.book.state.epoch, asked.question), ())
        if self._source is None or not found:
            return None
        entry = self.book.entry(found[0])
        self.auditor.seen()
        answer = parsed(entry.body["answer"], asked.statement)
        return self._reply(asked, answer, "answered before", entry.seq, entry.hash)

    def admit(self, asked: Heard, analyst: str | None) -> Reply | None:
        """Deny what would expose somebody, refuse what cannot be decided beforehand."""
        flag = self._two_valued(asked.statement)
        said = self.auditor.admit(asked.text) if self._explain else self.auditor.decide(asked.text)
        if flag is not None and said.verdict is not Permission.REFUSED:
            said = Admission(said.number, said.sql, Permission.REFUSED, flag)
        self._said = self._promised(said, asked.statement)
        if said.allowed:
            return None
        self.auditor.seen()
        if said.verdict is Permission.REFUSED:
            return Reply(asked.text, Outcome.REFUSED, said.reason, admission=said)
        instead = self._instead(asked)
        return Reply(asked.text, Outcome.DENIED, said.reason, admission=said, instead=instead)

    def release(self, asked: Heard, analyst: str | None) -> Reply:
        """Read the answer, if it is given here, and write it down with what it tells."""
        said = self._said
        body: dict[str, Any] = {"query": int(said.number), "sql": asked.text}
        answer, room = None, 0
        if self._source is not None:
            answer = exact(asked.statement, self._source)
            body |= {"answer": told(answer, asked.statement), "question": asked.question}
            room = 1024 + len(asked.text.encode()) + NUMBER * max(1, len(answer)) * len(asked.statement.queries)
        entry = self.book.append(Mark.ANSWER, body, analyst=analyst, room=room)
        return replace(self._reply(asked, answer, said.reason, entry.seq, entry.hash), admission=said)

    def settled(self, reply: Reply) -> None:
        """What was allowed counts, now that it is on disk."""
        if reply.entry is not None and reply.entry > self._upto:
            self.auditor.record(reply.sql)
            self._upto = reply.entry

    def expect(self, texts: Sequence[str], analyst: str | None) -> None:
        """Each statement is decided by itself."""

    # --- what was answered elsewhere ----------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Statements that other processes answered meanwhile."""
        state = self.book.state
        if state.epoch != self._epoch:
            raise BookError(
                f"the book {self.book.path} has gone on to another version of the data: start again with that one"
            )
        if state.answers and state.answers[-1] > self._upto:
            for entry in self.book.entries(self._upto):
                if entry.kind in (Mark.ANSWER, Mark.PUBLISHED, Mark.UNJUDGED):
                    self.auditor.replay(entry.kind, entry.body)
        self._upto = state.seq

    def _reply(self, asked: Heard, answer: Exact | None, reason: str, entry: int, receipt: str) -> Reply:
        outcome = Outcome.ALLOWED if answer is None else Outcome.ANSWERED
        grouped = bool(asked.statement.keys)
        return Reply(asked.text, outcome, reason, answer, grouped, entry=entry, receipt=receipt)

    # --- what was declared --------------------------------------------------------------------------------------------

    def _two_valued(self, statement: Statement) -> str | None:
        for name in _private(statement, self._columns):
            if two_valued(self._columns[name]):
                return (
                    f"{name!r} has few possible values, and sums of such values can tell everybody's: {PRIVATELY} "
                    "([budget])"
                )
        return None

    def _promised(self, said: Admission, statement: Statement) -> Admission:
        """An allow names its promise where bounds are known to everybody."""
        bounded = [n for n in _private(statement, self._columns) if _bounded(self._columns[n])]
        return replace(said, reason=f"{said.reason}, {PROMISE}") if said.allowed and bounded else said

    def _instead(self, asked: Heard) -> str | None:
        """A coarser statement that would be allowed now; found from public things, as the denial was."""
        for text in coarser(asked.text)[:TRIED]:
            if self.auditor.decide(text).allowed:
                return text
        return None


def _private(statement: Statement, columns: Mapping[str, PrivateColumn]) -> list[str]:
    found: set[str] = set()
    for query in (*statement.queries, *statement.tested):
        found |= query.columns
    return sorted(found & set(columns))


def two_valued(column: PrivateColumn) -> bool:
    """May it have two values only, or a few named ones?

    >>> two_valued(PrivateColumn(min=0, max=1)), two_valued(PrivateColumn(min=0, max=1, step="0.1"))
    (True, False)
    """
    if column.values is not None:
        return True
    if column.min is None or column.max is None:
        return False
    step = column.step or (Decimal(1) if column.implied() == "integer" else None)
    return step is not None and column.max - column.min <= step


def _bounded(column: PrivateColumn) -> bool:
    return any(given is not None for given in (column.min, column.max, column.step))


def told(answer: Exact, statement: Statement) -> Any:
    """An exact answer as a transcript has it, every digit kept as text."""
    rows = [
        {"key": {k: None if v is None else str(v) for k, v in key.items()}, "values": [_written(v) for v in values]}
        for key, values in answer
    ]
    return rows


def parsed(kept: Any, statement: Statement) -> Exact:
    """The inverse of `told`."""
    found: list[tuple[GroupKey, tuple[Decimal | bool | None, ...]]] = []
    for row in kept:
        found.append((dict(row["key"]), tuple(_number(v) for v in row["values"])))
    return tuple(found)


def _written(value: Decimal | bool | None) -> str | bool | None:
    return value if value is None or isinstance(value, bool) else str(value)


def _number(value: str | bool | None) -> Decimal | bool | None:
    return value if value is None or isinstance(value, bool) else Decimal(value)


def asks_private(query: Query) -> bool:
    """Does a query look at private numbers?"""
    return bool(query.columns)
