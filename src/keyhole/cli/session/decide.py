"""`keyhole ask --decide-only`: allow or deny each statement before somebody else answers it."""

from __future__ import annotations

import datetime as dt
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from keyhole.cli.session.stream import StreamWriter
from keyhole.cli.shared.terminal import INTERRUPTED, SOME_REFUSED, exit_with, open_growing, warn
from keyhole.config.arguments import OutputArguments, TableArguments
from keyhole.errors import LogError
from keyhole.model.numbers import read_decimal

if TYPE_CHECKING:
    from keyhole.api.session import Watch
    from keyhole.auditing.online.online import Admission
    from keyhole.config.settings import Settings
    from keyhole.datasets.open import Table
    from keyhole.logs.importers import LogFormat
    from keyhole.sessions.open import AuditTerms


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was published before: logs, and whether it is accepted that no verdict accounts for some."""

    logs: tuple[Path, ...]
    log_format: str
    accept_unjudged: bool


def decide_statements(
    table: TableArguments,
    statements: Iterable[tuple[str, Decimal | None]],
    how: AuditTerms,
    earlier: Earlier,
    dialect: str | None,
    now: dt.date | None,
    output: OutputArguments,
) -> None:
    """Open the public columns and the book, then decide statement by statement; the exit code says how it ended."""
    from keyhole.engines.engine import dialect_of
    from keyhole.logs.open import LogFormat

    with ExitStack() as stack:
        session, given = open_watched(stack, table, how, accept=earlier.accept_unjudged)
        dialect, ignored = dialect or dialect_of(given.data), given.config.source.ignore
        with end_stream():
            for path in earlier.logs:
                load_earlier(
                    session, path, LogFormat(earlier.log_format), dialect, earlier.accept_unjudged, now, ignored
                )
            writer = StreamWriter(stack.enter_context(open_growing(output.out)), output.format)
            allowed = _decide(session, writer, statements, how.explain, dialect, now)
    exit_with(0 if allowed else SOME_REFUSED)


def open_watched(stack: ExitStack, table: TableArguments, how: AuditTerms, *, accept: bool) -> tuple[Watch, Settings]:
    """The session over the public columns, closed with the stack, and its settings."""
    from keyhole.api.session import open_watch
    from keyhole.config.settings import settings, with_private
    from keyhole.sessions.published import accept_incomplete

    given = with_private(settings(**table))
    session, opened = open_watch(given, table.get("config"), how)
    stack.callback(session.close)
    announce(session, opened)
    if accept:
        accept_incomplete(session.auditing)
    return session, given


@contextmanager
def end_stream() -> Iterator[None]:
    """What a person or a stream that ends early does to a run is one sentence."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("stopped; what was allowed is in the book\n")
        exit_with(INTERRUPTED)
    except UnicodeDecodeError:
        raise LogError("standard input is not UTF-8 text") from None


def read_standard_input() -> Iterator[tuple[str, Decimal | None]]:
    """The statements of standard input, each as soon as it ends."""
    if sys.stdin is None:
        raise LogError("there is no standard input to read statements from")
    if isinstance(sys.stdin, io.TextIOWrapper):  # some locales would let bytes through that are not text
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    yield from read_statements(sys.stdin)


def _decide(
    session: Watch,
    writer: StreamWriter,
    statements: Iterable[tuple[str, Decimal | None]],
    explain: bool,
    dialect: str | None,
    now: dt.date | None,
) -> bool:
    """Statement by statement, each verdict printed before the next statement is read; True if all were allowed."""
    from keyhole.sql.statements.clock import write_time_as_it_ran

    all_allowed = True
    with writer:
        for sql, answer in statements:
            asked = write_time_as_it_ran(sql, dialect or "duckdb", None, now)
            reply = session.ask_in(asked, dialect, answer)  # what it allows is in the book before anybody is told
            assert reply.admission is not None
            all_allowed = all_allowed and reply.answered
            verdict = reply.admission
            if sql.startswith("{"):  # no statement of SQL does
                verdict = replace(verdict, reason='a JSON line has the statement as text: {"sql": "SELECT ..."}')
            said = verdict.to_json(explain=explain) | ({} if reply.instead is None else {"instead": reply.instead})
            writer.write(said, partial(describe_verdict, verdict, explain, reply.instead))
    return all_allowed


