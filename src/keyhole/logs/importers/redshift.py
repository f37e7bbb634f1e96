"""Amazon Redshift: STL_QUERY or SYS_QUERY_HISTORY as CSV or JSON. Both keep 4,000 characters of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyhole.logs import exported
from keyhole.logs.exported import NO_PARAMETERS, Asker, Exported, failed, faulty, has_parameters, statements
from keyhole.logs.records import Text, records
from keyhole.sql import Dialect

LONGEST = 4000  # characters that both views keep
BREAKS = "its line breaks are written as \\n, and it cannot be decided which of them end a comment or stand in a text"
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"")
_NOT_YET = frozenset({"planning", "queued", "running"})


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of an export; those that failed gave no answer, and those that were cancelled may have.

    >>> rows = "userid,querytxt,starttime,aborted\\n100,SELECT SUM(x) FROM t,2026-11-16 10:00:00,0\\n100,SELECT 2,,1"
    >>> [(f.sql, f.analyst, f.failed) for f in read(rows, "stl_query.csv")]
    [('SELECT SUM(x) FROM t', '100', False), ('SELECT 2', '100', False)]
    """
    for record in records(text, name):
        sql = record.text("querytxt", "query_text")
        status = str(record.fields.get("status") or "success").strip().lower()
        aborted = str(record.fields.get("aborted") or "0").strip().lower() in ("1", "true", "t")
        who = Asker(
            record.stamp("usename", "username", "user_name", "userid", "user_id"),
            record.stamp("starttime", "start_time"),
        )
        if record.fault or not sql:
            yield exported.refuse_record(record, "it has no query text", who)
        elif aborted or status in ("failed", "canceled", "cancelled", "aborted"):
            cut = aborted or status != "failed"  # "stopped by the system or canceled by the user"
            why = "cancelled" if cut else record.fields.get("error_message")
            yield failed(sql, record.at, Dialect.REDSHIFT, why, who)
        elif status in _NOT_YET:
            continue  # it has not answered
        elif len(sql.rstrip()) >= LONGEST:
            yield faulty(sql[:200], record.at, f"its text was cut at {LONGEST:,} characters", who)
        elif has_parameters(sql):
            yield faulty(sql, record.at, NO_PARAMETERS, who)
        elif (whole := _lines(sql)) is None:
            yield faulty(sql, record.at, BREAKS, who)
        else:
            yield from statements(whole, record.at, Dialect.REDSHIFT, who=who)


def _lines(sql: str) -> str | None:
    r"""The text with its line breaks: Redshift writes them as two characters. None if nothing says where they are.

    >>> _lines(r"SELECT SUM(x)\nFROM t"), _lines(r"SELECT SUM(x) FROM t -- all\nWHERE a = 1")
    ('SELECT SUM(x)\nFROM t', None)
    """
    sql = sql.strip()
    if "\\n" not in sql or "\n" in sql:
        return sql
    outside = _QUOTED.sub(lambda m: " " * len(m.group()), sql)
    if "--" in sql or outside.count("\\n") != sql.count("\\n"):
        return None
    return sql.replace("\\n", "\n")
