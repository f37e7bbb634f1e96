"""Query histories of other systems as statements: one file a system, and one line here.

A reader takes a text (or its lines) and a name, and yields `Exported` statements in the order of the export. What it
cannot turn into a statement comes with the reason in `fault`, so that it is listed and not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from keyhole.logs.exported import Exported
    from keyhole.logs.records import Text


@dataclass(frozen=True, slots=True)
class Importer:
    """Where the reader of a format is, and by what its exports are known; imported when it is used.

    `fields`: groups of names, in lower case; an export that has all of a group, as columns or in its first record, is
    of this format. `recognises` names a function of the module that knows a text without such names by its first lines.
    """

    module: str
    fields: tuple[str, ...] = ()
    reader: str = "read"
    recognises: str = ""

    def __call__(self, text: Text, name: str) -> Iterator[Exported]:
        """The statements of an export."""
        found: Iterator[Exported] = self._function(self.reader)(text, name)
        return found

    def knows(self, text: str) -> bool:
        """Is a text without names of fields of this format?"""
        return bool(self.recognises) and bool(self._function(self.recognises)(text))

    def _function(self, name: str) -> Any:
        return getattr(import_module(f"{__name__}.{self.module}"), name)


class LogFormat(StrEnum):
    """What a log is written in, by the words of --log-format. An importer is registered by its line here."""

    importer: Importer | None

    def __new__(cls, word: str, importer: Importer | None = None) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.importer = importer
        return member

    AUTO = "auto"
    SQL = "sql"
    JSONL = "jsonl"
    POSTGRES_CSVLOG = "postgres-csvlog", Importer("postgres", (), "read_csvlog", "is_csvlog")
    PG_STAT_STATEMENTS = "pg-stat-statements", Importer("postgres", ("query queryid", "query calls"), "read_view")
    DUCKDB = "duckdb", Importer("duckdb", ("message type", "query_name"))
    BIGQUERY = "bigquery", Importer("bigquery", ("protopayload", "query job_id", "query statement_type"))
    SNOWFLAKE = "snowflake", Importer("snowflake", ("query_text execution_status", "query_text"))
    DBT = "dbt", Importer("dbt", ("metadata nodes", "metadata results", "unique_id status"))
    METABASE = "metabase", Importer("metabase", ("dataset_query", "query params"))
    SUPERSET = (
        "superset",
        Importer(
            "superset",
            ("sql label", "sql executed_sql", "sql client_id", "slice_name", "query language", "query rowcount"),
        ),
    )
    MYSQL_GENERAL_LOG = (
        "mysql-general-log",
        Importer("mysql_general_log", ("command_type argument",), recognises="is_general_log"),
    )
    QUERY_STORE = "query-store", Importer("query_store", ("query_sql_text",))
    REDSHIFT = "redshift", Importer("redshift", ("querytxt", "query_text status", "query_text user_id"))
    DATABRICKS = "databricks", Importer("databricks", ("statement_text",))
    TRINO = "trino", Importer("trino", ("metadata context", "eventpayload"))


IMPORTERS: dict[LogFormat, Importer] = {kind: kind.importer for kind in LogFormat if kind.importer is not None}
