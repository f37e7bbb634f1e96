"""A book on disk: one SQLite file, append-only, hash-chained; what it says is durable before anybody is told."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keyhole.book.chain import BookEntry, Mark
from keyhole.book.state import BookState
from keyhole.book.storage import (
    FAULTS,
    LAYOUT,
    TABLES,
    Witness,
    connect,
    copy_database,
    create_file,
    explain_failure,
    has_book,
    identify_file,
)
from keyhole.errors import BookError

BLOCK = 4096  # an entry with an answer takes whole blocks, so that whether it fits does not depend on the answer
MEMORY = ":memory:"  # the path of a book that was never a file
FIELDS = "seq, prev, hash, at, kind, epoch, analyst, body"


class Book:
    """An open book. Everything that changes it happens on a page: `with book.page(): ...`, one at a time.

    A page is one transaction (WAL, synchronous=FULL, BEGIN IMMEDIATE): other processes queue, what was written on it
    is on disk and seen by the witness when the block ends, and a block that fails leaves nothing. Opening checks the
    whole chain, the totals and the witness. Cost: one commit for a page with entries; a pass over all entries to open.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "book.keyhole"
    >>> with Book.open(path, "staff") as book, book.page():
    ...     entry = book.append(Mark.CHARGE, {"amount": "1/10", "delta": "0", "what": "a question"})
    >>> with Book.open(path) as book:
    ...     book.state.seq, book.state.population, str(book.state.spent("*")[0])
    (2, 'staff', '1/10')
    """

    def __init__(self, path: str, db: sqlite3.Connection, witness: Witness | None = None) -> None:
        self.path, self._db, self._witness = path, db, witness
        self._place = identify_file(path)
        self.name = path  # what whoever opened it calls it
        self.lock = threading.RLock()  # one question at a time among threads; among processes a page sees to it
        self._depth = self._begun_at = 0
        self._changed = False  # was a sealed state changed on this page?
        self.state = BookState()
        self.new = self._closed = False
        self.kept = True  # a rehearsal is not

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls, path: str | Path, population: str | None = None, *, witness: Path | None = None, begun: bool = False
    ) -> Book:
        """Go on with a book, or begin one for a population (`new` says which).

        Refused if it is damaged, or older than its witness; if there is none (or an empty file) and the witness, or
        `begun`, or the lack of a population says that there was one.
        """
        if not has_book(path, witness, begun=begun or population is None):
            create_file(path)
        book = cls(str(path), connect(path), Witness(witness) if witness else None)
        try:
            with book.page():  # behind whoever is beginning it
                blank = book._db.execute("SELECT 1 FROM sqlite_master").fetchone() is None
                book.new = population is not None and blank
                if book.new:
                    book._begin(str(population))
                else:
                    book._check()
                book._refuse_lost_witness()
            book._add_to_witness()
        except BaseException:
            book.close()
            raise
        return book

    @classmethod
    def rehearsal(
        cls, path: str | Path | None, population: str = "", *, witness: Path | None = None, begun: bool = False
    ) -> Book:
        """A copy in memory of the book at `path` (an empty one if there is none): whatever is done, nothing is kept.
        Refused where `open` refuses.

        >>> with Book.rehearsal(None, "staff") as book:
        ...     book.state.population
        'staff'
        """
        copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        book = cls(MEMORY if path is None else str(path), copy)
        book.kept = False
        try:
            if path is None or not has_book(path, witness, begun=begun):
                with book.page():
                    book._begin(population)
                return book
            copy_database(path, copy)
            book._witness = Witness(witness) if witness else None
            book._check()
            book._witness = None  # it saw nothing of what is rehearsed
        except BaseException:
            book.close()
            raise
        return book

    def _begin(self, population: str) -> None:
        for statement in TABLES:
            self._db.execute(statement)
        self._db.execute("INSERT INTO about VALUES ('layout', ?)", (LAYOUT,))
        self.append(Mark.OPEN, {"population": population})

    def _has_witness(self) -> bool:
        return self._db.execute("SELECT 1 FROM about WHERE key = 'witness'").fetchone() is not None

    def _refuse_lost_witness(self) -> None:
        """A book that had a witness is not gone on with when that file is gone: an older copy would not be noticed."""
        if self._witness is not None and self._has_witness() and self._witness.read() is None:
            raise BookError(
                f"the book {self.path} has a witness, and {self._witness.path} is missing or empty, so nobody can say "
                "whether this copy is the latest: restore the witness, or give the path where it is"
            )

    def _add_to_witness(self) -> None:
        """First the file, then the word in the book: nobody who opens or dies in between finds a witness missing."""
        if self._witness is None or self._has_witness():
            return
        with self.page():
            last = self.state.last
            assert last is not None
            self._witness.write(last.seq, last.hash)
            if not self._has_witness():
                self._run("INSERT INTO about VALUES ('witness', 'yes')", ())
                self._changed = True

    def _check(self) -> None:
        """The chain is whole, the totals are what it adds up to, nothing that the witness saw is missing."""
        try:
            layout = self._db.execute("SELECT value FROM about WHERE key = 'layout'").fetchone()
            totals = {who: (amount, delta) for who, amount, delta in self._db.execute("SELECT * FROM total")}
            sealed = {(e, n): g for e, n, g in self._db.execute("SELECT epoch, name, generation FROM sealed")}
        except FAULTS as error:
            raise explain_failure(self.path, error) from None
        if layout is None or layout[0] != LAYOUT:
            raise BookError(f"{self.path} has the layout {layout and layout[0]!r}, this program reads {LAYOUT!r}")
        state = BookState()  # believed only when all of it was checked
        before: BookEntry | None = None
        seen = self._witness.read() if self._witness is not None else None
        for entry in self.entries():
            self._check_link(entry, before)
            if seen is not None and seen[0] == entry.seq and seen[1] == entry.hash:
                seen = None
            state.take(entry)
            before = entry
        if seen is not None or before is None:
            known = f"its witness has seen entry {seen[0]}" if seen is not None else "it has no entry"
            raise BookError(
                f"the book {self.path} is older than what was answered, or another one: {known} and it has "
                f"{state.seq}. Restore the latest copy; nothing is answered from an older one"
            )
        if totals != {who: (str(a), str(d)) for who, (a, d) in state.totals.items()} or sealed != state.runs:
            raise BookError(f"the totals of the book {self.path} are not what its entries add up to: restore a backup")
        self.state = state

    # --- pages --------------------------------------------------------------------------------------------------------

    @contextmanager
    def page(self) -> Iterator[Self]:
        """One transaction; nested pages are one. What other processes wrote meanwhile is in `state` when it begins."""
        with self.lock:
            if self._depth == 0:
                self._begin_transaction()
            self._depth += 1
            try:
                yield self
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._roll_back()
                raise
            self._depth -= 1
            if self._depth == 0:
                self._commit()

    def append(self, kind: Mark, body: dict[str, Any], *, analyst: str | None = None, room: int = 0) -> BookEntry:
        """Write one entry on the open page. `room` is what its answer may take at most, known before it was made."""
        assert self._depth > 0, "entries are written on a page"
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        size = -(-room // BLOCK) * BLOCK
        epoch = self.state.epoch + (kind is Mark.EPOCH)
        entry = BookEntry.after(self.state.last, kind, body, at=at, epoch=epoch, analyst=analyst, size=size)
        values = (entry.seq, entry.prev, entry.hash, entry.at, entry.kind, entry.epoch, entry.analyst)
        self._run("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, entry.text))
        before = dict(self.state.totals)
        self.state.take(entry)
        for who, (amount, delta) in self.state.totals.items():
            if before.get(who) != (amount, delta):
                self._run("INSERT OR REPLACE INTO total VALUES (?, ?, ?)", (who, str(amount), str(delta)))
        return entry

    def _check_link(self, entry: BookEntry, before: BookEntry | None) -> None:
        if not entry.is_whole() or not entry.follows(before):
            raise BookError(f"the book {self.path} is damaged at entry {entry.seq}: restore it from a backup")

    def check_epoch(self, epoch: int) -> None:
        """Refuse to go on if another process has opened the next epoch: the data at hand is that of an earlier one."""
        if self.state.epoch != epoch:
            raise BookError(
                f"the book {self.path} has gone on to another version of the data: start again with that one"
            )

    def note_refusal(self, sql: str, verdict: str, reason: str, analyst: str | None = None) -> None:
        """Note what was not answered: a log without chain that decides nothing."""
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with self.page():
            self._run("INSERT INTO asked VALUES (?, ?, ?, ?, ?)", (at, analyst, sql, verdict, reason))
            self._changed = True

    def entry(self, seq: int) -> BookEntry:
        """One entry."""
        row = self._db.execute(f"SELECT {FIELDS} FROM entry WHERE seq = ?", (seq,)).fetchone()
        return BookEntry(*row)

    def receipt(self, seq: int) -> str:
        """The digest of one entry: whoever has it can show that the entry was there."""
        (mark,) = self._db.execute("SELECT hash FROM entry WHERE seq = ?", (seq,)).fetchone()
        return str(mark)

    def has(self, seq: int, mark: str) -> bool:
        """Is this entry in the book, with this digest?"""
        return self._db.execute("SELECT 1 FROM entry WHERE seq = ? AND hash = ?", (seq, mark)).fetchone() is not None

    def entries(self, after: int = 0) -> Iterator[BookEntry]:
        """The entries behind number `after`, in order."""
        try:
            for row in self._db.execute(f"SELECT {FIELDS} FROM entry WHERE seq > ? ORDER BY seq", (after,)):
                yield BookEntry(*row)
        except FAULTS as error:
            raise explain_failure(self.path, error) from None

    def refusals(self) -> list[tuple[str, str | None, str, str, str]]:
        """What was asked and not answered: (time, analyst, statement, verdict, reason)."""
        return self._db.execute("SELECT at, analyst, sql, verdict, reason FROM asked ORDER BY rowid").fetchall()

    # --- sealed state -------------------------------------------------------------------------------------------------

    def unseal(self, name: str) -> tuple[int, str] | None:
        """The secret fields of this name in this epoch, and how often they were saved; for mechanisms alone."""
        found: tuple[int, str] | None = self._db.execute(
            "SELECT generation, fields FROM sealed WHERE epoch = ? AND name = ?", (self.state.epoch, name)
        ).fetchone()
        return found

    def unseal_state(self, name: str) -> bytes:
        """The large part of the same."""
        key = (self.state.epoch, name)
        (state,) = self._db.execute("SELECT state FROM sealed WHERE epoch = ? AND name = ?", key).fetchone()
        return bytes(state)

    def seal(self, name: str, generation: int, fields: str, state: bytes | None) -> None:
        """Keep a secret state; `state` None leaves what is there. The entry of its release names the generation."""
        key = (self.state.epoch, name)
        if state is None:
            self._run(
                "UPDATE sealed SET generation = ?, fields = ? WHERE epoch = ? AND name = ?", (generation, fields, *key)
            )
        else:
            self._run("INSERT OR REPLACE INTO sealed VALUES (?, ?, ?, ?, ?)", (*key, generation, fields, state))

    # --- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the file; nothing is pending."""
        self._closed = True
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- SQLite -------------------------------------------------------------------------------------------------------

    def _begin_transaction(self) -> None:
        """Wait for this process's turn, and read what others wrote before it."""
        if self._closed:
            raise BookError(f"the book {self.path} is closed: open the session again")
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except FAULTS as error:
            raise explain_failure(self.path, error) from None
        try:
            if self.state.last is not None:
                self._catch_up(self.state.last)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._begun_at, self._changed = self.state.seq, False
        self.state.begin()

    def _catch_up(self, last: BookEntry) -> None:
        """Take in what others wrote. A file that was put in another's place is not gone on with."""
        moved = self.kept and identify_file(self.path) != self._place
        if moved or not self.has(last.seq, last.hash):
            raise BookError(
                f"the book {self.path} was replaced while it was open, or is older than what was answered: restore the "
                "latest copy, and start again"
            )
        for entry in self.entries(last.seq):
            self._check_link(entry, self.state.last)
            self.state.take(entry)

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self.state.take_back()

    def _commit(self) -> None:
        last = self.state.last
        if self.state.seq == self._begun_at and not self._changed:
            self._db.execute("ROLLBACK")
            return
        try:
            self._db.execute("COMMIT")
        except FAULTS as error:
            self._roll_back()
            raise explain_failure(self.path, error) from None
        self.state.keep()
        if self._witness is not None and last is not None:
            self._witness.write(last.seq, last.hash)

    def _run(self, text: str, values: tuple[object, ...]) -> None:
        try:
            self._db.execute(text, values)
        except FAULTS as error:
            raise explain_failure(self.path, error) from None
