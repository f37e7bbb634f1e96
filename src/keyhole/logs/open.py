"""A log to lines: SQL statements, JSON lines with answers, or the query history of another system."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyhole.errors import LogError
from keyhole.sql import Dialect, split
from keyhole.sql.engines import spoken
from keyhole.sql.scripts import Script
from keyhole.transcript import ABSENT, Line, Refusal, noise_of, parse_line, read_jsonl

if TYPE_CHECKING:
    from keyhole.logs.importers.exported import Exported


class LogFormat(StrEnum):
    """What a log is written in."""

    AUTO = "auto"
    SQL = "sql"
    JSONL = "jsonl"
    POSTGRES_CSVLOG = "postgres-csvlog"
    PG_STAT_STATEMENTS = "pg-stat-statements"
    DUCKDB = "duckdb"
    BIGQUERY = "bigquery"
    SNOWFLAKE = "snowflake"
    DBT = "dbt"
    METABASE = "metabase"
    SUPERSET = "superset"


def _importer(name: str) -> Callable[[str, str], Iterator[Exported]]:
    """An importer, imported when it is called."""

    def read(text: str, file: str) -> Iterator[Exported]:
        found: Iterator[Exported] = import_module(f"keyhole.logs.importers.{name}").read(text, file)
        return found

    return read


IMPORTERS: dict[LogFormat, Callable[[str, str], Iterator[Exported]]] = {
    LogFormat.POSTGRES_CSVLOG: _importer("postgres_csvlog"),
    LogFormat.PG_STAT_STATEMENTS: _importer("pg_stat_statements"),
    LogFormat.DUCKDB: _importer("duckdb"),
    LogFormat.BIGQUERY: _importer("bigquery"),
    LogFormat.SNOWFLAKE: _importer("snowflake"),
    LogFormat.DBT: _importer("dbt"),
    LogFormat.METABASE: _importer("metabase"),
    LogFormat.SUPERSET: _importer("superset"),
}

# Fields that give an export away, most telling first: all of a group must be there.
_TELLING: tuple[tuple[frozenset[str], LogFormat], ...] = (
    (frozenset({"query_text"}), LogFormat.SNOWFLAKE),
    (frozenset({"dataset_query"}), LogFormat.METABASE),
    (frozenset({"protopayload"}), LogFormat.BIGQUERY),
    (frozenset({"query", "job_id"}), LogFormat.BIGQUERY),
    (frozenset({"query", "statement_type"}), LogFormat.BIGQUERY),
    (frozenset({"query", "queryid"}), LogFormat.PG_STAT_STATEMENTS),
    (frozenset({"query", "calls"}), LogFormat.PG_STAT_STATEMENTS),
    (frozenset({"message", "type"}), LogFormat.DUCKDB),
    (frozenset({"query_name"}), LogFormat.DUCKDB),
    (frozenset({"metadata", "nodes"}), LogFormat.DBT),
    (frozenset({"metadata", "results"}), LogFormat.DBT),
    (frozenset({"unique_id", "status"}), LogFormat.DBT),
    (frozenset({"sql", "label"}), LogFormat.SUPERSET),
    (frozenset({"sql", "executed_sql"}), LogFormat.SUPERSET),
    (frozenset({"sql", "client_id"}), LogFormat.SUPERSET),
)
_TRANSCRIPT = frozenset({"sql", "answer", "noise"})
_PLAIN = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Log:
    """A log that was read: its statements, and what could not be turned into one, numbered in one order."""

    name: str
    format: LogFormat
    lines: tuple[Line, ...]
    refused: tuple[Refusal, ...] = ()
    at: tuple[tuple[str, int], ...] = ()  # line of each refused entry
    passed: int = 0  # statements that only steer the session: in no other count
    unjudged: tuple[Refusal, ...] = ()  # read, and not judged: what EXPLAIN, COPY or CREATE TABLE AS make of a question

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
) -> Log:
    """Read a log from a path, from standard input (`-`), or from text that holds a SELECT.

    `auto` goes by the extension (.sql, .jsonl), then by the header or the fields. What an importer cannot read is
    listed in `refused`. `dialect` is what the statements were written for; by default what the export says, and DuckDB
    for plain logs.

    >>> open_log("query,calls\\nSELECT SUM(x) FROM t,3\\nSELECT SUM(x) FROM t WHERE a = $1,3").format
    <LogFormat.PG_STAT_STATEMENTS: 'pg-stat-statements'>
    """
    if _is_book(log):
        return _of_book(Path(log))
    text, name = _text(log)
    text = text.removeprefix("\ufeff")
    kind = detect(text, name) if format is LogFormat.AUTO else format
    if kind is LogFormat.JSONL:
        return _transcript(text, name, dialect or Dialect.DUCKDB)
    return _numbered(name, kind, _found(text, name, kind, dialect), dialect)


def _transcript(text: str, name: str, dialect: Dialect) -> Log:
    """JSON lines. A broken line is listed, and the others go on; what only steers a session is passed over."""
    lines: list[Line] = []
    refused: list[Refusal] = []
    unjudged: list[Refusal] = []
    at: list[tuple[str, int]] = []
    session, passed, number = Script(dialect), 0, 0
    for place, part in enumerate(text.splitlines(), 1):
        if not part.strip():
            continue
        number += 1
        try:
            line = replace(parse_line(part, number, place, name), dialect=dialect)
        except LogError as error:
            refused.append(Refusal(str(number), part, str(error)))
            at.append((str(number), place))
            continue
        steps = [] if _PLAIN.match(line.sql) else list(session.steps(line.sql))
        asked = [step for step in steps if not step.steers]
        if steps and not asked and line.answer is ABSENT:
            passed, number = passed + 1, number - 1
        elif len(asked) == 1 and asked[0].unjudged:
            unjudged.append(Refusal(str(number), line.sql, asked[0].unjudged))
            at.append((str(number), place))
        else:
            lines.append(replace(line, sql=asked[0].sql) if len(asked) == 1 else line)
    return Log(name, LogFormat.JSONL, tuple(lines), tuple(refused), tuple(at), passed, tuple(unjudged))


def _found(text: str, name: str, kind: LogFormat, dialect: Dialect | None) -> Iterator[Exported]:
    """The statements of a script or of an export."""
    if kind in IMPORTERS:
        return IMPORTERS[kind](text, name)
    from keyhole.logs.importers.exported import statements

    return statements(text, 1, dialect or Dialect.DUCKDB)


def _numbered(name: str, kind: LogFormat, statements: Iterable[Exported], dialect: Dialect | None) -> Log:
    """The log: statements that ask are numbered, in order; those that steer are only counted."""
    lines: list[Line] = []
    refused: list[Refusal] = []
    unjudged: list[Refusal] = []
    at: list[tuple[str, int]] = []
    number = passed = 0
    for found in statements:
        if found.steers:
            passed += 1
            continue
        number += 1
        if not found.fault and not found.unjudged:
            lines.append(Line(number, found.sql, at=found.at, dialect=dialect or found.dialect))
            continue
        at.append((str(number), found.at))
        if found.fault:
            refused.append(Refusal(str(number), found.sql, f"line {found.at}: {found.fault}"))
        else:
            unjudged.append(Refusal(str(number), found.sql, found.unjudged))
    return Log(name, kind, tuple(lines), tuple(refused), tuple(at), passed, tuple(unjudged))


def as_log(
    log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]], dialect: str | None = None
) -> Log:
    """A log in any form that Python has for it: a path, text, a list of statements, or of statements with answers.

    `dialect` says what the statements were written for, whatever the log says of it.

    >>> as_log(["SELECT SUM(x) FROM t"], "postgresql").dialect
    'postgres'
    """
    engine = None if dialect is None else spoken(dialect)
    if isinstance(log, Log):
        said = log.lines if engine is None else tuple(replace(line, dialect=engine) for line in log.lines)
        return replace(log, lines=said)
    if isinstance(log, str | Path):
        return open_log(log, dialect=engine)
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
            noise = noise_of(item.get("noise"), f"statement {number}")
            found.append(Line(number, str(item["sql"]), item.get("answer", ABSENT), noise, at=number))
        else:
            found.append(Line(number, item[0], item[1], at=number))
    found = [replace(line, dialect=engine or line.dialect) for line in found]
    return Log("the log", LogFormat.SQL, tuple(found))


def read_log(log: str | Path) -> list[Line]:
    """The statements of a .sql or .jsonl log, of standard input (`-`), or of a text that holds a SELECT.

    >>> [line.sql for line in read_log("SELECT SUM(x) FROM t; SELECT AVG(x) FROM t")]
    ['SELECT SUM(x) FROM t', 'SELECT AVG(x) FROM t']
    """
    return read_text(*_text(log))


def read_text(text: str, name: str) -> list[Line]:
    """Statements or JSON lines, whichever the text holds."""
    text = text.removeprefix("\ufeff")
    return _lines(text, name, LogFormat.JSONL if text.lstrip()[:1] == "{" else LogFormat.SQL)


def detect(text: str, name: str) -> LogFormat:
    """What a log is written in, by its name and its first record.

    >>> detect("SELECT 1", "-"), detect('{"sql": "SELECT 1", "answer": 1}', "x")
    (<LogFormat.SQL: 'sql'>, <LogFormat.JSONL: 'jsonl'>)
    """
    suffix = Path(name).suffix.lower() if len(name) < 1000 else ""
    start = text.lstrip()[:1]
    if suffix == ".sql":
        return LogFormat.SQL
    fields = _json_fields(text) if start in ("{", "[") else _csv_fields(text)
    if start == "{" and "sql" in fields and fields <= _TRANSCRIPT:
        return LogFormat.JSONL
    for telling, kind in _TELLING:
        if telling <= fields:
            return kind
    if suffix == ".jsonl" or (start == "{" and (suffix != ".json" or "sql" in fields)):
        return LogFormat.JSONL
    if start != "[" and _is_csvlog(text):
        return LogFormat.POSTGRES_CSVLOG
    if start != "[" and suffix not in (".csv", ".json"):
        return LogFormat.SQL
    known = ", ".join(kind for kind in LogFormat if kind is not LogFormat.AUTO)
    raise LogError(f"cannot tell what {name} was written by: say it with --log-format, one of {known}")


def _json_fields(text: str) -> frozenset[str]:
    """Names of the first whole object's fields, and of the first object in the lists it holds."""
    start = text.lstrip()
    if start[0] == "[":
        start = start[1:].lstrip()
    first = None
    for _ in range(20):
        try:
            first = json.JSONDecoder().raw_decode(start)[0]
            break
        except ValueError:  # a broken line: the next one may tell
            start = start.partition("\n")[2].lstrip()
    names: set[str] = set()
    for part in (
        (first, *(v[0] for v in first.values() if isinstance(v, list) and v)) if isinstance(first, dict) else ()
    ):
        if isinstance(part, dict):
            names |= {str(k).lower() for k in part}
    return frozenset(names)


