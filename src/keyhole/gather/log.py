"""A log file to lines: `.sql` (statements), `.jsonl` (statements with answers), or `-` for standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from keyhole.errors import LogError
from keyhole.sql import split
from keyhole.transcript import Line, read_jsonl


def read_log(log: str | Path) -> list[Line]:
    """Read a log from a path or from standard input (`-`); JSON lines are recognised by their first character.

    A text that ends in neither .sql nor .jsonl and holds a SELECT is taken as the log itself.

    >>> [line.sql for line in read_log("SELECT SUM(x) FROM t; SELECT AVG(x) FROM t")]
    ['SELECT SUM(x) FROM t', 'SELECT AVG(x) FROM t']
    """
    name = str(log)
    if name == "-":
        text, name = sys.stdin.read(), "standard input"
    elif isinstance(log, str) and ("\n" in log or "select" in log.lower()) and not _is_file(log):
        text, name = log, "the log"
    else:
        text = _read(Path(log))
    return read_text(text, name)


def read_text(text: str, name: str) -> list[Line]:
    """Statements or JSON lines, whichever the text holds."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] == "{":
        return list(read_jsonl(text.splitlines(), name))
    return [Line(number, part.sql, at=part.line) for number, part in enumerate(split(text), 1)]


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _read(path: Path) -> str:
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix in (".sql", ".jsonl"))[:5]
        hint = f" In that folder: {', '.join(near)}." if near else ""
        raise LogError(f"there is no log {path}.{hint}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LogError(f"{path.name} is not UTF-8 text; a log is SQL statements or JSON lines") from None
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror}") from None
