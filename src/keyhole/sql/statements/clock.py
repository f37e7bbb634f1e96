"""Today and now, as they were when a statement ran: from the time stamp of the log, else from --now."""

from __future__ import annotations

import datetime as dt
import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.errors import ConfigError
from keyhole.sql.dialects.engine import Dialect, find_engine
from keyhole.sql.lowering.date_arithmetic import add_interval, shift_date, truncate_date
from keyhole.sql.statements.split import explain_doubtful_comment

_TODAY = frozenset(["today", "curdate"])
_NOW = frozenset(["now", "getdate", "sysdate", "sysdatetime", "localtimestamp", "get_current_timestamp"])
_SAID = re.compile(
    r"current_(date|time|timestamp|datetime)|\b(now|today|curdate|getdate|sysdate|sysdatetime|localtimestamp)\b",
    re.IGNORECASE,
)
_ZONE = re.compile(r"^(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\d*\s*(?:[A-Z]{1,5}|[+-]\d\d:?(?:\d\d)?)$")
_MOMENTS = (exp.CurrentTimestamp, exp.CurrentDatetime)
_COMPUTED = (exp.Add, exp.Sub, exp.DateAdd, exp.DateSub, exp.TsOrDsAdd, exp.DateTrunc, exp.TimestampTrunc)


def write_time_as_it_ran(sql: str, dialect: str, time: str | None, now: dt.date | None = None) -> str:
    """The statement with the time written out at which it ran: that of the log, else `now`; as it is without both.

    >>> write_time_as_it_ran("SELECT COUNT(*) FROM t WHERE d = CURRENT_DATE", "duckdb", "2025-06-30 12:00:00+02")
    "SELECT COUNT(*) FROM t WHERE d = CAST('2025-06-30' AS DATE)"
    """
    when = read_time_stamp(time) or now
    return sql if when is None or explain_doubtful_comment(sql, dialect) else write_out_time(sql, dialect, when)


def read_time_stamp(stamp: str | None) -> dt.datetime | None:
    """The time stamp of a log, as its clock showed it; None if there is none that can be read.

    >>> [str(read_time_stamp(f"2026-11-16 10:00:00{zone}")) for zone in (".123 UTC", " -0800", "")]
    ['2026-11-16 10:00:00.123000', '2026-11-16 10:00:00', '2026-11-16 10:00:00']
    >>> read_time_stamp("yesterday")
    """
    try:
        bare = None if stamp is None else _ZONE.sub(r"\1", str(stamp).strip())
        return None if bare is None else dt.datetime.fromisoformat(bare).replace(tzinfo=None)
    except ValueError:
        return None


def parse_now(now: str | None) -> dt.date | None:
    """What --now says: a day, or a moment."""
    try:
        if now is not None and len(now.strip()) == len("2026-11-15"):
            return dt.date.fromisoformat(now.strip())
        return None if now is None else dt.datetime.fromisoformat(now)
    except ValueError:
        raise ConfigError(f"--now {now!r} is no time: write 2026-11-15 or 2026-11-15 12:00") from None


def write_out_time(sql: str, dialect: str, now: dt.date) -> str:
    """The statement with today's date and, if `now` has one, the current time written out.

    Where the engine is not DuckDB, what is computed from them (an interval added, the first of the month) is written
    out too, since every engine counts days, months and years alike; nothing that looks at a column is.

    >>> sql = "SELECT COUNT(*) FROM t WHERE d >= CURRENT_DATE - INTERVAL 30 DAY"
    >>> write_out_time(sql, "mysql", dt.date(2025, 6, 30))
    "SELECT COUNT(*) FROM t WHERE d >= CAST('2025-05-31' AS DATE)"
    """
    if _SAID.search(sql) is None:
        return sql
    engine = find_engine(dialect)
    write = _write_out_as_text if engine.dates_are_texts else _write_out_node
    try:
        trees = sqlglot.parse(sql, read=engine.parser)
        if len(trees) != 1 or trees[0] is None:
            return sql
        made = trees[0].copy().transform(lambda node: write(node, now))
        if engine.dialect is not Dialect.DUCKDB and not engine.dates_are_texts:
            made = _compute_dates(made)
        return str(made.sql(dialect=engine.parser)) if made != trees[0] else sql
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        return sql


