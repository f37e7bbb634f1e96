"""Constant dates with an interval added: computed here, so that no engine's arithmetic of dates is asked."""

from __future__ import annotations

import calendar
import datetime as dt
import re

from sqlglot import exp

_UNITS = {"day": 1, "week": 7}
_MONTHS = {"mon": 1, "month": 1, "year": 12}
_CLOCK = {"hour": 3600, "minute": 60, "second": 1}
_PART = re.compile(r"\s*([-+]?\d{1,6})\s*([a-z]+)\s*", re.IGNORECASE)


def shift_date(start: dt.date, amount: int, unit: str) -> dt.datetime | None:
    """A day or moment with so many units added; a day of month that does not exist becomes the last one.

    None where the unit is not known or the year has not four digits.

    >>> shift_date(dt.date(2024, 1, 31), 1, "month"), shift_date(dt.date(2024, 2, 29), -1, "years")
    (datetime.datetime(2024, 2, 29, 0, 0), datetime.datetime(2023, 2, 28, 0, 0))
    """
    moment = start if isinstance(start, dt.datetime) else dt.datetime(start.year, start.month, start.day)
    unit = unit.lower()
    unit = unit.removesuffix("s")
    try:
        if unit in _UNITS:
            moment += dt.timedelta(days=amount * _UNITS[unit])
        elif unit in _CLOCK:
            moment += dt.timedelta(seconds=amount * _CLOCK[unit])
        elif unit in _MONTHS:
            month = moment.year * 12 + moment.month - 1 + amount * _MONTHS[unit]
            year, month = month // 12, month % 12 + 1
            moment = moment.replace(year=year, month=month, day=min(moment.day, calendar.monthrange(year, month)[1]))
        else:
            return None
    except (OverflowError, ValueError, IndexError):
        return None
    return moment if 1000 <= moment.year <= 9999 else None


def read_interval(text: str) -> list[tuple[int, str]] | None:
    """The parts of an interval as text, largest unit first as engines apply them; None if it is not plain.

    >>> read_interval("1 year 2 days"), read_interval("1-2")
    ([(1, 'year'), (2, 'days')], None)
    """
    parts: list[tuple[int, str]] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return None
        parts.append((int(match[1]), match[2].lower()))
        at = match.end()
    order = [0 if u.removesuffix("s") in _MONTHS else 1 if u.removesuffix("s") in _UNITS else 2 for _, u in parts]
    return parts if parts and order == sorted(order) and order.count(0) <= 1 else None


def add_interval(start: dt.date, span: exp.Expr | None, sign: int = 1) -> dt.datetime | None:
    """A constant day or moment with a constant interval added, or taken off; None if the interval is not plain.

    >>> import sqlglot
    >>> add_interval(dt.date(2025, 3, 31), sqlglot.parse_one("INTERVAL '1 month 2 days'", read="duckdb"), -1)
    datetime.datetime(2025, 2, 26, 0, 0)
    """
    if not isinstance(span, exp.Interval) or span.this is None:
        return None
    number = span.this.this if isinstance(span.this, exp.Neg) else span.this
    if not isinstance(number, exp.Literal):
        return None
    sign = -sign if isinstance(span.this, exp.Neg) else sign
    unit = span.args.get("unit")
    parts = read_interval(number.name if unit is None else f"{number.name} {unit.name}")
    moment: dt.datetime | None = start if isinstance(start, dt.datetime) else shift_date(start, 0, "day")
    for amount, each in parts or ():
        moment = None if moment is None else shift_date(moment, sign * amount, each)
    return None if parts is None else moment


def truncate_date(start: dt.date, unit: str) -> dt.date | None:
    """A day or moment cut to the first day of its year, quarter, month or week, or to its day; None for other units.

    >>> truncate_date(dt.date(2025, 8, 14), "QUARTER"), truncate_date(dt.date(2025, 8, 14), "week")
    (datetime.date(2025, 7, 1), datetime.date(2025, 8, 11))
    """
    day = start.date() if isinstance(start, dt.datetime) else start
    first = {
        "year": day.replace(month=1, day=1),
        "quarter": day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "month": day.replace(day=1),
        "week": day - dt.timedelta(days=day.weekday()),
        "day": day,
    }.get(unit.lower())
    if first is None or not isinstance(start, dt.datetime):
        return first
    return dt.datetime(first.year, first.month, first.day)
