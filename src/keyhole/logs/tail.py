"""A log that is still being written: its lines as they come, over rotation and truncation.

A file is known by its inode and a digest of its first bytes, so that a name that was given to another file, and a file
that was emptied and written again, are noticed. Only whole lines are given out: a last line without its end waits.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from keyhole.errors import LogError

HEAD = 256  # bytes by which the beginning of a file is known
GRACE = 3  # looks at a renamed file that find nothing more, before it is left


class Ended(StrEnum):
    """Why the lines of a file have ended."""

    ROTATED = "rotated"
    TRUNCATED = "truncated"
    READ = "read"  # it is an earlier file, and was read to its end


@dataclass(frozen=True, slots=True)
class LogPlace:
    """How far a file was read: everything that begins before `offset`, the byte at which a line begins and the
    characters before it in that line. The file is known by `inode`, its head, and the bytes before the place.
    """

    inode: int
    length: int
    head: str
    offset: int
    before: str = ""  # of older books
    paused: int = 0  # bytes that were read when there was nothing more; 0: the reader did not pause there

    @classmethod
    def of(cls, file: BinaryIO, offset: int = 0, paused: int = 0) -> LogPlace:
        """The place in a file that is open."""
        beginning = os.pread(file.fileno(), HEAD, 0)
        before = _digest(_before(file, offset))
        return cls(os.fstat(file.fileno()).st_ino, len(beginning), _digest(beginning), offset, before, paused)

    def fits(self, file: BinaryIO) -> bool:
        """Is it this file, does it still begin as it did, and is the place in it?"""
        found = os.fstat(file.fileno())
        if found.st_ino != self.inode or found.st_size < self.offset:
            return False
        same = _digest(os.pread(file.fileno(), self.length, 0)) == self.head
        return same and self.before in ("", _digest(_before(file, self.offset)))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        fields = {"inode": self.inode, "length": self.length, "head": self.head, "offset": self.offset}
        return fields | {k: v for k, v in (("before", self.before), ("paused", self.paused)) if v}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> LogPlace:
        """The inverse."""
        known = int(fields["inode"]), int(fields["length"]), str(fields["head"]), int(fields["offset"])
        return cls(*known, str(fields.get("before", "")), int(fields.get("paused", 0)))


def _digest(beginning: bytes) -> str:
    return hashlib.blake2b(beginning, digest_size=16).hexdigest()


def _before(file: BinaryIO, offset: int) -> bytes:
    """The bytes that end there."""
    start = max(0, offset - HEAD)
    return os.pread(file.fileno(), offset - start, start)


class TailedFile:
    """The lines of one file, as they come; an empty line without end (`""`) says that there is no more at the moment.

    `idle` is called whenever there is nothing new: it waits, and raises to stop. A file that is not `live` ends where
    it ends; a live one when its name was given to another file, or it became shorter than what was read. After `pause`
    bytes an earlier reader had no more, and so it is said here: what it took for whole there comes once more as it did.
    """

    def __init__(self, path: Path, idle: Callable[[], None], *, live: bool = True, pause: int = 0) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise LogError(f"cannot read {path}: {error.strerror}") from None
        self.path, self.ended = path, Ended.READ
        self._idle, self._live, self._pause = idle, live, pause
        self._starts = array("q")  # where each line begins
        self._read = 0  # bytes given out
        self._last = b""  # the end of them
        self._partial = b""
        self._quiet = False  # was it said that there is no more?
        self._known = LogPlace.of(self._file)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def fits(self, place: LogPlace) -> bool:
        """Is it the file of this place?"""
        return place.fits(self._file)

    @property
    def grown(self) -> bool:
        """Was something written to it after it was read?"""
        return os.fstat(self._file.fileno()).st_size > self._read

    def place(self, offset: int, *, paused: bool = False) -> LogPlace:
        """A place in this file; `paused`: there is nothing more to read at the moment."""
        return LogPlace.of(self._file, offset, self._read if paused else 0)

    def offset(self, line: int, column: int) -> int:
        """Where something begins, by its line and column (from 1), for a `LogPlace`.

        The bytes before the line and the characters before it in the line, which are not more than its bytes: another
        place has another offset, and a later one a greater.
        """
        start = self._starts[line - 1] if line <= len(self._starts) else self._read
        return start + column - 1

    def head(self) -> str:
        """The beginning, to tell what it is written in."""
        beginning = os.pread(self._file.fileno(), 1 << 16, 0)
        whole, _, _ = beginning.rpartition(b"\n")
        return (whole or beginning).decode("utf-8", "replace").removeprefix("\ufeff")

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        looks = 0
        if self._pause and self._read >= self._pause:
            self._pause = 0
            return ""
        while True:
            self._partial += self._file.readline()
            if self._partial.endswith(b"\n"):
                return self._given()
            rotated = self._look()
            looks += rotated
            if looks > GRACE or not self._live:
                if self._partial:
                    return self._given()
                raise StopIteration
            if not self._quiet:
                self._quiet = True
                return ""
            self._idle()
            self._look()  # before anything is read of a file that may be another by now

    def _given(self) -> str:
        line, self._partial, self._quiet = self._partial, b"", False
        self._starts.append(self._read)
        self._read += len(line)
        self._last = (self._last + line)[-HEAD:]
        text = line.decode("utf-8", "surrogateescape")
        return text.removeprefix("\ufeff") if len(self._starts) == 1 else text

    def _look(self) -> bool:
        """Has the name gone to another file? StopIteration if this one is not what it was."""
        if not self._live:
            return False
        seen = self._read + len(self._partial)
        changed = _before(self._file, self._read)[-len(self._last) :] != self._last if self._last else False
        if os.fstat(self._file.fileno()).st_size < seen or changed or not self._known.fits(self._file):
            self.ended = Ended.TRUNCATED
            raise StopIteration
        if self._known.length < HEAD:
            self._known = LogPlace.of(self._file)
        try:
            moved = self.path.stat().st_ino != self._known.inode
        except FileNotFoundError:
            return False  # renamed, and the next is not there yet
        if moved:
            self.ended = Ended.ROTATED
        return moved


def find_earlier_files(path: Path, place: LogPlace) -> list[Path] | None:
    """The files that a log was renamed to since it was read up to `place`, oldest first; None if that one is gone.

    They stand beside it and their names begin with its name (`log.1`, `log-20261116`).
    """
    beside = [p for p in path.parent.iterdir() if p.name.startswith(path.name) and p != path and p.is_file()]
    ordered = sorted(beside, key=lambda p: p.stat().st_mtime_ns)
    for at, found in enumerate(ordered):
        with found.open("rb") as file:
            if place.fits(file):
                return ordered[at:]
    return None
