"""The two files of a book: SQLite, which holds it, and the witness, which knows its last entry.

The witness is kept elsewhere: an older copy of the book does not know the entry that the witness saw.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from keyhole.errors import BookError, ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

FAULTS = (sqlite3.Error, UnicodeDecodeError)  # a damaged file may name its own parts in bytes that are no text
LAYOUT = "keyhole book 1"
WITNESS_BYTES = 96  # a number, a blank, 64 hex digits, blanks, the end of the line
WAIT = 60.0  # seconds in the queue for another process that is asking
ENTRY = "seq INTEGER PRIMARY KEY, prev TEXT NOT NULL, hash TEXT NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL"
SEALED = "epoch INTEGER, name TEXT, generation INTEGER NOT NULL, fields TEXT NOT NULL, state BLOB NOT NULL"
ASKED = "at TEXT NOT NULL, analyst TEXT, sql TEXT NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL"
KEPT = "BEGIN SELECT RAISE(ABORT, 'a book is append-only'); END"
TABLES = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    f"CREATE TABLE entry ({ENTRY}, epoch INTEGER NOT NULL, analyst TEXT, body TEXT NOT NULL)",
    f"CREATE TRIGGER entry_kept BEFORE DELETE ON entry {KEPT}",
    f"CREATE TRIGGER entry_unchanged BEFORE UPDATE ON entry {KEPT}",
    "CREATE TABLE total (account TEXT PRIMARY KEY, amount TEXT NOT NULL, delta TEXT NOT NULL) WITHOUT ROWID",
    f"CREATE TABLE sealed ({SEALED}, PRIMARY KEY (epoch, name))",
    f"CREATE TABLE asked ({ASKED})",
)


def create_file(path: str | Path) -> None:
    """An empty file for the custodian alone."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise BookError(f"the book {path} cannot be begun: {error.strerror}") from None


def connect(path: str | Path) -> sqlite3.Connection:
    """The file, open for writing: what was committed survives a crash of the machine."""
    try:
        db = sqlite3.connect(
            f"{Path(path).resolve().as_uri()}?mode=rw",
            uri=True,
            timeout=WAIT,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _execute_patiently(db, "PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
        except BaseException:
            db.close()
            raise
    except FAULTS as error:
        raise explain_failure(path, error) from None
    return db


def identify_file(path: str | Path) -> tuple[int, int] | None:
    """Which file is it, whatever its name? None: there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _execute_patiently(db: sqlite3.Connection, text: str) -> None:
    """Run what SQLite refuses at once while another process begins the same file, instead of waiting for it."""
    until = time.monotonic() + WAIT
    while True:
        try:
            db.execute(text)
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > until:
                raise
        time.sleep(0.02)


@contextmanager
def open_for_reading(path: str | Path) -> Iterator[sqlite3.Connection]:
    """A SQLite file, open to be read; the file and its folder stay as they are.

    One that nobody has open is all there is, and may stand where nothing can be written. Else its journal is read too.
    """
    how = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    db = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro{how}", uri=True, timeout=WAIT)
    try:
        yield db
    finally:
        db.close()


def copy_database(path: str | Path, copy: sqlite3.Connection) -> None:
    """Everything that was committed to the file, into another database."""
    journal = Path(f"{path}-wal")
    try:
        alone = not journal.exists()
        with open_for_reading(path) as origin:
            origin.backup(copy)
        if alone and journal.exists():  # somebody came in between
            with open_for_reading(path) as origin:
                origin.backup(copy)
    except FAULTS as error:
        raise explain_failure(path, error) from None


CURES = {
    sqlite3.SQLITE_FULL: "the disk is full: make room and ask again",
    sqlite3.SQLITE_READONLY: "it may not be written: mend the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: is the path right, and the folder writable?",
    sqlite3.SQLITE_NOTADB: "it is no book: give another path, or restore it from a backup",
    sqlite3.SQLITE_CORRUPT: "it is damaged: restore it from a backup",
    sqlite3.SQLITE_BUSY: "another process holds it for too long: try again when that has ended",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written: mend that first",
}


def explain_failure(path: str | Path, error: Exception) -> BookError:
    """One clear sentence for what SQLite says."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # no code: no text, and it would show it
    what = CURES.get(code, str(error))
    return BookError(f"the book {path}: {what}. Nothing was answered or spent")


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
        line = f"{seq} {mark}".ljust(WITNESS_BYTES - 1) + "\n"
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


def has_book(path: str | Path, witness: Path | None, *, begun: bool) -> bool:
    """Is there a book at `path`? Refused if there is none (or an empty file) and the witness, or `begun`, knows one.

    >>> has_book("no such file", None, begun=False)
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
