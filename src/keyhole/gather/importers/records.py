"""An export as records with their lines: CSV with a header, a JSON array, an object that holds one, or JSON lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

from keyhole.errors import LogError

_LISTS = ("result", "results", "rows", "data", "items", "queries")
_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[\s,]*")
_LONGEST = 1 << 28  # characters of one CSV field


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its fields by lower-case name, the line it starts on, and what is wrong with it, if anything."""

    fields: dict[str, Any]
    at: int
    fault: str = ""

    def text(self, *names: str) -> str:
        """The first of these fields that holds text."""
        return next((v for name in names if isinstance(v := self.fields.get(name), str) and v.strip()), "")


def csv_rows(text: str) -> Iterator[tuple[list[str], int]]:
    """The rows of a CSV text, each with the line it starts on; empty lines are left out."""
    before = csv.field_size_limit(_LONGEST)
    try:
        reader = csv.reader(StringIO(text, newline=""), strict=False)
        start = 1
        for row in reader:
            if row:
                yield row, start
            start = reader.line_num + 1
    finally:
        csv.field_size_limit(before)


def records(text: str, name: str) -> Iterator[Record]:
    """The records of an export.

    >>> [(r.fields, r.at) for r in records("Query,calls\\nSELECT 1,2\\n", "x.csv")]
    [({'query': 'SELECT 1', 'calls': '2'}, 2)]
    >>> [r.at for r in records('[\\n{"a": 1},\\n{"a": 2}]', "x.json")]
    [2, 3]
    """
    if text.lstrip()[:1] in ("{", "["):
        yield from _json(text, name)
        return
    header: list[str] | None = None
    for row, at in csv_rows(text):
        if header is None:
            header = [part.strip().lower() for part in row]
        elif len(row) != len(header):
            yield Record({}, at, f"it has {len(row)} fields where the header has {len(header)}: {_short(row)}")
        else:
            yield Record(dict(zip(header, row, strict=True)), at)


def document(text: str, name: str) -> Any:
    """A whole JSON document."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise LogError(f"{name} is not JSON: {error}") from None


def line_of(text: str, position: int) -> int:
    """The line of a character offset, from 1."""
    return text.count("\n", 0, position) + 1


def _json(text: str, name: str) -> Iterator[Record]:
    start = len(text) - len(text.lstrip())
    if text[start] == "[":
        yield from _items(text, start + 1, name)
        return
    try:
        first, end = _DECODER.raw_decode(text, start)
    except ValueError as error:
        raise LogError(f"{name} is not JSON: {error}") from None
    key = next((k for k in _LISTS if isinstance(first.get(k), list)), None)
    if key is not None and not text[end:].strip():
        opened = re.compile(rf'"{key}"\s*:\s*\[').search(text)
        assert opened is not None
        yield from _items(text, opened.end(), name)
        return
    yield from _items(text, start, name)


def _items(text: str, at: int, name: str) -> Iterator[Record]:
    line, counted = 1, 0
    while True:
        gap = _GAP.match(text, at)
        at = gap.end() if gap is not None else at
        if at >= len(text) or text[at] in "]}":
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            item, at = _DECODER.raw_decode(text, at)
        except ValueError as error:
            raise LogError(f"{name}, line {line}: not JSON ({error})") from None
        if isinstance(item, dict):
            yield Record({str(k).lower(): v for k, v in item.items()}, line)
        else:
            yield Record({}, line, f"it is not an object: {_short(item)}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:79] + "…"
