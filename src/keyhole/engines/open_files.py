"""What is open: whether another process writes a file, and until when a run's own connections stay open."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol, TypeVar
from weakref import WeakSet


def written_elsewhere(path: Path) -> bool:
    """Does another process have this file open for writing? Only Linux tells, by refusing a lease for reading.

    What this process has open itself does not count: it knows what it wrote. Where it cannot be told, False. Cost: one
    system call, and a look at the open files of this process.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as mine:
    ...     written_elsewhere(Path(mine.name))
    False
    """
    if sys.platform != "linux":
        return False
    import fcntl

    with path.open("rb") as file:
        try:
            fcntl.fcntl(
                file, fcntl.F_SETSIG, signal.SIGURG
            )  # who opens it meanwhile: told by a signal that nobody heeds
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN and not _is_ours(path)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _is_ours(path: Path) -> bool:
    """Does this process itself have it open for writing? Then it knows what it wrote."""
    wanted = path.stat()
    for opened in Path("/proc/self/fd").iterdir():
        try:
            seen, flags_text = opened.stat(), Path("/proc/self/fdinfo", opened.name).read_text(encoding="ascii")
        except OSError:
            continue
        flags = next(
            (int(line.split()[1], 8) for line in flags_text.splitlines() if line.startswith("flags:")), os.O_RDONLY
        )
        if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino) and flags & os.O_ACCMODE != os.O_RDONLY:
            return True
    return False


class Closable(Protocol):
    """Something that is open: a connection, a file."""

    def close(self) -> None:
        """Let go of it."""


T = TypeVar("T", bound=Closable)


class Lifetime:
    """Closes what was given to it, the last first: when it is closed, when nobody has it any more, or at a run's end.

    >>> import io
    >>> life, file = Lifetime(), io.StringIO()
    >>> life.closes(file).closed, life.close(), file.closed
    (False, None, True)
    """

    def __init__(self) -> None:
        self._opened = ExitStack()
        self.lock = threading.RLock()  # a connection has one result at a time: threads take turns
        run = _run.get()
        if run is not None:
            run.add(self)

    def closes(self, opened: T) -> T:
        """Take over what was opened."""
        self._opened.callback(opened.close)
        return opened

    def close(self) -> None:
        """Close all of it; a second time nothing is left."""
        self._opened.close()

    def __del__(self) -> None:
        self.close()


_run: ContextVar[WeakSet[Lifetime] | None] = ContextVar("run", default=None)


@contextmanager
def run_closing_all() -> Iterator[None]:
    """A run at whose end every lifetime that began in it has ended, also on errors.

    >>> import io
    >>> file = io.StringIO()
    >>> with run_closing_all():
    ...     life = Lifetime()
    ...     opened = life.closes(file)
    >>> file.closed
    True
    """
    begun: WeakSet[Lifetime] = WeakSet()
    before = _run.set(begun)
    try:
        yield
    finally:
        _run.reset(before)
        for life in list(begun):
            life.close()