def _write_out_node(node: exp.Expr, now: dt.date) -> exp.Expr:
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) and not node.expressions else ""
    if isinstance(node, exp.CurrentDate) or name in _TODAY:
        return _make_date(now.date() if isinstance(now, dt.datetime) else now)
    if (isinstance(node, _MOMENTS) or name in _NOW) and isinstance(now, dt.datetime):
        return _make_date(now)
    return node


def _write_out_as_text(node: exp.Expr, now: dt.date) -> exp.Expr:
    """SQLite's date('now', '-30 days'): a text there."""
    today = now.date() if isinstance(now, dt.datetime) else now
    if isinstance(node, exp.CurrentDate):
        return exp.Literal.string(str(today))
    said = [node.this] if isinstance(node, exp.Date) else node.expressions if isinstance(node, exp.Anonymous) else []
    if isinstance(node, exp.Anonymous) and str(node.this).lower() != "date":
        return node
    if not said or not all(isinstance(part, exp.Literal) and part.is_string for part in said) or said[0].name != "now":
        return node
    day = _apply_modifiers(today, [part.name for part in said[1:]])
    return node if day is None else exp.Literal.string(str(day))


def _make_date(moment: dt.date) -> exp.Expr:
    timed = isinstance(moment, dt.datetime) and moment.time() != dt.time()
    text = str(moment) if timed else str(moment)[:10]
    return exp.cast(exp.Literal.string(text), "timestamp" if timed else "date")


def _compute_dates(tree: exp.Expr) -> exp.Expr:
    """The tree with what is computed from constant days alone written out, from the inside."""
    for node in reversed(list(tree.walk())):
        moment = _read_moment(node)
        if moment is not None and node.parent is not None and not isinstance(node, exp.Cast):
            node.replace(_make_date(moment))
    return tree


def _read_moment(node: exp.Expr) -> dt.date | None:
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.to.is_type("date", "timestamp"):
        try:
            found = dt.datetime.fromisoformat(node.this.name)
        except ValueError:
            return None
        return found.date() if node.to.is_type("date") else found
    if not isinstance(node, _COMPUTED):
        return None
    start = _read_moment(node.this)
    if start is None:
        return None
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return truncate_date(start, node.args["unit"].name) if node.args.get("unit") is not None else None
    sign = -1 if isinstance(node, exp.Sub | exp.DateSub) else 1
    span, unit = node.expression, node.args.get("unit")
    if isinstance(span, exp.Interval):
        return _keep_day(start, add_interval(start, span, sign))
    number = span.this if isinstance(span, exp.Neg) else span
    if unit is None or not isinstance(number, exp.Literal) or not number.name.isdigit():
        return None
    amount = int(number.name) * sign * (-1 if isinstance(span, exp.Neg) else 1)
    return _keep_day(start, shift_date(start, amount, unit.name))


def _apply_modifiers(start: dt.date, shifts: list[str]) -> dt.date | None:
    """SQLite's modifiers: '-30 days', 'start of month'; None where it goes on into the next month, as it does."""
    day: dt.date | None = start
    for shift in shifts:
        plain = re.fullmatch(r"([+-]?\d+) (day|month|year)s?", shift)
        first = re.fullmatch(r"start of (month|year|day)", shift)
        if day is None or not (plain or first) or (plain and plain[2] != "day" and day.day > 28):
            return None
        if plain:
            moment = shift_date(day, int(plain[1]), plain[2])
            day = None if moment is None else moment.date()
        elif first:
            day = truncate_date(day, first[1])
    return day


def _keep_day(start: dt.date, moment: dt.date | None) -> dt.date | None:
    """A day stays one, if nothing smaller was added."""
    if isinstance(moment, dt.datetime) and not isinstance(start, dt.datetime) and moment.time() == dt.time():
        return moment.date()
    return moment
