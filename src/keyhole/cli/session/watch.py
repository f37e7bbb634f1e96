"""`keyhole watch LOG`: enter the statements of a growing log into the book, and say whom they expose."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from keyhole.cli.session.decide import end_stream, open_watched
from keyhole.cli.session.stream import StreamWriter
from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import SOME_REFUSED, exit_with, open_growing, warn
from keyhole.config.arguments import Format, OutputArguments, TableArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    import datetime as dt

    from keyhole.api.session import Watch
    from keyhole.logs.importers import LogFormat
    from keyhole.sessions.follow import Entered, FollowCounts

EVERY = 0.2  # seconds between two looks at a log that does not grow

HELP = """Follow a log as it is written, and say at once whom a statement exposes.

It decides nothing and denies nothing: the answers are out. Each statement enters the book as published and binds later
questions (keyhole ask). What cannot be represented marks the book incomplete, and later sessions refuse until that is
accepted (--accept-unjudged). It ends with Ctrl-C or SIGTERM, and goes on where it stopped.

\b
Examples
  keyhole watch /var/log/postgresql/postgresql.csv -c keyhole.toml
  keyhole watch queries.jsonl -c keyhole.toml --format json

\b
Exit code
  0 every statement is in the book and exposes nobody; 3 some expose somebody, are not proved to expose nobody,
  or cannot be represented; 2 could not run.
"""


@options.command(
    "watch",
    HELP,
    click.Argument(["log"], type=options.FILE),
    options.TABLE_ARGUMENTS,
    options.LOG_FORMAT,
    options.DIALECT,
    options.NOW,
    options.BOOK,
    options.ACCEPT_UNJUDGED,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def watch(
    log: Path,
    table: TableArguments,
    log_format: str,
    dialect: str | None,
    now: str | None,
    book: Path | None,
    accept_unjudged: bool,
    output: OutputArguments,
) -> None:
    """Open the public columns and the book, then enter statement by statement."""
    from keyhole.engines.engine import dialect_of
    from keyhole.logs.open import LogFormat
    from keyhole.sessions.open import AuditTerms
    from keyhole.sql.statements.clock import parse_now

    when = parse_now(now)
    how = AuditTerms(book, None, False, False, True, None, True)
    with ExitStack() as stack:
        session, given = open_watched(stack, table, how, accept=accept_unjudged)
        dialect, ignored = dialect or dialect_of(given.data), given.config.source.ignore
        with end_stream():
            writer = StreamWriter(stack.enter_context(open_growing(output.out)), output.format)
            allowed = _follow(session, writer, log, LogFormat(log_format), dialect, ignored, when)
    exit_with(0 if allowed else SOME_REFUSED)


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
        raise ConfigError("watch enters statements into a book: name one with --book FILE, or -c SETTINGS")

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
