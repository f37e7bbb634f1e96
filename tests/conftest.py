"""Settings of the whole test run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines are shared: a slow example is not a failure. CI draws the same examples every time, so that a red run is
# about the change; `make test` elsewhere goes on searching.
settings.register_profile("keyhole", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "keyhole")

ROOT = Path(__file__).parent.parent
SLOW = frozenset((ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what slow.txt lists: a test function with all its cases, or a whole file."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path in SLOW or f"{path}::{getattr(item, 'originalname', None) or item.name}" in SLOW:
            item.add_marker(pytest.mark.slow)
