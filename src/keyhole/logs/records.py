"""An export as records with their lines: CSV with a header, a JSON array, an object that holds one, or JSON lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from keyhole.errors import LogError

Text: TypeAlias = str | Iterable[str]  # a text, or its lines
_LONGEST = 1 << 26  # characters of one CSV field
LISTS = ("result", "results", "rows", "data", "items", "queries")
_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[\s,]*")
_NEXT = re.compile(r"\n[ \t]*\{")  # where the next record of JSON lines begins
PATIENCE = 1 << 20  # characters within which a record of JSON lines must be whole


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

    def stamp(self, *names: str) -> str | None:
        """The first of these fields that is there, as text; None if none is."""
        return read_field(self.fields, *names)


def read_field(fields: object, *names: str) -> str | None:
    """The first of these fields of an object, as text; None if none is there.

    >>> read_field({"id": 7, "email": " "}, "email", "id"), read_field(None, "id")
    ('7', None)
    """
    found = (fields.get(name) for name in names) if isinstance(fields, Mapping) else ()
    return next((str(v) for v in found if v is not None and str(v).strip()), None)


def records(text: Text, name: str) -> Iterator[Record]:
    """The records of an export, one by one.

    >>> [(r.fields, r.at) for r in records("Query,calls\\nSELECT 1,2\\n", "x.csv")]
    [({'query': 'SELECT 1', 'calls': '2'}, 2)]
    >>> [r.at for r in records('[\\n{"a": 1},\\n{"a": 2}]', "x.json")]
    [2, 3]
    """
    lines = lines_of(text)
    first: list[str] = []  # blank lines before the first that is not
    for line in lines:
        first.append(line)
        if line.strip():
            break
    begun = first[-1].lstrip() if first else ""
    if begun[:1] in ("{", "["):
        yield from json_records(chain(first, lines), name, array=begun[0] == "[")
        return
    header: list[str] | None = None
    for row, at, fault in csv_rows(chain(first, lines)):
        if not row:
            continue
        if fault:
            yield Record({}, at, fault, row[0])
        elif header is None:
            header = [part.strip().lower() for part in row]
        elif len(row) != len(header):
            yield Record({}, at, f"it has {len(row)} fields where the header has {len(header)}: {short(row)}")
        else:
            yield Record(dict(zip(header, row, strict=True)), at)


def lines_of(text: Text) -> Iterator[str]:
    """The lines of a text, each with its line break.

    >>> list(lines_of("a\\nb")), list(lines_of(["a\\n", "b"]))
    (['a\\n', 'b'], ['a\\n', 'b'])
    """
    return iter(StringIO(text, newline="\n") if isinstance(text, str) else text)


def joined(text: Text) -> str:
    """All of a text."""
    return text if isinstance(text, str) else "".join(text)


class CsvRow(NamedTuple):
    """A row of a CSV text, the line it starts on, and why its fields are not known, if they are not."""

    fields: list[str]
    at: int
    fault: str = ""


def csv_rows(text: Text) -> Iterator[CsvRow]:
    """The rows of a CSV text; that of an empty line is empty. A row whose quotes do not close has no fields but its
    text, and says so: a quote that is left open takes the rows behind it into one field.

    >>> [(row.fields, row.at, bool(row.fault)) for row in csv_rows('a,"b"\\nc,"d\\ne,f\\n')]
    [(['a', 'b'], 1, False), (['c,"d\\ne,f\\n'], 2, True)]
    """
    before = csv.field_size_limit(_LONGEST)
    number, start = 0, 1
    taken: list[str] = []  # the lines of the row at hand

    def counted() -> Iterator[str]:
        nonlocal number
        for line in lines_of(text):
            number += bool(line)  # a log that is followed has none at the moment: no line of it
            taken.append(line)
            yield line

    rows = csv.reader(counted(), strict=True)
    try:
        while True:
            try:
                yield CsvRow(next(rows), start)
            except StopIteration:
                return
            except csv.Error as error:
                if not taken:
                    return
                fault = f"a quote of this CSV row is never closed, or closes in the wrong place ({error})"
                yield CsvRow(["".join(taken)], start, fault)
            start = number + 1
            taken.clear()
    finally:
        csv.field_size_limit(before)


def document(text: Text, name: str) -> Any:
    """A whole JSON document."""
    try:
        return json.loads(joined(text))
    except ValueError as error:
        raise LogError(f"{name} is not JSON: {error}") from None


def line_of(text: str, position: int) -> int:
    """The line of a character offset, from 1."""
    return text.count("\n", 0, position) + 1


def json_records(lines: Iterable[str], name: str, *, array: bool) -> Iterator[Record]:
    """The records. A broken line of JSON lines is a record with a fault, and the others go on; a broken array ends it.

    An object that holds a list of records (`result`, `rows`, ...) and stands alone is held in memory whole.
    """
    window = _Window(lines)
    window.gap()
    if array:
        window.at += 1
        yield from _items(window, name)
        return
    line = window.line
    try:
        first = window.decoded(array=False)
    except ValueError as error:
        if _NEXT.search(window.text, window.at) is None:
            raise LogError(f"{name} is not JSON: {error}") from None
        yield from _lines(window)  # one of several lines
        return
    key = next((k for k in LISTS if isinstance(first, dict) and isinstance(first.get(k), list)), None)
    text = window.last
    if key is not None and not window.gap():
        inner = _Window([text])
        opened = re.compile(rf'"{key}"\s*:\s*\[').search(text)
        assert opened is not None
        inner.more()
        inner.at, inner.line = opened.end(), line + text.count("\n", 0, opened.end())
        yield from _items(inner, name)
        return
    yield _record(first, line)
    yield from _lines(window)


class _Window:
    """The part of a text that is being read: `text` from `at` on, which stands on `line`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.text, self.at, self.line = "", 0, 1
        self.last = ""  # the text of the value read last

    def more(self, count: int = 1) -> bool:
        """Some lines more; False if there are none. A log that is followed has fewer at the moment."""
        found = []
        for line in islice(self._lines, count):
            found.append(line)
            if not line:
                break
        self.text, self.at = self.text[self.at :] + "".join(found), 0
        return bool(found)

    def gap(self) -> bool:
        """Go to what is next; False if there is nothing."""
        while True:
            match = _GAP.match(self.text, self.at)
            assert match is not None
            self.line += self.text.count("\n", self.at, match.end())
            self.at = match.end()
            if self.at < len(self.text):
                return True
            if not self.more():
                return False

    def decoded(self, *, array: bool) -> Any:
        """The value that begins here; ValueError if there is none."""
        count = 1
        while True:
            try:
                item, end = _DECODER.raw_decode(self.text, self.at)
            except ValueError:
                broken = not array and (len(self.text) - self.at > PATIENCE or self._goes_on())
                if broken or not self.more(count):
                    raise
                count *= 2
                continue
            self.line += self.text.count("\n", self.at, end)
            self.last, self.at = self.text[self.at : end], end
            return item

    def _goes_on(self) -> bool:
        """Does another record begin at the start of a line? Then this one is broken."""
        return self.text.find("\n{", self.at) >= 0


