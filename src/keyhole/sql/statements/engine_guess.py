"""Which engine a statement looks like, by what others do not write: for the message when it cannot be read."""

from __future__ import annotations

import re

from keyhole.sql.dialects.engine import BACKTICKS, ENGINES, Dialect, find_engine
from keyhole.sql.statements.split import mask_quotes

_SIGNS = (  # patterns outside of texts and comments, and how they are shown, if not as they stand there
    *(
        (engine.dialect, re.compile(sign, re.IGNORECASE), title)
        for engine in ENGINES.values()
        for sign, title in engine.signs
    ),
    *(
        (engine.dialect, re.compile(rf"\b(?:{engine.own_functions})\s*\(", re.IGNORECASE), "")
        for engine in ENGINES.values()
        if engine.own_functions
    ),
)


def guess_engine(sql: str, dialect_given: str = Dialect.DUCKDB) -> tuple[Dialect, str] | None:
    """The engine that a statement looks like, and by what; None if by nothing, or if it is the one that was said.

    >>> guess_engine("SELECT TOP 5 SUM([Blood sugar]) FROM [people]")
    (<Dialect.TSQL: 'tsql'>, 'TOP, [names] in brackets')
    >>> guess_engine("SELECT SUM(x) FROM t WHERE a = '[b]'") is None
    True
    """
    quoted = mask_quotes(sql, Dialect.DUCKDB)
    signs: dict[Dialect, list[str]] = {}
    for dialect, sign, title in _SIGNS:
        if (match := sign.search(quoted)) is not None:
            signs.setdefault(dialect, []).append(title or match[0].rstrip("( \t\n").upper())
    if any(sql[at.end()] == "'" for at in re.finditer(r"\bN(?= )", quoted)):
        signs.setdefault(Dialect.TSQL, []).append("N'texts'")
    if not signs:
        return None
    best = max(signs, key=lambda dialect: len(signs[dialect]))
    return None if best == dialect_given else (best, ", ".join(signs[best]))


def describe_guess(sql: str, dialect_given: str = Dialect.DUCKDB) -> str:
    """The same as the end of a message; empty if there is none.

    >>> describe_guess("SELECT SUM(`x`) FROM t")
    '; it looks like MySQL (`names` in backticks): if so, say --dialect mysql (or bigquery, spark)'
    """
    found = guess_engine(sql, dialect_given)
    if found is None:
        return ""
    also = " (or bigquery, spark)" if found == (Dialect.MYSQL, BACKTICKS) else ""
    return f"; it looks like {find_engine(found[0]).title} ({found[1]}): if so, say --dialect {found[0]}{also}"