def announce(session: Watch, opened: Table) -> None:
    """A book that is new, or forgets, or cannot notice a change; and what no verdict accounts for, at each start."""
    from keyhole.sessions.published import explain_unjudged

    if session.book.path == ":memory:":
        warn("no book, so what is allowed now is forgotten at the end: give --book FILE")
    elif session.book.new:
        warn(f"a new book begins: {session.book.name}")
    for note in session.notes:
        warn(note)
    if opened.absent and session.book.path != ":memory:":
        absent = ", ".join(repr(name) for name in opened.absent)
        warn(
            f"the data has no {absent}: a change of private values cannot be noticed, and the same question before "
            "and after one tells it"
        )
    left = explain_unjudged(session.auditing)
    if left:
        warn(left)


def load_earlier(
    session: Watch,
    path: Path,
    kind: LogFormat,
    dialect: str | None,
    accept: bool,
    now: dt.date | None,
    ignored: tuple[str, ...],
) -> None:
    """Load a log of earlier publications; what cannot be represented stops us unless it was accepted."""
    from keyhole.logs.open import open_log
    from keyhole.sessions.published import find_unaccounted, publish, write_out_times
    from keyhole.sql import Dialect
    from keyhole.sql.statements.table_names import reads_nothing_of_people

    log = open_log(path, kind, usual=Dialect(dialect or Dialect.DUCKDB))
    unread = (*log.refused, *log.unjudged)
    about = [line for line in log.lines if not reads_nothing_of_people(line.sql, line.dialect, ignored)]
    lines = write_out_times(about, now)
    left = find_unaccounted(session.auditing, lines, unread)
    count = "1 statement" if len(left) == 1 else f"{len(left)} statements"
    listed = "\n".join(f"  Q{r.number}: {r.error.splitlines()[0]}: {' '.join(r.sql.split())[:100]}" for r in left[:10])
    if len(left) > 10:
        listed += f"\n  ... and {len(left) - 10} more"
    if left and not accept:
        raise LogError(
            f"{count} of {path} cannot be taken into the book, so no verdict would account for "
            f"them:\n{listed}\nTake them out of the log if they gave nothing away, or go on with --accept-unjudged"
        )
    if left:
        warn(f"no verdict accounts for {count} of {path}; with --accept-unjudged we go on:\n{listed}")
    publish(session.auditing, lines, unread)


def read_statements(stream: TextIO | Iterable[str]) -> Iterator[tuple[str, Decimal | None]]:
    """Statements as they come: each as soon as the line that ends it was read; the last one may lack its semicolon.

    A JSON line may carry the answer that is given elsewhere.

    >>> [sql for sql, _ in read_statements(["SELECT 1; SELECT\\n", "2;\\n", '{"sql": "SELECT 3"}\\n', "SELECT 4"])]
    ['SELECT 1', 'SELECT\\n2', 'SELECT 3', 'SELECT 4']
    >>> list(read_statements(['{"sql": "SELECT MAX(x) FROM t", "answer": 9.5}']))
    [('SELECT MAX(x) FROM t', Decimal('9.5'))]
    """
    from keyhole.sql import split_statements

    waiting = ""
    for number, given in enumerate(stream):
        line = given if number else given.removeprefix("\ufeff")
        if not waiting.strip() and line.lstrip()[:1] == "{":
            yield _from_json(line)
            continue
        waiting += line
        if ";" not in line and waiting.strip():
            continue
        parts = split_statements(waiting + "\n_")  # a word behind the end: does it begin a statement of its own?
        whole = parts[:-1] if parts else []
        yield from ((part.sql, None) for part in whole)
        last = parts[-1] if parts else None
        waiting = "" if last is None or last.sql == "_" else _from(waiting, last.line, last.column)
    yield from ((part.sql, None) for part in split_statements(waiting))


def _from(text: str, line: int, column: int) -> str:
    return "".join(text.splitlines(keepends=True)[line - 1 :])[column - 1 :]


def _from_json(line: str) -> tuple[str, Decimal | None]:
    from keyhole.model.transcript import ABSENT, Line
    from keyhole.sessions.published import read_stated_answer

    try:
        raw = json.loads(line, parse_float=read_decimal, parse_int=read_decimal)
    except (ValueError, ArithmeticError):
        return line.strip(), None  # refused, with what is wrong
    sql = raw.get("sql") if isinstance(raw, dict) else None
    if not isinstance(sql, str):
        return line.strip(), None
    return sql, None if raw.get("noise") else read_stated_answer(Line(1, sql, raw.get("answer", ABSENT)))


def describe_verdict(verdict: Admission, explain: bool, instead: str | None = None) -> Iterator[str]:
    """A verdict as lines for people."""
    yield f"Q{verdict.number} {verdict.verdict}: {verdict.reason}"
    if instead is not None:
        yield f"  Try instead: {' '.join(instead.split())}"
    if explain:
        from keyhole.report.replies import explain_admission

        yield from explain_admission(verdict)
