"""Parts of a day that every engine computes alike: the year, quarter, month and day of a DATE, and the first day of it.

SQL counts days by the Gregorian calendar in every engine, and a DATE has no time zone. Weeks, days of the week and
times of day differ (the first day of a week, the zone of a session), and so do names of months: they are not here.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from sqlglot import exp

from keyhole.model.schema import folded
from keyhole.sql.dialects.engines import Dialect

_PARTS = (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth)
_UNITS = frozenset(("year", "quarter", "month", "day"))
_WRAPPED = (exp.TsOrDsToDate, exp.TsOrDsToTimestamp, exp.TimeStrToTime)  # what sqlglot puts around a column of days
_DIGITS = re.compile(r"(%[Ymd]|[-. ])+")
_SLASHED = re.compile(r"(%[Ymd]|[-./ ])+")


def is_calendar(node: exp.Expr, days: AbstractSet[str], dialect: Dialect) -> bool:
    """Is this such a part of a column of days? `days` are the columns that are DATE, case folded.

    >>> import sqlglot
    >>> tree = sqlglot.parse_one("SELECT DATE_FORMAT(d, '%Y-%m'), YEAR(d), WEEK(d), YEAR(e) FROM t", read="mysql")
    >>> [is_calendar(item, {"d"}, Dialect.MYSQL) for item in tree.expressions]
    [True, True, False, False]
    """
    if dialect is Dialect.UNKNOWN:
        return False
    if isinstance(node, _PARTS):
        return _day(node.this, days)
    if isinstance(node, exp.Extract):
        return node.name.lower() in _UNITS and _day(node.expression, days)
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        unit = node.args.get("unit")
        return unit is not None and unit.name.lower() in _UNITS and not node.args.get("zone") and _day(node.this, days)
    if isinstance(node, exp.TimeToStr):
        said = node.args.get("format")
        written = _DIGITS if dialect is Dialect.TSQL else _SLASHED  # there / is the separator of a culture
        plain = isinstance(said, exp.Literal) and written.fullmatch(said.name) is not None
        return plain and not node.args.get("culture") and _day(node.this, days)
    return False


def _day(node: exp.Expr | None, days: AbstractSet[str]) -> bool:
    """A column of days, or that cast to a day or a moment."""
    if isinstance(node, _WRAPPED):
        return _day(node.this, days)
    if isinstance(node, exp.Cast):
        return node.to.is_type("date", "timestamp", "timestampntz", "datetime") and _day(node.this, days)
    return isinstance(node, exp.Column) and folded(node.name) in days


__all__ = ["is_calendar"]
