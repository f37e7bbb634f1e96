"""`keyhole ask`: questions under the configured policy, from text to answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.session.decide import Earlier, decide_statements, read_standard_input, read_statements
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
from keyhole.errors import ConfigError, KeyholeError, LogError
from keyhole.logs.importers import LogFormat

if TYPE_CHECKING:
    import datetime as dt

    from keyhole.config.settings import Settings
    from keyhole.report.documents.sessions import AskDocument
    from keyhole.sessions.open import AuditTerms
    from keyhole.sessions.reply import Reply
    from keyhole.sessions.session import Session

HELP = """Ask one question, or a file of them, and get answers that are safe to give.

The settings say how the people are protected (policy): private answers have noise, an error bar and a price that is
paid from a budget; audited answers are exact, and given only if they expose nobody together with everything answered
before. What is answered is in the book before it is shown, so asking again is free.
Without --error a private question costs a hundredth of the budget, without a delta a tenth.

\b
Examples
  keyhole ask "SELECT AVG(pay) FROM staff WHERE dept = 'legal'"
  keyhole ask -f queries.sql -c keyhole.toml --dry-run

\b
With --decide-only it says allow, deny or refused and answers nothing: somebody else does. What is allowed counts as
answered. -f - reads standard input, where each statement ends with a semicolon.

\b
Exit code
  0 every question was answered (allowed); 3 some were denied or refused; 2 could not run.
"""
FILE = click.Option(
    ["-f", "--file"], metavar="FILE", help="Ask the statements of a file (.sql, .jsonl); - is standard input."
)
DECIDE_ONLY = options.flag("--decide-only", "Only say whether each statement may be answered; answer nothing.")
CLIP = click.Option(
    ["--clip"],
    multiple=True,
    metavar="COL",
    help="Buy bounds for a column that has none; nothing else is asked. Repeatable.",
)


@options.command(
    "ask",
    HELP,
    click.Argument(["questions"], nargs=-1, metavar="[SQL]..."),
    options.TABLE_ARGUMENTS,
    FILE,
    DECIDE_ONLY,
    options.DRY_RUN,
    options.budget(
        options.ERROR,
        options.ANALYST,
        options.BOOK,
        options.ANYWAY,
    ),
    CLIP,
    options.EXACT_ABOVE,
    options.LOAD,
    options.ACCEPT_UNJUDGED,
    options.SAME_VALUES,
    options.DIALECT,
    options.NOW,
    options.EXPLAIN,
    options.output(Format.TEXT, Format.JSON, Format.TRANSCRIPT, Format.HTML),
)
def ask(
    questions: tuple[str, ...],
    table: TableArguments,
    file: str | None,
    decide_only: bool,
    dry_run: bool,
    terms: BudgetArguments,
    clip: tuple[str, ...],
    exact_above: int | None,
    load: tuple[Path, ...],
    accept_unjudged: bool,
    same_values: bool,
    dialect: str | None,
    now: str | None,
    explain: bool,
    output: OutputArguments,
) -> None:
    """Decide, answer a file, or answer question by question."""
    from keyhole.api.session import choose_policy
    from keyhole.config.settings import settings
    from keyhole.engines.engine import dialect_of
    from keyhole.sessions.open import AuditTerms
    from keyhole.sql.statements.clock import parse_now, write_time_as_it_ran

    if file is not None and questions:
        raise ConfigError("give statements or -f FILE, not both")
    when = parse_now(now)
    how = AuditTerms(terms.book, None, same_values, explain, accept_unjudged, exact_above)
    if decide_only:
        _decide(table, questions, file, how, Earlier(load, str(LogFormat.AUTO), accept_unjudged), dialect, when, output)
        return
    if load:
        raise ConfigError("--load belongs to --decide-only: what was published before is entered by it, or by watch")
    given = settings(**table)
    dialect = dialect or dialect_of(given.data)
    check_out(output.out)
    if file is not None and choose_policy(given) == "private":
        from keyhole.cli.session.answer_file import answer_file

        answer_file(file, given, terms, table.get("config"), output, dry_run=dry_run)
        return
    if output.format is Format.TRANSCRIPT:
        raise ConfigError("a transcript is written of a file that is answered privately: give -f FILE and a [budget]")
    texts = [write_time_as_it_ran(text, dialect or "duckdb", None, when) for text in _texts(questions, file, clip)]
    _answer(texts, given, table, terms, how, clip, dialect, output, dry_run=dry_run)


def _decide(
    table: TableArguments,
    questions: tuple[str, ...],
    file: str | None,
    how: AuditTerms,
    earlier: Earlier,
    dialect: str | None,
    now: dt.date | None,
    output: OutputArguments,
) -> None:
    """Allow or deny; without statements those of standard input, one after another."""
    if output.format is Format.TRANSCRIPT:
        raise ConfigError("--decide-only answers nothing, so there is no transcript: take --format text or json")
    if questions:
        statements = read_statements(f"{text};\n" for text in questions)
    elif file in (None, "-"):
        statements = read_standard_input()
    else:
        try:
            statements = read_statements(Path(str(file)).read_text(encoding="utf-8").splitlines(keepends=True))
        except (OSError, UnicodeDecodeError) as error:
            raise LogError(
                f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
            ) from None
    decide_statements(table, statements, how, earlier, dialect, now, output)


def _answer(
    texts: Sequence[str],
    given: Settings,
    table: TableArguments,
    terms: BudgetArguments,
    how: AuditTerms,
    clip: tuple[str, ...],
    dialect: str | None,
    output: OutputArguments,
    *,
    dry_run: bool,
) -> None:
    """Open the session, ask, show."""
    from keyhole.api.session import choose_policy, open_session
    from keyhole.report.documents.sessions import AskDocument
    from keyhole.report.replies import describe_reply, render_reply
    from keyhole.sessions.private import Private

    with open_session(given, table.get("config"), terms, how, dry_run=dry_run) as session:
        if session.book.new:
            warn(f"a new book begins: {session.book.name}")
        _noted(session)
        advised = [_clipping(session, column, terms.analyst, dry_run=dry_run) for column in clip]
        if clip and texts:  # bounds are declared, and become part of the book's domain, before anything is asked
            warn("bounds bought; write them into keyhole.toml, then ask: the question was not asked")
            texts = []
        replies, fault = _asked_until(session, texts, dialect, terms.analyst)
        noisy = session.policy if isinstance(session.policy, Private) else None
        budget = None if noisy is None else noisy.budget(terms.analyst)
    unit, n = (None, None) if noisy is None else (noisy.unit, noisy.answering.setting.n)
    document = AskDocument(
        policy=choose_policy(given) if noisy is None else "private",
        replies=tuple(describe_reply(r, explain=how.explain, n=n) for r in replies),
        unit=unit,
        bounds=tuple(advised),
        dry_run=dry_run,
    )
    written = (line for r in replies for line in render_reply(r, explain=how.explain, budget=budget))
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


def _texts(questions: tuple[str, ...], file: str | None, clip: tuple[str, ...]) -> list[str]:
    """The statements: those given, or those of the file."""
    from keyhole.logs.open import LogFormat, open_log
    from keyhole.sql import split_statements

    if file is not None:
        return [line.sql for line in open_log(file if file == "-" else Path(file), LogFormat.AUTO).lines]
    texts = [part.sql for text in questions for part in split_statements(sys.stdin.read() if text == "-" else text)]
    if not texts and not clip:
        raise LogError('there is no question: give a statement, such as "SELECT COUNT(*) FROM people", or -f FILE')
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
    cost = f"{policy.unit} {float(policy.show_amount(found.cost, analyst)):.4g}"
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
