"""`keyhole ask`: one question under the configured policy, from text to answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import (
    INTERRUPTED,
    SOME_REFUSED,
    check_out,
    emit,
    emit_json,
    emit_text,
    exit_with,
    warn,
)
from keyhole.config.arguments import BudgetArguments, Format, OutputArguments, TableArguments
from keyhole.errors import KeyholeError, LogError

if TYPE_CHECKING:
    from keyhole.report.documents.sessions import AskDocument
    from keyhole.sessions.reply import Reply
    from keyhole.sessions.session import Session

HELP = """Ask one question, or several, and get an answer that is safe to give.

The settings say how the people are protected: with a [budget] answers are private (noise, error bars, a price); else
they are exact and given only if they expose nobody together with everything answered before (audited). What is
answered is in the book before it is shown, so asking again is free, and a kill loses nothing that was paid.
A keyhole.toml in the working folder is taken if neither -c nor --data is given; `keyhole init` writes one.

\b
Examples
  keyhole ask -c keyhole.toml "SELECT AVG(pay) FROM staff WHERE dept = 'legal'"
  keyhole ask -c keyhole.toml --analyst ann --accuracy 0.01 "SELECT COUNT(*) FROM staff"
  keyhole ask --clip pay
  keyhole ask -c keyhole.toml --dry-run --format json "SELECT SUM(pay) FROM staff"

\b
Exit code
  0 every question was answered; 3 some were denied or refused; 2 could not run.
"""


@options.command(
    "ask",
    HELP,
    click.Argument(["questions"], nargs=-1, metavar="SQL..."),
    options.TABLE_ARGUMENTS,
    options.DIALECT,
    options.NOW,
    options.EXACT_ABOVE,
    options.budget(options.ACCURACY, options.BETA, options.ANALYST, options.HORIZON, options.ANYWAY),
    click.Option(
        ["--clip"],
        multiple=True,
        metavar="COL",
        help="Buy bounds for a column that has none; nothing else is asked. Repeatable.",
    ),
    options.EXPLAIN,
    options.DRY_RUN,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def ask(
    questions: tuple[str, ...],
    table: TableArguments,
    dialect: str | None,
    now: str | None,
    exact_above: int | None,
    terms: BudgetArguments,
    clip: tuple[str, ...],
    explain: bool,
    dry_run: bool,
    output: OutputArguments,
) -> None:
    """Open the session, ask, show."""
    from keyhole.api.ask import choose_policy, open_session
    from keyhole.config.settings import settings
    from keyhole.engines.engine import dialect_of
    from keyhole.report.documents.sessions import AskDocument
    from keyhole.report.replies import describe_reply, render_reply
    from keyhole.sessions.private import Private
    from keyhole.sql.statements.clock import parse_now, write_time_as_it_ran

    table = options.settings_here(table)
    given = settings(**table)
    check_out(output.out)
    dialect = dialect or dialect_of(given.data)
    when = parse_now(now)
    texts = [write_time_as_it_ran(text, dialect or "duckdb", None, when) for text in _texts(questions, clip)]
    with open_session(
        given, table.get("config"), terms, explain=explain, exact_above=exact_above, dry_run=dry_run
    ) as session:
        if session.book.new:
            warn(f"a new book begins: {session.book.name}")
        _noted(session)
        advised = [_clipping(session, column, terms.analyst, dry_run=dry_run) for column in clip]
        if clip and texts:  # bounds are declared, and become part of the book's domain, before anything is asked
            warn("bounds bought; write them into keyhole.toml, then ask: the question was not asked")
            texts = []
        replies, fault = _asked_until(session, texts, dialect, terms.analyst)
    noisy = session.policy if isinstance(session.policy, Private) else None
    unit, n = (None, None) if noisy is None else (noisy.unit, noisy.answering.setting.n)
    document = AskDocument(
        policy=choose_policy(given),
        replies=tuple(describe_reply(r, explain=explain, n=n) for r in replies),
        unit=unit,
        bounds=tuple(advised),
        dry_run=dry_run,
    )
    written = (line for r in replies for line in render_reply(r, explain=explain, unit=unit or "epsilon"))
    _show(document, [*advised, *written, *(["nothing was kept: this was a dry run"] if dry_run else [])], output)
    if fault is not None:
        raise fault
    exit_with(0 if all(r.answered for r in replies) else SOME_REFUSED)


def _show(document: AskDocument, lines: Sequence[str], output: OutputArguments) -> None:
    """The replies in the format that is wanted."""
    if output.format is Format.JSON:
        from keyhole.report.documents.json_text import dumps

        emit_json(dumps(document), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.sessions import render_answers_page

        emit(render_answers_page(document), output.out)
    else:
        emit_text("\n".join(lines), output.out)


def _texts(questions: tuple[str, ...], clip: tuple[str, ...]) -> list[str]:
    """The statements: those given, and of `-` those on the standard input."""
    from keyhole.sql import split_statements

    texts = [part.sql for text in questions for part in split_statements(sys.stdin.read() if text == "-" else text)]
    if not texts and not clip:
        raise LogError('there is no question: give a statement, such as "SELECT COUNT(*) FROM people"')
    return texts


def _clipping(session: Session[Any], column: str, analyst: str | None, *, dry_run: bool) -> str:
    """Bounds for a column that nobody declared, as lines for keyhole.toml."""
    from keyhole.config import toml_key
    from keyhole.defence.planner.clipping import buy_bounds
    from keyhole.defence.planner.planner import Planner
    from keyhole.errors import ConfigError
    from keyhole.sessions.private import Private

    policy = session.policy
    if not isinstance(policy, Private) or not isinstance(policy.answering, Planner) or dry_run:
        raise ConfigError("--clip buys bounds with budget: it needs a [budget] with a delta, and is no dry run")
    found = buy_bounds(policy.answering, column, analyst)
    where = f"[columns.private.{toml_key(found.column)}]"
    cost = f"{policy.unit} {float(found.cost):.4g}"
    return f"{found}\n  cost {cost}; write them under {where}, wider if you know more"


def _noted(session: Session[Any]) -> None:
    """What is to be known before anything is asked."""
    from keyhole.sessions.audited import Audited
    from keyhole.sessions.published import explain_unjudged

    for note in session.notes:
        warn(note)
    if isinstance(session.policy, Audited) and (left := explain_unjudged(session.policy)):
        warn(left)


def _asked_until(
    session: Session[Any], texts: Sequence[str], dialect: str | None, analyst: str | None
) -> tuple[list[Reply], KeyholeError | None]:
    """The replies, and the fault that stopped them: what was paid for before it is shown first."""
    replies: list[Reply] = []
    try:
        for text in texts:
            replies.append(_asked(session, text, dialect, analyst))
    except KeyholeError as fault:
        if not replies:
            raise
        return replies, fault
    except KeyboardInterrupt:
        sys.stderr.write("stopped; what was answered is in the book\n")
        exit_with(INTERRUPTED)
    return replies, None


def _asked(session: Session[Any], text: str, dialect: str | None, analyst: str | None) -> Reply:
    """One question; one that was written for another engine goes on in DuckDB's words, or is refused."""
    from keyhole.model.query import Refused
    from keyhole.sessions.reply import Reply
    from keyhole.sql import translate_to_duckdb

    if dialect is None:
        return session.ask(text, analyst)
    carry = translate_to_duckdb(text, dialect, session.policy.schema)
    return Reply.refused(text, Refused(carry.reason)) if carry.reason else session.ask(carry.sql, analyst)
