"""PostgreSQL's csvlog: `log_destination = 'csvlog'` with `log_statement = 'all'`.

Read are `statement:` and `execute NAME:` messages (with their parameters from DETAIL), EXECUTE of what was PREPAREd,
and AUDIT lines of pgaudit.
Other messages of the server are no statements; parse and bind steps are executed, and logged, later.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from keyhole.gather.importers.found import NO_PARAMETERS, Found, faulty, filled, has_parameters, statements
from keyhole.gather.importers.records import csv_rows

COLUMNS = range(23, 27)  # 23 up to version 12, 24 with backend_type, 26 with leader_pid and query_id
_MESSAGE, _DETAIL = 13, 14
_LOGGED = re.compile(r"(?:duration: [\d.]+ ms\s+)?(?P<step>statement|execute [^:]*): (?P<sql>.*)", re.DOTALL)
_PREPARED = re.compile(r"prepare:\s*PREPARE\s+\S+?\s*(?:\([^)]*\)\s*)?AS\s+(?P<sql>.*)", re.DOTALL | re.IGNORECASE)
_EXECUTE = re.compile(r"\s*EXECUTE\s+[^\s(;]+\s*(?:\((?P<values>.*)\))?\s*;?\s*", re.DOTALL | re.IGNORECASE)
_LITERAL = re.compile(
    r"\s*(?P<value>NULL|TRUE|FALSE|[-+]?[\d.]+(?:e[-+]?\d+)?|'(?:[^']|'')*')\s*(?:,|$)", re.IGNORECASE
)
_VALUE = re.compile(r"\$(?P<number>\d+) = (?P<value>NULL|'(?:[^']|'')*')")


def read(text: str, name: str) -> Iterator[Found]:
    """The statements of a csvlog.

    >>> row = ["2026-11-15 10:00:00 UTC"] + [""] * 25
    >>> row[13], row[14] = "execute s1: SELECT SUM(x) FROM t WHERE a > $1", "Parameters: $1 = '3'"
    >>> [f.sql for f in read(",".join(row), "log.csv")]
    ["SELECT SUM(x) FROM t WHERE a > '3'"]
    """
    for row, at in csv_rows(text):
        if len(row) not in COLUMNS:
            yield faulty(",".join(row), at, f"it is not a csvlog line: it has {len(row)} columns, not 23 to 26")
            continue
        message = row[_MESSAGE]
        if message.startswith("AUDIT: "):
            yield from _audit(message, at)
            continue
        logged = _LOGGED.fullmatch(message)
        if logged is None:
            continue
        sql, detail = logged["sql"], row[_DETAIL]
        executed, prepared = _EXECUTE.fullmatch(sql), _PREPARED.match(detail)
        found = {int(m["number"]): m["value"] for m in _VALUE.finditer(detail)}
        if executed is not None and prepared is not None:
            sql, found = prepared["sql"], _listed(executed["values"] or "")
        if has_parameters(sql) and not sql.lstrip()[:7].upper().startswith("PREPARE"):
            whole = filled(sql, found)
            if whole is None:
                yield faulty(sql, at, NO_PARAMETERS + "; set log_parameter_max_length = -1")
                continue
            if any(value.endswith("...'") for value in found.values()):
                yield faulty(sql, at, "a parameter value was cut short; set log_parameter_max_length = -1")
                continue
            sql = whole
        yield from statements(sql, at)


def _listed(values: str) -> dict[int, str]:
    """The values of EXECUTE name(...) by number; none where one of them is not a plain constant."""
    found: dict[int, str] = {}
    at = 0
    while at < len(values):
        match = _LITERAL.match(values, at)
        if match is None:
            return {}
        found[len(found) + 1] = match["value"]
        at = match.end()
    return found


def _audit(message: str, at: int) -> Iterator[Found]:
    fields = next(csv.reader([message.removeprefix("AUDIT: ")]), [])
    if len(fields) < 8:
        yield faulty(message, at, "an AUDIT line of pgaudit without a statement")
    elif has_parameters(fields[7]):
        yield faulty(fields[7], at, NO_PARAMETERS)
    elif fields[3] == "READ":
        yield from statements(fields[7], at)
    elif fields[3] != "MISC":
        yield faulty(fields[7], at, f"an AUDIT line of class {fields[3]}: only reading is judged")
