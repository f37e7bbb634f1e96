"""Settings of the whole test run."""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings
from tests.support.postgres import postgres  # noqa: F401 - a fixture of all tests
from tests.support.postgres_book import place  # noqa: F401 - likewise

# Machines are shared: a slow example is not a failure. CI draws the same examples every time, so that a red run is
# about the change; `make test` elsewhere goes on searching.
settings.register_profile("keyhole", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "keyhole")

SLOW_SECONDS = 0.5  # a test that took longer when it last ran here is left out of `make quick`
MEASURED = "keyhole/durations"  # seconds of each test, in pytest's cache
_durations: dict[str, float] = defaultdict(float)

_connect = sqlite3.connect
_opened: list[tuple[str, sqlite3.Connection]] = []  # what was opened in the test that runs, by its path


def connect_and_note(*args: Any, **kwargs: Any) -> sqlite3.Connection:
    """`sqlite3.connect`, for the test that looks afterwards whether its connections were closed."""
    connection = _connect(*args, **kwargs)
    _opened.append((str(args[0] if args else kwargs["database"]), connection))
    return connection


sqlite3.connect = connect_and_note  # type: ignore[assignment]


def is_open(connection: sqlite3.Connection) -> bool:
    """Was it not closed yet? Whatever thread it belongs to."""
    try:
        return isinstance(connection.in_transaction, bool)
    except sqlite3.ProgrammingError:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Each test closes the databases that it opened: from Python 3.13 on an open one warns, some time later."""
    _opened.clear()
    yield
    left = [path for path, connection in _opened if is_open(connection)]
    assert not left, f"SQLite databases left open: {left}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that took long when they last ran here; a test that never ran is not slow."""
    cache = getattr(config, "cache", None)  # none with -p no:cacheprovider
    durations: dict[str, float] = cache.get(MEASURED, {}) if cache else {}
    for item in items:
        if durations.get(item.nodeid, 0) > SLOW_SECONDS:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _durations[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep how long each test took; a test process of xdist leaves that to the one that started it."""
    cache = getattr(session.config, "cache", None)
    if cache and _durations and not hasattr(session.config, "workerinput"):
        cache.set(MEASURED, {**cache.get(MEASURED, {}), **_durations})
