"""What an importer yields, and what all of them ask of a statement's text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from keyhole.logs.lines import LogLines
from keyhole.logs.records import Record
from keyhole.model.transcript import ABSENT, Given, Noise
from keyhole.sql import Dialect, Fragment
from keyhole.sql.statements.scripts import Script
from keyhole.sql.statements.split import PATIENCE, StatementBuffer, split_statements

_PLACES = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(?P<number>\d+)")
_TEMPLATE = re.compile(r"\{\{|\{%|\[\[")

NO_PARAMETERS = "its parameter values ($1, ...) are not in the export, so it cannot be judged"
NO_TEMPLATE = "it is a template ({{...}}): export the statements that were run, with their values"

SEVERAL = "it failed, but it holds several statements: those before the error may have been answered"
CUT_SHORT = "it was cut short (cancelled, timed out): some of its answer may have been sent by then"
TELLS = "it failed, perhaps because of a value that it met, which tells something of that value"
_WHATEVER_VALUES = re.compile(
    r"syntax|pars(?:e|ing) error|compilation error|does not exist|not (?:be )?found|unrecognized name|undefined|"
    r"cannot be resolved|unresolved|ambiguous|no matching signature|group by|permission|denied|not authorized|"
    r"privilege|quota|rate limit|concurren",
    re.IGNORECASE,
)
_CUT_SHORT = re.compile(r"cancel|time[d ]*[-_ ]?out|time limit|kill|\bstopped\b|\baborted\b", re.IGNORECASE)
_RAISES = re.compile(r"\b(?:error|fail|raise\w*|assert\w*|throw)\s*\(", re.IGNORECASE)  # errors with words of one's own
_STEERS = re.compile(
    r"(?:BEGIN|START|SET|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|RESET|DISCARD|PREPARE|DEALLOCATE|LISTEN|UNLISTEN|"
    r"USE)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\b(?:SELECT|WITH|TABLE|VALUES|EXECUTE|FETCH|CALL)\b", re.IGNORECASE)


class Asker(NamedTuple):
    """Who asked, and when, as the log says it."""

    analyst: str | None = None
    time: str | None = None


NOBODY = Asker()


@dataclass(frozen=True, slots=True)
class Exported:
    """One statement of an export, the line it starts on, and the engine it ran in.

    `fault` says why it cannot be read, `unjudged` why it was read and is not judged; `steers` that it only steers the
    session and tells nobody anything, `failed` that it ended in an error and was not answered. Where the log has them:
    who asked and when, the answer, and the law of its noise. `within` is the line and column (from 1) at which that
    begins of which it is a part: the record of the export, or the statement of the script; None: the line `at`.
    `is_raw`: `sql` is a whole line that cannot be read, with its answer.
    """

    sql: str
    at: int
    fault: str = ""
    dialect: str = Dialect.DUCKDB
    steers: bool = False
    unjudged: str = ""
    failed: bool = False
    analyst: str | None = None
    time: str | None = None
    answer: Given = ABSENT
    noise: Noise | None = None
    within: tuple[int, int] | None = None
    is_raw: bool = False

    @property
    def begins(self) -> tuple[int, int]:
        """Line and column of the record or statement that it is a part of: in the order of the log."""
        return self.within or (self.at, 1)


def statements(
    text: str,
    at: int,
    dialect: str = Dialect.DUCKDB,
    session: Script | None = None,
    who: Asker = NOBODY,
) -> Iterator[Exported]:
    """The statements of one logged text, those that only steer the session marked. Blocks and cursors are opened.

    `session` remembers what was prepared in earlier texts.

    >>> text = "BEGIN; SELECT SUM(x) FROM t; BEGIN SELECT SUM(y) FROM t; END;"
    >>> [f.sql for f in statements(text, 7) if not f.steers]
    ['SELECT SUM(x) FROM t', 'SELECT SUM(y) FROM t']
    """
    for step in (session or Script(dialect)).steps(text, at):
        yield Exported(step.sql, step.line, "", dialect, step.steers, step.unjudged, False, *who, within=(at, 1))


def scripted(lines: Iterable[str], dialect: str = Dialect.DUCKDB, patience: int = PATIENCE) -> Iterator[Exported]:
    """The statements of a script that comes line by line.

    >>> [f.sql for f in scripted(["SELECT 1; BEGIN;\\n", "SELECT 2"]) if not f.steers]
    ['SELECT 1', 'SELECT 2']
    """
    session = Script(dialect, whole=True)
    waiting = StatementBuffer(dialect, patience)
    for text in lines:
        for part in waiting.take_line(text):
            yield from stepped(part, session)
    for part in take_last(waiting, lines):
        yield from stepped(part, session)


def take_last(waiting: StatementBuffer, lines: Iterable[str]) -> Sequence[Fragment]:
    """What a script ends with. In a file that is still being written the last statement counts only if it has its end;
    else it is in `cut`.
    """
    left = waiting.take_rest()
    if left and isinstance(lines, LogLines) and (lines.cut or lines.growing()):
        lines.cut = "\n".join([*(part.sql for part in left[-1:]), *filter(None, [lines.cut])])
        return left[:-1]
    return left


def stepped(part: Fragment, session: Script) -> Iterator[Exported]:
    """What one statement of a script asks."""
    begins = (part.line, part.column)
    for step in session.step(part):
        line = max(part.line, step.line)
        yield Exported(step.sql, line, "", session.dialect, step.steers, step.unjudged, within=begins)


def faulty(text: str, at: int, fault: str, who: Asker = NOBODY) -> Exported:
    """A text that is listed with the reason."""
    return Exported(" ".join(text.split()), at, fault, analyst=who.analyst, time=who.time)


def refuse_record(record: Record, lack: str, who: Asker = NOBODY) -> Exported:
    """A record of an export that is listed with what is wrong with it, or with what it lacks."""
    return faulty(str(record.fields or record.raw), record.at, record.fault or lack, who)


def failed(text: str, at: int, dialect: str = Dialect.DUCKDB, error: object = None, who: Asker = NOBODY) -> Exported:
    """A statement that ended in an error: passed over, and counted.

    Unless something was said all the same: by statements before the error in the same text, by rows that were sent
    before it was cancelled, or by an `error` (as the export words it) that is not one of those that come whatever the
    values are.

    >>> failed("SELECT 1/x FROM t", 1, error="Table T does not exist").failed
    True
    >>> failed("SELECT x FROM t", 1, error="Query was cancelled").unjudged == CUT_SHORT
    True
    >>> bool(failed("SELECT 1/x FROM t", 1, error="Division by zero").unjudged)
    True
    >>> failed("SELECT SUM(x) FROM t; SET a = 1", 1).unjudged
    'it failed, but it holds several statements: those before the error may have been answered'
    """
    why, said = SEVERAL if answered_before(text, dialect) else "", str(error or "").replace("_", " ")
    if not why and _CUT_SHORT.search(said):
        why = CUT_SHORT if _ASKS.search(text) else ""
    elif not why and said and (not _WHATEVER_VALUES.search(said) or _RAISES.search(text)):
        why = TELLS
    if not why:
        return Exported(text, at, failed=True)
    return Exported(text, at, dialect=dialect, unjudged=why, analyst=who.analyst, time=who.time)


def answered_before(text: str, dialect: str) -> bool:
    """May a statement of this text have been answered when a later one failed?

    >>> answered_before("BEGIN; SET a = 1; SELECT 1", "postgres"), answered_before("SELECT 1; SET a = 1", "postgres")
    (False, True)
    """
    return not all(map(_silent, (part.sql for part in split_statements(text, dialect)[:-1])))


def _silent(sql: str) -> bool:
    """Does a statement surely answer nothing?"""
    return _STEERS.match(sql) is not None and (_ASKS.search(sql) is None or sql[:7].upper() == "PREPARE")


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
