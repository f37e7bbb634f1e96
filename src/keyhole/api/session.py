"""`keyhole.ask`: questions under the policy that the settings give a population."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from keyhole.config import Config
from keyhole.config.arguments import BudgetArguments, ColumnArguments
from keyhole.config.settings import Settings, settings, with_private
from keyhole.sessions.open import AuditTerms, open_audited_session, open_private_session
from keyhole.sessions.session import Session


def ask(
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
    >>> with ask(data=staff, private="pay:0..1000", id="name", book=file, exact_above=1) as session:
    ...     whole = session.ask("SELECT SUM(pay) FROM staff")
    ...     part = session.ask("SELECT SUM(pay) FROM staff WHERE dept = 'a'")
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
