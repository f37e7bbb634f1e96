"""The last entry of a book, kept elsewhere: an older copy of the book does not know it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from keyhole.errors import BookError, ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

WIDTH = 96  # bytes: a number, a blank, 64 hex digits, blanks, the end of the line


@dataclass(frozen=True, slots=True)
class Witness:
    """A file outside the book's own backup: number and digest of its last entry, written before anything is shown.

    >>> import tempfile
    >>> witness = Witness(Path(tempfile.mkdtemp()) / "witness")
    >>> witness.read(), witness.write(3, "ab" * 32), witness.read() == (3, "ab" * 32)
    (None, None, True)
    """

    path: Path

    def read(self) -> tuple[int, str] | None:
        """What it saw last; None if it was never written."""
        try:
            text = self.path.read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the witness {self.path} cannot be read: {error}") from None
        words = text.split()
        if not words:
            return None
        if len(words) != 2 or not words[0].isdigit() or len(words[1]) != 64:
            raise ConfigError(f"{self.path} is not the witness of a book, or it is damaged: restore it from a backup")
        return int(words[0]), words[1]

    def write(self, seq: int, mark: str) -> None:
        """On disk when it returns, unless it has seen a later entry. One block is overwritten in place: its old or its
        new content survives a crash.
        """
        line = f"{seq} {mark}".ljust(WIDTH - 1) + "\n"
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if fcntl is not None:  # two processes may come here in another order than they committed
                    fcntl.flock(handle, fcntl.LOCK_EX)
                seen = self.read()
                if seen is None or seen[0] < seq:
                    os.pwrite(handle, line.encode("ascii"), 0)
                    os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise ConfigError(
                f"the witness {self.path} cannot be written ({error.strerror}), so nothing is shown: mend that first. "
                "What was asked is in the book and is not charged again"
            ) from None


def there(path: str | Path, witness: Path | None, *, begun: bool) -> bool:
    """Is there a book at `path`? Refused if there is none (or an empty file) and the witness, or `begun`, knows one.

    >>> there("no such file", None, begun=False)
    False
    """
    if witness is not None and not witness.resolve().parent.is_dir():
        raise BookError(f"the witness {witness} cannot be kept: there is no folder {witness.parent}. Make it first")
    seen = Witness(witness).read() if witness else None  # before the book is looked at: it is written after it
    if Path(path).exists() and Path(path).stat().st_size > 0:
        return True
    if seen is not None:
        raise BookError(
            f"the witness {witness} knows a book with {seen[0]} entries, and there is none at {path}: restore "
            "the book from a backup. To begin another for other people, give it a witness of its own"
        )
    if begun:
        raise BookError(
            f"there is no book at {path}, and there should be one: restore it from a backup. What was answered and "
            "spent still counts"
        )
    return False
