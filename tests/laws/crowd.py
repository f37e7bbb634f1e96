"""Many processes at one book: they ask, tell what they were told, and are killed with SIGKILL. For checks alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, TypeAlias

from keyhole.book.sqlite_store import SqliteStore
from keyhole.errors import KeyholeError
from keyhole.sessions.session import Session

Opener: TypeAlias = Callable[[Path], Session[Any]]  # a function that another process can import
PRELOADED = [
    "tests.laws.crowd", "tests.laws.session_worlds", "opendp.measurements", "tests.laws.session_liars",
]  # fmt: skip
LONGEST = 120.0  # seconds that one process may take to end by itself
REFUSED, BROKEN = "", "the check itself is broken: "
PAUSE, PATIENCE = 0.05, 2.0  # seconds between two kills on average; and at most, until somebody was told something


@cache
def _server() -> ForkServerContext:
    """One process that has imported everything and holds nothing: its children begin at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What somebody was told: he has it, whatever becomes of the process that said it."""

    process: int
    text: str
    analyst: str | None
    outcome: str
    entry: int | None
    receipt: str | None
    how: str

    @property
    def fresh(self) -> bool:
        """Was it made for this question, not told again?"""
        return self.outcome == "answered" and not self.how.startswith(("released before", "answered before"))


@dataclass(frozen=True, slots=True)
class Errand:
    """What one process does: whom to open, what to ask, as whom."""

    opened: Opener
    folder: Path
    texts: tuple[str, ...]
    analysts: tuple[str | None, ...] = (None,)
    killed_at: int | None = None  # the statement of SQLite before which it kills itself; 0: after it was told
    in_step: bool = False  # with the others: nobody asks a question before everybody has come to it


def _child(errand: Errand, number: int, out: Connection) -> None:
    rng = random.Random(number)
    try:
        with errand.opened(errand.folder) as session:
            if errand.killed_at:
                _doomed(session, errand.killed_at)
            for text in errand.texts:
                if errand.in_step:
                    os.write(out.fileno(), b"[]\n")
                    os.read(out.fileno(), 1)
                who = rng.choice(errand.analysts)
                reply = session.ask(text, who)
                told = [text, who, str(reply.outcome), reply.entry, reply.receipt, reply.reason]
                os.write(out.fileno(), (json.dumps(told) + "\n").encode())
                if errand.killed_at == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
    except Exception as error:
        kind = REFUSED if isinstance(error, KeyholeError) else BROKEN
        os.write(out.fileno(), (json.dumps([f"{kind}{type(error).__name__}: {error}"]) + "\n").encode())


def _doomed(session: Session[Any], at: int) -> None:
    """From here on the process dies before the statement number `at` that it sends to SQLite."""
    left = [at]

    def before(_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    assert isinstance(session.book.store, SqliteStore)
    session.book.store.db.set_trace_callback(before)


@dataclass(slots=True)
class _Member:
    process: ForkServerProcess
    pipe: Connection
    number: int
    unread: bytes = b""
    told: int = 0
    waits: bool = False  # for the others


@dataclass(slots=True)
class Crowd:
    """Processes that ask; `told` grows by what they were told. All are ended by `end`."""

    told: list[Acknowledged] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    kills: int = 0
    _members: list[_Member] = field(default_factory=list)
    _count: int = 0

    def start(self, errand: Errand) -> None:
        """One process more."""
        reader, writer = _server().Pipe()
        self._count += 1
        process = _server().Process(target=_child, args=(errand, self._count, writer), daemon=True)
        process.start()
        writer.close()
        self._members.append(_Member(process, reader, self._count))

    @property
    def size(self) -> int:
        """How many have not ended."""
        return len(self._members)

    def listen(self, seconds: float) -> None:
        """Take in what was said within so much time; those who ended are let go."""
        by_pipe = {m.pipe: m for m in self._members}
        for ready in wait(list(by_pipe), seconds):
            assert isinstance(ready, Connection)
            member = by_pipe[ready]
            try:
                said = os.read(ready.fileno(), 1 << 16)
            except ConnectionResetError:  # killed before it read that it may go on
                said = b""
            if not said:
                self._gone(member)
                continue
            *whole, member.unread = (member.unread + said).split(b"\n")
            for line in map(json.loads, whole):
                if not line:
                    member.waits = True
                elif len(line) == 1:
                    if line[0].startswith(BROKEN):
                        raise RuntimeError(line[0])
                    self.failed.append(str(line[0]))
                else:
                    self.told.append(Acknowledged(member.number, *line))
                    member.told += 1
        self._step()

    def _step(self) -> None:
        """Once all have come to the next question, they ask it."""
        if self._members and all(member.waits for member in self._members):
            for member in self._members:
                member.waits = False
                os.write(member.pipe.fileno(), b".")

    def kill(self, rng: random.Random) -> None:
        """SIGKILL to one of them: as often one at work as anyone."""
        working = [m for m in self._members if m.told] if rng.random() < 0.5 else []
        rng.choice(working or self._members).process.kill()
        self.kills += 1

    def end(self) -> None:
        """Kill whoever is left, and take in what they had said."""
        for member in self._members:
            member.process.kill()
        until = time.monotonic() + LONGEST
        while self._members and time.monotonic() < until:
            self.listen(1.0)

    def finish(self, seconds: float = LONGEST) -> None:
        """Wait until all have ended by themselves."""
        until = time.monotonic() + seconds
        while self._members and time.monotonic() < until:
            self.listen(1.0)
        late = self.size
        self.end()
        assert not late, f"{late} processes did not end within {seconds:g} seconds"

    def _gone(self, member: _Member) -> None:
        member.process.join(LONGEST)
        member.pipe.close()
        self._members.remove(member)


def trampled(
    make: Callable[[random.Random], Errand], *, processes: int, kills: int, seconds: float, seed: int
) -> Crowd:
    """So many processes at once, of whom one after the other is killed and replaced; bounded in kills and time.

    Between two kills somebody is told something, if that does not take too long.
    """
    rng, crowd = random.Random(seed), Crowd()
    until = time.monotonic() + seconds
    try:
        while crowd.kills < kills and time.monotonic() < until:
            while crowd.size < processes:
                crowd.start(make(rng))
            said, pause = len(crowd.told), time.monotonic() + rng.expovariate(1 / PAUSE)
            while (left := pause - time.monotonic()) > 0 or (len(crowd.told) == said and left > -PATIENCE):
                crowd.listen(max(left, 0.01))
            if crowd.size:
                crowd.kill(rng)
    finally:
        crowd.end()
    return crowd


def together(asks: Sequence[Errand]) -> Crowd:
    """Several processes at once, each to its end."""
    crowd = Crowd()
    try:
        for ask in asks:
            crowd.start(ask)
        crowd.finish()
    finally:
        crowd.end()
    assert not crowd.failed, crowd.failed[0]
    return crowd
