"""`keyhole watch --follow`: a server log into the book, and what it gives away to the custodian."""

from __future__ import annotations

import datetime as dt
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from keyhole.cli.shared.telling import Telling
from keyhole.cli.shared.terminal import warn
from keyhole.config.arguments import Format
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.api.watch import Watch
    from keyhole.logs.importers import LogFormat
    from keyhole.sessions.follow import Entered, FollowCounts

EVERY = 0.2  # seconds between two looks at a log that does not grow


@dataclass(frozen=True, slots=True)
class Following:
    """What is followed: the log, what it is written in and for, tables that are ignored, and how it is shown."""

    log: Path
    kind: LogFormat
    dialect: str | None
    ignored: tuple[str, ...]
    how: Format
    now: dt.date | None = None

    def into(self, session: Watch, out: Telling) -> bool:
        """Until Ctrl-C or SIGTERM; True if all is in the book and exposes nobody."""
        from keyhole.sessions.follow import Follower
        from keyhole.sql import Dialect

        if session.book.path == ":memory:":
            raise ConfigError("--follow enters statements into a book: name one with --book FILE, or -c SETTINGS")

        def told(entered: Entered) -> None:
            out.tell(data_of(entered), lambda: text_of(entered))

        engine = None if self.dialect is None else Dialect(self.dialect)
        with stopped_by_signals() as stopping, out:
            ways = (told, lambda: time.sleep(EVERY), stopping, warn)
            follower = Follower(session.auditing, self.log, *ways, self.kind, engine, self.ignored, self.now)
            follower.run()
        sys.stderr.write(f"stopped; {summary(follower.counts)}\n")
        return not (follower.counts.unjudged or follower.counts.exposing or follower.counts.unproved)


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
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


def data_of(entered: Entered) -> dict[str, Any]:
    """A statement that is new in the book, for machines."""
    said = entered.admission
    fields: dict[str, Any] = {"query": entered.number, "sql": entered.sql}
    fields |= {"verdict": str(entered.how), "reason": entered.reason}
    fields |= {k: v for k, v in (("analyst", entered.analyst), ("time", entered.time)) if v is not None}
    proof = {} if said is None else said.to_json(explain=True)
    return fields | {k: proof[k] for k in ("who", "proof") if k in proof}


def text_of(entered: Entered) -> Iterator[str]:
    """The same for people; whom it exposes, and the proof."""
    from keyhole.report.replies import explain_admission

    said = entered.admission
    about = ", ".join(part for part in (entered.analyst, entered.time) if part)
    yield f"Q{entered.number} {entered.how}{f' ({about})' if about else ''}: {entered.reason}"
    if said is not None and said.who:
        yield from explain_admission(said)
    elif said is None:
        yield f"  {' '.join(entered.sql.split())[:200]}"


def summary(counts: FollowCounts) -> str:
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
