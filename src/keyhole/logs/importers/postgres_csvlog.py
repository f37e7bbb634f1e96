"""PostgreSQL's csvlog: `log_destination = 'csvlog'` with `log_statement = 'all'`.

Read are `statement:` and `execute NAME:` messages (with their parameters from DETAIL), EXECUTE of what was PREPAREd,
AUDIT lines of pgaudit, plans of auto_explain, and the query field of any other line that is no error: it ran.
Parse and bind steps are executed, and logged, later. A line that failed gave no answer. Any other message that may hold
a statement (the server's messages are translated unless lc_messages = 'C') is listed as refused.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator

from keyhole.logs.importers.exported import NO_PARAMETERS, Exported, faulty, filled, has_parameters, statements
from keyhole.logs.importers.records import csv_rows
from keyhole.sql import Dialect
from keyhole.sql.scripts import Script

COLUMNS = range(23, 27)  # 23 up to version 12, 24 with backend_type, 26 with leader_pid and query_id
_PID, _SEVERITY, _STATE, _MESSAGE, _DETAIL, _QUERY, _LEADER = 3, 11, 12, 13, 14, 19, 24
_FAILED = frozenset({"ERROR", "FATAL", "PANIC"})
_WENT_ON = frozenset({"", "LOG", "WARNING", "NOTICE", "INFO", "DEBUG"})
_FINE = ("00", "01", "02")  # classes of SQLSTATE that are no error
_LOGGED = re.compile(r"(?P<took>duration: [\d.]+ ms\s+)?(?P<step>statement|execute [^:]*): (?P<sql>.*)", re.DOTALL)
_PREPARED = re.compile(
    r"prepare:\s*(?P<sql>PREPARE\s+\S+?\s*(?:\([^)]*\)\s*)?AS\s+(?P<query>.*))", re.DOTALL | re.IGNORECASE
)
_STEP = re.compile(r"(?:duration: [\d.]+ ms\s+)?(?:parse|bind) [^:]*: .*", re.DOTALL)
_PLAN = re.compile(r"duration: [\d.]+ ms\s+plan:\s*(?P<plan>.*)", re.DOTALL)
_PLANNED = re.compile(
    r"Query Text: (?P<sql>.*?)(?:\nQuery Parameters: (?P<values>.*?))?\n[^\n]*\(cost=[\d.]*\d\.\.\d.*", re.DOTALL
)
_MAY_ASK = re.compile(r"\bSELECT\b|(?:^|:|\*/)[\s(]*(?:WITH|TABLE|VALUES|EXECUTE|FETCH|COPY|CALL)\b", re.IGNORECASE)
_VALUE = re.compile(r"\$(?P<number>\d+) = (?P<value>NULL|'(?:[^']|'')*')")


def read(text: str, name: str) -> Iterator[Exported]:
    """The statements of a csvlog.

    >>> row = ["2026-11-15 10:00:00 UTC"] + [""] * 25
    >>> row[13], row[14] = "execute s1: SELECT SUM(x) FROM t WHERE a > $1", "Parameters: $1 = '3'"
    >>> [f.sql for f in read(",".join(row), "log.csv")]
    ["SELECT SUM(x) FROM t WHERE a > '3'"]
    """
    running: dict[str, str] = {}  # what each server process was given last, logged before it ran
    sessions: dict[str, Script] = {}  # what each server process has prepared
    for row, at in csv_rows(text):
        if len(row) not in COLUMNS:
            yield faulty(",".join(row), at, f"it is not a csvlog line: it has {len(row)} columns, not 23 to 26")
            continue
        message, detail = row[_MESSAGE], row[_DETAIL]
        logged = _LOGGED.fullmatch(message)
        if message.startswith("AUDIT: "):
            yield from _audit(message, at)
        elif logged is not None:
            if not logged["took"]:
                running[row[_PID]] = logged["sql"].strip()
            yield from _logged(logged["sql"], detail, at, sessions.setdefault(row[_PID], Script(Dialect.POSTGRES)))
        elif not _failed(row[_SEVERITY], row[_STATE]):
            process = (row[_LEADER] if len(row) > _LEADER else "") or row[_PID]
            yield from _remarked(message, row[_QUERY].strip(), running.get(process, ""), at)


def _logged(sql: str, detail: str, at: int, session: Script) -> Iterator[Exported]:
    """A statement with its parameters put back."""
    prepared = _PREPARED.match(detail)
    if prepared is not None:  # what EXECUTE runs, in this session
        list(session.steps(prepared["sql"]))
    found = {int(m["number"]): m["value"] for m in _VALUE.finditer(detail)}
    if has_parameters(sql) and not sql.lstrip()[:7].upper().startswith("PREPARE"):
        whole = filled(sql, found)
        if whole is None:
            yield faulty(sql, at, NO_PARAMETERS + "; set log_parameter_max_length = -1")
            return
        if any(value.endswith("...'") for value in found.values()):
            yield faulty(sql, at, "a parameter value was cut short; set log_parameter_max_length = -1")
            return
        sql = whole
    yield from statements(sql, at, Dialect.POSTGRES, session)


def _failed(severity: str, state: str) -> bool:
    """Did the statement end in an error? The word may be translated; SQLSTATE is not."""
    return severity in _FAILED or (severity.rstrip("12345") not in _WENT_ON and bool(state) and state[:2] not in _FINE)


def _remarked(message: str, query: str, running: str, at: int) -> Iterator[Exported]:
    """A message that is no statement itself: its plan's or its query, unless that was read just before."""
    plan, values = _PLAN.fullmatch(message), ""
    if plan is not None:
        query, values = _planned(plan["plan"])
        prepared = _PREPARED.match("prepare: " + query)  # what EXECUTE runs has the text of its PREPARE
        query = prepared["query"] if prepared is not None else query
        if not query:
            yield faulty(message, at, "its query text was not found: set auto_explain.log_format to text or json")
            return
    if query:
        if query != running:
            yield from _logged(query, values, at, Script(Dialect.POSTGRES))
    elif _STEP.fullmatch(message) is None and _MAY_ASK.search(message):
        why = "a message that is not known and may hold a statement: set lc_messages = 'C' so that it can be read"
        yield faulty(message, at, why)


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


def _audit(message: str, at: int) -> Iterator[Exported]:
    fields = next(csv.reader([message.removeprefix("AUDIT: ")]), [])
    if len(fields) < 8:
        yield faulty(message, at, "an AUDIT line of pgaudit without a statement")
    elif has_parameters(fields[7]):
        yield faulty(fields[7], at, NO_PARAMETERS)
    elif fields[3] == "READ":
        yield from statements(fields[7], at, Dialect.POSTGRES)
    elif fields[3] != "MISC":
        yield faulty(fields[7], at, f"an AUDIT line of class {fields[3]}: only reading is judged")
