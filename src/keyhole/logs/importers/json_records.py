"""JSON records with their lines: those of an array, of an object that holds one, or JSON lines, one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from keyhole.errors import LogError

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
        found = (self.fields.get(name) for name in names)
        return next((str(v) for v in found if v is not None and str(v).strip()), None)


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
