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
_NEXT = re.compile(r"\n[ \t]*\{")  # where the next record of JSON lines begins
_LONGEST = 1 << 28  # characters of one CSV field


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its fields by lower-case name, the line it starts on, and what is wrong with it, if anything."""

    fields: dict[str, Any]
    at: int
    fault: str = ""
    raw: str = ""  # what was there instead of fields

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
        if _NEXT.search(text, start) is None:
            raise LogError(f"{name} is not JSON: {error}") from None
        first, end = {}, start  # one of several lines
    key = next((k for k in _LISTS if isinstance(first.get(k), list)), None)
    if key is not None and not text[end:].strip():
        opened = re.compile(rf'"{key}"\s*:\s*\[').search(text)
        assert opened is not None
        yield from _items(text, opened.end(), name)
        return
    yield from _lines(text, start)


def _items(text: str, at: int, name: str) -> Iterator[Record]:
    """The items of an array, from its first on."""
    line, counted = 1, 0
    while True:
        gap = _GAP.match(text, at)
        at = gap.end() if gap is not None else at
        line, counted = line + text.count("\n", counted, at), at
        if at >= len(text):
            return
        if text[at] == "]":
            rest = text[at + 1 :].lstrip()
            if rest[:1] in ("[", "{"):
                yield Record({}, line, "what follows the end of the array was not read: one array a file", rest)
            return
        try:
            item, at = _DECODER.raw_decode(text, at)
        except ValueError as error:
            raise LogError(f"{name}, line {line}: not JSON ({error})") from None
        yield _record(item, line)


def _lines(text: str, at: int) -> Iterator[Record]:
    """JSON lines; one that is broken is a record with a fault, and the others go on."""
    line, counted = 1, 0
    while True:
        gap = _GAP.match(text, at)
        at = gap.end() if gap is not None else at
        if at >= len(text):
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            item, at = _DECODER.raw_decode(text, at)
        except ValueError as error:
            follows = _NEXT.search(text, at)
            end = follows.start() if follows is not None else len(text)
            said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            yield Record({}, line, f"not JSON ({said}): {_short(text[at:end])}", text[at:end])
            at = end
            continue
        yield _record(item, line)


def _record(item: object, line: int) -> Record:
    if isinstance(item, dict):
        return Record({str(k).lower(): v for k, v in item.items()}, line)
    return Record({}, line, f"it is not an object: {_short(item)}", str(item))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:79] + "…"
