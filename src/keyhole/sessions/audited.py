"""`audited`: exact answers, given only where they expose nobody; `watch` is the same and withholds them.

`monitored` answers whatever is asked, writes it down, and tells the owner alone what it gives away.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from keyhole.auditing.online.admission import Admission, ParsedStatement, Permission
from keyhole.auditing.online.epochs import ToldRow
from keyhole.auditing.online.online import PRIVATELY, OnlineAuditor
from keyhole.book import Book, BookEntry, Mark
from keyhole.book.chain import format_canonically
from keyhole.config import PrivateColumn, toml_key
from keyhole.datasets import Source
from keyhole.errors import BookError, QueryError
from keyhole.model.prior import FEW_VALUES
from keyhole.model.query import Statement
from keyhole.model.schema import Column, Kind, Schema
from keyhole.model.transcript import Refusal
from keyhole.reading.spelling import Spelling
from keyhole.sessions.exact_answers import (
    compute_exact_answer,
    format_exact_answer,
    list_rows,
    parse_exact_answer,
    read_one_number,
    read_past_statement,
    sort_groups,
)
from keyhole.sessions.reply import ExactAnswer, Outcome, Reply
from keyhole.sql import lower_statement
from keyhole.sql.statements.select_outline import list_coarser_statements

NUMBER = 400  # bytes that one exact number takes at most: a DOUBLE may have 309 digits
TRIED = 8  # coarser statements that a denial looks at
INCOMPLETE = (
    "the book lacks something that was published, so nothing exact is decided: whoever keeps it must look at it"
)
NOTHING_MORE: Mapping[str, Any] = {}


class Audited:
    """Admits a statement only if its answer would expose nobody, given everything that was answered and published.

    `source` None: what is admitted is not answered here (`watch`). `columns` is what was declared of private columns.
    A column of which nothing was declared is refused, and one with few possible values, since a sum of such values can
    tell everybody's. With other bounds exact answers are given for groups of more than `exact_above` people, and an
    allow names the risk that remains. `facts` names columns of which something is known about single people: refused.
    Decisions use the book and public things alone.
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
        exact_above: int | None = None,
    ) -> None:
        self.book, self.auditor, self._columns, self._source = book, auditor, columns, source
        self._explain, self._facts, self._exact_above = explain, frozenset(facts), exact_above
        self._epoch, self._spelling = book.state.epoch, Spelling(auditor.roster)
        assert book.state.last is not None
        self._upto, self._mark = book.state.last.seq, book.state.last.hash  # what the auditor accounts for
        self._counted = (0, 0)  # the last entry looked at, and how many up to it no verdict accounts for

    @property
    def schema(self) -> Schema:
        """The columns that questions may name."""
        return self.auditor.roster.schema

    # --- the policy ---------------------------------------------------------------------------------------------------

    def read(self, text: str, analyst: str | None = None) -> ParsedStatement:
        """From the text, the schema and public things: it is validated here, before anybody waits for the book."""
        return self.auditor.read(text, analyst)

    def recall(self, request: ParsedStatement, analyst: str | None) -> Reply | None:
        """An exact answer of this epoch, given again to an analyst who has it. `watch` has none.

        To anybody else the question is new, whoever asked it before: it is read, decided and written down like any
        other, so that neither its words nor its time tell that somebody asked it.
        """
        self.catch_up()
        if self._source is None or request.statement is None:
            return None
        found: Iterable[int] = self.book.state.releases.get((self.book.state.epoch, request.question), ())
        if analyst is not None:
            heard = self.book.state.heard.get(analyst, set())
            found = [seq for seq in found if seq in heard]
        entry = next((e for e in map(self.book.entry, found) if self.may_recall(e)), None)
        if entry is None:
            return None
        self.auditor.seen()
        reason = self._with_unjudged("answered before")
        return self._reply(request, parse_exact_answer(entry.body["answer"]), reason, entry.seq, entry.hash)

    def remember(self, request: ParsedStatement, analyst: str | None) -> Reply | None:
        """The same: nothing is written where an answer is given again."""
        return self.recall(request, analyst)

    def may_recall(self, entry: BookEntry) -> bool:
        """Was it admitted when it was answered? What `monitored` gave was not."""
        return entry.kind == Mark.ANSWER and entry.body.get("verdict", str(Permission.ALLOW)) == str(Permission.ALLOW)

    def admit(self, request: ParsedStatement, analyst: str | None) -> Reply | Admission:
        """Deny what would expose somebody, refuse what cannot be decided beforehand."""
        admission = self.admission(request)
        if admission.allowed:
            return admission
        self.auditor.seen()
        outcome = Outcome.REFUSED if admission.verdict is Permission.REFUSED else Outcome.DENIED
        return Reply(request.text, outcome, admission.reason, admission=admission)

    def admission(self, request: ParsedStatement, *, explain: bool | None = None) -> Admission:
        """The decision, with its promise; on an open page, after `catch_up`. `explain` None: as the session does."""
        proved = self._explain if explain is None else explain
        admission = self.auditor.admit(request) if proved else self.auditor.decide(request)
        if request.statement is None or admission.verdict is Permission.REFUSED:
            return admission
        if why := self._find_objection(request.statement):
            return Admission(admission.number, admission.sql, Permission.REFUSED, why)
        return replace(admission, reason=self._with_unjudged(admission.reason)) if admission.allowed else admission

    def _find_objection(self, statement: Statement) -> str:
        """Why nothing exact can be promised, whatever the auditor proves: from the book and the declaration."""
        if self.book.state.incomplete and not self.unguarded:
            return INCOMPLETE
        if meant := self._spelling.reason(statement):
            return meant
        names = self._private_names(statement)
        known = [name for name in names if name in self._facts]
        if known:
            return (
                f"something is known of single people's {known[0]!r} ([[facts]]), which is no part of decisions before "
                f"the answer: {PRIVATELY}, or leave the facts out of these settings"
            )
        unguarded = [name for name in names if name in self.book.state.unguarded]
        if unguarded and not self.unguarded:
            return (
                f'answers about {unguarded[0]!r} were given under policy = "monitored" that no auditor admitted, so '
                f"nothing exact can be promised of it any more: {PRIVATELY}"
            )
        other = [n for n in names if self.book.state.families.get(n, set()) - {self._columns[n].family}]
        if other:
            return (
                f"answers about {other[0]!r} were given when its family was another: sums and extremes of one column "
                f"cannot be decided together. {PRIVATELY}"
            )
        return next((why for name in names if (why := self.domain_objection(name))), "")

    def _with_unjudged(self, reason: str) -> str:
        """Why something is answered, and what of the book that does not account for."""
        answers = self.book.state.answers
        if answers and answers[-1] > self._counted[0]:
            new = find_unjudged_entries(self.book, after=self._counted[0])
            self._counted = (answers[-1], self._counted[1] + len(new))
        left = self._counted[1]
        if not left:
            return reason
        qualified = reason.replace("nobody is exposed", "nobody is exposed by what was judged", 1)
        were = "1 statement in the book was" if left == 1 else f"{left} statements in the book were"
        return f"{qualified}; {were} not judged"

    def domain_objection(self, name: str) -> str:
        """Why no exact answer about a private column is given, from what was declared of it; "" if one may be."""
        if why := self.unproved_domain(name):
            return why
        if is_bounded(self._columns[name]) and self._exact_above is None:
            return (
                f"the range of {name!r} is known, so an exact answer about a small group can tell every value in it: "
                f"{PRIVATELY}, or write exact_above = 10 under [online] to answer exactly about more than 10 people"
            )
        return ""

    def unproved_domain(self, name: str) -> str:
        """Why equations alone prove nothing of a private column: nothing was declared of it, or it has few values."""
        column, held = self._columns[name], self.schema.find(name)
        if column.state == "undeclared":
            return explain_undeclared(name, is_number=held is not None and held.kind.numeric)
        possible = None if held is None else count_possible_values(column, held)
        if possible is not None and possible <= FEW_VALUES:
            return (
                f"{name!r} has at most {FEW_VALUES} possible values, and a sum of such values can tell everybody's: "
                f"{PRIVATELY}"
            )
        return ""

    def unproved(self, sql: str) -> str:
        """The same of a statement whose answer is out: why it is not shown that it exposes nobody; "" if it is."""
        statement = lower_statement(sql, self.auditor.roster.schema)
        return next((why for name in self._private_names(statement) if (why := self.unproved_domain(name))), "")

    def _private_names(self, statement: Statement) -> list[str]:
        """The private columns that a statement aggregates."""
        return sorted({name for q in statement.queries for name in q.columns} & set(self._columns))

    def release(self, request: ParsedStatement, admission: Admission | None, analyst: str | None) -> Reply:
        """Read the answer, if it is given here, and write it down with what it tells."""
        assert request.statement is not None
        assert admission is not None
        answer = self.needed(request) if self._source is None else compute_exact_answer(request.statement, self._source)
        kind, about = self.mark(request, admission)
        entry = self.write(kind, request, answer, analyst, about)
        return replace(self._reply(request, answer, admission.reason, entry.seq, entry.hash), admission=admission)

    def needed(self, request: ParsedStatement) -> ExactAnswer | None:
        """An answer that was given elsewhere, where later decisions need it; any other is not kept."""
        if request.answer is None or request.statement is None:
            return None
        return (({}, (request.answer,)),) if self.auditor.decided_by_answers(request.statement) else None

    def write(
        self,
        kind: Mark,
        request: ParsedStatement,
        answer: ExactAnswer | None,
        analyst: str | None,
        about: Mapping[str, Any] = NOTHING_MORE,
    ) -> BookEntry:
        """An entry for a statement that counts from now on, with the rows that it adds to what is known."""
        assert request.statement is not None
        body: dict[str, Any] = {"query": self.auditor.number + 1, "sql": request.text, **about}
        if names := self._private_names(request.statement):
            body["families"] = {name: self._columns[name].family for name in names}
        if self.auditor.lasting:
            rows = () if kind is Mark.UNJUDGED else self.auditor.told(request)  # what it tells, over people
            body["told"] = [row.to_json() for row in rows]
        room = 0
        if answer is not None:
            blank = format_exact_answer([(key, [None] * len(values)) for key, values in answer])
            body |= {"answer": format_exact_answer(answer)} | (
                {} if self._source is None else {"question": request.question}
            )
            numbers = sum(len(values) for _, values in answer)
            room = len(format_canonically(body | {"answer": blank}).encode()) + NUMBER * numbers
        return self.book.append(kind, body, analyst=analyst, room=room)

    def mark(self, request: ParsedStatement, admission: Admission) -> tuple[Mark, Mapping[str, Any]]:
        """What the entry of an answer is, and what else it says."""
        return Mark.ANSWER, NOTHING_MORE

    def settled(self, reply: Reply) -> None:
        """What was allowed counts, now that it is on disk."""
        if reply.entry is not None and reply.entry > self._upto:
            self.auditor.record(
                reply.sql, None if reply.exact is None else read_one_number(format_exact_answer(reply.exact))
            )
            self._upto, self._mark = reply.entry, str(reply.receipt)

    def check(self, request: ParsedStatement, analyst: str | None) -> Reply:
        """The decision alone: it depends on what is public and on what was answered."""
        self.catch_up()
        admission = self.admission(request, explain=False)
        return Reply(request.text, Outcome(str(admission.verdict)), admission.reason)

    def expect(self, texts: Sequence[str], analyst: str | None) -> None:
        """Each statement is decided by itself."""

    def take(
        self,
        request: ParsedStatement,
        answer: ExactAnswer | None = None,
        kind: Mark = Mark.PUBLISHED,
        analyst: str | None = None,
        about: Mapping[str, Any] = NOTHING_MORE,
    ) -> str:
        """A statement that was answered elsewhere counts from now on; on an open page. Returns its number.

        `about` is what else the book keeps of it. Raises the `QueryError` of one that cannot be represented.
        """
        if request.statement is None:
            lower_statement(request.text, self.auditor.roster.schema)  # raises what is wrong with it
        why = self.auditor.objection(request)
        if why is not None:
            raise QueryError(why, request.text)
        entry = self.write(kind, request, answer, analyst, about)
        number = self.auditor.record(request, None if answer is None else read_one_number(format_exact_answer(answer)))
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
        self.book.check_epoch(self._epoch)
        if not self.book.has(self._upto, self._mark):  # a page with a publication failed
            raise BookError(f"what was written into the book {self.book.path} last was not kept: start again")
        if state.answers and state.answers[-1] > self._upto:
            entries = [self.book.entry(seq) for seq in state.answers[bisect_right(state.answers, self._upto) :]]
            if self.auditor.lasting:
                for entry in entries:
                    self._take_in(entry)
            else:
                self.auditor.resume([read_past_statement(entry) for entry in entries], f"the book {self.book.path}")
        assert state.last is not None
        self._upto, self._mark = state.last.seq, state.last.hash

    def _take_in(self, entry: BookEntry) -> None:
        """One statement more: its rows if the book has them, else its text, read again; a MIN or MAX has no rows."""
        past, kept = read_past_statement(entry), self.book.state.rows.get(entry.seq)
        rows = [] if kept is None else [ToldRow.from_json(fields) for fields in self.book.entry(kept).body["told"]]
        extreme = not rows and any(column.family == "minmax" for column in self._columns.values())
        if kept is None or extreme or not past.judged:
            self.auditor.resume([past], f"the book {self.book.path}")
        else:
            self.auditor.resume_rows(past, rows)

    def _reply(
        self, request: ParsedStatement, answer: ExactAnswer | None, reason: str, entry: int, receipt: str
    ) -> Reply:
        outcome = Outcome.ALLOWED if answer is None else Outcome.ANSWERED
        grouped = request.statement is not None and bool(request.statement.keys)
        return Reply(request.text, outcome, reason, answer, grouped, entry=entry, receipt=receipt)

    def complete(self, request: ParsedStatement, reply: Reply) -> Reply:
        """Rows as they were asked for, or a coarser statement that would be allowed now: found from public things."""
        if reply.exact is not None and request.statement is not None:
            exact = sort_groups(request.statement, reply.exact, self.auditor.roster)
            columns, rows = list_rows(request.statement, exact, self.auditor.roster)
            return replace(reply, exact=exact, columns=columns, rows=rows)
        return self._suggest(reply, request.asker) if reply.outcome is Outcome.DENIED else reply

    def _suggest(self, reply: Reply, analyst: str | None) -> Reply:
        for text in list_coarser_statements(reply.sql)[:TRIED]:
            request = self.read(text, analyst)
            with self.book.page():
                self.catch_up()
                if self.admission(request, explain=False).allowed:
                    return replace(reply, instead=text)
        return reply


