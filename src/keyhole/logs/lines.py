"""The lines of a log, one after the other: whatever its size, only the line at hand is in memory."""

from __future__ import annotations

import io
import os
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TextIO, TypeAlias

from keyhole.errors import LogError

Progress: TypeAlias = Callable[[str, int, int], None]
LONGEST = 1 << 26  # characters of one line
OFTEN = 8192  # lines between two words of progress
NOT_UTF8 = "it holds bytes that are not UTF-8, so what it asks is not known: write that part of the log in UTF-8"
GROWING = "it was still being written when the log was read: audit the log again when it is whole"
STAMPS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


class LogLines:
    """An iterator over the lines of a log, each with its line break. UTF-8; UTF-16 where the file says so.

    Bytes that are not UTF-8 come as lone surrogates, so that one line in another encoding does not hide the others:
    `readable` finds them. Of a file as much is read as there was when it was opened; a last line without an end in a
    file that grew meanwhile is not given out: it is in `cut`. If what was read is no longer there when the end is
    reached, `LogError` is raised: what was read may be half of one state and half of another.

    >>> lines = LogLines.of_text("a\\nb")
    >>> list(lines), lines.number
    (['a\\n', 'b'], 2)
    """

    def __init__(self, name: str, stream: TextIO, *, size: int = 0, path: Path | None = None) -> None:
        self.name, self.size, self.path = name, size, path
        self.number = 0  # of the line given out last
        self.counted: Callable[[], int] = lambda: 0  # statements, as whoever reads the lines counts them
        self.cut = ""
        self.progress: Progress | None = None
        self._stream = stream
        self._ahead: list[str] = []
        self._begun = time.monotonic()

    @classmethod
    def of_text(cls, text: str, name: str = "the log") -> LogLines:
        """Of a text at hand."""
        return cls(name, io.StringIO(text.removeprefix("\ufeff"), newline="\n"), size=len(text))

    @classmethod
    def of_file(cls, path: Path) -> LogLines:
        """Of a file; of a pipe (`<(zcat log.sql.gz)`) as far as it goes, since it has no size."""
        try:
            raw = path.open("rb")
        except OSError as error:
            raise LogError(f"cannot read {path}: {error.strerror}") from None
        try:
            state = os.fstat(raw.fileno())
            if stat.S_ISFIFO(state.st_mode):
                return cls(str(path), _text(raw), path=path)
            size = state.st_size
            return cls(str(path), _text(io.BufferedReader(_Upto(raw, size), 1 << 20)), size=size, path=path)
        except BaseException as error:
            raw.close()
            if isinstance(error, OSError):
                raise LogError(f"cannot read {path}: {error.strerror}") from None
            raise

    @classmethod
    def of_standard_input(cls) -> LogLines:
        """Of what is piped in; as UTF-8 like every file: in the encoding of a locale names would match nobody."""
        if sys.stdin is None:
            raise LogError("there is no standard input: give the path of a log instead of -")
        name = "standard input"
        return cls(name, _text(sys.stdin.buffer) if isinstance(sys.stdin, io.TextIOWrapper) else sys.stdin)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._ahead.pop(0) if self._ahead else self._next()
        if not line or (not line.endswith("\n") and self._grew(line)):
            self._end()
            raise StopIteration
        self.number += 1
        if self.progress is not None and self.number % OFTEN == 0:
            self._say()
        return line

    def head(self, most: int = 1 << 16) -> str:
        """The first lines, without taking them out; at least one, whatever its length."""
        taken = 0
        while taken < most and (line := self._next()):
            self._ahead.append(line)
            taken += len(line)
        return "".join(self._ahead)

    def rest(self) -> str:
        """All that is left, as one text: for formats that are one document."""
        return "".join(self)

    def close(self) -> None:
        """Close the file. Standard input stays open: it is not ours to close, as a wrapper that goes would do."""
        if self.path is not None:
            self._stream.close()
        elif self._stream is not sys.stdin and isinstance(self._stream, io.TextIOWrapper):
            self._stream.detach()
            self._stream = io.StringIO()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self) -> None:
        """Close a file that was read to its end, if it is one state."""
        if self.path is None or self._stream.closed:
            return
        raw = getattr(getattr(self._stream, "buffer", None), "raw", None)
        changed = isinstance(raw, _Upto) and raw.changed()
        self._stream.close()
        if changed:
            raise LogError(
                f"{self.path.name} changed while it was read, so nothing is said of it: wait until it is complete, or "
                "give a copy"
            )

    def _next(self) -> str:
        if self._stream.closed:
            return ""
        try:
            return self._stream.readline(LONGEST)
        except UnicodeDecodeError:
            raise LogError(f"{self.name} is not the text that its first bytes announce (UTF-16)") from None
        except OSError as error:
            raise LogError(f"cannot read {self.name}: {error.strerror}") from None

    def _grew(self, line: str) -> bool:
        """Is this last line cut off where the file ended when it was opened?"""
        grew = self.growing()
        self.cut = line if grew else ""
        return grew

    def growing(self) -> bool:
        """Is it a file that is longer than when it was opened, or that another process has open for writing?"""
        from keyhole.datasets.files.growing import written_elsewhere

        try:
            if self.path is None or self.path.is_fifo():
                return False
            return self.path.stat().st_size > self.size or written_elsewhere(self.path)
        except OSError:  # it is gone meanwhile
            return False

    def _say(self) -> None:
        assert self.progress is not None
        done = self._done()
        rate = done / max(time.monotonic() - self._begun, 1e-9) / 1e6
        said = (
            f"reading {Path(self.name).name}: {self.counted():,} statements, {done / 1e6:,.0f} MB at {rate:,.0f} MB/s"
        )
        self.progress(said, done, self.size)

    def _done(self) -> int:
        raw = getattr(getattr(self._stream, "buffer", None), "raw", None)
        return raw.read_so_far if isinstance(raw, _Upto) else 0


