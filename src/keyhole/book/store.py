"""Where a book is kept: a `Store` holds its tables, and a witness outside the store's own backup knows its last entry.

A store is a SQLite file for one machine, or a schema of PostgreSQL for several gateways. Both run the statements below;
a store adds how to wait for its turn, how to commit durably, and how to say what went wrong.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from keyhole.book.chain import BookEntry
from keyhole.errors import BookError, ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

LAYOUT = "keyhole book 1"
WITNESS_BYTES = 96  # a number, a blank, 64 hex digits, blanks, the end of the line
WAIT = 60.0  # seconds in the queue for another process that is asking
BATCH = 256  # entries that are read at once
FIELDS = "seq, prev, hash, at, kind, epoch, analyst, body"
ASKED = "at, analyst, sql, verdict, reason"
ANSWERS = ("answer", "release", "told", "unjudged")  # kinds of entries that end a question
COPIED = {  # table: its columns, and their order
    "about": ("key, value", "key"),
    "entry": (FIELDS, "seq"),
    "total": ("account, amount, delta", "account"),
    "sealed": ("epoch, name, generation, fields, state", "epoch, name"),
    "asked": (ASKED, "at"),
}
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs", "beegfs", "sshfs"})

Row: TypeAlias = tuple[Any, ...]


def is_in_postgres(path: str | Path) -> bool:
    """Does this name a book in PostgreSQL, not a file?

    >>> is_in_postgres("postgresql://keyhole_book@db/books"), is_in_postgres("book.keyhole")
    (True, False)
    """
    return str(path).startswith(("postgresql://", "postgres://"))


class Store(ABC):
    """The tables of one book. Everything raises `BookError` with one sentence for what the store says."""

    path: str  # what its owner calls it
    order: str  # the column by which what was asked has its order
    shared: bool  # do several gateways keep it? Then each has a witness, and starts with none only by adoption

    @abstractmethod
    def reach(self) -> None:
        """Make sure that it can be asked; a lost connection is made anew."""

    @abstractmethod
    def begin(self) -> None:
        """Wait for this process's turn; from here on nobody else writes."""

    @abstractmethod
    def commit(self) -> None:
        """On disk when it returns."""

    @abstractmethod
    def roll_back(self) -> None:
        """Nothing of this turn stays; never raises, and begins anew if the store was lost."""

    @abstractmethod
    def run(self, text: str, values: Row = ()) -> list[Row]:
        """One statement, with ? for its values."""

    @abstractmethod
    def is_blank(self) -> bool:
        """Was no book begun here?"""

    @abstractmethod
    def create(self) -> None:
        """The tables, if a gateway makes them itself."""

    @abstractmethod
    def was_replaced(self) -> bool:
        """Is it another one than was opened, under the same name?"""

    def wait_for_others(self, seconds: float) -> bool:
        """Did another gateway commit something? Only one that is `shared` can tell."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    # --- what both run ------------------------------------------------------------------------------------------------

    def get_remark(self, key: str) -> str | None:
        """What is written about the book: its layout, whether it has a witness."""
        found = self.run("SELECT value FROM about WHERE key = ?", (key,))
        return str(found[0][0]) if found else None

    def set_remark(self, key: str, value: str) -> None:
        """Written once."""
        self.run("INSERT INTO about VALUES (?, ?)", (key, value))

    def add(self, entry: BookEntry) -> None:
        """One entry more."""
        values = (entry.seq, entry.prev, entry.hash, entry.at, entry.kind, entry.epoch, entry.analyst, entry.text)
        self.run("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def get_entry(self, seq: int) -> BookEntry:
        """One entry."""
        return BookEntry(*self.run(f"SELECT {FIELDS} FROM entry WHERE seq = ?", (seq,))[0])

    def get_digest(self, seq: int) -> str | None:
        """The digest of an entry; None if there is none of this number."""
        found = self.run("SELECT hash FROM entry WHERE seq = ?", (seq,))
        return str(found[0][0]) if found else None

    def list_entries(self, after: int) -> Iterator[BookEntry]:
        """The entries behind number `after`, in order, some at a time."""
        while rows := self.run(f"SELECT {FIELDS} FROM entry WHERE seq > ? ORDER BY seq LIMIT {BATCH}", (after,)):
            for row in rows:
                yield BookEntry(*row)
            after = rows[-1][0]

    def put_total(self, account: str, amount: str, delta: str) -> None:
        """What an account has spent by now."""
        keep = "ON CONFLICT (account) DO UPDATE SET amount = excluded.amount, delta = excluded.delta"
        self.run(f"INSERT INTO total VALUES (?, ?, ?) {keep}", (account, amount, delta))

    def list_totals(self) -> dict[str, tuple[str, str]]:
        """Account -> what it has spent."""
        return {who: (amount, delta) for who, amount, delta in self.run("SELECT account, amount, delta FROM total")}

    def list_runs(self) -> dict[tuple[int, str], int]:
        """The generation of each sealed state."""
        return {(e, name): g for e, name, g in self.run("SELECT epoch, name, generation FROM sealed")}

    def note(self, at: str, analyst: str | None, sql: str, verdict: str, reason: str) -> None:
        """What was not answered."""
        self.run(f"INSERT INTO asked ({ASKED}) VALUES (?, ?, ?, ?, ?)", (at, analyst, sql, verdict, reason))

    def list_refusals(self, after: int = 0, most: int = 1 << 62) -> list[Row]:
        """The same, in order; behind the first `after` of them."""
        return self.run(f"SELECT {ASKED} FROM asked ORDER BY {self.order} LIMIT ? OFFSET ?", (most, after))

    def count_refusals(self) -> dict[tuple[str | None, str], int]:
        """How often each analyst got each verdict that is no answer."""
        text = "SELECT analyst, verdict, count(*) FROM asked GROUP BY analyst, verdict"
        return {(who, verdict): count for who, verdict, count in self.run(text)}

    def list_activity(self, since: str) -> dict[str, tuple[int, str]]:
        """What each analyst asked, answered or not: (how many since that time, when last)."""
        answered = f"SELECT analyst, at FROM entry WHERE kind IN ({', '.join('?' * len(ANSWERS))})"
        asked = "SELECT analyst, at FROM asked WHERE verdict <> 'revealed'"
        text = "SELECT analyst, sum(CASE WHEN at >= ? THEN 1 ELSE 0 END), max(at) FROM "
        text += f"({answered} UNION ALL {asked}) AS each_time WHERE analyst IS NOT NULL GROUP BY analyst"
        return {who: (int(count), last) for who, count, last in self.run(text, (since, *ANSWERS))}

    def seal(self, key: tuple[int, str], generation: int, fields: str, state: bytes | None) -> None:
        """Keep a secret state; None leaves its large part as it is."""
        if state is None:
            text = "UPDATE sealed SET generation = ?, fields = ? WHERE epoch = ? AND name = ?"
            self.run(text, (generation, fields, *key))
            return
        keep = "generation = excluded.generation, fields = excluded.fields, state = excluded.state"
        text = f"INSERT INTO sealed VALUES (?, ?, ?, ?, ?) ON CONFLICT (epoch, name) DO UPDATE SET {keep}"
        self.run(text, (*key, generation, fields, state))


def refuse_network_file(path: Path, mounts: Path = Path("/proc/mounts")) -> None:
    """Refuse a SQLite book on a network file system, whose locks and flushes are not kept everywhere.

    Only Linux says what a folder is mounted from; elsewhere nothing is refused.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    real, found = os.path.realpath(path), ("", "")
    for line in lines:
        _, at, kind, *_ = line.split(" ")
        at = at.replace("\\040", " ")
        if (real == at or real.startswith(at.rstrip("/") + "/")) and len(at) >= len(found[0]):
            found = (at, kind)
    if found[1].removeprefix("fuse.") in NETWORK:
        raise BookError(
            f"the book {path} is on a network file system ({found[1]}, mounted at {found[0]}), where two gateways "
            "could write at once and an acknowledged entry could be lost: keep it on a local disk, or in PostgreSQL "
            '(path = "postgresql://..." under [book])'
        )


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


def refuse_vanished(path: str | Path, witness: Path | None, has_book: Callable[[], bool], *, begun: bool) -> bool:
    """Is there a book at `path`? Refused if there is none and the witness, or `begun`, knows one.

    >>> refuse_vanished("no such file", None, lambda: False, begun=False)
    False
    """
    if witness is not None and not witness.resolve().parent.is_dir():
        raise BookError(f"the witness {witness} cannot be kept: there is no folder {witness.parent}. Make it first")
    seen = Witness(witness).read() if witness else None  # before the book is looked at: it is written after it
    if has_book():
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