class Monitored(Audited):
    """Answers whatever can be read. Each entry of the book says what an auditor would have done; nobody else is told.

    It protects nobody: it is for finding out, with `keyhole audit BOOK`, what a population's questions give away. It
    is never a default.
    """

    unguarded = True

    def may_recall(self, entry: BookEntry) -> bool:
        """Whatever was answered is given again."""
        return True

    def admit(self, request: ParsedStatement, analyst: str | None) -> Reply | Admission:
        """Refuse only what cannot be read."""
        admission = self.admission(request)
        if request.statement is not None:
            return admission
        self.auditor.seen()
        return Reply(request.text, Outcome.REFUSED, admission.reason, admission=admission)

    def release(self, request: ParsedStatement, admission: Admission | None, analyst: str | None) -> Reply:
        """Answer, and say nothing of what it gives away."""
        made = super().release(request, admission, analyst)
        return replace(made, reason="", admission=None)

    def mark(self, request: ParsedStatement, admission: Admission) -> tuple[Mark, Mapping[str, Any]]:
        """With what the auditor would have done; what none can account for is marked so, for whoever audits later."""
        judged = admission.verdict is not Permission.REFUSED or self.auditor.objection(request) is None
        return Mark.ANSWER if judged else Mark.UNJUDGED, {"verdict": str(admission.verdict), "why": admission.reason}

    def settled(self, reply: Reply) -> None:
        """What an auditor can represent counts; the rest is counted as not judged."""
        if reply.entry is None or reply.entry <= self._upto:
            return
        try:
            self.auditor.record(reply.sql)
        except QueryError:
            self.auditor.unjudged(reply.sql)
        self._upto, self._mark = reply.entry, str(reply.receipt)


