"""Snowflake's QUERY_HISTORY (view or table function) as CSV or JSON. Statements that failed gave no answer."""

from __future__ import annotations

from collections.abc import Iterator

from keyhole.logs.exported import Asker, Exported, failed, faulty, refuse_record, statements
from keyhole.logs.records import Text, records
from keyhole.sql import Dialect

LONGEST = 100_000  # characters that QUERY_TEXT keeps


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of an export.

    >>> rows = "QUERY_TEXT,EXECUTION_STATUS\\nSELECT SUM(x) FROM t,SUCCESS\\nSELECT SUM(y) FROM t,FAIL"
    >>> [(f.sql, f.failed) for f in read(rows, "history.csv")]
    [('SELECT SUM(x) FROM t', False), ('SELECT SUM(y) FROM t', True)]
    """
    for record in records(text, name):
        sql = record.text("query_text")
        who = Asker(record.stamp("user_name"), record.stamp("start_time"))
        status = str(record.fields.get("execution_status") or "SUCCESS").upper()
        if record.fault or not sql:
            yield refuse_record(record, "it has no QUERY_TEXT")
        elif status not in ("SUCCESS", "RUNNING", "RESUMING_WAREHOUSE"):
            yield failed(sql, record.at, Dialect.SNOWFLAKE, record.fields.get("error_message"), who)
        elif len(sql) >= LONGEST:
            yield faulty(sql[:200], record.at, f"its text was cut at {LONGEST:,} characters", who=who)
        else:
            yield from statements(sql, record.at, Dialect.SNOWFLAKE, who=who)
