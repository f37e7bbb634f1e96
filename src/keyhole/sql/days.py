"""Constant dates with an interval added: computed here, so that no engine's arithmetic of dates is asked."""

from __future__ import annotations

import calendar
import datetime as dt
import re

_UNITS = {"day": 1, "week": 7}
_MONTHS = {"mon": 1, "month": 1, "year": 12}
_CLOCK = {"hour": 3600, "minute": 60, "second": 1}
_PART = re.compile(r"\s*([-+]?\d{1,6})\s*([a-z]+)\s*", re.IGNORECASE)


def shifted(start: dt.date, amount: int, unit: str) -> dt.datetime | None:
    """A day or moment with so many units added; a day of month that does not exist becomes the last one.

    None where the unit is not known or the year has not four digits.

    >>> shifted(dt.date(2024, 1, 31), 1, "month"), shifted(dt.date(2024, 2, 29), -1, "years")
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


def spans(text: str) -> list[tuple[int, str]] | None:
    """The parts of an interval as text, largest unit first as engines apply them; None if it is not plain.

    >>> spans("1 year 2 days"), spans("1-2")
    ([(1, 'year'), (2, 'days')], None)
    """
    found: list[tuple[int, str]] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return None
        found.append((int(match[1]), match[2].lower()))
        at = match.end()
    order = [0 if u.removesuffix("s") in _MONTHS else 1 if u.removesuffix("s") in _UNITS else 2 for _, u in found]
    return found if found and order == sorted(order) and order.count(0) <= 1 else None
