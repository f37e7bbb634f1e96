"""`audited`: exact answers, given only where they expose nobody; `watch` is the same and withholds them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from keyhole.audit.admission import Admission, Permission
from keyhole.audit.online import OnlineAuditor, Past
from keyhole.book import Book, BookEntry, Mark
from keyhole.book.chain import canonical
from keyhole.errors import BookError, QueryError
from keyhole.knowledge import PrivateColumn
from keyhole.query import Statement
from keyhole.reading import Spelling
from keyhole.schema import Schema
from keyhole.session.exact import exact
from keyhole.session.reply import Ending, Exact, Reply
from keyhole.sql import lower
from keyhole.sql.coarser import coarser
from keyhole.tables import GroupKey, Source
from keyhole.transcript import Refusal

NUMBER = 400  # bytes that one exact number takes at most: a DOUBLE may have 309 digits
PROMISE = "for values without known bounds"
TRIED = 8  # coarser statements that a denial looks at
INCOMPLETE = (
    "the book lacks something that was published, so nothing exact is decided: whoever keeps it must look at it"
)
NOTHING_MORE: Mapping[str, Any] = {}
PRIVATELY = 'ask it under policy = "private"'


@dataclass(frozen=True, slots=True)
class Heard:
    """A statement that was read."""

    text: str
    statement: Statement | None  # None: it cannot be read, and the auditor says why

    @property
    def question(self) -> str:
        """A digest of what is asked, whatever the spelling of the SQL."""
        assert self.statement is not None
        parts = [q.canonical() for q in (*self.statement.queries, *self.statement.tested)]
        keys = [(k.name, k.sql) for k in self.statement.keys]
        shape = repr((parts, keys, self.statement.sets, str(self.statement.having)))
        return hashlib.blake2b(shape.encode(), digest_size=16).hexdigest()


class Audited:
    """Admits a statement only if its answer would expose nobody, given everything that was answered and published.

    `source` None: what is admitted is not answered here (`watch`). `columns` is what was declared of private columns:
    one that may have two values only is refused, since a sum of such values can tell everybody's; with other bounds an
    allow names its promise. `facts` names columns of which something is known about single people: refused. Decisions
    use the book and public things alone.
    """

    unguarded = False  # are answers given that were not admitted?

    def __init__(
        self,
        book: Book,
        auditor: OnlineAuditor,
        columns: Mapping[str, PrivateColumn],
        source: Source | None = None,
        *,
        explain: bool = False,
        facts: Iterable[str] = (),
    ) -> None:
        self.book, self.auditor, self._columns, self._source = book, auditor, columns, source
        self._explain, self._facts = explain, frozenset(facts)
        self.elsewhere: Decimal | None = None  # what is answered elsewhere to what is asked now
        self._epoch, self._spelling = book.state.epoch, Spelling(auditor.roster)
        assert book.state.last is not None
        self._upto, self._mark = book.state.last.seq, book.state.last.hash  # what the auditor accounts for

    @property
    def schema(self) -> Schema:
        """The columns that questions may name."""
        return self.auditor.roster.schema

    # --- the policy ---------------------------------------------------------------------------------------------------

    def read(self, text: str) -> Heard:
        """From the text and the schema."""
        try:
            return Heard(text, lower(text, self.auditor.roster.schema))
        except QueryError:
            return Heard(text, None)

    def recall(self, asked: Heard, analyst: str | None) -> Reply | None:
        """An exact answer of this epoch, given again. `watch` has none."""
        self.catch_up()
        if self._source is None or asked.statement is None:
            return None
        found = self.book.state.releases.get((self.book.state.epoch, asked.question), ())
        entry = next((e for e in map(self.book.entry, found) if self.may_recall(e)), None)
        if entry is None:
            return None
        self.auditor.seen()
        if analyst not in (None, entry.analyst) and entry.seq not in self.book.state.heard.get(str(analyst), ()):
            self.book.append(Mark.TOLD, {"of": [], "entry": entry.seq}, analyst=analyst)
        return self._reply(asked, parsed(entry.body["answer"]), "answered before", entry.seq, entry.hash)

    def may_recall(self, entry: BookEntry) -> bool:
        """Was it admitted when it was answered? What `monitored` gave was not."""
        return entry.kind == Mark.ANSWER and entry.body.get("verdict", str(Permission.ALLOW)) == str(Permission.ALLOW)

    def admit(self, asked: Heard, analyst: str | None) -> Reply | None:
        """Deny what would expose somebody, refuse what cannot be decided beforehand."""
        said = self._said = self.admission(asked)
        if said.allowed:
            return None
        self.auditor.seen()
        if said.verdict is Permission.REFUSED:
            return Reply(asked.text, Ending.REFUSED, said.reason, admission=said)
        return Reply(asked.text, Ending.DENIED, said.reason, admission=said, instead=self._instead(asked))

    def admission(self, asked: Heard) -> Admission:
        """The decision, with its promise; on an open page, after `catch_up`."""
        said = self.auditor.admit(asked.text) if self._explain else self.auditor.decide(asked.text)
        if asked.statement is None or said.verdict is Permission.REFUSED:
            return said
        if self.book.state.incomplete and not self.unguarded:
            return Admission(said.number, said.sql, Permission.REFUSED, INCOMPLETE)
        if meant := self._spelling.reason(asked.statement):
            return Admission(said.number, said.sql, Permission.REFUSED, meant)
        names = sorted({name for q in asked.statement.queries for name in q.columns} & set(self._columns))
        told = [name for name in names if name in self._facts]
        if told:
            why = (
                f"something is known of single people's {told[0]!r} ([[facts]]), which is no part of decisions before "
                f"the answer: {PRIVATELY}, or leave the facts out of these settings"
            )
            return Admission(said.number, said.sql, Permission.REFUSED, why)
        unguarded = [name for name in names if name in self.book.state.unguarded]
        if unguarded and not self.unguarded:
            why = (
                f'answers about {unguarded[0]!r} were given under policy = "monitored" that no auditor admitted, so '
                f"nothing exact can be promised of it any more: {PRIVATELY}"
            )
            return Admission(said.number, said.sql, Permission.REFUSED, why)
        other = [n for n in names if self.book.state.families.get(n, set()) - {self._columns[n].family}]
        if other:
            why = (
                f"answers about {other[0]!r} were given when its family was another: sums and extremes of one column "
                f"cannot be decided together. {PRIVATELY}"
            )
            return Admission(said.number, said.sql, Permission.REFUSED, why)
        few = [name for name in names if two_valued(self._columns[name])]
        if few:
            why = f"{few[0]!r} has few possible values, and sums of such values can tell everybody's: {PRIVATELY}"
            return Admission(said.number, said.sql, Permission.REFUSED, why)
        if said.allowed and any(_bounded(self._columns[name]) for name in names):
            return replace(said, reason=f"{said.reason}, {PROMISE}")
        return said

    def release(self, asked: Heard, analyst: str | None) -> Reply:
        """Read the answer, if it is given here, and write it down with what it tells."""
        assert asked.statement is not None
        said = self._said
        answer = self.needed(asked, self.elsewhere) if self._source is None else exact(asked.statement, self._source)
        entry = self.write(Mark.ANSWER, asked, answer, analyst)
        return replace(self._reply(asked, answer, said.reason, entry.seq, entry.hash), admission=said)

    def needed(self, asked: Heard, answer: Decimal | None) -> Exact | None:
        """An answer that was given elsewhere, where later decisions need it; any other is not kept."""
        if answer is None or asked.statement is None or not self.auditor.decided_by_answers(asked.statement):
            return None
        return (({}, (answer,)),)

    def write(
        self,
        kind: Mark,
        asked: Heard,
        answer: Exact | None,
        analyst: str | None,
        about: Mapping[str, Any] = NOTHING_MORE,
    ) -> BookEntry:
        """An entry for a statement that counts from now on, with the rows that it adds to what is known."""
        assert asked.statement is not None
        body: dict[str, Any] = {"query": self.auditor.number + 1, "sql": asked.text, **about} | self.remarks()
        names = {name for q in asked.statement.queries for name in q.columns} & set(self._columns)
        if names:
            body["families"] = {name: self._columns[name].family for name in sorted(names)}
        if self.auditor.lasting:
            body["told"] = self.rows(asked)
        room = 0
        if answer is not None:
            blank = told([(key, [None] * len(values)) for key, values in answer])
            body |= {"answer": told(answer)} | ({} if self._source is None else {"question": asked.question})
            numbers = sum(len(values) for _, values in answer)
            room = len(canonical(body | {"answer": blank}).encode()) + NUMBER * numbers
        return self.book.append(kind, body, analyst=analyst, room=room)

    def rows(self, asked: Heard) -> list[dict[str, Any]]:
        """What the answer tells, over people."""
        return [row.to_json() for row in self.auditor.told(asked.text)]

    def remarks(self) -> dict[str, Any]:
        """What else the book is told."""
        return {}

    def settled(self, reply: Reply) -> None:
        """What was allowed counts, now that it is on disk."""
        if reply.entry is not None and reply.entry > self._upto:
            self.auditor.record(reply.sql, None if reply.exact is None else one_number(told(reply.exact)))
            self._upto, self._mark = reply.entry, str(reply.receipt)

    def expect(self, texts: Sequence[str], analyst: str | None) -> None:
        """Each statement is decided by itself."""

    def take(
        self,
        sql: str,
        answer: Exact | None = None,
        kind: Mark = Mark.PUBLISHED,
        analyst: str | None = None,
        about: Mapping[str, Any] = NOTHING_MORE,
    ) -> str:
        """A statement that was answered elsewhere counts from now on; on an open page. Returns its number.

        `about` is what else the book keeps of it. Raises the `QueryError` of one that cannot be represented.
        """
        asked = Heard(sql, lower(sql, self.auditor.roster.schema))
        why = self.auditor.objection(sql)
        if why is not None:
            raise QueryError(why, sql)
        entry = self.write(kind, asked, answer, analyst, about)
        number = self.auditor.record(sql, None if answer is None else one_number(told(answer)))
        self._upto, self._mark = entry.seq, entry.hash
        return number

    def unjudged(
        self, sql: str, why: str, analyst: str | None = None, about: Mapping[str, Any] = NOTHING_MORE
    ) -> Refusal:
        """A publication that no verdict can account for is written down; on an open page."""
        number = self.auditor.unjudged(sql)
        body = {"query": number, "sql": sql, "error": why, **about}
        entry = self.book.append(Mark.UNJUDGED, body, analyst=analyst)
        self._upto, self._mark = entry.seq, entry.hash
        return Refusal(str(number), sql, why)

    # --- what was answered elsewhere ----------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Take into account what other processes answered meanwhile; on an open page."""
        state = self.book.state
        self.book.stays_in(self._epoch)
        if not self.book.has(self._upto, self._mark):  # a page with a publication failed
            raise BookError(f"what was written into the book {self.book.path} last was not kept: start again")
        if state.answers and state.answers[-1] > self._upto:
            entries = [self.book.entry(seq) for seq in state.answers if seq > self._upto]
            self.auditor.resume([past(entry) for entry in entries], f"the book {self.book.path}")
        assert state.last is not None
        self._upto, self._mark = state.last.seq, state.last.hash

    def _reply(self, asked: Heard, answer: Exact | None, reason: str, entry: int, receipt: str) -> Reply:
        outcome = Ending.ALLOWED if answer is None else Ending.ANSWERED
        grouped = asked.statement is not None and bool(asked.statement.keys)
        return Reply(asked.text, outcome, reason, answer, grouped, entry=entry, receipt=receipt)

    def _instead(self, asked: Heard) -> str | None:
        """A coarser statement that would be allowed now; found from public things, as the denial was."""
        for text in coarser(asked.text)[:TRIED]:
            if self.auditor.decide(text).allowed:
                return text
        return None


