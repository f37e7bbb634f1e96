"""An export as records with their lines: CSV with a header, a JSON array, an object that holds one, or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import chain
from typing import Any, TypeAlias

from keyhole.errors import LogError
from keyhole.logs.importers.json_records import Record, json_records, short

_LONGEST = 1 << 26  # characters of one CSV field


Text: TypeAlias = str | Iterable[str]  # a text, or its lines


def lines_of(text: Text) -> Iterator[str]:
    """The lines of a text, each with its line break.

    >>> list(lines_of("a\\nb")), list(lines_of(["a\\n", "b"]))
    (['a\\n', 'b'], ['a\\n', 'b'])
    """
    return iter(StringIO(text, newline="\n") if isinstance(text, str) else text)


def joined(text: Text) -> str:
    """All of a text."""
    return text if isinstance(text, str) else "".join(text)


def csv_rows(text: Text) -> Iterator[tuple[list[str], int]]:
    """The rows of a CSV text, each with the line it starts on; that of an empty line is empty."""
    before = csv.field_size_limit(_LONGEST)
    number, start = 0, 1

    def counted() -> Iterator[str]:
        nonlocal number
        for line in lines_of(text):
            number += bool(line)  # a log that is followed has none at the moment: no line of it
            yield line

    try:
        for row in csv.reader(counted(), strict=False):
            yield row, start
            start = number + 1
    except csv.Error as error:
        raise LogError(f"line {start}: not CSV ({error}); is a quote open?") from None
    finally:
        csv.field_size_limit(before)


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
    for row, at in csv_rows(chain(first, lines)):
        if not row:
            continue
        if header is None:
            header = [part.strip().lower() for part in row]
        elif len(row) != len(header):
            yield Record({}, at, f"it has {len(row)} fields where the header has {len(header)}: {short(row)}")
        else:
            yield Record(dict(zip(header, row, strict=True)), at)


def document(text: Text, name: str) -> Any:
    """A whole JSON document."""
    try:
        return json.loads(joined(text))
    except ValueError as error:
        raise LogError(f"{name} is not JSON: {error}") from None


def line_of(text: str, position: int) -> int:
    """The line of a character offset, from 1."""
    return text.count("\n", 0, position) + 1