def _csv_fields(text: str) -> frozenset[str]:
    from keyhole.logs.importers.records import csv_rows

    row = next((row for row, _ in csv_rows(text)), [])
    return frozenset(part.strip().lower() for part in row)


def _is_csvlog(text: str) -> bool:
    from keyhole.logs.importers.postgres_csvlog import COLUMNS
    from keyhole.logs.importers.records import csv_rows

    row = next((row for row, _ in csv_rows(text)), [])
    return len(row) in COLUMNS and _TIME.match(row[0]) is not None


def _text(log: str | Path) -> tuple[str, str]:
    name = str(log)
    if name == "-":
        return _standard_input(), "standard input"
    if isinstance(log, str) and not log.strip():
        raise LogError("the log is empty: give statements, or the path of a .sql or .jsonl file")
    if isinstance(log, str) and ("\n" in log or "select" in log.lower()) and not _is_file(log):
        return log, "the log"
    return _read(Path(log)), name


def _standard_input() -> str:
    """All of it, as UTF-8 like every file: in the encoding of a locale names would match nobody."""
    if sys.stdin is None:
        raise LogError("there is no standard input: give the path of a log instead of -")
    if not isinstance(sys.stdin, io.TextIOWrapper):
        return str(sys.stdin.read())
    try:
        raw: bytes = sys.stdin.buffer.read()
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise LogError("standard input is not UTF-8 text; a log is SQL statements or JSON lines") from None


