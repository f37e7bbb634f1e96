"""Superset: the JSON of GET /api/v1/saved_query/ (saved queries), of GET /api/v1/query/ (the history of SQL Lab), or of
GET /api/v1/chart/ID/data/?type=query (what a chart asks).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from keyhole.logs.exported import NO_TEMPLATE, Asker, Exported, failed, faulty, is_template, refuse_record, statements
from keyhole.logs.records import Text, joined, read_field, records
from keyhole.sql.dialects.engine import recognize_dialect

CHART = "a chart without its SQL: export GET /api/v1/chart/ID/data/?type=query, which has the statement that it asks"


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements; of a query that was run, the text that was sent to the database.

    >>> [f.sql for f in read('{"count": 1, "result": [{"label": "pay", "sql": "SELECT SUM(x) FROM t"}]}', "saved.json")]
    ['SELECT SUM(x) FROM t']
    """
    text = joined(text)
    page = list(records(text, name))
    for record in page:
        sql = record.text("executed_sql", "sql", "query")
        status = str(record.fields.get("status") or "success").lower()
        engine = recognize_dialect(read_field(record.fields.get("database"), "backend"))  # most exports do not say
        if status in ("failed", "stopped", "timed_out"):
            why = record.fields.get("error_message") if status == "failed" else status
            yield failed(sql, record.at, engine, why)
            continue
        if "slice_name" in record.fields and not sql:
            yield faulty(str(record.fields["slice_name"]), record.at, CHART)
        elif record.fault or not sql:
            yield refuse_record(record, "it has no sql")
        elif is_template(sql):
            yield faulty(sql, record.at, NO_TEMPLATE)
        else:
            user = record.fields.get("user")
            asker = read_field(user, "username", "email", "id") if isinstance(user, Mapping) else record.stamp("user")
            who = Asker(asker, record.stamp("start_time", "changed_on", "changed_on_utc"))
            for found in statements(sql, record.at, who=who):
                yield replace(found, at=record.at, dialect=engine)
    count = _count(text)
    if count > len(page):
        why = (
            f"the file has {len(page)} of {count} queries: ask for all pages (page, page_size) and audit them together"
        )
        yield faulty(f"{count - len(page)} queries on other pages", 1, why)


def _count(text: str) -> int:
    """How many there are on all pages, as the answer of the API says; 0 if it does not."""
    try:
        whole = json.loads(text)
    except ValueError:
        return 0
    count = whole.get("count") if isinstance(whole, dict) else None
    return count if isinstance(count, int) else 0
