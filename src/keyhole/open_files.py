"""Who else has a file open: whether its last line may be half of one."""

from __future__ import annotations

import errno
import os
import signal
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
            seen, told = opened.stat(), Path("/proc/self/fdinfo", opened.name).read_text(encoding="ascii")
        except OSError:
            continue
        flags = next((int(line.split()[1], 8) for line in told.splitlines() if line.startswith("flags:")), os.O_RDONLY)
        if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino) and flags & os.O_ACCMODE != os.O_RDONLY:
            return True
    return False
