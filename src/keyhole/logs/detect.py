"""What a log is written in, by its name and its first record."""

from __future__ import annotations

import json
from pathlib import Path

from keyhole.errors import LogError
from keyhole.logs.importers import IMPORTERS, LogFormat
from keyhole.logs.records import csv_rows
from keyhole.model.transcript import FIELDS

# Fields that give an export away: all of a group must be there; the larger group is the more telling one.
_TELLING = sorted(
    ((frozenset(group.split()), kind) for kind, importer in IMPORTERS.items() for group in importer.fields),
    key=lambda telling: -len(telling[0]),
)


def detect(text: str, name: str) -> LogFormat:
    """What a log is written in, by its name and its first record.

    >>> detect("SELECT 1", "-"), detect('{"sql": "SELECT 1", "answer": 1}', "x")
    (<LogFormat.SQL: 'sql'>, <LogFormat.JSONL: 'jsonl'>)
    """
    suffix = Path(name).suffix.lower() if len(name) < 1000 else ""
    start = text.lstrip()[:1]
    if suffix == ".sql":
        return LogFormat.SQL
    fields = _json_fields(text) if start in ("{", "[") else _csv_fields(text)
    if start == "{" and "sql" in fields and fields <= FIELDS:
        return LogFormat.JSONL
    for telling, kind in _TELLING:
        if telling <= fields:
            return kind
    if suffix == ".jsonl" or (start == "{" and (suffix != ".json" or "sql" in fields)):
        return LogFormat.JSONL
    if start not in ("{", "["):
        for kind, importer in IMPORTERS.items():
            if importer.knows(text):
                return kind
    if start != "[" and suffix not in (".csv", ".json"):
        return LogFormat.SQL
    known = ", ".join(kind for kind in LogFormat if kind is not LogFormat.AUTO)
    raise LogError(f"cannot tell what {name} was written by: say it with --log-format, one of {known}")


def _json_fields(text: str) -> frozenset[str]:
    """Names of the first whole object's fields, and of the first object in the lists it holds."""
    start = text.lstrip()
    if start[0] == "[":
        start = start[1:].lstrip()
    first = None
    for _ in range(20):
        try:
            first = json.JSONDecoder().raw_decode(start)[0]
            break
        except ValueError:  # a broken line: the next one may tell
            start = start.partition("\n")[2].lstrip()
    names: set[str] = set()
    for part in (
        (first, *(v[0] for v in first.values() if isinstance(v, list) and v)) if isinstance(first, dict) else ()
    ):
        if isinstance(part, dict):
            names |= {str(k).lower() for k in part}
    return frozenset(names)


def _csv_fields(text: str) -> frozenset[str]:
    row = next((row.fields for row in csv_rows(text) if not row.fault), [])
    return frozenset(part.strip().lower() for part in row)
