"""A log of SQL -> its statements, by scanning only: no statement is parsed here."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What matters between two semicolons, longest first. An unterminated quote or comment runs to the end of its line
# (a quote) or of the text (a comment): see `split`.
_SCAN = re.compile(
    r"""
      (?P<semicolon>;)
    | (?P<line>--[^\n]*)
    | (?P<block>/\*)
    | (?P<quote>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$)
    | (?P<open>['"])
    | (?P<word>[^\s;'"$/-]+|[$/-])
    """,
    re.VERBOSE,
)
_BLOCK = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Fragment:
    """One statement of a log as written, without its semicolon; `line` and `column` count from 1."""

    sql: str
    line: int
    column: int


def split(text: str) -> list[Fragment]:
    """The statements of `text`, in order; empty ones and those that are only comments are dropped.

    Knows `'...'` with `''`, `"..."`, `--`, nested `/* */` and `$tag$...$tag$`. A quote that never closes ends at the
    next semicolon at the end of a line (or at the end of the text), so that one broken statement does not swallow the
    log: it comes back as a fragment that `lower` refuses. Linear in the length of the text, except after an
    unterminated quote, where each one costs a look ahead.

    >>> [f.sql for f in split("SELECT 1; -- a; b\\nSELECT ';' /* c; /* d */ ; */;;")]
    ['SELECT 1', "SELECT ';'"]
    >>> split("SELECT 1;\\n  SELECT 2")[1]
    Fragment(sql='SELECT 2', line=2, column=3)
    """
    found: list[Fragment] = []
    line, counted = 1, 0  # lines seen up to the offset `counted`
    first: int | None = None  # offset of the first word of the statement
    last = 0  # offset behind its last word

    def close() -> None:
        nonlocal first, line, counted
        if first is not None:
            line += text.count("\n", counted, first)
            counted = first
            found.append(Fragment(text[first:last], line, first - text.rfind("\n", 0, first)))
            first = None

    at, end = 0, len(text)
    unclosed: set[str] = set()  # quote marks known not to close in the rest of the text
    while at < end:
        match = _SCAN.search(text, at)
        if match is None:
            break
        kind, at = match.lastgroup, match.end()
        if kind == "semicolon":
            close()
            continue
        if kind == "line":
            continue
        if kind == "block":
            at = _end_of_comment(text, at)
            if at < 0:  # never closed: keep it, so that the parser can say so
                first, last, at = match.start() if first is None else first, end, end
            continue
        if first is None:
            first = match.start()
        if kind == "quote" and _swallows(match.group()):
            kind = "open"
        if kind == "open":
            at = _end_of_broken(text, match.start())
        elif kind in ("dollar", "tag"):
            mark = match.group("dollar")
            shut = -1 if mark in unclosed else text.find(mark, at)
            if shut < 0:
                unclosed.add(mark)
                at = _end_of_broken(text, match.start())
            else:
                at = shut + len(mark)
        last = at
    close()
    return found


def _swallows(quoted: str) -> bool:
    # A string that holds a semicolon at the end of a line, followed by a line that starts a statement, is taken for
    # an unterminated one: its closing mark is the opening mark of a later statement.
    return ";" in quoted and _NEXT_STATEMENT.search(quoted) is not None


_NEXT_STATEMENT = re.compile(r";[ \t]*(?:--[^\n]*)?\r?\n\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_END_OF_LINE = re.compile(r";[ \t]*(?=\r?\n|$|--)")


def _end_of_broken(text: str, start: int) -> int:
    match = _END_OF_LINE.search(text, start)
    return match.start() if match else len(text)


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    for match in _BLOCK.finditer(text, at):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return -1
