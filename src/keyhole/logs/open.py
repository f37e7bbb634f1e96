"""A log to lines: SQL statements, JSON lines with answers, or the query history of another system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keyhole.errors import LogError
from keyhole.logs.collect import Collection
from keyhole.logs.detect import detect
from keyhole.logs.exported import Exported, scripted
from keyhole.logs.importers import IMPORTERS, LogFormat
from keyhole.logs.lines import LogLines, Progress, readable
from keyhole.model.transcript import ABSENT, Line, Refusal, parse_line, parse_noise, read_jsonl
from keyhole.sql import Dialect, split_statements
from keyhole.sql.dialects.engine import parse_dialect

__all__ = ["IMPORTERS", "Log", "LogFormat", "as_log", "detect", "open_log", "read_log", "read_text"]

DOCUMENT = 1 << 26  # characters of one JSON document that are looked at to tell what it is


@dataclass(frozen=True, slots=True)
class Log:
    """A log that was read: its statements, and what could not be turned into one, numbered in one order.

    Where repeats were folded (`keyhole.logs.fold`), a line is the first of its kind, and says how often it came.
    """

    name: str
    format: LogFormat
    lines: tuple[Line, ...]
    refused: tuple[Refusal, ...] = ()
    at: tuple[tuple[str, int], ...] = ()  # line of each refused entry
    passed: int = 0  # statements that only steer the session: in no other count
    unjudged: tuple[Refusal, ...] = ()  # read, and not judged: what EXPLAIN, COPY or CREATE TABLE AS make of a question
    failed: int = 0  # statements that ended in an error and were not answered: in no other count
    ignored: int = 0  # statements that read ignored tables alone: in no other count

    @property
    def dialect(self) -> str:
        """What the statements were written for; several names where a log is of several engines."""
        return ", ".join(sorted({line.dialect for line in self.lines})) or Dialect.DUCKDB

    def places(self) -> dict[str, int]:
        """The line of the file on which each statement starts, by its number."""
        return {**{str(line.number): line.at for line in self.lines}, **dict(self.at)}


def open_log(
    log: str | Path,
    format: LogFormat = LogFormat.AUTO,  # noqa: A002 - the word of the option
    dialect: Dialect | None = None,
    usual: Dialect = Dialect.DUCKDB,
) -> Log:
    """Read a log from a path, from standard input (`-`), or from text that holds a SELECT.

    `auto` goes by the extension (.sql, .jsonl), then by the header or the fields. What an importer cannot read is
    listed in `refused`. `dialect` is what the statements were written for; by default what the export says, and `usual`
    for plain logs.

    >>> open_log("query,calls\\nSELECT SUM(x) FROM t,3\\nSELECT SUM(x) FROM t WHERE a = $1,3").format
    <LogFormat.PG_STAT_STATEMENTS: 'pg-stat-statements'>
    """
    if is_book(log):
        return _of_book(log)
    return collect_log(log, Collection(dialect), format, dialect or usual)


def collect_log(
    log: str | Path,
    into: Collection,
    format: LogFormat,  # noqa: A002 - the word of the option
    dialect: Dialect,
    progress: Progress | None = None,
) -> Log:
    """A log as a collection keeps it. Whatever its size, one statement is in memory beside what is kept; what was still
    being written is listed.
    """
    with _lines_of(log) as lines:
        lines.progress, lines.counted = progress, lambda: into.number
        kind = detect(_head(lines), lines.name) if format is LogFormat.AUTO else format
        if kind is LogFormat.SQL:
            into.take_script(lines, dialect)
        else:
            for found in list_statements(lines, lines.name, kind, dialect):
                into.take(found)
        if into.foreign and into.foreign == into.number:
            raise LogError(f"{lines.name} is not UTF-8 text; a log is SQL statements or JSON lines")
        if lines.cut:
            into.growing(lines.cut, lines.number + 1)
        refused, unjudged = tuple(into.refused), tuple(into.unjudged)
        return Log(lines.name, kind, into.kept(), refused, tuple(into.at), into.passed, unjudged, into.failed)


def list_statements(lines: Iterable[str], name: str, kind: LogFormat, dialect: Dialect) -> Iterator[Exported]:
    """The statements of a script, of a transcript or of an export, as they are asked for."""
    if kind in IMPORTERS:
        return IMPORTERS[kind](lines, name)
    if kind is LogFormat.JSONL:
        from keyhole.logs.importers.transcript import read

        return read(lines, dialect)
    return scripted(lines, dialect)


def _head(lines: LogLines) -> str:
    """Enough of a log to tell what it is: its beginning, or all of it where it is one JSON document."""
    head = lines.head()
    first = head.lstrip()
    if first[:1] == "{" and not first.partition("\n")[0].rstrip().endswith("}"):
        return lines.head(DOCUMENT)
    return head


def as_log(
    log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]],
    dialect: str | None = None,
    usual: str | None = None,
) -> Log:
    """A log in any form that Python has for it: a path, text, a list of statements, or of statements with answers.

    `dialect` says what the statements were written for, whatever the log says of it; `usual` where it says nothing.

    >>> as_log(["SELECT SUM(x) FROM t"], "postgresql").dialect
    'postgres'
    """
    engine = None if dialect is None else parse_dialect(dialect)
    default = Dialect.DUCKDB if usual is None else parse_dialect(usual)
    if isinstance(log, Log):
        said = log.lines if engine is None else tuple(replace(line, dialect=engine) for line in log.lines)
        return replace(log, lines=said)
    if isinstance(log, str | Path):
        return open_log(log, dialect=engine, usual=default)
    if not isinstance(log, Iterable) or isinstance(log, Mapping | bytes):
        raise LogError(f"{type(log).__name__} is no log: give a path, SQL text or a list of statements")
    found = []
    for number, item in enumerate(log, 1):
        pair = isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)
        if not (pair or isinstance(item, str) or (isinstance(item, Mapping) and "sql" in item)):
            raise LogError(f"statement {number} is no statement: write SQL text, or a pair of SQL text and answer")
        if isinstance(item, str):
            found.append(Line(number, item, at=number))
        elif isinstance(item, Mapping):
            noise = parse_noise(item.get("noise"), f"statement {number}")
            who, when = (None if item.get(name) is None else str(item[name]) for name in ("analyst", "time"))
            answer = item.get("answer", ABSENT)
            found.append(Line(number, str(item["sql"]), answer, noise, number, analyst=who, time=when))
        else:
            found.append(Line(number, item[0], item[1], at=number))
    found = [replace(line, dialect=engine or default) for line in found]
    return Log("the log", LogFormat.SQL, tuple(found))


def read_log(log: str | Path) -> list[Line]:
    """The statements of a .sql or .jsonl log, of standard input (`-`), or of a text that holds a SELECT.

    >>> [line.sql for line in read_log("SELECT SUM(x) FROM t; SELECT AVG(x) FROM t")]
    ['SELECT SUM(x) FROM t', 'SELECT AVG(x) FROM t']
    """
    with _lines_of(log) as lines:
        text = lines.rest()
    if not readable(text):
        raise LogError(f"{lines.name} is not UTF-8 text; a log is SQL statements or JSON lines")
    return read_text(text, lines.name)


def read_text(text: str, name: str) -> list[Line]:
    """Statements or JSON lines, whichever the text holds."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] == "{":
        return list(read_jsonl(text.splitlines(), name))
    return [Line(number, part.sql, at=part.line) for number, part in enumerate(split_statements(text), 1)]


def _lines_of(log: str | Path) -> LogLines:
    """A path, `-`, or a text that holds a SELECT."""
    if str(log) == "-":
        return LogLines.of_standard_input()
    if isinstance(log, str) and not log.strip():
        raise LogError("the log is empty: give statements, or the path of a .sql or .jsonl file")
    if isinstance(log, str) and ("\n" in log or "select" in log.lower()) and not _is_file(log):
        return LogLines.of_text(log)
    path = Path(log)
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix in (".sql", ".jsonl"))[:5]
        hint = f" In that folder: {', '.join(near)}." if near else ""
        raise LogError(f"there is no log {path}.{hint}")
    return LogLines.of_file(path)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def is_book(log: str | Path) -> bool:
    """Is it a book, by its first bytes, or one in PostgreSQL? A pipe is none: what is read of it is gone."""
    if isinstance(log, str) and not _is_file(log):
        from keyhole.book.store import is_in_postgres

        return is_in_postgres(log)
    try:
        if Path(log).is_fifo():
            return False
        with Path(log).open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except OSError:
        return False


def _of_book(path: str | Path) -> Log:
    """A book as the transcript that it is. What was answered about an earlier version of the data is listed as not
    judged: the data at hand is another.
    """
    from keyhole.book import Book
    from keyhole.logs.importers.transcript import lines_of_book

    lines, unjudged = [], []
    with Book.rehearsal(path) as book:  # a copy: reading a log changes nothing
        epochs = book.state.epochs
        for number, (epoch, text) in enumerate(lines_of_book(book), 1):
            line = parse_line(text, number, number, str(path))
            if epoch == len(epochs):
                lines.append(line)
                continue
            version = epochs[epoch - 1]["version"] if epoch else None
            why = f"it is about version {version!r} of the data, and the book has gone on to {epochs[-1]['version']!r}"
            unjudged.append(Refusal(str(number), line.sql, why))
    return Log(str(path), LogFormat.JSONL, tuple(lines), unjudged=tuple(unjudged))
