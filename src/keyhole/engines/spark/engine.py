"""A Spark session that hands rows over as Arrow: local, of a cluster, or behind Spark Connect. Its SQL is ANSI."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from keyhole.engines.engine import CopiedColumn, DataUrl, Relation, fetch_rows
from keyhole.engines.words import SPARK
from keyhole.errors import DataError, ServerGone
from keyhole.extras import import_extra
from keyhole.model.predicate import quote_name

_AS_THEY_ARE = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "date", "timestamp_ntz")
_FILES = re.compile(r"(?P<kind>parquet|delta|iceberg|orc)\.`(?P<path>[^`]+)`")
_GONE = re.compile(
    r"^Py4J(Network)?Error |StatusCode\.UNAVAILABLE|SparkContext (was|has been) (shut down|stopped)|SESSION_CLOSED"
)
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parser.escapedStringLiterals": "true",  # a backslash in a text is one
}


class SparkEngine:
    """One session. A table is named as Spark has it: `hr.staff`, or `parquet./data/people` for files."""

    dialect = "spark"
    spelling = SPARK

    def __init__(self, url: DataUrl) -> None:
        sql = import_extra("pyspark.sql", "reading Spark")
        import_extra("pyarrow", "reading Spark")
        self.url = url
        self.words: list[str] = []
        self.fault: DataError | None = None
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        logging.getLogger("SQLQueryContextLogger").disabled = True  # it prints failed statements, and values in them
        try:
            builder = sql.SparkSession.builder.appName("keyhole")
            if url.scheme == "sc":
                builder = builder.remote(url.dsn)
            else:
                local = url.where.startswith("local")
                builder = builder.master(url.where if local else f"spark://{url.where}")
                builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
                builder = builder.config("spark.ui.showConsoleProgress", "false")
                if local:
                    builder = builder.config("spark.driver.host", "127.0.0.1")
                    builder = builder.config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about versions of pandas, which is used for nothing here
                first = builder.getOrCreate()
            self._session = first.newSession()
            for name, value in _SETTINGS.items():
                self._session.conf.set(name, value)
        except Exception as error:
            raise _connection_fault(url, str(error)) from None

    def arrow(self, sql: str) -> Any:
        """The rows of a SELECT."""
        self.words.append(sql)
        with self._told(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._session.sql(sql).toArrow().to_reader()

    def do(self, sql: str) -> None:
        """Run a statement without rows."""
        self.words.append(sql)
        with self._told():
            self._session.sql(sql)

    def put(self, name: str, rows: Any) -> str:
        """A small table that this session alone sees."""
        self.words.append(f"VIEW {name}")
        with self._told():
            self._session.createDataFrame(rows).createOrReplaceTempView(name)
        return f'"{name}"'

    def attempt(self, sql: str) -> list[tuple[Any, ...]] | None:
        """The rows of a small SELECT; None if Spark does not run it."""
        try:
            return fetch_rows(self, sql)
        except ServerGone:
            raise
        except DataError:
            return None

    def keep(self, name: str, sql: str) -> str:
        """The rows of a SELECT, computed once and kept by the cluster, as a view of this session."""
        self.words.append(f"CACHE {name}: {sql}")
        with self._told():
            self._session.sql(sql).createOrReplaceTempView(name)
            self._session.catalog.cacheTable(name)
        return f'"{name}"'

    def run_aside(
        self, names: Sequence[tuple[str, ...]], rows: Any, types: Mapping[str, str], texts: Sequence[str]
    ) -> list[list[tuple[Any, ...]] | None]:
        """What each text gives where views of these names hold these rows; None: it fails."""
        for name in names:
            if len(name) == 1:
                self.put(name[0], rows.drop_columns(["keyhole_row"]))
        return [self.attempt(text) for text in texts]

    def cancel(self) -> None:
        """Stop what runs."""
        self._session.interruptAll()

    def close(self) -> None:
        """Let go of the session; others of this process go on."""
        with suppress(Exception):
            self._session.catalog.clearCache()

    def relations(self) -> Sequence[Relation]:
        """The tables and views of the current database, and of the others."""
        with self._told():
            catalog = self._session.catalog
            current = catalog.currentDatabase()
            found = []
            for base in [current, *(d.name for d in catalog.listDatabases() if d.name != current)]:
                for table in catalog.listTables(base):
                    found.append(Relation("" if table.isTemporary else base, table.name, visible=base == current))
            return list(dict.fromkeys(found))

    def find_files(self, name: str) -> Relation | None:
        """Files of a lake: parquet.`/data/people`, delta.`s3://bucket/people`; the folder's name is the table's."""
        parts = _FILES.fullmatch(name)
        if parts is None:
            return None
        return Relation(parts["kind"], re.split(r"[/\\]", parts["path"].rstrip("/\\"))[-1], files=parts["path"])

    def columns(self, relation: Relation) -> Sequence[CopiedColumn]:
        """The columns of a table, each with the way that its values are copied exactly."""
        with self._told():
            types = self._session.sql(f"SELECT * FROM {self.quoted(relation)}").dtypes
        return [_copied(name, type_) for name, type_ in types]

    def quoted(self, relation: Relation) -> str:
        """The table in FROM."""
        parts = [relation.schema, relation.files or relation.name] if relation.schema else [relation.name]
        return ".".join(f"`{part.replace('`', '``')}`" for part in parts)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Faults of the engine in our words: its own may quote a value."""
        try:
            yield
        except (DataError, KeyboardInterrupt):
            raise
        except Exception as error:
            if isinstance(error, ConnectionError) or _GONE.search(f"{type(error).__name__} {error}"):
                why = "Spark ended the session before all was read, so nothing is said of it; try again"
                raise ServerGone.of_file(f"{self.url.shown}: {why}") from None
            kind = getattr(error, "getCondition", lambda: None)()
            what = f"Spark cannot read this table ({kind or type(error).__name__}); no value is shown here"
            raise DataError.of_file(f"{self.url.shown}: {what}") from None


def _copied(name: str, type_: str) -> CopiedColumn:
    """How a column is copied, by its type; one of a type that is not judged comes as bytes of its text."""
    column = quote_name(name)
    if type_ in _AS_THEY_ARE or re.fullmatch(r"decimal\(\d+,\d+\)", type_):
        return CopiedColumn(name, column)
    if type_ == "timestamp":  # the session's zone is UTC
        return CopiedColumn(name, f"CAST({column} AS TIMESTAMP_NTZ)")
    if type_ == "binary":
        return CopiedColumn(name, column)
    return CopiedColumn(name, f"CAST({column} AS STRING)", "encode({0})")


def _connection_fault(url: DataUrl, words: str) -> DataError:
    """Why there is no session, without Spark's words: a token may stand among them."""
    if re.search(r"JAVA_GATEWAY_EXITED|JAVA_HOME|Java", words):
        why = (
            "Spark needs Java 17, and none is found here: install openjdk-17-jre-headless, or use Spark Connect (sc://)"
        )
    elif re.search(r"UNAVAILABLE|refused|connect", words):
        why = "no Spark answers there: is it running, and is the port right?"
    else:
        why = "no session of Spark can be had"
    return DataError.of_file(f"cannot read {url.shown}: {why}")
