"""The budget in a file: charges, released answers and prepaid runs, durable before anything is printed."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from keyhole.defend.budget import NOTHING, Budget, Cap
from keyhole.defend.loss import Loss
from keyhole.errors import ConfigError, PrivacyParameterError, RunInUse

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

LAYOUT = "1"
WAIT = 30.0  # seconds for another process to let go of the file
TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (account TEXT PRIMARY KEY, amount TEXT NOT NULL, delta TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS charges (
  number INTEGER PRIMARY KEY, at TEXT NOT NULL, version TEXT NOT NULL, analyst TEXT,
  amount TEXT NOT NULL, delta TEXT NOT NULL, what TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS data (version TEXT, domain TEXT, fingerprint TEXT NOT NULL, PRIMARY KEY (version, domain));
CREATE TABLE IF NOT EXISTS contents (version TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS releases (
  version TEXT, domain TEXT, question TEXT, answer TEXT NOT NULL, PRIMARY KEY (version, domain, question));
CREATE TABLE IF NOT EXISTS runs (
  version TEXT, domain TEXT, name TEXT, plan TEXT NOT NULL, fired INTEGER NOT NULL, asked INTEGER NOT NULL,
  open INTEGER NOT NULL, state BLOB NOT NULL, generation INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (version, domain, name));
"""


@dataclass(frozen=True, slots=True, eq=False)
class SavedRun:
    """A prepaid sparse vector run as the ledger keeps it: everything in it has been released.

    `open` says that questions were asked since the last firing; the noisy threshold they were held against is not kept,
    so whoever resumes an open run counts one firing more. `generation` counts the saves, as of when
    this was read; 0 if there was none before.
    """

    plan: dict[str, Any]
    fired: int
    asked: int
    open: bool
    state: NDArray[np.float64]
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the custodian's books."""

    number: int
    at: str
    version: str
    analyst: str | None
    amount: Fraction
    delta: Fraction
    what: str


def _patiently(db: sqlite3.Connection, text: str) -> None:
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


