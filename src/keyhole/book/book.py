"""A book in its store: append-only, hash-chained; what it says is durable before anybody is told."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keyhole.book.chain import BookEntry, Mark
from keyhole.book.sqlite_store import SqliteStore, copy_database, create_file
from keyhole.book.state import BookState
from keyhole.book.store import LAYOUT, Store, Witness, is_in_postgres, refuse_vanished
from keyhole.errors import BookError

BLOCK = 4096  # an entry with an answer takes whole blocks, so that whether it fits does not depend on the answer
MEMORY = ":memory:"  # the path of a book that was never a file


class Book:
    """An open book. Everything that changes it happens on a page: `with book.page(): ...`, one at a time.

    A page is one transaction: other processes queue, what was written on it is on disk and seen by the witness when the
    block ends, and a block that fails leaves nothing. Opening checks the whole chain, the totals and the witness. Cost:
    one commit for a page with entries; a pass over all entries to open. A book is a file, or a schema of PostgreSQL
    that several gateways share: then each of them has a witness.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "book.keyhole"
    >>> with Book.open(path, "staff") as book, book.page():
    ...     entry = book.append(Mark.CHARGE, {"amount": "1/10", "delta": "0", "what": "a question"})
    >>> with Book.open(path) as book:
    ...     book.state.seq, book.state.population, str(book.state.spent("*")[0])
    (2, 'staff', '1/10')
    """

    def __init__(self, path: str, store: Store, witness: Witness | None = None) -> None:
        self.path, self.store, self.witness = path, store, witness
        self.name = path  # what whoever opened it calls it
        self.key = Path(f"{path}.key")  # the file of the key that binds it to the values
        self.lock = threading.RLock()  # one question at a time among threads; among processes a page sees to it
        self._depth = self._begun_at = 0
        self._changed = False  # was a sealed state changed on this page?
        self.state = BookState()
        self.new = self._closed = False
        self.kept = True  # a rehearsal is not

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | Path,
        population: str | None = None,
        *,
        witness: Path | None = None,
        begun: bool = False,
        adopt: str | None = None,
    ) -> Book:
        """Go on with a book, or begin one for a population (`new` says which).

        Refused if it is damaged, or older than its witness; if there is none (or an empty file) and the witness, or
        `begun`, or the lack of a population says that there was one. `adopt` is the digest of the latest entry, as its
        owner read it elsewhere: with it a gateway begins a witness of its own.
        """
        begun = begun or population is None
        if is_in_postgres(path) and witness is None:
            raise BookError(f"the book {path} is in PostgreSQL: give this gateway a file, witness = ... under [book]")
        store = _open_store(path, witness, begun=begun)
        book = cls(str(path), store, Witness(witness) if witness else None)
        try:
            with book.page():  # behind whoever is beginning it
                book.new = population is not None and store.is_blank()
                if book.new:
                    book._begin(str(population))
                else:
                    book._check(adopt)
                    book._refuse_lost_witness(adopt)
            book._add_to_witness(adopt)
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
        name = MEMORY if path is None else str(path)
        copy = SqliteStore.in_memory(name)
        book = cls(name, copy)
        book.kept = False
        try:
            if path is None or not _copy_store(path, copy, witness, begun=begun):
                with book.page():
                    book._begin(population)
                return book
            book.witness = Witness(witness) if witness else None
            book._check()
            book.witness = None  # it saw nothing of what is rehearsed
        except BaseException:
            book.close()
            raise
        return book

    def _begin(self, population: str) -> None:
        self.store.create()
        self.store.set_remark("layout", LAYOUT)
        self.append(Mark.OPEN, {"population": population})

    def _has_witness(self) -> bool:
        return self.store.get_remark("witness") is not None

    def _refuse_lost_witness(self, adopt: str | None) -> None:
        """A book that had a witness is not gone on with when that file is gone: an older copy would not be noticed."""
        if self.witness is None or adopt is not None or self.witness.read() is not None:
            return
        if self.store.shared or self._has_witness():
            raise BookError(
                f"the book {self.path} has a witness, and {self.witness.path} is missing or empty, so nobody can say "
                "whether this copy is the latest: restore the witness, or give the path where it is. For another "
                "gateway read the digest of the last entry where the book is in use, and run keyhole book adopt"
            )

    def _add_to_witness(self, adopt: str | None) -> None:
        """First the file, then the word in the book: nobody who opens or dies in between finds a witness missing."""
        if self.witness is None or (self._has_witness() and adopt is None and self.witness.read() is not None):
            return
        with self.page():
            last = self.state.last
            assert last is not None
            self.witness.write(last.seq, last.hash)
            if not self._has_witness():
                self.store.set_remark("witness", "yes")
                self._changed = True

    def _check(self, adopt: str | None = None) -> None:
        """The chain is whole, the totals are what it adds up to, nothing that the witness saw is missing."""
        layout, totals, sealed = self.store.get_remark("layout"), self.store.list_totals(), self.store.list_runs()
        if layout != LAYOUT:
            raise BookError(f"{self.path} has the layout {layout!r}, this program reads {LAYOUT!r}")
        state = BookState()  # believed only when all of it was checked
        before: BookEntry | None = None
        seen = self.witness.read() if self.witness is not None else None
        for entry in self.entries():
            self._check_link(entry, before)
            if seen is not None and seen[0] == entry.seq and seen[1] == entry.hash:
                seen = None
            adopt = None if adopt == entry.hash else adopt
            state.take(entry)
            before = entry
        if seen is not None or before is None:
            known = f"its witness has seen entry {seen[0]}" if seen is not None else "it has no entry"
            raise BookError(
                f"the book {self.path} is older than what was answered, or another one: {known} and it has "
                f"{state.seq}. Restore the latest copy; nothing is answered from an older one"
            )
        if adopt is not None:
            raise BookError(
                f"the book {self.path} has no entry with the digest {adopt}, so it is older than the one where the "
                "digest was read, or another one: nothing is answered from it"
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

    def look(self) -> None:
        """What others wrote is in `state` when it returns. Nobody is waited for: nothing may be decided or written."""
        if self._closed:
            raise BookError(f"the book {self.path} is closed: open the session again")
        if self._depth == 0 and self.state.last is not None:
            self.store.reach()
            self._catch_up(self.state.last)

    def append(self, kind: Mark, body: dict[str, Any], *, analyst: str | None = None, room: int = 0) -> BookEntry:
        """Write one entry on the open page. `room` is what its answer may take at most, known before it was made."""
        assert self._depth > 0, "entries are written on a page"
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        size = -(-room // BLOCK) * BLOCK
        epoch = self.state.epoch + (kind is Mark.EPOCH)
        entry = BookEntry.after(self.state.last, kind, body, at=at, epoch=epoch, analyst=analyst, size=size)
        self.store.add(entry)
        before = dict(self.state.totals)
        self.state.take(entry)
        for who, (amount, delta) in self.state.totals.items():
            if before.get(who) != (amount, delta):
                self.store.put_total(who, str(amount), str(delta))
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
            self.store.note(at, analyst, sql, verdict, reason)
            self._changed = True

    def entry(self, seq: int) -> BookEntry:
        """One entry."""
        return self.store.get_entry(seq)

    def receipt(self, seq: int) -> str:
        """The digest of one entry: whoever has it can show that the entry was there."""
        return str(self.store.get_digest(seq))

    def has(self, seq: int, mark: str) -> bool:
        """Is this entry in the book, with this digest?"""
        return self.store.get_digest(seq) == mark

    def entries(self, after: int = 0) -> Iterator[BookEntry]:
        """The entries behind number `after`, in order."""
        return self.store.list_entries(after)

    def refusals(self, after: int = 0, most: int = 1 << 62) -> list[tuple[str, str | None, str, str, str]]:
        """What was asked and not answered: (time, analyst, statement, verdict, reason), behind the first `after`."""
        rows = self.store.list_refusals(after, most)
        return [(at, who, sql, verdict, reason) for at, who, sql, verdict, reason in rows]

    # --- sealed state -------------------------------------------------------------------------------------------------

    def unseal(self, name: str) -> tuple[int, str] | None:
        """The secret fields of this name in this epoch, and how often they were saved; for mechanisms alone."""
        columns = "SELECT generation, fields FROM sealed WHERE epoch = ? AND name = ?"
        found = self.store.run(columns, (self.state.epoch, name))
        return (found[0][0], found[0][1]) if found else None

    def unseal_state(self, name: str) -> bytes:
        """The large part of the same."""
        columns = "SELECT state FROM sealed WHERE epoch = ? AND name = ?"
        return bytes(self.store.run(columns, (self.state.epoch, name))[0][0])

    def seal(self, name: str, generation: int, fields: str, state: bytes | None) -> None:
        """Keep a secret state; `state` None leaves what is there. The entry of its release names the generation."""
        self.store.seal((self.state.epoch, name), generation, fields, state)

    # --- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the store; nothing is pending."""
        self._closed = True
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- transactions -------------------------------------------------------------------------------------------------

    def _begin_transaction(self) -> None:
        """Wait for this process's turn, and read what others wrote before it."""
        if self._closed:
            raise BookError(f"the book {self.path} is closed: open the session again")
        self.store.begin()
        try:
            if self.state.last is not None:
                self._catch_up(self.state.last)
        except BaseException:
            self.store.roll_back()
            raise
        self._begun_at, self._changed = self.state.seq, False
        self.state.begin()

    def _catch_up(self, last: BookEntry) -> None:
        """Take in what others wrote. A book that was put in another's place is not gone on with."""
        if (self.kept and self.store.was_replaced()) or not self.has(last.seq, last.hash):
            raise BookError(
                f"the book {self.path} was replaced while it was open, or is older than what was answered: restore the "
                "latest copy, and start again"
            )
        for entry in self.entries(last.seq):
            self._check_link(entry, self.state.last)
            self.state.take(entry)

    def _roll_back(self) -> None:
        self.store.roll_back()
        self.state.take_back()

    def _commit(self) -> None:
        last = self.state.last
        if self.state.seq == self._begun_at and not self._changed:
            self.store.roll_back()
            return
        try:
            self.store.commit()
        except BookError:
            self._roll_back()
            raise
        self.state.keep()
        if self.witness is not None and last is not None:
            self.witness.write(last.seq, last.hash)


