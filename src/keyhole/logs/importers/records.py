"""An export as records with their lines: CSV with a header, a JSON array, an object that holds one, or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

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


def document(text: Text, name: str) -> Any:
    """A whole JSON document."""
    try:
        return json.loads(joined(text))
    except ValueError as error:
        raise LogError(f"{name} is not JSON: {error}") from None


def line_of(text: str, position: int) -> int:
    """The line of a character offset, from 1."""
    return text.count("\n", 0, position) + 1
