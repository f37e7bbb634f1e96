"""PostgreSQL: the csvlog, and the view pg_stat_statements.

Of the csvlog (`log_destination = 'csvlog'` with `log_statement = 'all'`) are read `statement:` and `execute NAME:`
messages (with their parameters from DETAIL), EXECUTE of what was PREPAREd, AUDIT lines of pgaudit, plans of
auto_explain, and the query field of any other line that is no error: it ran. Parse and bind steps are executed, and
logged, later. Any other message that may hold a statement (the server's messages are translated unless lc_messages =
'C') is listed as refused.

A statement is logged before it runs. If an error of the same process about the same text follows, it gave no answer and
is passed over; not if the text held several statements, for those before the error were answered. An error about a
value (division by zero, a text that is no number) is an answer of its kind, and what was cancelled may have sent rows
by then: such statements are listed as not judged.

The view keeps one normalised text for all executions of a kind: constants are replaced by $1, $2, ... and are lost.
Such statements cannot be judged and are listed as refused; those without a constant are judged.
"""

from __future__ import annotations

import csv
import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from keyhole.logs import exported
from keyhole.logs.exported import NO_PARAMETERS, NOBODY, Asker, Exported, faulty, filled, has_parameters, statements
from keyhole.logs.records import Text, csv_rows, records
from keyhole.sql import Dialect
from keyhole.sql.statements.scripts import Script

COLUMNS = range(23, 27)  # 23 up to version 12, 24 with backend_type, 26 with leader_pid and query_id
_TIME, _USER, _PID, _SEVERITY, _STATE, _MESSAGE, _DETAIL, _QUERY, _LEADER = 0, 1, 3, 11, 12, 13, 14, 19, 24
_FAILED = frozenset({"ERROR", "FATAL", "PANIC"})
_WENT_ON = frozenset({"", "LOG", "WARNING", "NOTICE", "INFO", "DEBUG"})
_FINE = ("00", "01", "02")  # classes of SQLSTATE that are no error
_TELLING = ("21", "22", "P0")  # errors that depend on the values met: how many rows, a division by zero, a RAISE
_CUT_SHORT = ("40", "53", "57", "58", "XX")  # cancelled, stopped by the server: at any time, so rows may have been sent
_LOST = "08"  # the connection broke: the answer may have been sent by then
_MOST = 10_000  # statements of which it is not known yet how they ended
_LOGGED = re.compile(r"(?P<took>duration: [\d.]+ ms\s+)?(?P<step>statement|execute [^:]*): (?P<sql>.*)", re.DOTALL)
_PREPARED = re.compile(
    r"prepare:\s*(?P<sql>PREPARE\s+\S+?\s*(?:\([^)]*\)\s*)?AS\s+(?P<query>.*))", re.DOTALL | re.IGNORECASE
)
_STEP = re.compile(r"(?:duration: [\d.]+ ms\s+)?(?:parse|bind) [^:]*: .*", re.DOTALL)
_ENDED = re.compile(r"duration: [\d.]+ ms\s*")
_PLAN = re.compile(r"duration: [\d.]+ ms\s+plan:\s*(?P<plan>.*)", re.DOTALL)
_PLANNED = re.compile(
    r"Query Text: (?P<sql>.*?)(?:\nQuery Parameters: (?P<values>.*?))?\n[^\n]*\(cost=[\d.]*\d\.\.\d.*", re.DOTALL
)
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_MAY_ASK = re.compile(r"\bSELECT\b|(?:^|:|\*/)[\s(]*(?:WITH|TABLE|VALUES|EXECUTE|FETCH|COPY|CALL)\b", re.IGNORECASE)
_VALUE = re.compile(r"\$(?P<number>\d+) = (?P<value>NULL|'(?:[^']|'')*')(?=, \$\d+ = |\s*(?:\n|$))")


def read_csvlog(text: Text, name: str) -> Iterator[Exported]:
    """The statements of a csvlog.

    >>> row = ["2026-11-15 10:00:00 UTC"] + [""] * 25
    >>> row[13], row[14] = "execute s1: SELECT SUM(x) FROM t WHERE a > $1", "Parameters: $1 = '3'"
    >>> [f.sql for f in read_csvlog(",".join(row), "log.csv")]
    ["SELECT SUM(x) FROM t WHERE a > '3'"]
    """
    held = _Held()
    sessions: dict[str, Script] = {}  # what each server process has prepared
    for row, at, fault in csv_rows(text):
        if not row:  # an empty line: a log that is followed has nothing more at the moment
            yield from held.all()
            continue
        process, found = "", []
        if fault:
            found = [faulty(row[0], at, fault)]
        elif len(row) not in COLUMNS:
            found = [faulty(",".join(row), at, f"it is not a csvlog line: it has {len(row)} columns, not 23 to 26")]
        else:
            process = (row[_LEADER] if len(row) > _LEADER else "") or row[_PID]
            found = list(_row(row, at, process, held, sessions))
        yield from held.put(process, found)
    yield from held.all()


