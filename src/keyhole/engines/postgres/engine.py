"""A connection to PostgreSQL: Arrow by ADBC, one snapshot, errors without the driver's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NoReturn

from keyhole.engines.engine import CopiedColumn, DataUrl, Relation, fetch_rows
from keyhole.engines.words import POSTGRES
from keyhole.errors import DataError, ServerGone
from keyhole.extras import import_extra
from keyhole.model.predicate import format_literal, quote_name

_RELATIONS = """
SELECT n.nspname AS schema, c.relname AS name, pg_table_is_visible(c.oid) AS visible,
  coalesce((SELECT array_to_string(array_agg(quote_ident(a.attname) ORDER BY array_position(i.indkey, a.attnum)), ',')
            FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
            WHERE i.indrelid = c.oid AND i.indisprimary), '') AS key
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY 1, 2
"""
_COLUMNS = """
WITH RECURSIVE base AS (
  SELECT a.attnum AS at, a.attname AS name, a.atttypid AS type, a.atttypmod AS modifier, a.attcollation AS collation
  FROM pg_attribute a WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.at, b.name, t.typbasetype, CASE WHEN b.modifier = -1 THEN t.typtypmod ELSE b.modifier END, b.collation
  FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT b.name, t.typname::text AS type, t.typtype::text AS form, b.modifier::int AS modifier,
  coalesce(NOT k.collisdeterministic, false) AS merges,
  CASE WHEN t.typtype = 'e' THEN 'text' ELSE format_type(b.type, b.modifier) END || coalesce(
    CASE WHEN k.collname <> 'default' THEN ' COLLATE ' || k.collnamespace::regnamespace || '.'
    || quote_ident(k.collname) END, '') AS declared
FROM base b JOIN pg_type t ON t.oid = b.type LEFT JOIN pg_collation k ON k.oid = b.collation
WHERE t.typtype <> 'd' ORDER BY b.at
"""
_AS_THEY_ARE = frozenset(("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar"))
_ZONES = frozenset(("utc", "etc/utc", "gmt", "etc/gmt", "universal", "zulu", "uct", "etc/uct"))
MOST_DIGITS = 38  # of a DECIMAL
OPEN_DECIMAL = (  # where the type does not say how many are behind the point: nine, and no value is rounded
    "CASE WHEN length(rtrim(split_part({0}, '.', 2), '0')) > 9 THEN error('digits') "
    "ELSE CAST({0} AS DECIMAL(38, 9)) END"
)
_FAULTS = {  # what the server or the library says of a connection: what that means, and what to do
    r"password authentication failed": "the server refuses the password of {who}: it is read from the URL, from "
    "PGPASSWORD or from ~/.pgpass",
    r"no password supplied|fe_sendauth": "the server wants a password of {who}: put it into ~/.pgpass or PGPASSWORD",
    r'database ".*" does not exist': "the server has no database {name!r}",
    r'role ".*" does not exist': "the server has no role {who}",
    r"no pg_hba.conf entry": "pg_hba.conf of the server lets {who} in from no address like this one",
    r"could not translate host name|Name or service not known": "there is no host of that name",
    r"[Cc]onnection refused|No such file": "no server answers there: is it running, and is the port right?",
    r"timeout|timed out": "the server does not answer in time",
    r"SSL|certificate": "the connection cannot be encrypted as the address demands (sslmode)",
    r"too many (clients|connections)": "the server has no connection left",
    r'invalid (URI|port|connection option|percent)|missing "="': "the address is not written as PostgreSQL reads it: "
    "postgresql://USER@HOST:PORT/DATABASE, with %40 for @ and %2F for / inside a password",
}
_GONE = re.compile(
    r"server closed the connection|terminating connection|connection (to server was lost|not open|reset)"
    r"|no connection to the server|could not receive data|SSL SYSCALL|error state",
    re.IGNORECASE,
)


class PostgresEngine:
    """One connection. With a `snapshot` all that is read through it is one state of the database, and nothing is
    written (REPEATABLE READ, READ ONLY)."""

    dialect = "postgres"
    spelling = POSTGRES

    def __init__(self, url: DataUrl, *, snapshot: bool) -> None:
        adbc = import_extra("adbc_driver_postgresql.dbapi", "reading PostgreSQL")
        import_extra("pyarrow", "reading PostgreSQL")
        self.url = url
        self.words: list[str] = []
        self.fault: DataError | None = None
        self._in_transaction = snapshot
        try:
            self._con = adbc.connect(_dsn(url), autocommit=not snapshot)
        except Exception as error:
            raise connection_fault(url, str(error)) from None
        if snapshot:
            self.do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_snapshot(self, state: str = "") -> None:
        """What is read from here on is one state of the database: of now, or one that another connection exported.

        Tables of this connection may still be made.
        """
        self.do("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self._in_transaction = True
        if state:
            self.do(f"SET TRANSACTION SNAPSHOT {format_literal(state)}")

    def roll_back(self) -> None:
        """End a transaction as if it had not been."""
        self._in_transaction = False
        self.do("ROLLBACK")

    def arrow(self, sql: str) -> Any:
        """The rows of a SELECT, batch by batch."""
        self.words.append(sql)
        with self._told():
            cursor = self._con.cursor()
            try:
                cursor.execute(sql)
                reader = cursor.fetch_record_batch()
                return import_extra("pyarrow", "reading PostgreSQL").RecordBatchReader.from_batches(
                    reader.schema, self._batches(cursor, reader)
                )
            except BaseException:
                cursor.close()
                raise

    def _batches(self, cursor: Any, reader: Any) -> Iterator[Any]:
        """Its batches; the cursor ends with the last."""
        try:
            with self._told():
                yield from reader
        except DataError as error:
            self.fault = error
            raise
        finally:
            with suppress(Exception):
                cursor.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small SELECT."""
        return fetch_rows(self, sql)

    def attempt(self, sql: str) -> list[tuple[Any, ...]] | None:
        """The rows of a small SELECT; None if the server refuses it. A server that is gone is a fault all the same."""
        if self._in_transaction:
            self.do("SAVEPOINT keyhole")
        try:
            rows = fetch_rows(self, sql)
        except ServerGone:
            raise
        except DataError:
            rows = None
            if self._in_transaction:
                self.do("ROLLBACK TO SAVEPOINT keyhole")
        if self._in_transaction:
            self.do("RELEASE SAVEPOINT keyhole")
        return rows

    def keep(self, name: str, sql: str) -> str:
        """The rows of a SELECT as a table of this connection alone."""
        place = f"pg_temp.{quote_name(name)}"
        self.do(f"DROP TABLE IF EXISTS {place}")
        self.do(f"CREATE TEMP TABLE {quote_name(name)} AS {sql}")
        self.do(f"ANALYZE {place}")
        return place

    def state_of(self, sql: str) -> str:
        """The SQLSTATE with which the server refuses a SELECT; empty if it runs. Not inside a transaction."""
        self.words.append(sql)
        cursor = self._con.cursor()
        try:
            cursor.execute(sql)
            cursor.fetchall()
        except Exception as error:
            state = str(getattr(error, "sqlstate", None) or "")
            if not state:
                _raise(error, self.url)
            return state
        finally:
            cursor.close()
        return ""

    def do(self, sql: str) -> None:
        """Run a statement without rows."""
        self.words.append(sql)
        with self._told(), self._con.cursor() as cursor:
            cursor.execute(sql)

    def put(self, name: str, rows: Any) -> str:
        """A small table for this connection alone."""
        self.do(f"DROP TABLE IF EXISTS pg_temp.{quote_name(name)}")
        self.words.append(f"COPY pg_temp.{quote_name(name)}")
        with self._told(), self._con.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode="create", temporary=True)
        self.do(f"ANALYZE pg_temp.{quote_name(name)}")
        return f"pg_temp.{quote_name(name)}"

    def run_aside(
        self, names: Sequence[tuple[str, ...]], rows: Any, types: Mapping[str, str], texts: Sequence[str]
    ) -> list[list[tuple[Any, ...]] | None]:
        """What each text gives where a table of these names holds these rows (cast to `types`); None: it fails.

        All of it is one transaction that is taken back, limited in time and read-only once the table is there.
        """
        place = self.put("keyhole_filled", rows)
        listed = ", ".join(
            f"{quote_name(c)} :: {types[c]} AS {quote_name(c)}" if types.get(c) else quote_name(c)
            for c in rows.column_names
            if c != "keyhole_row"
        )
        self.do("BEGIN")
        self._in_transaction = True
        try:
            self.do("SET LOCAL statement_timeout = '10s'")
            self.do("SET LOCAL work_mem = '16MB'")
            for name in dict.fromkeys(spelt for each in names for spelt in (each, tuple(n.lower() for n in each))):
                schema = "pg_temp" if len(name) == 1 else quote_name(name[0])
                if len(name) == 2:
                    self.do(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                if len(name) <= 2:
                    self.do(f"CREATE TABLE {schema}.{quote_name(name[-1])} AS SELECT {listed} FROM {place}")
            self.do("SET TRANSACTION READ ONLY")
            return [self.attempt(text) for text in texts]
        finally:
            self.roll_back()

    def cancel(self) -> None:
        """Stop what runs."""
        self._con.adbc_cancel()

    def close(self) -> None:
        """Let go of the connection."""
        with suppress(Exception):  # it may be gone already, and nothing was written
            self._con.close()

    def relations(self) -> Sequence[Relation]:
        """The tables and views that this role may read, partitions as their table."""
        return [
            Relation(schema, name, visible, tuple(re.findall(r'"(?:[^"]|"")+"|[^,"]+', key)))
            for schema, name, visible, key in self.rows(_RELATIONS)
        ]

    def find_files(self, name: str) -> Relation | None:
        """Nothing: a server does not read files for us."""
        return None

    def columns(self, relation: Relation) -> Sequence[CopiedColumn]:
        """The columns of a table, each with the way that its values are copied exactly."""
        zone = str(self.rows("SELECT current_setting('TimeZone') AS zone")[0][0])
        found = self.rows(_COLUMNS.format(format_literal(self.quoted(relation))))
        padded = self._padded_columns(relation, [(n, m - 4) for n, type_, _, m, _, _ in found if type_ == "bpchar"])
        made = [
            describe_copy(
                str(name), str(type_), str(form), int(modifier), merges=bool(merges) or name in padded, zone=zone
            )
            for name, type_, form, modifier, merges, _ in found
        ]
        return [
            replace(column, type=str(row[1]), declared=str(row[5])) for column, row in zip(made, found, strict=True)
        ]

    def _padded_columns(self, relation: Relation, fixed: Sequence[tuple[str, int]]) -> frozenset[str]:
        """The columns of type char(n) with values that are filled up with blanks, which LIKE sees and = does not."""
        if not fixed:
            return frozenset()
        tests = ", ".join(
            f"coalesce(bool_or(char_length({quote_name(n)}) < {size}), false) AS c{i}"
            for i, (n, size) in enumerate(fixed)
        )
        row = self.rows(f"SELECT {tests} FROM {self.quoted(relation)}")[0]
        return frozenset(name for (name, _), pads in zip(fixed, row, strict=True) if pads)

    def quoted(self, relation: Relation) -> str:
        """The table in FROM."""
        return f"{quote_name(relation.schema)}.{quote_name(relation.name)}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Faults of the server in our words: its own may quote a value, and the driver's have the whole statement."""
        try:
            yield
        except (DataError, KeyboardInterrupt):
            raise
        except Exception as error:
            _raise(error, self.url)


def describe_copy(name: str, type_: str, form: str, modifier: int, *, merges: bool, zone: str) -> CopiedColumn:
    """How a column is copied, by its type; one that compares as DuckDB would not (a collation that merges texts, blanks
    of char(n), times that depend on a session's zone) and one of a type that is not judged comes as bytes."""
    column = quote_name(name)
    text = f"{column}::text"
    if merges:
        return CopiedColumn(name, text, "encode({0})")
    if type_ in _AS_THEY_ARE or (type_ == "timestamptz" and zone.casefold() in _ZONES):
        return CopiedColumn(name, column)
    if type_ in ("date", "timestamp"):
        return CopiedColumn(name, text, f"CAST({{0}} AS {type_.upper()})")
    if type_ == "numeric":
        digits, places = ((modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF) if modifier >= 4 else (0, 0)
        if 0 < digits <= MOST_DIGITS and places <= digits:
            return CopiedColumn(name, text, f"CAST({{0}} AS DECIMAL({digits}, {places}))", digits=places)
        return CopiedColumn(name, text, OPEN_DECIMAL)
    if type_ == "uuid":
        return CopiedColumn(name, text, "CAST({0} AS UUID)")
    if type_ in ("bpchar", "name") or form == "e":
        return CopiedColumn(name, text)
    if type_ == "oid":
        return CopiedColumn(name, f"{column}::int8")
    return CopiedColumn(name, text, "encode({0})")


def _dsn(url: DataUrl) -> str:
    """The address with a name of ours for the server's list of connections, and a limit for connecting."""
    extra = [
        word for word in ("application_name=keyhole", "connect_timeout=10") if word.partition("=")[0] not in url.rest
    ]
    mark = "&" if "?" in url.rest else "?"
    return "".join((url.dsn, mark, "&".join(extra))) if extra else url.dsn


def connection_fault(url: DataUrl, words: str) -> DataError:
    """Why there is no connection, without the driver's words: a password may stand among them."""
    who = repr(url.user) if url.user else "this user"
    why = next((cure for pattern, cure in _FAULTS.items() if re.search(pattern, words)), "the server cannot be reached")
    return DataError.of_file(f"cannot read {url.shown}: {why.format(who=who, name=url.name)}")


def _raise(error: Exception, url: DataUrl) -> NoReturn:
    state, words = getattr(error, "sqlstate", None) or "", str(error)
    if state == "42501":
        what = re.search(r"permission denied for (\w+ [\w.]+)", words)
        raise DataError.of_file(
            f"{url.shown}: this role may not read {what[1] if what else 'it'}; GRANT SELECT on it, or name another user"
        ) from None
    if state.startswith(("57P", "08")) or (not state and _GONE.search(words)):
        raise ServerGone.of_file(
            f"{url.shown}: the server ended the connection before all was read, so nothing is said of it; try again"
        ) from None
    if state in ("55P03", "55006"):
        raise DataError.of_file(
            f"{url.shown}: somebody has the split table open; close the sessions, and try again"
        ) from None
    if state in ("42P01", "3F000", "42703"):
        raise DataError.of_file(f"{url.shown}: a table or column vanished while it was read; try again") from None
    code = f"SQLSTATE {state}" if state else type(error).__name__
    raise DataError.of_file(
        f"{url.shown}: the server cannot read this table ({code}); no value is shown here"
    ) from None
