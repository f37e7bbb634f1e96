"""Keyhole's own logs: a transcript of JSON lines (a statement, its answer, who asked when), and a book read as one.

Of a book a transcript has every statement that was answered, with what was told, and nothing that is sealed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keyhole.errors import LogError
from keyhole.logs.exported import Exported
from keyhole.logs.records import Text, lines_of
from keyhole.model.transcript import ABSENT, parse_line
from keyhole.sql import Dialect
from keyhole.sql.statements.scripts import Script

if TYPE_CHECKING:
    from keyhole.book import Book, BookEntry

_PLAIN = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)


def read(text: Text, dialect: Dialect = Dialect.DUCKDB) -> Iterator[Exported]:
    """The statements, each with its answer. A broken line is listed, and the others go on; what only steers a session
    is passed over.

    >>> [(f.sql, f.answer) for f in read('{"sql": "SELECT SUM(x) FROM t", "answer": 3}')]
    [('SELECT SUM(x) FROM t', Decimal('3'))]
    """
    session = Script(dialect)
    place = 0
    for part in lines_of(text):
        place += bool(part)  # a log that is followed has none at the moment: no line of it
        if not part.strip():
            continue
        try:
            line = parse_line(part, 0, place, "")  # the verdict names the log, or does not
        except LogError as error:
            yield Exported(part.rstrip("\r\n"), place, str(error), is_raw=True)
            continue
        steps = [] if _PLAIN.match(line.sql) else list(session.steps(line.sql, place))
        asked = [step for step in steps if not step.steers]
        steers = bool(steps) and not asked and line.answer is ABSENT
        sql, unjudged = (asked[0].sql, asked[0].unjudged) if len(asked) == 1 else (line.sql, "")
        unjudged = unjudged or ("" if steers else session.doubt)
        said = (line.sql if unjudged else sql, place, "", dialect, steers, unjudged)
        yield Exported(*said, False, line.analyst, line.time, line.answer, line.noise)


def transcript_of_book(book: Book) -> Iterator[str]:
    """JSON lines of a transcript, in the order of the book; each release once."""
    return (line for _, line in lines_of_book(book))


def lines_of_book(book: Book) -> Iterator[tuple[int, str]]:
    """The same, each line with the epoch of the data that it is about."""
    from keyhole.book import Mark
    from keyhole.book.noisy_tables import table_lines

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
