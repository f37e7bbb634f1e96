"""Databricks' system.query.history as CSV or JSON. Statements that failed gave no answer; cancelled ones may have."""

from __future__ import annotations

from collections.abc import Iterator

from keyhole.logs.exported import Asker, Exported, failed, faulty, statements
from keyhole.logs.records import Text, records
from keyhole.sql import Dialect

NO_TEXT = "it has no statement_text: with customer-managed keys the text is encrypted, so it cannot be judged"


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of an export.

    >>> rows = "statement_text,execution_status,executed_by\\nSELECT SUM(x) FROM t,FINISHED,ann@x.org\\n1,FAILED,b"
    >>> [(f.sql, f.analyst, f.failed) for f in read(rows, "history.csv")]
    [('SELECT SUM(x) FROM t', 'ann@x.org', False), ('1', None, True)]
    """
    for record in records(text, name):
        sql = record.text("statement_text")
        status = str(record.fields.get("execution_status") or "FINISHED").strip().upper()
        who = Asker(record.stamp("executed_by", "executed_by_user_id"), record.stamp("start_time"))
        if record.fault:
            yield faulty(record.raw, record.at, record.fault)
        elif status in ("FAILED", "CANCELED", "CANCELLED"):
            why = record.fields.get("error_message") if status == "FAILED" else "cancelled"
            yield failed(sql, record.at, Dialect.DATABRICKS, why, who)
        elif not sql:
            yield faulty(str(record.fields.get("statement_id") or record.fields), record.at, NO_TEXT, who)
        else:
            yield from statements(sql, record.at, Dialect.DATABRICKS, who=who)
