"""`keyhole watch`: allow or deny each statement before it is answered, or (`--follow`) enter those of a growing log."""

from __future__ import annotations

import datetime as dt
import io
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import INTERRUPTED, SOME_REFUSED, escape_json, exit_with, open_growing, warn
from keyhole.config.arguments import Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError, LogError
from keyhole.model.numbers import read_decimal

if TYPE_CHECKING:
    from keyhole.api.watch import Watch
    from keyhole.auditing.online.online import Admission
    from keyhole.datasets.open import Table
    from keyhole.logs.importers import LogFormat
    from keyhole.sessions.follow import Entered, FollowCounts

EVERY = 0.2  # seconds between two looks at a log that does not grow

HELP = """Decide before each answer whether it would expose anybody.

Everything answered so far counts. Reads SQL statements from standard input, one after another (each ends with a
semicolon; or JSON lines {"sql": ...}, of a MIN or MAX with its "answer"), and prints allow, deny or refused for each
at once. What is allowed counts as answered from then on, and is in the book before it is printed. No decision looks at
a private value; they are read once, to notice that one changed since the book began. Rows with one id are records of
one person: what would tell any sum over his own records is denied, and what looks at private rows of other tables is
refused.

\b
Examples
  keyhole watch -c keyhole.toml < log.sql
  keyhole watch --data staff.csv --id name --private pay:real --book book.keyhole --insiders 1
  keyhole watch -c keyhole.toml --load published.sql --format json --explain
  keyhole watch -c keyhole.toml --format html --out watched.html < log.sql
  keyhole watch -c keyhole.toml --follow /var/log/postgresql/postgresql.csv --ignore orders --ignore "sales.*"

With --follow it decides nothing and denies nothing: it reads a server log as it is written, and each statement enters
the book as published; the custodian sees whom it exposes. What cannot be represented marks the book incomplete, and
later sessions refuse until that is accepted (--accept-unjudged). It ends with Ctrl-C or SIGTERM, and goes on where it
stopped.

\b
Exit code
  0 every statement was allowed (--follow: is in the book and exposes nobody);
  3 some were denied or refused (--follow: expose somebody, are not proved to expose nobody, or cannot be
  represented); 2 could not run.
"""