class _Upto(io.RawIOBase):
    """A file up to the size it had, however it grows meanwhile."""

    def __init__(self, raw: BinaryIO, size: int) -> None:
        self._raw, self._left, self.read_so_far, self._sum = raw, size, 0, 0
        self._written = os.fstat(raw.fileno()).st_mtime_ns

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)[: self._left]  # type: ignore[arg-type]
        count = self._raw.readinto(view) if self._left else 0  # type: ignore[attr-defined]
        self._left -= count
        self.read_so_far += count
        self._sum = zlib.crc32(view[:count], self._sum)
        return int(count)

    def changed(self) -> bool:
        """Is what was read no longer there? What was added behind it does not count.

        Cost: one system call; where the file was written to meanwhile, it is read once more.
        """
        if os.fstat(self._raw.fileno()).st_mtime_ns == self._written:
            return False
        self._raw.seek(0)
        left, again = self.read_so_far + self._left, 0
        while left and (part := self._raw.read(min(left, 1 << 20))):
            left, again = left - len(part), zlib.crc32(part, again)
        return bool(left) or again != self._sum

    def close(self) -> None:
        self._raw.close()
        super().close()


def _text(stream: BinaryIO | io.BufferedReader) -> TextIO:
    """Bytes as text; lines end with a line feed and nothing else."""
    start = stream.peek(4) if isinstance(stream, io.BufferedReader) else b""
    encoding = next((code for stamp, code in STAMPS.items() if start.startswith(stamp)), "utf-8")
    errors = "surrogateescape" if encoding != "utf-16" else "strict"
    return io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline="\n")


def readable(text: str) -> bool:
    """Was all of it in the encoding of the log?

    >>> readable("Köln"), readable(b"K\\xf6ln".decode("utf-8", "surrogateescape"))
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """A text with the bytes that are no UTF-8 written out."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