def explain_incomplete(book: Book) -> str:
    """Why nothing exact is answered from a book that lacks something of a log that is followed."""
    left = [book.entry(seq) for seq in book.state.incomplete]
    count = "1 statement" if len(left) == 1 else f"{len(left)} statements"
    first = left[0].body
    return (
        f"the book {book.name} is incomplete: {count} of the log {first['log']} cannot be represented, so no decision "
        f"would account for them (the first is entry {left[0].seq}: {str(first['error']).splitlines()[0]}). Look at "
        "them with `keyhole book show`; if they gave nothing away, go on with --accept-unjudged"
    )


def find_unjudged_entries(book: Book, after: int = 0) -> list[BookEntry]:
    """What was published, and no verdict accounts for; of the entries behind this number."""
    new = (seq for seq in book.state.answers if seq > after)
    return [entry for entry in map(book.entry, new) if entry.kind == Mark.UNJUDGED]


def explain_undeclared(name: str, *, is_number: bool) -> str:
    """What to write where nothing was declared of a private column."""
    table = f"[columns.private.{toml_key(name)}]"
    if not is_number:
        return f"the possible values of {name!r} are not declared: write values = [...] under {table}, and {PRIVATELY}"
    return (
        f"the possible values of {name!r} are not declared: write min and max (and step) under {table}, or "
        f'domain = "real" if any number is possible (--private "{name}:real"); with at most {FEW_VALUES} possible '
        f"values (yes or no, a scale) {PRIVATELY}"
    )