@options.command(
    "watch",
    HELP,
    options.TABLE_ARGUMENTS,
    options.DIALECT,
    options.NOW,
    options.BOOK,
    options.INSIDERS,
    options.EXACT_ABOVE,
    options.LOAD,
    options.LOG_FORMAT,
    options.FOLLOW,
    options.IGNORE,
    options.ACCEPT_UNJUDGED,
    options.SAME_VALUES,
    options.EXPLAIN,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def watch(
    table: TableArguments,
    dialect: str | None,
    now: str | None,
    book: Path | None,
    insiders: int | None,
    exact_above: int | None,
    load: tuple[Path, ...],
    log_format: str,
    follow: Path | None,
    ignore: tuple[str, ...],
    accept_unjudged: bool,
    same_values: bool,
    explain: bool,
    output: OutputArguments,
) -> None:
    """Open roster and book, then decide statement by statement."""
    from keyhole.api.watch import open_watch
    from keyhole.config.settings import settings, with_private
    from keyhole.engines.engine import dialect_of
    from keyhole.logs.open import LogFormat
    from keyhole.sessions.open import AuditTerms
    from keyhole.sessions.published import accept_incomplete
    from keyhole.sql.statements.clock import parse_now

    when = parse_now(now)
    given = with_private(settings(**table))
    dialect = dialect or dialect_of(given.data)
    ignored = (*given.config.source.ignore, *ignore)
    with ExitStack() as stack:
        follows = follow is not None
        how = AuditTerms(book, insiders, same_values, explain, follows or accept_unjudged, exact_above, follows)
        session, opened = open_watch(given, table.get("config"), how)
        stack.callback(session.close)
        _announce(session, opened)
        try:
            if accept_unjudged:
                accept_incomplete(session.auditing)
            for path in load:
                _earlier(session, path, LogFormat(log_format), dialect, accept_unjudged, when, ignored)
            writer = StreamWriter(stack.enter_context(open_growing(output.out)), output.format)
            if follow is not None:
                allowed = _follow(session, writer, follow, LogFormat(log_format), dialect, ignored, when)
            else:
                allowed = _decide(session, writer, explain, dialect, when)
        except KeyboardInterrupt:
            sys.stderr.write("stopped; what was allowed is in the book\n")
            exit_with(INTERRUPTED)
        except UnicodeDecodeError:
            raise LogError("standard input is not UTF-8 text") from None
    exit_with(0 if allowed else SOME_REFUSED)


def _decide(session: Watch, writer: StreamWriter, explain: bool, dialect: str | None, now: dt.date | None) -> bool:
    """Statement by statement, each verdict printed before the next statement is read; True if all were allowed."""
    if isinstance(sys.stdin, io.TextIOWrapper):  # some locales would let bytes through that are not text
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    if sys.stdin is None:
        raise LogError("there is no standard input to read statements from")
    from keyhole.sql.statements.clock import write_time_as_it_ran

    all_allowed = True
    with writer:
        for sql, answer in read_statements(sys.stdin):
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


def _announce(session: Watch, opened: Table) -> None:
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


def _earlier(
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
        yield f"  allowed now: {' '.join(instead.split())}"
    if explain:
        from keyhole.report.replies import explain_admission

        yield from explain_admission(verdict)


def _follow(
    session: Watch,
    writer: StreamWriter,
    log: Path,
    kind: LogFormat,
    dialect: str | None,
    ignored: tuple[str, ...],
    now: dt.date | None,
) -> bool:
    """Enter a log as it grows, until Ctrl-C or SIGTERM; True if all is in the book and exposes nobody."""
    from keyhole.sessions.follow import Follower
    from keyhole.sql import Dialect

    if session.book.path == ":memory:":
        raise ConfigError("--follow enters statements into a book: name one with --book FILE, or -c SETTINGS")

    def tell(entered: Entered) -> None:
        writer.write(entered_as_json(entered), lambda: describe_entered(entered))

    engine = None if dialect is None else Dialect(dialect)
    with note_signals() as stopping, writer:
        ways = (tell, lambda: time.sleep(EVERY), stopping, warn)
        follower = Follower(session.auditing, log, *ways, kind, engine, ignored, now)
        follower.run()
    sys.stderr.write(f"stopped; {summarize_follow(follower.counts)}\n")
    return not (follower.counts.unjudged or follower.counts.exposing or follower.counts.unproved)


@contextmanager
def note_signals() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM do not interrupt, they are asked for: what is under way is finished first."""
    asked: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def entered_as_json(entered: Entered) -> dict[str, Any]:
    """A statement that is new in the book, for machines."""
    said = entered.admission
    fields: dict[str, Any] = {"query": entered.number, "sql": entered.sql}
    fields |= {"verdict": str(entered.how), "reason": entered.reason}
    fields |= {k: v for k, v in (("analyst", entered.analyst), ("time", entered.time)) if v is not None}
    proof = {} if said is None else said.to_json(explain=True)
    return fields | {k: proof[k] for k in ("who", "proof") if k in proof}


def describe_entered(entered: Entered) -> Iterator[str]:
    """The same for people; whom it exposes, and the proof."""
    from keyhole.report.replies import explain_admission

    said = entered.admission
    about = ", ".join(part for part in (entered.analyst, entered.time) if part)
    yield f"Q{entered.number} {entered.how}{f' ({about})' if about else ''}: {entered.reason}"
    if said is not None and said.who:
        yield from explain_admission(said)
    elif said is None:
        yield f"  {' '.join(entered.sql.split())[:200]}"


def summarize_follow(counts: FollowCounts) -> str:
    """What was read, in one sentence."""
    from keyhole.report.words.sentence import counted

    parts = [
        f"{counted(counts.read, 'statement')} read",
        f"{counts.new} new in the book",
        f"{counts.repeated} repeated",
    ]
    parts += [f"{counts.elsewhere} about nothing of these people"] if counts.elsewhere else []
    parts += [f"{counts.failed} failed"] if counts.failed else []
    exposes = "exposes" if counts.exposing == 1 else "expose"
    parts += [f"{counts.exposing} of the new {exposes} somebody"] if counts.exposing else []
    parts += [f"{counts.unproved} not proved to expose nobody"] if counts.unproved else []
    parts += [f"{counts.unjudged} cannot be represented: the book is incomplete"] if counts.unjudged else []
    return ", ".join(parts)


@dataclass(slots=True)
class StreamWriter:
    """What is said of a stream: each statement at once, as text or JSON lines, or all of them as one page at the end.

    Inside `with`; a page is written at its end, whatever ended it.
    """

    stream: TextIO
    how: Format
    page: list[dict[str, Any]] = field(default_factory=list)

    def write(self, said: dict[str, Any], text: Callable[[], Iterable[str]]) -> None:
        """One statement: `said` for machines, `text` for people."""
        if self.how is Format.HTML:
            self.page.append(said)
            return
        if self.how is Format.JSON:
            line = json.dumps(said, ensure_ascii=False, default=str)
            self.stream.write((escape_json(line) if self.stream is sys.stdout else line) + "\n")
        else:
            told = text()
            if self.stream is sys.stdout and self.stream.isatty():
                from keyhole.cli.shared.narrow_lines import fit_lines

                wide = shutil.get_terminal_size().columns
                told = [line for line, _ in fit_lines([(line, "") for line in told], wide)]
            self.stream.writelines(f"{line}\n" for line in told)
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.how is Format.HTML:
            from keyhole.report.html.sessions import render_watch_page

            self.stream.write(render_watch_page(self.page))
            self.stream.flush()
