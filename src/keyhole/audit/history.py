"""The history of an online auditor on disk: append-only, one checked line a statement, durable before it counts.

A line that was acknowledged is never lost; a line cut short by a crash was not acknowledged, and is removed when the
file is opened next. Each line's checksum goes on from that of the line before, so a line in the middle that is damaged,
missing or out of place is an error. (Whole lines missing at the end cannot be noticed.) The file belongs to one process
at a time, and to the data it was made for: its header has the fingerprint of the roster, the version of the data, and
digests of the private columns under the custodian's key (`keyhole.tables.seal`): the same question before and after
a change of somebody's value tells the change, so a history is not carried on over one.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keyhole.errors import ConfigError, LogError
from keyhole.tables.seal import Seal, key_file, make_key, read_key

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

FORMAT = 3
UNSEALED = 2  # the format without digests of private columns
UNCHAINED = 1  # the format in which every line had a checksum of its own: read, and continued as it is
ANSWERED, PUBLISHED, UNJUDGED = "answered", "published", "unjudged"


@dataclass(frozen=True, slots=True)
class Past:
    """One statement of the history. `how`: answered here, published earlier, or published earlier and not judged."""

    number: int
    sql: str
    how: str = ANSWERED
    answer: Any = None
    error: str = ""

    def fields(self) -> dict[str, Any]:
        """As JSON-ready data; numbers that are not JSON's are kept as text."""
        found: dict[str, Any] = {"query": self.number, "sql": self.sql, "how": self.how}
        if self.answer is not None:
            found["answer"] = self.answer
        if self.error:
            found["error"] = self.error
        return found


class History:
    """An open history file, locked for this process. Every `append` is on disk (fsync) when it returns.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "history.keyhole"
    >>> with History.open(path, "f00d", "2026-11-15") as history:
    ...     history.append(Past(1, "SELECT SUM(x) FROM t"))
    >>> with History.open(path, "f00d", "2026-11-15") as history:
    ...     history.past
    [Past(number=1, sql='SELECT SUM(x) FROM t', how='answered', answer=None, error='')]
    """

    def __init__(self, path: Path, handle: int, version: str | None, past: list[Past], chain: int | None) -> None:
        self.path, self.version, self.past = path, version, past
        self._handle = handle
        self._chain = chain  # checksum of the last line; None if lines are not chained

    @classmethod
    def open(
        cls,
        path: str | Path,
        fingerprint: str,
        version: str | None = None,
        *,
        values: Seal | None = None,
        vouched: bool = False,
    ) -> History:
        """Open or begin a history (an empty file is one to begin).

        Refuses one that was made for other people or other private values, whatever the version, or that another
        process holds. `values` makes digests of the private columns at hand; None: none is, and a change of private
        values cannot be noticed. A column that the history has statements but no digest for is refused too, unless
        the custodian vouches (`vouched`) that its values did not change since: then the digest is written down. The
        same data under a new version: the history carries on, and the version is written down.
        """
        path = Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)
        if not path.exists() or (path.is_file() and path.stat().st_size == 0):
            first = dict(values(make_key(path))) if values is not None else {}
            os.close(_write_whole(path, [_header(fingerprint, version, first)]))
        try:
            handle = os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise ConfigError(f"cannot open the history {path}: {error.strerror}") from None
        try:
            _lock(handle, path)
            if os.fstat(handle).st_ino != path.stat().st_ino:
                raise ConfigError(f"the history {path} was replaced just now by another process: try again")
            header, past, versions, digests, end, chain = _read(path)
            _same_people(path, header, fingerprint, versions[-1], version)
            fresh = _same_values(path, digests, values, vouched or not past) if values is not None else {}
            if end < os.fstat(handle).st_size:
                os.ftruncate(handle, end)
                os.fsync(handle)
            history = cls(path, handle, versions[-1], past, chain)
            if fresh or (version is not None and version != versions[-1]):
                history.version = version if version is not None else versions[-1]
                history._write({"version": history.version} | ({"values": fresh} if fresh else {}))
        except BaseException:
            os.close(handle)
            raise
        return history

    def append(self, past: Past) -> None:
        """Add one statement; it is durable when this returns, or an error is raised and the file is as before."""
        self._write(past.fields())
        self.past.append(past)

    def extend(self, past: Iterable[Past]) -> None:
        """Add several statements, all or none: the whole file is replaced."""
        added = list(past)
        if not added:
            return
        before = self.path.read_bytes().splitlines(keepends=True)
        lines, chain = _lines(added, self._chain)
        handle = _write_whole(self.path, [*before, *lines])
        os.close(self._handle)
        self._handle, self._chain = handle, chain
        self.past.extend(added)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, fields: dict[str, Any]) -> None:
        if self._handle < 0:
            raise ConfigError(f"the history {self.path} is closed")
        line = _line(fields, self._chain or 0)
        size = os.fstat(self._handle).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(self._handle, line[written:])
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, size)
            raise ConfigError(f"cannot write the history {self.path}: {error.strerror}; nothing was allowed") from None
        self._chain = None if self._chain is None else _crc(line)


def write_history(path: str | Path, fingerprint: str, version: str | None, past: Iterable[Past]) -> None:
    """Write a history as a new file: complete or not at all."""
    header = _header(fingerprint, version, {})
    os.close(_write_whole(Path(path), [header, *_lines(past, _crc(header))[0]]))


def _header(fingerprint: str, version: str | None, values: Mapping[str, str]) -> bytes:
    fields = {"keyhole": "history", "format": FORMAT, "fingerprint": fingerprint, "version": version}
    return _line({**fields, "values": dict(values)}, 0)  # {}: no private values were at hand


