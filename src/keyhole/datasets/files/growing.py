"""A file that is written to while it is read: a snapshot of it, or an error; never half a row taken for data.

A file that changed between the first and the last look is refused, whatever was read of it. So is a text whose last
line has no end while a process has it open for writing: its last row may be half of one.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from keyhole.engines.engine import is_url
from keyhole.errors import DataError

State: TypeAlias = tuple[int, int, int]  # inode, bytes, time of the last change
TABLES = (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".xlsx")  # what of a folder is a table
_NO_TEXT = (".parquet", ".duckdb", ".db", ".xlsx", ".gz")


@contextmanager
def require_unchanged(data: object) -> Iterator[None]:
    """What is read in here is one state of the data, or `DataError` is raised. Cost: a look at each file, twice.

    Guarantee: the files' sizes, inodes and times of change are the same before and after; on Linux no text without an
    end of its last line is open for writing. An error inside is told as such only if the files did not change.
    """
    files = _files(data)
    before = {path: _state(path) for path in files}
    for path in files:
        if _lacks_an_end(path) and written_elsewhere(path):
            raise DataError.of_file(
                f"{path.name} is being written by another program, and its last line has no end: its last row may be "
                "half of one. Wait until it is complete, or give a copy"
            )
    failed: Exception | None = None
    try:
        yield
    except Exception as error:  # of what was read: told again below, if it was one state
        failed = error
    changed = [path for path, state in before.items() if _state(path) != state]
    if changed:
        raise DataError.of_file(
            f"{changed[0].name} changed while it was read, so nothing is said of it: wait until it is complete, or "
            "give a copy"
        ) from None
    if failed is not None:
        raise failed


def _files(data: object) -> list[Path]:
    if not isinstance(data, str | Path) or is_url(data):
        return []
    path = Path(data)
    if path.is_dir():
        return [p for p in sorted(path.iterdir()) if p.is_file() and p.suffix.lower() in TABLES]
    return [path] if path.is_file() else []


def _state(path: Path) -> State | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _lacks_an_end(path: Path) -> bool:
    """Is it a text whose last line has no end?"""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() in _NO_TEXT or not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) not in (b"\n", b"\r")
    except OSError:
        return False


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
