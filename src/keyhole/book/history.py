"""The history of `watch` as it was before there was a book: JSON lines, each with a checksum."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyhole.errors import LogError

UNCHAINED = 1  # the format in which every line had a checksum of its own
FORMATS = (UNCHAINED, 2, 3)


@dataclass(slots=True)
class OldHistory:
    """What such a file says: whom it was made for, which values, and the statements that count."""

    fingerprint: str
    version: str | None
    values: dict[str, str] = field(default_factory=dict)
    past: list[dict[str, Any]] = field(default_factory=list)


def read_history(path: Path) -> OldHistory:
    """All of it; a last line cut short by a crash was never acknowledged, any other damage is an error."""
    lines = path.read_bytes().splitlines(keepends=True)
    header = _parse(lines[0], 0) if lines else None
    if header is None or header.get("keyhole") != "history":
        raise LogError(f"{path} is not a history of keyhole, or its first line is damaged")
    if header.get("format") not in FORMATS:
        raise LogError(f"{path} has format {header.get('format')}, this program reads up to {FORMATS[-1]}")
    found = OldHistory(header["fingerprint"], header.get("version"), dict(header.get("values") or {}))
    chained = header["format"] != UNCHAINED
    before = _crc(lines[0]) if chained else 0
    for number, line in enumerate(lines[1:], 2):
        fields = _parse(line, before)
        if fields is None:
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise LogError(
                f"{path}, line {number} is damaged, or one before it is missing: a history that has lost a statement "
                "cannot say what is safe. Restore the file from a backup"
            )
        before = _crc(line) if chained else 0
        if "sql" in fields:
            found.past.append(fields)
        else:
            found.version = fields.get("version")
            found.values |= fields.get("values") or {}
    return found


def _parse(line: bytes, before: int) -> dict[str, Any] | None:
    """The fields of a line, None if it is not what was written there."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not line.endswith(b"\n"):
        return None
    found.pop("crc", None)
    body = json.dumps(found, default=str)
    whole = f'{body[:-1]}, "crc": "{zlib.crc32(body.encode(), before):08x}"}}\n'.encode()
    return found if whole == line else None


def _crc(line: bytes) -> int:
    return int(line[-11:-3], 16)