def incomplete(book: Book) -> str:
    """Why nothing exact is answered from a book that lacks something of a log that is followed."""
    left = [book.entry(seq) for seq in book.state.incomplete]
    count = "1 statement" if len(left) == 1 else f"{len(left)} statements"
    first = left[0].body
    return (
        f"the book {book.name} is incomplete: {count} of the log {first['log']} cannot be represented, so no decision "
        f"would account for them (the first is entry {left[0].seq}: {str(first['error']).splitlines()[0]}). Look at "
        "them with `keyhole book show`; if they gave nothing away, go on with `keyhole watch --accept-unjudged`"
    )


def past(entry: BookEntry) -> Past:
    """A statement of the book that counts."""
    body = entry.body
    judged = entry.kind != Mark.UNJUDGED
    return Past(int(body["query"]), str(body["sql"]), judged, one_number(body.get("answer")))


def one_number(answer: Any) -> str | bool | None:
    """What a MIN or MAX was answered with, from what the book keeps; None if it is not one number.

    >>> one_number([{"key": {}, "values": ["5.2"]}]), one_number([])
    ('5.2', None)
    """
    if isinstance(answer, list):
        values = [value for row in answer for value in row["values"]]
        return values[0] if len(values) == 1 else None
    return answer if isinstance(answer, str) else None


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


def told(answer: Iterable[tuple[GroupKey, Iterable[Decimal | bool | None]]]) -> list[dict[str, Any]]:
    """An exact answer as JSON, every digit kept as text."""
    return [
        {"key": {k: _key(v) for k, v in key.items()}, "values": [_written(v) for v in values]} for key, values in answer
    ]


def parsed(kept: list[dict[str, Any]]) -> Exact:
    """The inverse of `told`; keys that JSON has no word for stay text, as they are shown."""
    return tuple((dict(row["key"]), tuple(_number(v) for v in row["values"])) for row in kept)


def _key(value: object) -> object:
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _written(value: Decimal | bool | None) -> str | bool | None:
    return value if value is None or isinstance(value, bool) else str(value)


def _number(value: str | bool | None) -> Decimal | bool | None:
    return value if value is None or isinstance(value, bool) else Decimal(value)