def _items(window: _Window, name: str) -> Iterator[Record]:
    """The items of an array, from its first on."""
    while window.gap():
        if window.text[window.at] == "]":
            window.at += 1
            line = window.line
            if window.gap() and window.text[window.at] in "[{":
                while window.more(1 << 16) and len(window.text) < PATIENCE:
                    pass
                rest = window.text[window.at :]
                yield Record({}, line, "what follows the end of the array was not read: one array a file", rest)
            return
        line = window.line
        try:
            item = window.decoded(array=True)
        except ValueError as error:
            raise LogError(f"{name}, line {line}: not JSON ({error})") from None
        yield _record(item, line)


def _lines(window: _Window) -> Iterator[Record]:
    """JSON lines."""
    while window.gap():
        line = window.line
        try:
            item = window.decoded(array=False)
        except ValueError as error:
            follows = _NEXT.search(window.text, window.at)
            end = follows.start() if follows is not None else len(window.text)
            said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            broken = window.text[window.at : end]
            yield Record({}, line, f"not JSON ({said}): {short(broken)}", broken)
            window.line += window.text.count("\n", window.at, end)
            window.at = end
            continue
        yield _record(item, line)


def _record(item: object, line: int) -> Record:
    if isinstance(item, dict):
        return Record({str(k).lower(): v for k, v in item.items()}, line)
    return Record({}, line, f"it is not an object: {short(item)}", str(item))


def short(value: object) -> str:
    """The beginning of what was found."""
    text = str(value)
    return text if len(text) <= 80 else text[:79] + "…"
