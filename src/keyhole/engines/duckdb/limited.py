"""Statements that may run so long and no longer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


@contextmanager
def limited(con: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupts what runs longer; the statement then fails with `duckdb.InterruptException`."""
    timer = threading.Timer(seconds, con.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a thread that holds the database when Python ends is reported as a leak


__all__ = ["limited"]