def is_bounded(column: PrivateColumn) -> bool:
    """Is an end of its range known, or are its values?"""
    return any(end is not None for end in (column.min, column.max, column.values))


def count_possible_values(declared: PrivateColumn, column: Column) -> int | None:
    """How many values a column can have, by its declaration and its type; None if there is no end to them.

    >>> pay = Column("pay", Kind.DOUBLE)
    >>> count_possible_values(PrivateColumn(min=0, max=1), pay), count_possible_values(PrivateColumn(min=0), pay)
    (2, None)
    >>> count_possible_values(PrivateColumn(min=0, max="1.0"), pay)
    >>> count_possible_values(PrivateColumn(min=0, max="1.0"), Column("pay", Kind.DECIMAL, digits=1))
    11
    >>> count_possible_values(PrivateColumn(min=0, max=30, step="1.5"), Column("pay", Kind.INTEGER))
    11
    """
    if column.kind is Kind.BOOLEAN:
        return 2
    if declared.values is not None:
        return len(declared.values)
    if declared.min is None or declared.max is None:
        return None
    whole = column.kind is Kind.INTEGER or declared.implied() == "integer"
    steps = [
        declared.step,
        Decimal(1) if whole else None,
        None if column.digits is None else Decimal(10) ** -column.digits,
    ]
    grids = [Fraction(step) for step in steps if step is not None]
    if not grids:
        return None
    # a value lies on every grid: the least common multiple of a/b and c/d in lowest terms is lcm(a, c) / gcd(b, d)
    common = Fraction(lcm(*(grid.numerator for grid in grids)), gcd(*(grid.denominator for grid in grids)))
    return int((Fraction(declared.max) - Fraction(declared.min)) / common) + 1
