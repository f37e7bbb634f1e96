"""Connections to DuckDB: one that nothing new enters, one row or value, a time limit, rows from one to another."""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from heapq import heappop, heappush
from itertools import count
from typing import Any

import duckdb

from keyhole.model.predicate import Scalar, quote_name
from keyhole.model.schema import Kind

_NOT_IN_ARROW = ("HUGEINT", "UHUGEINT", "BIGNUM", "VARINT", "BIT", "TIME WITH TIME ZONE", "UUID")
_KINDS = {
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
    "VARCHAR": Kind.TEXT,
    "UUID": Kind.TEXT,
    "FLOAT": Kind.DOUBLE,
    "DOUBLE": Kind.DOUBLE,
}


def lock_down(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A database that nothing new enters: no file, no extension, no Python object by its name, no setting."""
    con.execute("SET python_enable_replacements = false")
    con.execute("SET autoinstall_known_extensions = false")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def fetch_first(con: duckdb.DuckDBPyConnection, text: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
    """The first row that a query returns; all are fetched, since an unfinished result bars other work."""
    rows = con.execute(text, list(parameters)).fetchall()
    return rows[0] if rows else None


def fetch_value(con: duckdb.DuckDBPyConnection, text: str) -> Any:
    """The one value that a query returns."""
    row = fetch_first(con, text)
    assert row is not None
    return row[0]


def plain_value(value: Any) -> Scalar | None:
    """A value as the engine hands it over: numbers exact, what Python has no word for as text."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if value is None or isinstance(value, bool | int | str | Decimal | dt.date | dt.datetime):
        return value
    return str(value)


def kind_of_type(text: str) -> Kind:
    """What a column of a type of the engine holds.

    >>> kind_of_type("DECIMAL(18,3)"), kind_of_type("UBIGINT"), kind_of_type("BLOB")
    (<Kind.DECIMAL: 'decimal'>, <Kind.INTEGER: 'integer'>, <Kind.OTHER: 'other'>)
    """
    if text.startswith("DECIMAL"):
        return Kind.DECIMAL
    if text.endswith("INT") or text in ("INTEGER", "UINTEGER"):
        return Kind.INTEGER
    if text.startswith("TIMESTAMP"):
        return Kind.TIMESTAMP
    return Kind.TEXT if text.startswith("ENUM") else _KINDS.get(text, Kind.OTHER)


def types_of(con: duckdb.DuckDBPyConnection, origin: str) -> dict[str, str]:
    """The columns of a table, in order, and the engine's types of them."""
    rows = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {origin})").fetchall()
    return {str(name): str(type_) for name, type_ in rows}


class _Watchdog:
    """One thread that interrupts whatever runs beyond its deadline. It holds a connection only while that is armed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a child process must: it has neither the thread nor what that watched."""
        self._changed = threading.Condition(threading.Lock())
        self._armed: dict[int, duckdb.DuckDBPyConnection] = {}
        self._deadlines: list[tuple[float, int]] = []  # a heap; what was disarmed stays until its time has come
        self._numbers = count()
        self._thread: threading.Thread | None = None

    def arm(self, con: duckdb.DuckDBPyConnection, seconds: float) -> int:
        """Interrupt the connection then, unless the number that this returns is disarmed before."""
        deadline = time.monotonic() + seconds
        with self._changed:
            number = next(self._numbers)
            self._armed[number] = con
            nearest = not self._deadlines or deadline < self._deadlines[0][0]
            heappush(self._deadlines, (deadline, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="keyhole time limits", daemon=True)
                self._thread.start()
            elif nearest:
                self._changed.notify()
        return number

    def disarm(self, number: int) -> None:
        """It ended; from here on the connection is not interrupted for it."""
        with self._changed:
            self._armed.pop(number, None)

    def _watch(self) -> None:
        with self._changed:
            while True:
                while self._deadlines and self._deadlines[0][0] <= time.monotonic():
                    _, number = heappop(self._deadlines)
                    if number in self._armed:
                        with suppress(duckdb.Error):  # it was closed meanwhile
                            self._armed.pop(number).interrupt()
                self._changed.wait(self._deadlines[0][0] - time.monotonic() if self._deadlines else None)


_watchdog = _Watchdog()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watchdog.forget)


@contextmanager
def with_timeout(con: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupts what runs longer; the statement then fails with `duckdb.InterruptException`.

    Cost: no thread is started, and none is woken unless a limit is nearer than all before it.
    """
    number = _watchdog.arm(con, seconds)
    try:
        yield
    finally:
        _watchdog.disarm(number)


def copy_rows(origin: duckdb.DuckDBPyConnection, query: str, target: duckdb.DuckDBPyConnection, name: str) -> None:
    """Make the rows of `query` in `origin` a table of `target`: same order, same types; nothing else goes over.

    Arrow has no name for some types (numbers of 128 bits, ...): those go over as text and are cast back.

    >>> one, two = duckdb.connect(":memory:"), duckdb.connect(":memory:")
    >>> copy_rows(one, "SELECT i::HUGEINT AS big, i::VARCHAR AS word FROM range(3) AS t(i)", two, "rows")
    >>> two.execute("SELECT typeof(big), big, word FROM rows").fetchall()
    [('HUGEINT', 0, '0'), ('HUGEINT', 1, '1'), ('HUGEINT', 2, '2')]
    """
    described = origin.execute(f"SELECT column_name, column_type FROM (DESCRIBE {query})").fetchall()
    columns = [(quote_name(str(column)), str(kind)) for column, kind in described]
    there = ", ".join(f"{c}::VARCHAR AS {c}" if kind in _NOT_IN_ARROW else c for c, kind in columns)
    here = ", ".join(f"CAST({c} AS {kind}) AS {c}" for c, kind in columns)
    target.register("keyhole_stream", _Stream(origin.sql(f"SELECT {there} FROM ({query})")))
    target.execute(f"CREATE TEMP TABLE {quote_name(name)} AS SELECT {here} FROM keyhole_stream")
    target.unregister("keyhole_stream")


class _Stream:
    """A result of one database that another can read: Arrow's C stream, without pyarrow."""

    def __init__(self, rows: duckdb.DuckDBPyRelation) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)
