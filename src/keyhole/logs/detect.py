"""What a log is written in, by its name and its first record."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path

from keyhole.errors import LogError
from keyhole.model.transcript import FIELDS


class LogFormat(StrEnum):
    """What a log is written in."""

    AUTO = "auto"
    SQL = "sql"
    JSONL = "jsonl"
    POSTGRES_CSVLOG = "postgres-csvlog"
    PG_STAT_STATEMENTS = "pg-stat-statements"
    DUCKDB = "duckdb"
    BIGQUERY = "bigquery"
    SNOWFLAKE = "snowflake"
    DBT = "dbt"
    METABASE = "metabase"
    SUPERSET = "superset"
    MYSQL_GENERAL_LOG = "mysql-general-log"
    QUERY_STORE = "query-store"
    REDSHIFT = "redshift"
    DATABRICKS = "databricks"
    TRINO = "trino"


# Fields that give an export away, most telling first: all of a group must be there.
_TELLING: tuple[tuple[frozenset[str], LogFormat], ...] = (
    (frozenset({"querytxt"}), LogFormat.REDSHIFT),
    (frozenset({"query_text", "execution_status"}), LogFormat.SNOWFLAKE),
    (frozenset({"query_text", "status"}), LogFormat.REDSHIFT),
    (frozenset({"query_text", "user_id"}), LogFormat.REDSHIFT),
    (frozenset({"query_text"}), LogFormat.SNOWFLAKE),
    (frozenset({"query_sql_text"}), LogFormat.QUERY_STORE),
    (frozenset({"statement_text"}), LogFormat.DATABRICKS),
    (frozenset({"command_type", "argument"}), LogFormat.MYSQL_GENERAL_LOG),
    (frozenset({"metadata", "context"}), LogFormat.TRINO),
    (frozenset({"eventpayload"}), LogFormat.TRINO),
    (frozenset({"dataset_query"}), LogFormat.METABASE),
    (frozenset({"protopayload"}), LogFormat.BIGQUERY),
    (frozenset({"query", "job_id"}), LogFormat.BIGQUERY),
    (frozenset({"query", "statement_type"}), LogFormat.BIGQUERY),
    (frozenset({"query", "queryid"}), LogFormat.PG_STAT_STATEMENTS),
    (frozenset({"query", "calls"}), LogFormat.PG_STAT_STATEMENTS),
    (frozenset({"message", "type"}), LogFormat.DUCKDB),
    (frozenset({"query_name"}), LogFormat.DUCKDB),
    (frozenset({"metadata", "nodes"}), LogFormat.DBT),
    (frozenset({"metadata", "results"}), LogFormat.DBT),
    (frozenset({"unique_id", "status"}), LogFormat.DBT),
    (frozenset({"sql", "label"}), LogFormat.SUPERSET),
    (frozenset({"sql", "executed_sql"}), LogFormat.SUPERSET),
    (frozenset({"sql", "client_id"}), LogFormat.SUPERSET),
    (frozenset({"slice_name"}), LogFormat.SUPERSET),
    (frozenset({"query", "language"}), LogFormat.SUPERSET),
    (frozenset({"query", "rowcount"}), LogFormat.SUPERSET),
    (frozenset({"query", "params"}), LogFormat.METABASE),
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def detect(text: str, name: str) -> LogFormat:
    """What a log is written in, by its name and its first record.

    >>> detect("SELECT 1", "-"), detect('{"sql": "SELECT 1", "answer": 1}', "x")
    (<LogFormat.SQL: 'sql'>, <LogFormat.JSONL: 'jsonl'>)
    """
    suffix = Path(name).suffix.lower() if len(name) < 1000 else ""
    start = text.lstrip()[:1]
    if suffix == ".sql":
        return LogFormat.SQL
    fields = _json_fields(text) if start in ("{", "[") else _csv_fields(text)
    if start == "{" and "sql" in fields and fields <= FIELDS:
        return LogFormat.JSONL
    for telling, kind in _TELLING:
        if telling <= fields:
            return kind
    if suffix == ".jsonl" or (start == "{" and (suffix != ".json" or "sql" in fields)):
        return LogFormat.JSONL
    if start not in ("{", "[") and _is_general_log(text):
        return LogFormat.MYSQL_GENERAL_LOG
    if start != "[" and _is_csvlog(text):
        return LogFormat.POSTGRES_CSVLOG
    if start != "[" and suffix not in (".csv", ".json"):
        return LogFormat.SQL
    known = ", ".join(kind for kind in LogFormat if kind is not LogFormat.AUTO)
    raise LogError(f"cannot tell what {name} was written by: say it with --log-format, one of {known}")


def _json_fields(text: str) -> frozenset[str]:
    """Names of the first whole object's fields, and of the first object in the lists it holds."""
    start = text.lstrip()
    if start[0] == "[":
        start = start[1:].lstrip()
    first = None
    for _ in range(20):
        try:
            first = json.JSONDecoder().raw_decode(start)[0]
            break
        except ValueError:  # a broken line: the next one may tell
            start = start.partition("\n")[2].lstrip()
    names: set[str] = set()
    for part in (
        (first, *(v[0] for v in first.values() if isinstance(v, list) and v)) if isinstance(first, dict) else ()
    ):
        if isinstance(part, dict):
            names |= {str(k).lower() for k in part}
    return frozenset(names)


def _csv_fields(text: str) -> frozenset[str]:
    from keyhole.logs.importers.records import csv_rows

    row = next((row.fields for row in csv_rows(text) if not row.fault), [])
    return frozenset(part.strip().lower() for part in row)


def _is_general_log(text: str) -> bool:
    from keyhole.logs.importers.mysql_general_log import HEADER, LINE

    lines = text.splitlines(keepends=True)[:5]
    return any(HEADER.match(line) or ("\t" in line and LINE.fullmatch(line)) for line in lines)


def _is_csvlog(text: str) -> bool:
    from keyhole.logs.importers.postgres_csvlog import COLUMNS
    from keyhole.logs.importers.records import csv_rows

    row = next((row.fields for row in csv_rows(text) if not row.fault), [])
    return len(row) in COLUMNS and _TIME.match(row[0]) is not None
