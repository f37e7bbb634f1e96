"""MySQL's and MariaDB's general query log: the file (`log_output = 'FILE'`), or mysql.general_log as CSV or JSON.

Read are the commands Query and Execute (whose text has its values put in); Prepare runs nothing. Connect says who asks
on a connection. The log is written when a statement arrives, so it does not say which statements failed: all count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from keyhole.logs.exported import Asker, Exported, faulty, refuse_record, statements
from keyhole.logs.records import Text, lines_of, records
from keyhole.sql import Dialect
from keyhole.sql.statements.scripts import Script

_HARMLESS = (
    *("Sleep", "Quit", "Init DB", "Field List", "Refresh", "Shutdown", "Statistics", "Processlist", "Kill", "Debug"),
    *("Ping", "Time", "Prepare", "Long Data", "Close stmt", "Reset stmt", "Set option", "Fetch", "Daemon"),
    *("Reset Connection", "Connect"),
)
_NAMES = (
    *("Query", "Execute", "Change user", "Create DB", "Drop DB", "Delayed insert", "Binlog Dump", "Binlog Dump GTID"),
    *("Table Dump", "Connect Out", "Register Slave", "Register Replica", "Error", *_HARMLESS),
)
_LINE = re.compile(
    r"(?:(?P<time>\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?|\d{6} {1,2}\d{1,2}:\d\d:\d\d)\t|\t\t)"
    rf" *(?P<id>\d+) (?P<command>{'|'.join(sorted(_NAMES, key=len, reverse=True))})(?:\t(?P<argument>.*))?\s*",
    re.DOTALL,
)
_HEADER = re.compile(r"Time\s+Id\s+Command\s+Argument")
_STARTED = re.compile(r".*, Version: .*started with:|Tcp port: .*|.*Unix socket: ")
_USER = re.compile(r"(?P<user>[^@\s]*)@")


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of a general log.

    >>> log = "2026-11-16T10:00:00.000001Z\\t    8 Connect\\tann@localhost on hr using Socket\\n"
    >>> log += "2026-11-16T10:00:01.000001Z\\t    8 Query\\tSELECT SUM(x)\\nFROM t\\n"
    >>> [(f.sql, f.analyst, f.at) for f in read(log, "general.log")]
    [('SELECT SUM(x)\\nFROM t', 'ann', 2)]
    """
    lines = lines_of(text)
    first = next((line for line in lines if line), "")
    if first.lstrip()[:1] in ("{", "[") or "command_type" in first.lower():
        yield from _table(_chained(first, lines), name)
        return
    users: dict[str, str] = {}
    sessions: dict[str, Script] = {}
    for command, at in _commands(_chained(first, lines)):
        if isinstance(command, str):
            yield faulty(command, at, "it is not a line of MySQL's general log")
            continue
        yield from _asked(command, at, users, sessions)


def is_general_log(text: str) -> bool:
    """Does a text begin as the file does: with its header, or with a command?"""
    lines = text.splitlines(keepends=True)[:5]
    return any(_HEADER.match(line) or ("\t" in line and _LINE.fullmatch(line)) for line in lines)


def _chained(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _commands(lines: Iterable[str]) -> Iterator[tuple[tuple[str, str, str, str] | str, int]]:
    """(time, connection, command, argument) with its line; an argument goes on until the next command begins.

    Where a log that is followed has nothing more, what there is of it is given; if it goes on, it is given once more,
    as a whole, with the line on which it went on.
    """
    current: list[str] | None = None  # time, connection, command, and the lines of the argument
    start, time, skips, at, told = 1, "", False, 0, False
    for line in lines:
        at += bool(line)
        match = _LINE.fullmatch(line) if line else None
        heads = match is None and bool(_STARTED.match(line) or _HEADER.match(line))
        if current is not None and not told and (not line or heads or match is not None):
            yield _whole(current), start
            told = True
        if match is not None:
            time = match["time"] or time  # older logs leave out a time that has not changed
            current, start = [time, match["id"], match["command"], match["argument"] or ""], at
            skips = told = False
        elif heads:
            current, skips = None, True
        elif current is not None and line:
            start, told = at if told else start, False
            current.append(line)
        elif line.strip() and not skips:
            yield line, at
    if current is not None and not told:
        yield _whole(current), start


def _whole(current: list[str]) -> tuple[str, str, str, str]:
    time, connection, command, *argument = current
    return time, connection, command, "".join(argument).strip()


def _asked(
    command: tuple[str, str, str, str], at: int, users: dict[str, str], sessions: dict[str, Script]
) -> Iterator[Exported]:
    time, connection, word, argument = command
    if word in ("Connect", "Change user"):
        user = _USER.match(argument)
        users[connection] = user["user"] if user is not None else argument
        sessions.pop(connection, None)
    elif word in ("Query", "Execute"):
        session = sessions.get(connection)
        if session is None:
            session = sessions[connection] = Script(Dialect.MYSQL)
        who = Asker(users.get(connection), time or None)
        yield from statements(argument, at, Dialect.MYSQL, session, who)
    elif word not in _HARMLESS:
        yield faulty(f"{word} {argument}", at, f"the command {word} is not judged: it may have read something")


def _table(lines: Iterable[str], name: str) -> Iterator[Exported]:
    sessions: dict[str, Script] = {}
    for record in records(lines, name):
        word, argument = record.text("command_type"), record.text("argument")
        if record.fault or not word:
            yield refuse_record(record, "it has no command_type")
        elif word in ("Query", "Execute"):
            session = sessions.setdefault(str(record.fields.get("thread_id")), Script(Dialect.MYSQL))
            user = record.text("user_host").partition("[")[0].strip() or None
            who = Asker(user, record.stamp("event_time"))
            yield from statements(argument, record.at, Dialect.MYSQL, session, who)
        elif word not in (*_HARMLESS, "Change user"):
            yield faulty(
                f"{word} {argument}", record.at, f"the command {word} is not judged: it may have read something"
            )