def _open_store(path: str | Path, witness: Path | None, *, begun: bool) -> Store:
    if is_in_postgres(path):
        from keyhole.book.postgres_store import PostgresStore

        store = PostgresStore.open(str(path))
        try:
            store.refuse_powerful_role()
            refuse_vanished(path, witness, lambda: not store.is_blank(), begun=begun)
        except BaseException:
            store.close()
            raise
        return store
    if not refuse_vanished(path, witness, lambda: _has_file(path), begun=begun):
        create_file(path)
    return SqliteStore.open(path)


def _copy_store(path: str | Path, copy: SqliteStore, witness: Path | None, *, begun: bool) -> bool:
    """Everything that was committed, for a rehearsal; False if there is no book."""
    if is_in_postgres(path):
        from keyhole.book.postgres_store import PostgresStore

        store = PostgresStore.open(str(path))
        try:
            if not refuse_vanished(path, witness, lambda: not store.is_blank(), begun=begun):
                return False
            with store.frozen():
                copy.copy_from(store)
        finally:
            store.close()
        return True
    if not refuse_vanished(path, witness, lambda: _has_file(path), begun=begun):
        return False
    copy_database(path, copy.db)
    return True


def _has_file(path: str | Path) -> bool:
    return Path(path).exists() and Path(path).stat().st_size > 0
