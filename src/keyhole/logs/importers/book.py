"""A book as a log: every statement that was answered, with what was told. Nothing that is sealed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from keyhole.book import Book, BookEntry, Mark
from keyhole.book.noisy_tables import table_lines


def transcript(book: Book) -> Iterator[str]:
    """JSON lines of a transcript, in the order of the book; each release once."""
    return (line for _, line in told(book))


def told(book: Book) -> Iterator[tuple[int, str]]:
    """The same, each line with the epoch of the data that it is about."""
    for entry in book.entries():
        if entry.kind in (Mark.ANSWER, Mark.PUBLISHED, Mark.UNJUDGED):
            yield entry.epoch, _line(entry)
        elif entry.kind == Mark.RELEASE:
            answer = entry.body["answer"]
            lines = table_lines(answer) if answer.get("kind") in ("table", "number") else answer.get("lines", ())
            yield from ((entry.epoch, line) for line in lines)


def _line(entry: BookEntry) -> str:
    body = entry.body
    found: dict[str, Any] = {"sql": body["sql"]}
    who = {} if entry.analyst is None else {"analyst": entry.analyst}
    if entry.analyst is not None or "time" in body:
        who["time"] = str(body.get("time") or entry.at)
    if body.get("answer") is not None:
        found["answer"] = body["answer"]
    if not isinstance(found.get("answer"), list):
        return json.dumps(found | who, ensure_ascii=False)
    rows = []
    for row in body["answer"]:
        values = ", ".join(_value(v) for v in row["values"])
        rows.append(f'{{"key": {json.dumps(row["key"], ensure_ascii=False)}, "values": [{values}]}}')
    about = "".join(f", {json.dumps(name)}: {json.dumps(said, ensure_ascii=False)}" for name, said in who.items())
    return f'{{"sql": {json.dumps(body["sql"], ensure_ascii=False)}, "answer": [{", ".join(rows)}]{about}}}'


def _value(value: str | bool | None) -> str:
    """A number with all its digits."""
    return value if isinstance(value, str) else json.dumps(value)
