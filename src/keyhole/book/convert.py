"""Older files into a book: the history of `watch` (JSON lines) and the ledger of `answer` (SQLite), once, in place.

The old copy is kept aside. Everything that was answered counts as before, everything that was spent stays spent.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keyhole.book.book import Book
from keyhole.book.chain import Mark
from keyhole.book.file import FAULTS, reading
from keyhole.book.history import read_history
from keyhole.book.ledger import fill_from_ledger
from keyhole.book.state import PUBLIC
from keyhole.errors import BookError

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

SQLITE = b"SQLite format 3\x00"
HISTORY = b'{"keyhole": "history"'
ASIDE = ".before-book"


def converted(path: Path, population: str, *, dry_run: bool = False) -> Book | None:
    """Convert the file at `path` if it is an older one; a dry run gives the book in memory and leaves the file alone.

    >>> converted(Path("no such file"), "staff") is None
    True
    """
    if not _older(path):
        return None
    if dry_run:
        book = Book.rehearsal(None, population)
        try:
            _fill(book, path)
        except BaseException:
            book.close()
            raise
        book.path = str(path)  # whose key is there
        return book
    with _alone(path):
        if not _older(path):  # another process was faster
            return None
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".keyhole-") as folder:
            made = Path(folder) / path.name
            with Book.open(made, population) as book:
                _fill(book, path)
            os.link(path, _aside(path))
            Path(made).replace(path)
    return None


def taken_in(book: Book, path: Path) -> None:
    """Take an older history or ledger into a book that goes on; the same file twice is refused."""
    if not _older(path):
        raise BookError(f"{path} is no history or ledger of an earlier version")
    with _alone(path):
        _fill(book, path)


def _fill(book: Book, path: Path) -> None:
    with book.page():
        if _starts(path, HISTORY):
            _fill_from_history(book, path)
        else:
            try:
                with reading(path) as db:
                    fill_from_ledger(book, db)
            except FAULTS as error:
                raise BookError(f"the ledger {path} cannot be read: {error}") from None


def _fill_from_history(book: Book, path: Path) -> None:
    old = read_history(path)
    if book.state.epoch:
        raise BookError(
            f"the book {book.path} has epochs already, and the history {path} has its own: convert the history where "
            "it stands, and take the other file into it"
        )
    book.append(Mark.EPOCH, {"version": old.version})
    digests = {PUBLIC: old.fingerprint}
    book.append(Mark.DATA, digests | {f"private values of {name!r}": mark for name, mark in old.values.items()})
    kinds = {"answered": Mark.ANSWER, "published": Mark.PUBLISHED, "unjudged": Mark.UNJUDGED}
    for fields in old.past:
        book.append(kinds[fields["how"]], {k: v for k, v in fields.items() if k != "how"})


def _older(path: Path) -> bool:
    if _starts(path, HISTORY):
        return True
    if not _starts(path, SQLITE):
        return False
    try:
        with reading(path) as db:
            names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    except FAULTS:
        return False  # opening it says what is wrong
    return {"charges", "totals"} <= names and "entry" not in names


def _starts(path: Path, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError:
        return False


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else converts or uses the older file meanwhile."""
    name = Path(f"{path}.lock")
    lock = _locked(name)
    try:
        if _older(path):
            _unused(path)
        yield
    finally:
        name.unlink(missing_ok=True)  # while it is held
        os.close(lock)


def _locked(name: Path) -> int:
    """The lock file, held: the one that is there, not one that whoever held it before has just removed."""
    while True:
        lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is None:  # pragma: no cover - see above
            return lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        if name.exists() and os.fstat(lock).st_ino == name.stat().st_ino:
            return lock
        os.close(lock)


def _unused(path: Path) -> None:
    """Refuse a file that another process still works with."""
    try:
        if _starts(path, SQLITE):
            db = sqlite3.connect(path, timeout=5, isolation_level=None)
            try:
                (mode,) = db.execute("PRAGMA journal_mode=DELETE").fetchone()  # one file, which nobody else has open
                used = mode != "delete"
            finally:
                db.close()
        else:
            handle = os.open(path, os.O_RDWR)
            try:
                used = False
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(handle)
    except (*FAULTS, OSError):
        used = True
    if used:
        raise BookError(f"{path} is in use, so it is not converted now: try again when the other process has ended")


def _aside(path: Path) -> Path:
    for number in range(1000):
        found = path.with_name(f"{path.name}{ASIDE}{number or ''}")
        if not found.exists():
            return found
    raise BookError(f"there are too many old copies beside {path}")
