"""A book in one SQLite file: for one machine, whose processes queue at it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from keyhole.book.store import COPIED, WAIT, Row, Store, refuse_network_file
from keyhole.errors import BookError

FAULTS = (sqlite3.Error, UnicodeDecodeError)  # a damaged file may name its own parts in bytes that are no text
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


class SqliteStore(Store):
    """WAL, synchronous=FULL, BEGIN IMMEDIATE: what was committed survives a crash of the machine.

    `path` None: a copy in memory, for a rehearsal.
    """

    order = "rowid"
    shared = False

    def __init__(self, path: str, db: sqlite3.Connection, *, is_file: bool) -> None:
        self.path, self.db, self._is_file = path, db, is_file
        self._place = identify_file(path)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The file, open for writing."""
        return cls(str(path), connect(path), is_file=True)

    @classmethod
    def in_memory(cls, path: str) -> Self:
        """Nothing of it is kept."""
        return cls(path, sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False), is_file=False)

    def reach(self) -> None:
        """A file that is open can be asked."""

    def begin(self) -> None:
        """Wait for this process's turn."""
        self.run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """On disk when it returns."""
        self.run("COMMIT")

    def roll_back(self) -> None:
        """Nothing of this turn stays."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def run(self, text: str, values: Row = ()) -> list[Row]:
        """One statement."""
        try:
            return self.db.execute(text, values).fetchall()
        except FAULTS as error:
            raise explain_failure(self.path, error) from None

    def is_blank(self) -> bool:
        """An empty file has no tables."""
        return not self.run("SELECT 1 FROM sqlite_master")

    def create(self) -> None:
        """Its tables."""
        for statement in TABLES:
            self.run(statement)

    def was_replaced(self) -> bool:
        """A file that was put in another's place has another inode."""
        return self._is_file and identify_file(self.path) != self._place

    def copy_from(self, origin: Store) -> None:
        """Everything that was committed to another store."""
        self.create()
        for table, (columns, order) in COPIED.items():
            marks = ", ".join("?" * (columns.count(",") + 1))
            for row in origin.run(f"SELECT {columns} FROM {table} ORDER BY {order}"):
                self.run(f"INSERT INTO {table} ({columns}) VALUES ({marks})", row)

    def close(self) -> None:
        """Let go of the file."""
        self.db.close()


def create_file(path: str | Path) -> None:
    """An empty file for the custodian alone."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise BookError(f"the book {path} cannot be begun: {error.strerror}") from None


def connect(path: str | Path) -> sqlite3.Connection:
    """The file, open for writing: what was committed survives a crash of the machine."""
    refuse_network_file(Path(path))
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
