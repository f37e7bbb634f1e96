"""Trino's query events as JSON lines (http, kafka or a file): each query when it has ended.

An event of a query that was only created is passed over: its end comes later. A log that has nothing but such events is
refused, since all its queries may have been answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from keyhole.logs.exported import Asker, Exported, failed, faulty, refuse_record, statements
from keyhole.logs.records import Record, Text, records
from keyhole.sql import Dialect

ONLY_CREATED = "the log has only events of queries that were created: log their completion too (log-completed)"


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of a log of events.

    >>> event = '{"metadata": {"query": "SELECT SUM(x) FROM t", "queryState": "FINISHED"}, "context": {"user": "ann"}}'
    >>> [(f.sql, f.analyst) for f in read(event, "events.json")]
    [('SELECT SUM(x) FROM t', 'ann')]
    """
    created: Record | None = None
    ended = False
    for record in records(text, name):
        event = _inner(record.fields)
        metadata, context = event.get("metadata"), event.get("context")
        if record.fault or not isinstance(metadata, Mapping) or not isinstance(metadata.get("query"), str):
            yield refuse_record(record, "it is no event of a query")
            continue
        state = str(metadata.get("queryState") or "").upper()
        user = context.get("user") or context.get("principal") if isinstance(context, Mapping) else None
        time = event.get("createtime") or event.get("createTime")
        who = Asker(None if user is None else str(user), None if time is None else str(time))
        if state == "FINISHED":
            ended = True
            yield from statements(metadata["query"], record.at, Dialect.TRINO, who=who)
        elif state == "FAILED" or event.get("failureinfo") or event.get("failureInfo"):
            ended = True
            failure = event.get("failureinfo") or event.get("failureInfo")
            yield failed(metadata["query"], record.at, Dialect.TRINO, failure and json.dumps(failure), who)
        else:
            created = record
    if created is not None and not ended:
        yield faulty("query events", created.at, ONLY_CREATED)


def _inner(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event itself: some listeners put it into an envelope."""
    for name in ("eventpayload", "event", "querycompletedevent", "querycreatedevent"):
        if isinstance(fields.get(name), Mapping):
            return dict(fields[name])
    return fields
