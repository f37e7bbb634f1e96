"""Repeated statements are folded: a log asks the same again and again, and is judged by what it asks once.

Folded are lines with the same text, dialect and answer (or none: then it is computed from the data). An equation that
stands there twice says nothing new, so the verdict is that of the whole log (`tests/logs/test_fold.py` compares both).
Not folded is what may say something new: another answer to the same text, an answer with noise (the average of many is
nearer to the truth), another analyst while it matters who asked, and another time where the text asks for the clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from keyhole.errors import ConfigError, LogError
from keyhole.logs.collect import Collection
from keyhole.logs.exported import Exported, stepped, take_last
from keyhole.logs.importers import LogFormat
from keyhole.logs.lines import Progress, readable
from keyhole.logs.open import Log, collect_log, is_book, open_log
from keyhole.model.transcript import ABSENT, Line, Refusal
from keyhole.sql import Fragment
from keyhole.sql.dialects.engine import Dialect
from keyhole.sql.statements.scripts import Script
from keyhole.sql.statements.split import StatementBuffer

REMEMBERED, LONGEST = 10_000, 2_000  # lines that are worth remembering, and characters of such a line
UNNAMED = "(not named)"
_QUERY = re.compile(r"(?:SELECT|WITH)\b", re.IGNORECASE)
_CLOCK = re.compile(  # words whose value depends on when, by whom, or how often a text is run
    r"current_|session_user|\buser\b|\bnow\b|today|yesterday|getdate|getutcdate|sysdate|systimestamp|localtime"
    r"|clock_timestamp|statement_timestamp|transaction_timestamp|utc_|unix_timestamp|rand|uuid|newid|nextval|sample",
    re.IGNORECASE,
)
_PLACE = re.compile(r"^.*?line \d+: ")
Kept = TypeVar("Kept", Line, Refusal)


class Folding(Collection):
    """A collection that keeps the first of repeated statements, and counts the others. Memory: what is distinct."""

    def __init__(self, dialect: Dialect | None = None) -> None:
        super().__init__(dialect)
        self._first: dict[Hashable, int] = {}  # what a line says -> which of the kept it is; -1: it asks for the clock
        self._counts: list[int] = []
        self._listed: dict[Hashable, tuple[list[Refusal], int]] = {}

    def ask(self, found: Exported) -> None:
        """A statement that is to be judged, unless it was there before."""
        if found.noise is None:
            answer = "" if found.answer is ABSENT else repr(found.answer)
            same: Hashable = (found.sql, found.dialect, answer, found.analyst)
            place = self._first.get(same)
            if place is None:
                place = self._first[same] = -1 if _CLOCK.search(found.sql) else len(self.lines)
            elif place >= 0:
                self._counts[place] += 1
                return
            if place < 0:
                place = self._first.setdefault((same, found.time), len(self.lines))
            if place < len(self.lines):
                self._counts[place] += 1
                return
        super().ask(found)
        self._counts.append(1)

    def take_script(self, lines: Iterable[str], dialect: str) -> None:
        """The statements of a script. A line of whole plain queries is read once, however often it comes back."""
        known: dict[str, tuple[int, ...]] = {}  # such a line -> which of the kept its queries are
        session, waiting = Script(dialect, whole=True), StatementBuffer(dialect)
        for text in lines:
            places = known.get(text) if waiting.empty and not session.setting else None
            if places is not None:
                for place in places:
                    self._counts[place] += 1
                self.number += len(places)
                waiting.line += 1
                continue
            alone, asked = waiting.empty and text.endswith("\n"), []
            for part in waiting.take_line(text):
                asked.append(self._plain(part, session))
            if alone and waiting.empty and -1 not in asked and len(text) <= LONGEST and len(known) < REMEMBERED:
                known[text] = tuple(asked)
        for part in take_last(waiting, lines):
            self._plain(part, session)

    def _plain(self, part: Fragment, session: Script) -> int:
        """Takes a statement; which of the kept it is if it is a plain query, else -1."""
        steps = list(stepped(part, session))
        for found in steps:
            self.take(found)
        if len(steps) != 1 or not _QUERY.match(part.sql) or not readable(part.sql):
            return -1
        return self._first.get((part.sql, session.dialect, "", None), -1)

    def list(self, into: list[Refusal], found: Exported, sql: str, why: str) -> None:
        """A statement that is not, unless it was listed before for the same reason."""
        same = (sql, _PLACE.sub("", why), found.analyst)
        if same in self._listed:
            where, place = self._listed[same]
            where[place] = replace(where[place], repeats=where[place].repeats + 1)
            return
        self._listed[same] = (into, len(into))
        super().list(into, found, sql, why)

    def kept(self) -> tuple[Line, ...]:
        """The statements to judge, each with how often it came."""
        pairs = zip(self.lines, self._counts, strict=True)
        return tuple(replace(line, repeats=count) if count > 1 else line for line, count in pairs)


def fold_log(
    log: str | Path,
    format: LogFormat = LogFormat.AUTO,  # noqa: A002 - the word of the option
    dialect: Dialect | None = None,
    progress: Progress | None = None,
    usual: Dialect = Dialect.DUCKDB,
) -> Log:
    """`open_log` with repeats folded, for each analyst apart: a log of any size in the memory of what is distinct.

    >>> [(line.sql, line.repeats) for line in fold_log("SELECT 1; SELECT 2; SELECT 1; SELECT 1").lines]
    [('SELECT 1', 3), ('SELECT 2', 1)]
    """
    if is_book(log):
        return open_log(log)
    return collect_log(log, Folding(dialect), format, dialect or usual, progress)


def fold_repeats(log: Log) -> Log:
    """A log with repeats folded, whoever asked: what all analysts know together.

    >>> from keyhole.logs.open import as_log
    >>> who = ({"sql": "SELECT SUM(x) FROM t", "analyst": name} for name in ("ann", "bob", "ann"))
    >>> [(line.analyst, line.repeats) for line in fold_repeats(as_log(list(who))).lines]
    [('ann', 3)]
    """
    return replace(
        log,
        lines=_once(log.lines, _of_line),
        refused=_once(log.refused, _of_refusal),
        unjudged=_once(log.unjudged, _of_refusal),
    )


def split_by_analyst(log: Log, by: str) -> dict[str, Log]:
    """What each analyst asked, in the order in which they first did; numbers stay those of the whole log.

    >>> from keyhole.logs.open import as_log
    >>> log = as_log([{"sql": "SELECT 1", "analyst": "ann"}, {"sql": "SELECT 2"}])
    >>> {who: [line.number for line in part.lines] for who, part in split_by_analyst(log, "analyst").items()}
    {'ann': [1], '(not named)': [2]}
    """
    if by != "analyst":
        raise ConfigError(f"a log is judged by analyst, not by {by!r}")
    asked = [(line.number, line.analyst) for line in log.lines]
    asked += [(int(refusal.number), refusal.analyst) for refusal in (*log.refused, *log.unjudged)]
    if not any(name for _, name in asked):
        raise LogError(
            f"{log.name} does not say who asked, so it cannot be judged by analyst: use a log with user names, or a "
            'transcript with "analyst" in its lines'
        )
    names = dict.fromkeys(name for _, name in sorted(asked, key=lambda each: each[0]))
    return {name or UNNAMED: _of(log, name) for name in names}


def _of(log: Log, name: str | None) -> Log:
    refused, unjudged = ([r for r in listed if r.analyst == name] for listed in (log.refused, log.unjudged))
    lines = tuple(line for line in log.lines if line.analyst == name)
    return replace(log, lines=lines, refused=tuple(refused), unjudged=tuple(unjudged), passed=0, failed=0, ignored=0)


def _of_line(line: Line) -> Hashable:
    if line.noise is not None:
        return None
    answer = "" if line.answer is ABSENT else repr(line.answer)
    asked = (line.analyst, line.time) if _CLOCK.search(line.sql) else None
    return (line.sql, line.dialect, answer, asked)


def _of_refusal(refusal: Refusal) -> Hashable:
    return (refusal.sql, _PLACE.sub("", refusal.error))


def _once(items: Iterable[Kept], same: Callable[[Kept], Hashable]) -> tuple[Kept, ...]:
    found: list[Kept] = []
    first: dict[Hashable, int] = {}
    for item in items:
        key = same(item)
        if key is not None and key in first:
            at = first[key]
            found[at] = replace(found[at], repeats=found[at].repeats + item.repeats)
            continue
        if key is not None:
            first[key] = len(found)
        found.append(item)
    return tuple(found)
