"""DuckDB's query log: `CALL enable_logging('QueryLog')`, then `COPY (FROM duckdb_logs) TO 'log.csv'` (or .json).

A profile written by `PRAGMA enable_profiling = 'json'` is read too.
"""

from __future__ import annotations

from collections.abc import Iterator

from keyhole.logs.exported import NO_PARAMETERS, Asker, Exported, faulty, has_parameters, refuse_record, statements
from keyhole.logs.records import Text, records

_NO_STATEMENT = frozenset({"filesystem", "http", "checkpoint", "physicaloperator", "metrics"})


def read(text: Text, name: str) -> Iterator[Exported]:
    """The statements of an export. Entries of log types that hold none are passed over, unless one names a SELECT.

    >>> [f.sql for f in read("type,message\\nQueryLog,SELECT SUM(x) FROM t\\nFileSystem,open", "log.csv")]
    ['SELECT SUM(x) FROM t']
    """
    for record in records(text, name):
        kind = str(record.fields.get("type") or "QueryLog")
        sql = record.text("message", "query_name", "query")
        if kind.lower() != "querylog":
            if kind.lower() not in _NO_STATEMENT or "select" in sql.lower():
                yield faulty(sql, record.at, f"a log entry of type {kind}: only QueryLog holds the statements asked")
            continue
        if record.fault or not sql:
            yield refuse_record(record, "it has no message")
        elif has_parameters(sql):
            yield faulty(sql, record.at, NO_PARAMETERS)
        else:
            yield from statements(sql, record.at, who=Asker(time=record.stamp("timestamp")))