def read_view(text: Text, name: str) -> Iterator[Exported]:
    """The statements of pg_stat_statements as CSV or JSON.

    >>> rows = "query,calls\\nSELECT SUM(x) FROM t,1\\nSELECT SUM(x) FROM t WHERE a = $1,9"
    >>> [(f.sql, bool(f.fault)) for f in read_view(rows, "statements.csv")]
    [('SELECT SUM(x) FROM t', False), ('SELECT SUM(x) FROM t WHERE a = $1', True)]
    """
    for record in records(text, name):
        sql = record.text("query")
        if record.fault or not sql:
            yield exported.refuse_record(record, "it has no query")
        elif sql == "<insufficient privilege>":
            yield faulty(sql, record.at, "the text was hidden from the role that exported it: use pg_read_all_stats")
        elif has_parameters(sql):
            why = f"{NO_PARAMETERS}: pg_stat_statements keeps normalised texts; log the statements (csvlog) instead"
            yield faulty(sql, record.at, why)
        else:
            who = Asker(record.stamp("usename", "rolname", "userid"))
            yield from statements(sql, record.at, Dialect.POSTGRES, who=who)


def is_csvlog(text: str) -> bool:
    """Does a text begin with a row of a csvlog? It has no header."""
    row = next((row.fields for row in csv_rows(text) if not row.fault), [])
    return len(row) in COLUMNS and _STAMP.match(row[0]) is not None


@dataclass(slots=True)
class _Statement:
    """What a process was given to run, as it was logged, and whether it is known how it ended."""

    text: str
    found: list[Exported]
    ended: bool


class _Held:
    """Statements in the order of the log, each held until it is known how it ended, or too many are."""

    def __init__(self) -> None:
        self._queue: deque[_Statement] = deque()
        self.running: dict[str, _Statement] = {}  # what each server process was given last, logged before it ran

    def begins(self, process: str, text: str) -> None:
        """A process goes on to this text: what it ran before has ended well."""
        self.ends(process)
        self.running[process] = _Statement(text, [], ended=False)

    def ends(self, process: str) -> None:
        if process in self.running:
            self.running.pop(process).ended = True

    def text(self, process: str) -> str:
        return self.running[process].text if process in self.running else ""

    def put(self, process: str, found: list[Exported]) -> Iterator[Exported]:
        """What a line gave, and then all of which it is known by now how it ended."""
        running = self.running.get(process)
        if running is not None and not running.found and found:
            running.found = found
            self._queue.append(running)
        elif found:
            self._queue.append(_Statement("", found, ended=True))
        while self._queue and (self._queue[0].ended or len(self._queue) > _MOST):
            yield from self._queue.popleft().found

    def all(self) -> Iterator[Exported]:
        while self._queue:
            yield from self._queue.popleft().found


def _row(row: list[str], at: int, process: str, held: _Held, sessions: dict[str, Script]) -> Iterator[Exported]:
    """The statements of one line; one that failed takes back what was logged of it before."""
    message, detail = row[_MESSAGE], row[_DETAIL]
    who = Asker(row[_USER] or None, row[_TIME] or None)
    logged = _LOGGED.fullmatch(message)
    if message.startswith("AUDIT: "):
        yield from _audit(message, at, who)
    elif logged is not None:
        if logged["took"]:
            held.ends(process)
        else:
            held.begins(process, logged["sql"].strip())
        session = sessions.get(row[_PID])
        if session is None:
            session = sessions[row[_PID]] = Script(Dialect.POSTGRES)
        yield from _logged(logged["sql"], detail, at, session, who)
    elif _failed(row[_SEVERITY], row[_STATE]):
        yield from _ended_badly(row, at, held.running.pop(process, None), who)
    else:
        query = row[_QUERY].strip()
        yield from _remarked(message, query, held.text(process), at, who)
        if _ENDED.fullmatch(message) or message.startswith("disconnection: "):
            held.ends(process)
        if message.startswith("disconnection: "):
            sessions.pop(row[_PID], None)


