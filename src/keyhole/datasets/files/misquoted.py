"""A text file that the engine cannot read: which line, and what to do.

The engine's own words name a copy that nobody knows, and quote lines that may hold somebody's value.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import duckdb

from keyhole.datasets.files.csv_layout import Separation, uneven

CURE = 'inside quotes a quote is written twice (""), and --delimiter names what separates the fields'


def unreadable(path: Path, separation: Separation, error: duckdb.Error) -> str:
    """Why the engine does not read a text file, in our words."""
    return uneven(path, separation) or _badly_quoted(path, separation) or in_our_words(error)


def in_our_words(error: duckdb.Error) -> str:
    """What the engine says of a file, without paths."""
    said = str(error).splitlines()[0]
    if "sniffing" in said or "CSV Error" in said:
        return f"its quotes cannot be made out: {CURE}"
    return re.sub(r"[^\s\"']*/(?=[^\s\"'/])", "", said)


def _badly_quoted(path: Path, separation: Separation) -> str | None:
    """The line at which a quoted value does not end where its quote does."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, strict=True, **separation.words)
        try:
            for _ in reader:
                pass
        except csv.Error:
            return f"line {reader.line_num}: the value does not end where its quotes do: {CURE}"
    return None
