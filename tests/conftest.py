"""Settings of the whole test run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from postgres_here import postgres  # noqa: F401 - a fixture of all tests

# Machines are shared: a slow example is not a failure. CI draws the same examples every time, so that a red run is
# about the change; `make test` elsewhere goes on searching.
settings.register_profile("keyhole", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "keyhole")

SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what slow.txt lists: one case of a test, or a test with all its cases."""
    for item in items:
        if item.nodeid in SLOW or item.nodeid.split("[")[0] in SLOW:
            item.add_marker(pytest.mark.slow)
