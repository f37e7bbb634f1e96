"""Files that a test starts from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write each text under its name; the folder, for whoever goes on with it."""
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
