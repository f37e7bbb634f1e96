"""What an importer yields, and what all of them ask of a statement's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from keyhole.sql import Dialect
from keyhole.sql.scripts import Script

_PLACES = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<number>\d+)")
_TEMPLATE = re.compile(r"\{\{|\{%|\[\[")

NO_PARAMETERS = "its parameter values ($1, ...) are not in the export, so it cannot be judged"
NO_TEMPLATE = "it is a template ({{...}}): export the statements that were run, with their values"


@dataclass(frozen=True, slots=True)
class Exported:
    """One statement of an export, the line it starts on, and the engine it ran in.

    `fault` says why it cannot be read, `unjudged` why it was read and is not judged; `steers` that it only steers the
    session and tells nobody anything.
    """

    sql: str
    at: int
    fault: str = ""
    dialect: str = Dialect.DUCKDB
    steers: bool = False
    unjudged: str = ""


def statements(text: str, at: int, dialect: str = Dialect.DUCKDB, session: Script | None = None) -> Iterator[Exported]:
    """The statements of one logged text, those that only steer the session marked. Blocks and cursors are opened.

    `session` remembers what was prepared in earlier texts.

    >>> text = "BEGIN; SELECT SUM(x) FROM t; BEGIN SELECT SUM(y) FROM t; END;"
    >>> [f.sql for f in statements(text, 7) if not f.steers]
    ['SELECT SUM(x) FROM t', 'SELECT SUM(y) FROM t']
    """
    for step in (session or Script(dialect)).steps(text):
        yield Exported(step.sql, at + step.line - 1, "", dialect, step.steers, step.unjudged)


def faulty(text: str, at: int, fault: str) -> Exported:
    """A text that is listed with the reason."""
    return Exported(" ".join(text.split()), at, fault)


def has_parameters(sql: str) -> bool:
    """Does the text have $1, $2, ... outside quotes?

    >>> has_parameters("SELECT SUM(x) FROM t WHERE a = $1"), has_parameters("SELECT '$1'")
    (True, False)
    """
    return any(m["number"] for m in _PLACES.finditer(sql))


def is_template(sql: str) -> bool:
    """Does the text have places to fill in?"""
    return _TEMPLATE.search(sql) is not None


def filled(sql: str, values: Mapping[int, str]) -> str | None:
    """The text with $n replaced by SQL literals; None if a value is missing.

    >>> filled("SELECT SUM(x) FROM t WHERE a = $1 AND b <> '$1'", {1: "'v'"})
    "SELECT SUM(x) FROM t WHERE a = 'v' AND b <> '$1'"
    """
    if any(m["number"] and int(m["number"]) not in values for m in _PLACES.finditer(sql)):
        return None
    return _PLACES.sub(lambda m: values[int(m["number"])] if m["number"] else m.group(), sql)