def _ended_badly(row: list[str], at: int, running: _Statement | None, who: Asker) -> Iterator[Exported]:
    """An error: the statement gave no answer, unless others in the same text did, or the error itself is one."""
    query = row[_QUERY].strip()
    logged = running is not None and bool(query) and running.text == query
    if running is not None:
        running.ended = True
    asked = [f for f in running.found if not f.steers] if running is not None and logged else []
    several = len(asked) > 1 or (logged and exported.answered_before(query, Dialect.POSTGRES))
    if several or not query or row[_STATE].startswith(_LOST):
        return
    if row[_STATE][:2] in _TELLING and (asked or _MAY_ASK.search(query)):
        sql, place = (asked[0].sql, asked[0].at) if asked else (query, at)
        why = f"it failed because of a value that it met (SQLSTATE {row[_STATE]}), which tells something of that value"
        found = Exported(sql, place, dialect=Dialect.POSTGRES, unjudged=why, analyst=who.analyst, time=who.time)
    elif row[_STATE][:2] in _CUT_SHORT and (asked or _MAY_ASK.search(query)):
        sql, place = (asked[0].sql, asked[0].at) if asked else (query, at)
        why = f"{exported.CUT_SHORT} (SQLSTATE {row[_STATE]})"
        found = Exported(sql, place, dialect=Dialect.POSTGRES, unjudged=why, analyst=who.analyst, time=who.time)
    else:  # in the place of what it takes back: statements come in the order of the log
        taken = running.found if running is not None and logged else []
        found = exported.failed(query, taken[0].begins[0] if taken else at, Dialect.POSTGRES, who=who)
    if running is not None and logged and running.found:
        running.found[:] = [found]
    else:
        yield found


def _logged(sql: str, detail: str, at: int, session: Script, who: Asker = NOBODY) -> Iterator[Exported]:
    """A statement with its parameters put back."""
    if not detail and "$" not in sql:
        yield from statements(sql, at, Dialect.POSTGRES, session, who)
        return
    prepared = _PREPARED.match(detail)
    if prepared is not None:  # what EXECUTE runs, in this session
        list(session.steps(prepared["sql"]))
    found = {int(m["number"]): m["value"] for m in _VALUE.finditer(detail)}
    if has_parameters(sql) and not sql.lstrip()[:7].upper().startswith("PREPARE"):
        whole = filled(sql, found)
        if whole is None:
            yield faulty(sql, at, NO_PARAMETERS + "; set log_parameter_max_length = -1", who)
            return
        if any(value.endswith("...'") for value in found.values()):
            yield faulty(sql, at, "a parameter value was cut short; set log_parameter_max_length = -1", who)
            return
        sql = whole
    yield from statements(sql, at, Dialect.POSTGRES, session, who)


def _failed(severity: str, state: str) -> bool:
    """Did the statement end in an error? The word may be translated; SQLSTATE is not."""
    return severity in _FAILED or (severity.rstrip("12345") not in _WENT_ON and bool(state) and state[:2] not in _FINE)


def _remarked(message: str, query: str, running: str, at: int, who: Asker) -> Iterator[Exported]:
    """A message that is no statement itself: its plan's or its query, unless that was read just before."""
    plan, values = _PLAN.fullmatch(message), ""
    if plan is not None:
        query, values = _planned(plan["plan"])
        prepared = _PREPARED.match("prepare: " + query)  # what EXECUTE runs has the text of its PREPARE
        query = prepared["query"] if prepared is not None else query
        if not query:
            yield faulty(message, at, "its query text was not found: set auto_explain.log_format to text or json", who)
            return
    if query:
        if query != running:
            yield from _logged(query, values, at, Script(Dialect.POSTGRES), who)
    elif _STEP.fullmatch(message) is None and _MAY_ASK.search(message):
        why = "a message that is not known and may hold a statement: set lc_messages = 'C' so that it can be read"
        yield faulty(message, at, why, who)


def _planned(plan: str) -> tuple[str, str]:
    """Query text and parameters of a plan of auto_explain, as text or JSON; empty where there is none."""
    if plan.startswith("{"):
        try:
            found = json.loads(plan)
        except ValueError:
            return "", ""
        return str(found.get("Query Text", "")).strip(), str(found.get("Query Parameters", ""))
    match = _PLANNED.fullmatch(plan)
    return ("", "") if match is None else (match["sql"].strip(), match["values"] or "")


def _audit(message: str, at: int, who: Asker) -> Iterator[Exported]:
    fields = next(csv.reader([message.removeprefix("AUDIT: ")]), [])
    if len(fields) < 8:
        yield faulty(message, at, "an AUDIT line of pgaudit without a statement", who)
    elif has_parameters(fields[7]):
        yield faulty(fields[7], at, NO_PARAMETERS, who)
    elif fields[3] == "READ":
        yield from statements(fields[7], at, Dialect.POSTGRES, who=who)
    elif fields[3] != "MISC":
        yield faulty(fields[7], at, f"an AUDIT line of class {fields[3]}: only reading is judged", who)
