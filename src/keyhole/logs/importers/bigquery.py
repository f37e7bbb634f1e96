"""BigQuery: INFORMATION_SCHEMA.JOBS as CSV or JSON, or the audit log (BigQueryAuditMetadata, and the older AuditData).

Jobs that failed gave no answer and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from keyhole.logs.exported import Asker, Exported, failed, faulty, statements
from keyhole.logs.records import Record, Text, records
from keyhole.sql import Dialect

_AUDIT = (
    ("metadata", "jobChange", "job"),
    ("metadata", "jobInsertion", "job"),
    ("servicedata_v1_bigquery", "jobCompletedEvent", "job"),
    ("serviceData", "jobCompletedEvent", "job"),
)
_TEXT = (("jobConfig", "queryConfig"), ("jobConfiguration", "query"))


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of an export.

    >>> [f.sql for f in read('{"job_id": "j", "state": "DONE", "query": "SELECT SUM(`x`) FROM `d.t`"}', "jobs.json")]
    ['SELECT SUM(`x`) FROM `d.t`']
    """
    for record in records(text, name):
        if record.fault:
            yield faulty(record.raw, record.at, record.fault)
        elif isinstance(record.fields.get("protopayload"), Mapping):
            yield from _audited(record)
        else:
            yield from _job(record)


def _job(record: Record) -> Iterator[Exported]:
    fields = record.fields
    if str(fields.get("job_type") or "QUERY").upper() != "QUERY":
        return
    if _failed(fields.get("error_result")):
        who = Asker(record.stamp("user_email"), record.stamp("creation_time", "start_time"))
        yield failed(record.text("query"), record.at, Dialect.BIGQUERY, _said(fields["error_result"]), who)
        return
    if str(fields.get("state") or "DONE").upper() != "DONE":
        return  # still running: it has not answered
    sql = record.text("query")
    if sql:
        who = Asker(record.stamp("user_email"), record.stamp("creation_time", "start_time"))
        yield from statements(sql, record.at, Dialect.BIGQUERY, who=who)
    else:
        yield faulty(str(fields.get("job_id", "")), record.at, "it has no query text (field query)")


def _audited(record: Record) -> Iterator[Exported]:
    payload = record.fields["protopayload"]
    for path in _AUDIT:
        job = _at(payload, path)
        if not isinstance(job, Mapping):
            continue
        error = _at(job, ("jobStatus", "errorResult")) or _at(job, ("jobStatus", "error"))
        if _failed(error):
            texts = (_at(job, (*place, "query")) for place in _TEXT)
            asked = next((text for text in texts if isinstance(text, str)), "")
            yield failed(asked, record.at, Dialect.BIGQUERY, _said(error) if asked else None)
            return
        for place in _TEXT:
            config = _at(job, place)
            if isinstance(config, Mapping) and isinstance(config.get("query"), str):
                if config.get("queryTruncated"):
                    yield faulty(config["query"], record.at, "its text was cut short in the audit log")
                else:
                    email = _at(payload, ("authenticationInfo", "principalEmail"))
                    who = Asker(None if email is None else str(email), record.stamp("timestamp"))
                    yield from statements(config["query"], record.at, Dialect.BIGQUERY, who=who)
                return
        return  # a load, copy or extract job
    if _at(payload, ("metadata", "tableDataRead")) is None and "metadata" not in payload:
        yield faulty(str(payload.get("methodName", "")), record.at, "it is not a BigQuery audit entry")


def _failed(error: object) -> bool:
    """An empty error is none: exports write null, {} or an object of nulls."""
    if isinstance(error, Mapping):
        return any(_failed(v) for v in error.values())
    return bool(error)


def _said(error: object) -> object:
    """The words of an error; its reason alone (invalidQuery) does not say what is wrong."""
    if isinstance(error, str) and error.lstrip().startswith("{"):
        with suppress(ValueError):
            error = json.loads(error)
    return error.get("message") if isinstance(error, Mapping) else error


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
