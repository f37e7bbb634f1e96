"""Who else has a file open: whether its last line may be half of one."""

from __future__ import annotations

import errno
import sys
from pathlib import Path


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
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN and not _is_ours(path)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _is_ours(path: Path) -> bool:
    """Is it this process that has it open, besides the look at it? Then it knows what it wrote."""
    wanted, found = path.stat(), 0
    for opened in Path("/proc/self/fd").iterdir():
        try:
            seen = opened.stat()
        except OSError:
            continue
        found += (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino)
    return found > 1