def _line(fields: dict[str, Any], before: int) -> bytes:
    """A line whose checksum goes on from that of the line before (0: from none)."""
    body = json.dumps(fields, default=str)
    return f'{body[:-1]}, "crc": "{zlib.crc32(body.encode(), before):08x}"}}\n'.encode()


def _lines(past: Iterable[Past], chain: int | None) -> tuple[list[bytes], int | None]:
    found = []
    for item in past:
        found.append(_line(item.fields(), chain or 0))
        chain = None if chain is None else _crc(found[-1])
    return found, chain


def _crc(line: bytes) -> int:
    return int(line[-11:-3], 16)


def _parse(line: bytes, before: int) -> dict[str, Any] | None:
    """The fields of a line, None if it is not what was written there."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not line.endswith(b"\n"):
        return None
    found.pop("crc", None)
    return found if _line(found, before) == line else None


def _read(path: Path) -> tuple[dict[str, Any], list[Past], list[str | None], dict[str, str], int, int | None]:
    """(header, statements, versions, digests, end of the last whole line, its checksum if lines are chained)."""
    lines = path.read_bytes().splitlines(keepends=True)
    header = _parse(lines[0], 0) if lines else None
    if header is None or header.get("keyhole") != "history":
        raise LogError(f"{path} is not a history of keyhole, or its first line is damaged")
    if header.get("format") not in (UNCHAINED, UNSEALED, FORMAT):
        raise LogError(f"{path} has format {header.get('format')}, this program reads {FORMAT}: use a newer keyhole")
    past: list[Past] = []
    versions: list[str | None] = [header.get("version")]
    digests: dict[str, str] = dict(header.get("values") or {})
    end = len(lines[0])
    chain = _crc(lines[0]) if header["format"] != UNCHAINED else None
    for number, line in enumerate(lines[1:], 2):
        fields = _parse(line, chain or 0)
        if fields is None:
            if number == len(lines) and not line.endswith(b"\n"):
                break  # cut short by a crash: it was never acknowledged
            raise LogError(
                f"{path}, line {number} is damaged, or one before it is missing: a history that has lost a statement "
                "cannot say what is safe. Restore the file from a backup"
            )
        end += len(line)
        chain = None if chain is None else _crc(line)
        if "sql" in fields:
            past.append(
                Past(fields["query"], fields["sql"], fields["how"], fields.get("answer"), fields.get("error", ""))
            )
        else:
            versions.append(fields.get("version"))
            digests |= fields.get("values") or {}
    return header, past, versions, digests, end, chain


def _same_people(
    path: Path, header: dict[str, Any], fingerprint: str, recorded: str | None, version: str | None
) -> None:
    if header["fingerprint"] == fingerprint:
        return
    if version is not None and version != recorded:
        what = f"version {version!r} has other people or public values than version {recorded!r}"
    else:
        what = (
            f"people or public values changed, but [source] version is still {recorded!r}"
            if recorded
            else "people or public values changed"
        )
    raise ConfigError(
        f"{path} was made for other data: {what}. What was answered then still counts (the same question before and "
        "after a change tells the difference), so it is not forgotten: give the data that the history was made for, "
        "or begin another history (--history NEW) only if the old answers never left the house"
    )


def _same_values(path: Path, digests: Mapping[str, str], values: Seal, vouched: bool) -> dict[str, str]:
    """The digests to write down; refused if a private value changed, or nobody can say that none did."""
    key = read_key(path) if digests else make_key(path)
    if key is None:
        raise ConfigError(
            f"the key {key_file(path)} is missing, so nobody can say whether private values are still those that the "
            f"history {path} was made for: restore it from a backup, beside the history"
        )
    now = values(key)
    changed = sorted(name for name, mark in now.items() if name in digests and digests[name] != mark)
    if changed:
        raise ConfigError(
            f"{path} was made for other data: private values of {_listed(changed)} changed, and the same question "
            "before and after a change tells it, under a new [source] version too. So nothing is decided: give the "
            "data that the history was made for, answer privately instead (`keyhole answer`), or begin another history "
            "(--history NEW) only if the old answers never left the house"
        )
    fresh = {name: mark for name, mark in now.items() if name not in digests}
    if fresh and not vouched:
        raise ConfigError(
            f"{path} has no digest of {_listed(sorted(fresh))}, so it cannot be shown that private values are still "
            "those that it was made for, and the same question before and after a change tells it. If you know that "
            "none changed since its first statement, say so once with --same-values; else begin another history "
            "(--history NEW), only if the old answers never left the house"
        )
    return fresh


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _lock(handle: int, path: Path) -> None:
    if fcntl is None:  # pragma: no cover
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ConfigError(f"another process is using the history {path}: one at a time") from None


def _write_whole(path: Path, lines: list[bytes]) -> int:
    """Temporary file, fsync, rename, fsync of the folder. Returns it open for appending, locked before it appeared."""
    try:
        created, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ConfigError(f"cannot write the history {path}: {error.strerror}") from None
    os.close(created)
    handle = os.open(name, os.O_RDWR | os.O_APPEND)
    try:
        _lock(handle, path)
        text = b"".join(lines)
        while text:
            text = text[os.write(handle, text) :]
        os.fsync(handle)
        Path(name).replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException as error:
        os.close(handle)
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ConfigError(f"cannot write the history {path}: {error.strerror}") from None
        raise
    return handle
