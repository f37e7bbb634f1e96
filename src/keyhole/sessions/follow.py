"""A server log that is followed: each statement enters the book as published; nothing is decided, and nothing denied.

Statements and how far the log was read are one commit, so that a process that is killed enters nothing twice and loses
nothing. What cannot be represented marks the book incomplete: no later session answers exactly from it until whoever
keeps it accepts that. So does a part of the log that is gone: it was truncated, or rotated away unread.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from keyhole.auditing.online.admission import Admission
from keyhole.book import Mark
from keyhole.errors import LogError, QueryError
from keyhole.logs.detect import detect
from keyhole.logs.exported import Exported, scripted
from keyhole.logs.importers import LogFormat
from keyhole.logs.lines import NOT_UTF8, readable, shown
from keyhole.logs.open import list_statements
from keyhole.logs.tail import Ended, LogPlace, TailedFile, find_earlier_files
from keyhole.sessions.audited import Audited
from keyhole.sql import Dialect, translate_to_duckdb
from keyhole.sql.statements.clock import write_time_as_it_ran
from keyhole.sql.statements.table_names import reads_nothing_of_people

BATCH = 200  # statements on one page
FAR = 1 << 20  # bytes without anything new after which the place is written down all the same
WHOLE = (LogFormat.DBT, LogFormat.METABASE, LogFormat.SUPERSET)  # written at once: nothing to follow

TRUNCATED = "the log was truncated while it was followed: what was written between may be missing"
GONE = (
    "the log was rotated or truncated while nobody followed it, and the earlier file is not beside it: what it held is "
    "missing"
)
LATE = "the log was written to under its old name after it was rotated and left: what was written then is missing"
PACKED = "an earlier file of the log is compressed, so what it holds is missing: rotate with delaycompress"


class Stopped(Exception):
    """It was asked to stop."""


class Entering(StrEnum):
    """What became of a statement: in the book as published, or in it as what no verdict accounts for."""

    PUBLISHED = "published"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class Entered:
    """A statement of the log that is new in the book. `admission` says whom it exposes: for the custodian."""

    number: str
    sql: str
    how: Entering
    reason: str
    analyst: str | None = None
    time: str | None = None
    admission: Admission | None = None


@dataclass(slots=True)
class FollowCounts:
    """What was read, in statements."""

    read: int = 0
    new: int = 0
    repeated: int = 0
    failed: int = 0
    elsewhere: int = 0
    unjudged: int = 0
    exposing: int = 0
    unproved: int = 0  # nobody is exposed by equations alone, and what the column can hold may tell more


@dataclass(slots=True, eq=False)
class Follower:
    """Follows one log into a book. `told` is called with each new statement, when it is on disk.

    `wait` is called when there is nothing to read; once `stopping`, `run` ends. `ignored` names tables that hold
    nothing about these people.
    """

    policy: Audited
    path: Path
    told: Callable[[Entered], None]
    wait: Callable[[], None]
    stopping: Callable[[], bool]
    warn: Callable[[str], None]
    format: LogFormat = LogFormat.AUTO
    dialect: Dialect | None = None
    ignored: tuple[str, ...] = ()
    now: dt.date | None = None  # when statements ran whose record does not say it
    counts: FollowCounts = field(default_factory=FollowCounts)
    _batch: list[Exported] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)  # statements of this epoch -> their entries
    _seen: int = 0  # how many of the book's statements are among them
    _written: LogPlace | None = None
    _left: TailedFile | None = None  # the file before this one, still open: a writer may be late to let go of it

    def run(self) -> None:
        """Until it is to stop; what was read by then is in the book."""
        if not self.path.is_file():
            raise LogError(f"there is no log {self.path}")
        try:
            with suppress(Stopped):
                for path, live, place in self._unread():
                    self._read(path, live, place)
                while True:
                    while not self.path.is_file():  # renamed, and the next is not there yet
                        self._pause()
                    self._read(self.path, True, None)
            self._look_back(leave=True)
        finally:
            if self._left is not None:
                self._left.close()

    @property
    def name(self) -> str:
        """How the book calls the log."""
        return str(self.path.resolve())

    # --- files --------------------------------------------------------------------------------------------------------

    def _unread(self) -> Iterator[tuple[Path, bool, LogPlace | None]]:
        """The files to read first: where the book left off, and what the log was renamed to since."""
        kept = self.policy.book.state.followed.get(self.name)
        place = None if kept is None else LogPlace.from_json(kept)
        if place is None:
            return
        with self.path.open("rb") as file:
            goes_on = place.fits(file)
        if goes_on:
            yield self.path, True, place
            return
        found = find_earlier_files(self.path, place)
        if found is None:
            self._lost(GONE, anew=True)
            return
        for at, path in enumerate(found):
            if path.suffix in (".gz", ".bz2", ".xz", ".zst"):
                self._lost(PACKED)
            else:
                self.warn(f"the log was rotated: reading {path.name} first")
                yield path, False, place if at == 0 else None

    def _read(self, path: Path, live: bool, place: LogPlace | None) -> None:
        """One file to its end, from `place` on: it is read from its beginning, since it may prepare statements there,
        and what began before the place is passed over.
        """
        pause = 0 if place is None else place.paused
        lines = TailedFile(path, lambda: self._idle(lines), live=live, pause=pause)
        try:
            try:
                for found in self._found(lines):
                    if place is None or lines.offset(*found.begins) >= place.offset:
                        self._take(found, lines)
            finally:
                self._commit(lines)
            if lines.ended is Ended.TRUNCATED:
                self.warn(f"{path.name} was truncated")
                self._lost(TRUNCATED, anew=True)
            elif lines.ended is Ended.ROTATED:
                self.warn(f"{path.name} was rotated: going on with the new file")
                self._look_back(leave=True)
                self._left = lines
        finally:
            if self._left is not lines:
                lines.close()

    def _look_back(self, *, leave: bool = False) -> None:
        """Has the file that was left grown since?"""
        if self._left is not None and (leave or self._left.grown):
            left, self._left = self._left, None
            try:
                if left.grown:
                    self._lost(LATE)
            finally:
                left.close()

    def _found(self, lines: TailedFile) -> Iterator[Exported]:
        kind = self.format
        while kind is LogFormat.AUTO and not lines.head().strip():
            self._pause()
        kind = detect(lines.head(), str(lines.path)) if kind is LogFormat.AUTO else kind
        if kind in WHOLE or (lines.head().lstrip()[:1] == "["):
            raise LogError(f"{lines.path.name} is written at once, not line by line: load it with --load")
        if kind is LogFormat.SQL:
            return scripted(lines, self.dialect or Dialect.DUCKDB, patience=0)
        return list_statements(lines, lines.path.name, kind, self.dialect or Dialect.DUCKDB)

    def _idle(self, lines: TailedFile) -> None:
        self._commit(lines, paused=True)
        self._look_back()
        self._pause()

    def _pause(self) -> None:
        self._go_on()
        self.wait()
        self._go_on()

    def _go_on(self) -> None:
        if self.stopping():
            raise Stopped

    # --- statements ---------------------------------------------------------------------------------------------------

    def _take(self, line: Exported, lines: TailedFile) -> None:
        """What one record, or one statement of a script, asks stays on one page."""
        if self._batch and self._batch[-1].begins != line.begins:
            self._go_on()
            if len(self._batch) >= BATCH:
                self._commit(lines)
        self._batch.append(line)

    def _recall(self) -> None:
        """Take note of what is in the book, by whomever."""
        book = self.policy.book
        for entry in map(book.entry, book.state.answers[self._seen :]):
            if entry.epoch == book.state.epoch:
                self._known.setdefault(entry.body["sql"], entry.seq)
        self._seen = len(book.state.answers)

    def _commit(self, lines: TailedFile, *, paused: bool = False) -> None:
        """What was read, and how far: one page. Then it is told."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        offset = lines.offset(*batch[-1].begins) + 1  # the rest of that line may be under way
        place = lines.place(offset, paused=paused)
        fresh: list[Entered] = []
        book = self.policy.book
        with book.page():
            before = book.state.seq
            self.policy.catch_up()
            self._recall()
            for found in self._not_yet(batch, lines):
                fresh += self._enter(found)
            last = self._written
            far = last is None or place.inode != last.inode or place.offset - last.offset >= FAR
            if book.state.seq > before or far:
                book.append(Mark.FOLLOWED, {"file": self.name, **place.to_json()})
                self._written = place
        for each in fresh:
            self.told(each)

    def _not_yet(self, batch: Iterable[Exported], lines: TailedFile) -> Iterator[Exported]:
        """Those that no other process entered meanwhile."""
        kept = self.policy.book.state.followed.get(self.name)
        place = None if kept is None else LogPlace.from_json(kept)
        passed = place.offset if place is not None and lines.fits(place) else 0
        return (found for found in batch if lines.offset(*found.begins) >= passed)

    def _enter(self, line: Exported) -> Iterator[Entered]:
        """One statement, on an open page."""
        self.counts.failed += line.failed
        if line.steers or line.failed:
            return
        self.counts.read += 1
        dialect = self.dialect or line.dialect
        sql = write_time_as_it_ran(line.sql, dialect, line.time, self.now)
        unread = line.fault or ("" if readable(sql) else NOT_UTF8)
        why = unread or line.unjudged
        if not unread and reads_nothing_of_people(sql, dialect, self.ignored):
            self.counts.elsewhere += 1
            return
        read = None if why else translate_to_duckdb(sql, dialect, self.policy.auditor.roster.schema)
        text = shown(sql) if read is None else read.sql
        if text in self._known:
            self._again(self._known[text], line.analyst)
            return
        about = {"log": self.name, **({} if line.time is None else {"time": line.time})}
        admission: Admission | None = None
        number = ""
        try:
            if read is None or read.reason:
                raise QueryError(why if read is None else read.reason, text)
            request = self.policy.read(text)
            admission = self.policy.auditor.admit(request)
            number = self.policy.take(request, None, Mark.PUBLISHED, line.analyst, about)
        except QueryError as error:
            number, admission = self.policy.unjudged(text, error.message, line.analyst, about).number, None
            why = error.message
        self._known[text] = self.policy.book.state.seq
        self.counts.new += 1
        yield self._entered(number, text, line, why, admission)

    def _entered(self, number: str, sql: str, line: Exported, why: str, admission: Admission | None) -> Entered:
        if admission is None:
            self.counts.unjudged += 1
            return Entered(number, sql, Entering.UNJUDGED, why.splitlines()[0], line.analyst, line.time)
        self.counts.exposing += bool(admission.who)
        unproved = "" if admission.who else self.policy.unproved(sql)
        self.counts.unproved += bool(unproved)
        reason = "it exposes somebody" if admission.who else "nobody is exposed"
        if unproved:
            reason = f"equations expose nobody, and more is not proved: {unproved}"
        return Entered(number, sql, Entering.PUBLISHED, reason, line.analyst, line.time, admission)

    def _again(self, entry: int, analyst: str | None) -> None:
        """A statement that the book has: nothing new, but perhaps another analyst was told."""
        self.counts.repeated += 1
        book = self.policy.book
        if analyst is not None and entry not in book.state.heard.get(analyst, ()):
            book.append(Mark.TOLD, {"of": [], "entry": entry}, analyst=analyst)

    def _lost(self, why: str, *, anew: bool = False) -> None:
        """A part of the log that is gone; `anew`: what is there now is read from its beginning."""
        with self.policy.book.page():
            self.policy.catch_up()
            left = self.policy.unjudged("(unknown)", why, None, {"log": self.name})
            if anew and self.path.is_file():
                with self.path.open("rb") as file:
                    self.policy.book.append(Mark.FOLLOWED, {"file": self.name, **LogPlace.of(file).to_json()})
        self.counts.unjudged += 1
        self.told(Entered(left.number, left.sql, Entering.UNJUDGED, why))