class Ledger(Budget):
    """A `Budget` whose every charge is on disk (SQLite, WAL, synchronous=FULL) before `spend` returns.

    A second process continues where the first stopped; several may share the file (BEGIN IMMEDIATE). The cap is given
    anew each time and caps the ledger, not the run: lowered below what was spent, it refuses everything. A change of
    data is a new `version`: what was spent stays spent, released answers and prepaid runs of other versions are not
    reused. The file belongs to the custodian: it holds a keyed digest of the data beside what was released. O(1) a
    charge.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cap = Cap(Loss.of_epsilon(1))
    ...     with Ledger(Path(folder, "budget.keyhole"), cap) as ledger:
    ...         ledger.spend(Loss.of_epsilon("0.4"), what="a first run")
    ...     with Ledger(Path(folder, "budget.keyhole"), cap) as ledger:
    ...         ledger.left()
    Fraction(3, 5)
    """

    def __init__(
        self,
        path: str | Path,
        cap: Cap,
        *,
        version: str = "",
        domain: str = "",
        opened: sqlite3.Connection | None = None,
    ) -> None:
        super().__init__(cap)
        self.path, self.version, self.domain = str(path), version, domain
        self._depth = 0
        try:
            if self.path != ":memory:":
                Path(self.path).touch(mode=0o600)  # for the custodian alone
            self._db = opened or sqlite3.connect(self.path, timeout=WAIT, isolation_level=None, check_same_thread=False)
            _patiently(self._db, "PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            with self._transaction():
                for statement in filter(str.strip, TABLES.split(";")):
                    self._db.execute(statement)
                if "generation" not in {row[1] for row in self._db.execute("PRAGMA table_info(runs)")}:  # an older file
                    self._db.execute("ALTER TABLE runs ADD COLUMN generation INTEGER NOT NULL DEFAULT 1")
                self._settle("layout", LAYOUT, "was written by another version of this program")
                self._settle("unit", cap.total.unit, "counts another unit")
                self._settle("neighbours", cap.total.neighbours, "was kept for other neighbours")
        except (sqlite3.DatabaseError, OSError) as error:
            raise ConfigError(f"the ledger {self.path} cannot be opened: {error}") from None

    @classmethod
    def rehearsal(cls, path: str | Path, cap: Cap, *, version: str = "", domain: str = "") -> Ledger:
        """A copy in memory of the ledger at `path` (an empty one if there is none): whatever is done, nothing is kept.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Ledger.rehearsal(Path(folder, "b.keyhole"), Cap(Loss.of_epsilon(1))).spend(Loss.of_epsilon(1))
        ...     list(Path(folder).iterdir())
        []
        """
        copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if Path(path).exists():
            try:
                origin = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, timeout=WAIT)
                try:
                    origin.backup(copy)
                finally:
                    origin.close()
            except sqlite3.DatabaseError as error:
                raise ConfigError(f"the ledger {path} cannot be opened: {error}") from None
        return cls(":memory:", cap, version=version, domain=domain, opened=copy)

    def _settle(self, key: str, value: str, fault: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO about VALUES (?, ?)", (key, value))
        (found,) = self._db.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        if found != value:
            raise PrivacyParameterError(
                f"the ledger {self.path} {fault}: {key} is {found!r} there and {value!r} here. "
                f"Losses of the two do not add up: set {key} = {found!r}, or start another ledger for other people"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing is pending."""
        self._db.close()

    # --- the four seams of Budget -----------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, on disk when the outermost one ends."""
        with self._lock:
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._db.execute("COMMIT")

    def transaction(self) -> Any:
        """Several changes as one: `with ledger.transaction(): ...`."""
        return self._transaction()

    def _spent(self, account: str) -> tuple[Fraction, Fraction]:
        row = self._db.execute("SELECT amount, delta FROM totals WHERE account = ?", (account,)).fetchone()
        return NOTHING if row is None else (Fraction(row[0]), Fraction(row[1]))

    def _record(self, account: str, amount: Fraction, delta: Fraction) -> None:
        self._db.execute("INSERT OR REPLACE INTO totals VALUES (?, ?, ?)", (account, str(amount), str(delta)))

    def _note(self, charge: Loss, analyst: str | None, what: str) -> None:
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._db.execute(
            "INSERT INTO charges (at, version, analyst, amount, delta, what) VALUES (?, ?, ?, ?, ?, ?)",
            (at, self.version, analyst, str(charge.amount), str(charge.delta), what),
        )

    # --- the data behind it -----------------------------------------------------------------------------------------

    def digest(self) -> str | None:
        """What was attached as this version of the data; None: nothing yet."""
        row = self._db.execute("SELECT digest FROM contents WHERE version = ?", (self.version,)).fetchone()
        return None if row is None else str(row[0])

    def attach(self, digest: str, counts: str | None = None) -> None:
        """Say which data is answered for; a change of data under an old version is refused, whatever the domain.

        `digest` is of the whole table, under the custodian's key. `counts` is the plain digest of the histogram, which
        ledgers kept for each domain before: it is compared if it is there, and no longer written.
        """
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (self.version, digest))
            key = (self.version, self.domain)
            row = self._db.execute("SELECT fingerprint FROM data WHERE version = ? AND domain = ?", key).fetchone()
            if self.digest() != digest or (row is not None and counts is not None and row[0] != counts):
                raise ConfigError(
                    f"the data is not what the ledger {self.path} knows as version {self.version!r}: "
                    "a change of data is a new version; write version = ... under [source]. What was spent stays spent"
                )

    # --- what was released ------------------------------------------------------------------------------------------

    def remember(self, question: str, answer: dict[str, Any]) -> None:
        """Keep a released answer: it may be given again for nothing."""
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO releases VALUES (?, ?, ?, ?)",
                (self.version, self.domain, question, json.dumps(answer)),
            )

    def recall(self, question: str) -> dict[str, Any] | None:
        """The answer released before to this question about this version of the data."""
        row = self._db.execute(
            "SELECT answer FROM releases WHERE version = ? AND domain = ? AND question = ?",
            (self.version, self.domain, question),
        ).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    @contextmanager
    def lease(self) -> Iterator[None]:
        """The prepaid runs for this process alone while it lasts; refused while another process has them.

        A lock on a file beside the ledger, so that it ends with its process, however that ends. It is a courtesy
        (nobody asks in vain): where there are no such locks, `save_run` still lets one of two processes through.
        """
        if fcntl is None or self.path == ":memory:":
            yield
            return
        try:
            handle = os.open(f"{self.path}-run", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(f"the lock {self.path}-run cannot be opened: {error.strerror}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunInUse(
                    f"another process is using the prepaid run in the ledger {self.path}: nothing was asked or spent; "
                    "try again when it has ended"
                ) from None
            except OSError:
                pass  # a file system without locks
            yield
        finally:
            os.close(handle)

    def save_run(self, name: str, run: SavedRun) -> int:
        """Keep a prepaid run as it stands, if nobody else has saved it since `run.generation`; the new generation.

        Who takes a run saves it before the first question and again before anything is shown. Of several processes that
        go on from the same state only the last one to take it comes through: what the others drew is never shown.
        """
        blob = io.BytesIO()
        np.save(blob, run.state, allow_pickle=False)
        with self._transaction():
            key = (self.version, self.domain, name)
            row = self._db.execute(
                "SELECT generation FROM runs WHERE version = ? AND domain = ? AND name = ?", key
            ).fetchone()
            if (row[0] if row is not None else 0) != run.generation:
                raise RunInUse(
                    f"another process has used the prepaid run in the ledger {self.path} meanwhile, so what was drawn "
                    "here is not shown: try again"
                )
            self._db.execute(
                "INSERT OR REPLACE INTO runs (version, domain, name, plan, fired, asked, open, state, generation) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *key,
                    json.dumps(run.plan),
                    run.fired,
                    run.asked,
                    run.open,
                    blob.getvalue(),
                    run.generation + 1,
                ),
            )
        return run.generation + 1

    def load_run(self, name: str) -> SavedRun | None:
        """The prepaid run of this name, for this version of the data."""
        row = self._db.execute(
            "SELECT plan, fired, asked, open, state, generation FROM runs "
            "WHERE version = ? AND domain = ? AND name = ?",
            (self.version, self.domain, name),
        ).fetchone()
        if row is None:
            return None
        state = np.load(io.BytesIO(row[4]), allow_pickle=False)
        return SavedRun(json.loads(row[0]), row[1], row[2], bool(row[3]), state, row[5])

    def charges(self) -> list[Charge]:
        """The books, oldest first."""
        rows = self._db.execute(
            "SELECT number, at, version, analyst, amount, delta, what FROM charges ORDER BY number"
        ).fetchall()
        return [Charge(r[0], r[1], r[2], r[3], Fraction(r[4]), Fraction(r[5]), r[6]) for r in rows]
