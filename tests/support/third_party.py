"""Where third-party data are: the folder that KEYHOLE_DATA names. Tests that need them skip, and say so, without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def folder(name: str) -> Path:
    """A folder of third-party data, or a visible skip."""
    root = os.environ.get("KEYHOLE_DATA")
    if root is None:
        pytest.skip(f"third-party data ({name}): set KEYHOLE_DATA to the folder that holds it")
    found = Path(root) / name
    if not found.is_dir():
        pytest.skip(f"third-party data: {found} is not there")
    return found