def _lines(text: str, name: str, kind: LogFormat) -> list[Line]:
    if kind is LogFormat.JSONL:
        return list(read_jsonl(text.splitlines(), name))
    return [Line(number, part.sql, at=part.line) for number, part in enumerate(split(text), 1)]


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _is_book(log: str | Path) -> bool:
    if isinstance(log, str) and not _is_file(log):
        return False
    try:
        with Path(log).open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except OSError:
        return False


def _of_book(path: Path) -> Log:
    """A book as the transcript that it is. What was answered about an earlier version of the data is listed as not
    judged: the data at hand is another.
    """
    from keyhole.book import Book
    from keyhole.logs.importers.book import told

    lines, unjudged = [], []
    with Book.rehearsal(path) as book:  # a copy: reading a log changes nothing
        epochs = book.state.epochs
        for number, (epoch, text) in enumerate(told(book), 1):
            line = parse_line(text, number, number, str(path))
            if epoch == len(epochs):
                lines.append(line)
                continue
            version = epochs[epoch - 1]["version"] if epoch else None
            why = f"it is about version {version!r} of the data, and the book has gone on to {epochs[-1]['version']!r}"
            unjudged.append(Refusal(str(number), line.sql, why))
    return Log(str(path), LogFormat.JSONL, tuple(lines), unjudged=tuple(unjudged))


def _read(path: Path) -> str:
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix in (".sql", ".jsonl"))[:5]
        hint = f" In that folder: {', '.join(near)}." if near else ""
        raise LogError(f"there is no log {path}.{hint}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LogError(f"{path.name} is not UTF-8 text; a log is SQL statements or JSON lines") from None
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror}") from None
