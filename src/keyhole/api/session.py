"""`keyhole.session` and `keyhole.watch`: questions under the policy of a population, and decisions without answers."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Unpack

from keyhole.auditing.online.admission import Admission, ParsedStatement, Permission
from keyhole.book import Mark
from keyhole.config import Config
from keyhole.config.arguments import BudgetArguments, ColumnArguments
from keyhole.config.settings import Settings, settings, with_private
from keyhole.datasets.open import Table
from keyhole.sessions.audited import Audited
from keyhole.sessions.open import AuditTerms, open_audited_session, open_private_session
from keyhole.sessions.reply import ExactAnswer, Outcome, Reply
from keyhole.sessions.session import Session
from keyhole.sql import Dialect, translate_to_duckdb


def session(
    config: Config | str | Path | None = None,
    *,
    data: object = None,
    book: str | Path | None = None,
    exact_above: int | None = None,
    anyway: bool = False,
    error: str | None = None,
    dry_run: bool = False,
    **columns: Unpack[ColumnArguments],
) -> Session[Any]:
    """A session under the configured policy: `ask(sql, analyst)` answers one question, or says why not.

    `private` if there is a budget, else `audited`; `monitored` only if the settings say so ([book] policy). What is
    answered is in the book before it is returned: `book` names its file, which a frame without settings needs. Of a
    column with known bounds exact answers are given for groups of more than `exact_above` people. A private answer
    whose error bar is more than half of all that it could be is refused, unless it is wanted `anyway`.
    `error` asks for an error bar: "500" in the units of the answer, "5%" of the largest possible one.

    >>> import pyarrow as pa
    >>> import tempfile
    >>> staff = pa.table({"name": ["Ann", "Bob", "Cyd"], "dept": ["a", "a", "b"], "pay": [10, 20, 30]})
    >>> file = f"{tempfile.mkdtemp()}/staff.keyhole"
    >>> with session(data=staff, private="pay:0..1000", id="name", book=file, exact_above=1) as opened:
    ...     whole = opened.ask("SELECT SUM(pay) FROM staff")
    ...     part = opened.ask("SELECT SUM(pay) FROM staff WHERE dept = 'a'")
    >>> whole.exact, str(part.outcome)
    ((({}, (Decimal('60'),)),), 'deny')
    """
    given = settings(config, data=data, **columns)
    if book is not None:
        named = replace(given.config.book, path=str(book))
        given = replace(given, config=replace(given.config, book=named))
    return open_session(
        given, config, BudgetArguments(anyway=anyway, error=error), AuditTerms(exact_above=exact_above), dry_run=dry_run
    )


def choose_policy(given: Settings) -> str:
    """What the settings say, or what follows: a budget means private, none means audited."""
    told = given.config
    return told.book.policy or ("private" if told.budget.epsilon is not None else "audited")


def open_session(
    given: Settings,
    config: Config | str | Path | None,
    terms: BudgetArguments,
    how: AuditTerms | None = None,
    *,
    dry_run: bool = False,
) -> Session[Any]:
    """The session of merged settings, which came from `config`."""
    how = how or AuditTerms()
    match "private" if terms.epsilon is not None else choose_policy(given):
        case "private":
            return open_private_session(given, terms, config, dry_run=dry_run)
        case "monitored":
            return open_audited_session(
                with_private(given), config, AuditTerms(how.book), "monitored", dry_run=dry_run
            )[0]
        case _:
            return open_audited_session(with_private(given), config, how, "audited", dry_run=dry_run)[0]


class Watch(Session[ParsedStatement]):
    """A session that decides and withholds: `ask(sql)` decides, and what it allows counts as answered from then on.

    Where deciding and answering are two steps, `admit(sql)` only decides and `record(sql)` counts; between the two
    nobody else may be answered.
    """

    @property
    def auditing(self) -> Audited:
        """The policy."""
        assert isinstance(self.policy, Audited)
        return self.policy

    def ask_in(self, text: str, dialect: str | None, answer: Decimal | None = None) -> Reply:
        """A statement that was written for another engine: it is decided, and kept, in DuckDB's words, or refused.

        `answer` is what it is answered elsewhere if it is allowed: no part of this decision; later ones about a MIN or
        MAX need it.
        """
        carry = translate_to_duckdb(text, dialect or Dialect.DUCKDB, self.auditing.schema)
        if not carry.reason:
            request = self.read(carry.sql)
            assert isinstance(request, ParsedStatement)
            return self.answer(replace(request, answer=answer), None)
        with self.book.page():
            self.auditing.catch_up()
            self.auditing.auditor.seen()
            said = Admission(str(self.auditing.auditor.number), text, Permission.REFUSED, carry.reason)
            return Reply(text, Outcome.REFUSED, carry.reason, admission=said)

    def admit(self, text: str) -> Admission:
        """May this be answered? It does not count as answered."""
        request = self.auditing.read(text)
        with self.book.page():
            self.auditing.catch_up()
            return self.auditing.admission(request)

    def record(self, text: str, answer: Decimal | None = None) -> str:
        """It was answered, admitted or not, and counts from now on: in the book when this returns. Its number.

        A MIN or MAX needs its `answer`: without, nothing more is decided of the column. Raises the `QueryError` of a
        statement that cannot be represented.
        """
        request = self.auditing.read(text)
        with self.book.page():
            self.auditing.catch_up()
            told: ExactAnswer | None = None if answer is None else (({}, (Decimal(answer),)),)
            return self.auditing.take(request, told, kind=Mark.ANSWER)


def watch(
    data: object = None,
    *,
    book: str | Path | None = None,
    insiders: int | None = None,
    exact_above: int | None = None,
    config: Config | str | Path | None = None,
    **columns: Unpack[ColumnArguments],
) -> Watch:
    """A session over the public half of the table: `ask(sql)` decides before the answer, from public things alone.

    The book (`book`, or what the settings name) keeps what was answered from run to run; without one it is kept in
    memory. What private columns can hold is declared; where bounds are known, groups of more than `exact_above` people
    are allowed. Close it, or use it in a `with` block.

    >>> import pyarrow as pa
    >>> staff = pa.table({"name": ["Ann", "Bob", "Cyd"], "pay": [1, 2, 3]})
    >>> with watch(staff, private="pay:0..1000", id="name", exact_above=2) as session:
    ...     str(session.ask("SELECT SUM(pay) FROM staff WHERE name = 'Ann'").outcome)
    'deny'
    """
    given = with_private(settings(config, data=data, **columns))
    return open_watch(given, config, AuditTerms(book, insiders, explain=True, exact_above=exact_above))[0]


def open_watch(given: Settings, config: Config | str | Path | None, how: AuditTerms) -> tuple[Watch, Table]:
    """The session of merged settings, which came from `config`, and the table it watches."""
    session, opened = open_audited_session(given, config, how, "watch")
    return Watch(session.book, session.policy, session.notes, session.life), opened
