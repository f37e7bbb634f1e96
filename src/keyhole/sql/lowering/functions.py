"""The allow-list: functions of public columns that the engine evaluates, with what they take and give.

Every function here is deterministic and depends on the record alone. One that may fail on some values is `fallible`
(its text is wrapped in TRY), one that may give NaN or infinity is not `finite`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from keyhole.model.schema import Kind
from keyhole.sql.statements.tree import COMPARISONS, LOGIC

NUMBER = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
TEXT = (Kind.TEXT,)
DAY = (Kind.DATE, Kind.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Function:
    """`sql` with one {} per argument; `arguments` are the node's argument names with the kinds each takes."""

    sql: str
    arguments: tuple[tuple[str, tuple[Kind, ...]], ...]
    gives: Kind | None  # None: the kind of the first argument
    fallible: bool = False
    finite: bool = True
    nullable: bool = False  # may be NULL though no argument is


def _of(
    name: str, kinds: tuple[Kind, ...], gives: Kind | None, fallible: bool = False, finite: bool = True
) -> Function:
    return Function(f"{name}({{}})", (("this", kinds),), gives, fallible, finite)


def _two(sql: str, first: tuple[Kind, ...], second: tuple[str, tuple[Kind, ...]], gives: Kind | None) -> Function:
    return Function(sql, (("this", first), second), gives)


FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Year: _of("YEAR", DAY, Kind.INTEGER),
    exp.Quarter: _of("QUARTER", DAY, Kind.INTEGER),
    exp.Month: _of("MONTH", DAY, Kind.INTEGER),
    exp.Week: _of("WEEK", DAY, Kind.INTEGER),
    exp.WeekOfYear: _of("WEEK", DAY, Kind.INTEGER),
    exp.Day: _of("DAY", DAY, Kind.INTEGER),
    exp.DayOfMonth: _of("DAY", DAY, Kind.INTEGER),
    exp.DayOfWeek: _of("DAYOFWEEK", DAY, Kind.INTEGER),
    exp.DayOfWeekIso: _of("ISODOW", DAY, Kind.INTEGER),
    exp.DayOfYear: _of("DAYOFYEAR", DAY, Kind.INTEGER),
    exp.Hour: _of("HOUR", DAY, Kind.INTEGER),
    exp.Minute: _of("MINUTE", DAY, Kind.INTEGER),
    exp.Monthname: _of("MONTHNAME", DAY, Kind.TEXT),
    exp.Dayname: _of("DAYNAME", DAY, Kind.TEXT),
    exp.Date: Function("TRY_CAST({} AS DATE)", (("this", DAY),), Kind.DATE),
    exp.LastDay: _of("LAST_DAY", DAY, Kind.DATE),
    exp.Lower: _of("LOWER", TEXT, Kind.TEXT),
    exp.Upper: _of("UPPER", TEXT, Kind.TEXT),
    exp.Length: _of("LENGTH", TEXT, Kind.INTEGER),
    exp.Reverse: _of("REVERSE", TEXT, Kind.TEXT),
    exp.Ascii: _of("ASCII", TEXT, Kind.INTEGER),
    exp.Left: _two("LEFT({}, {})", TEXT, ("expression", (Kind.INTEGER,)), Kind.TEXT),
    exp.Right: _two("RIGHT({}, {})", TEXT, ("expression", (Kind.INTEGER,)), Kind.TEXT),
    exp.StartsWith: _two("STARTS_WITH({}, {})", TEXT, ("expression", TEXT), Kind.BOOLEAN),
    exp.EndsWith: _two("SUFFIX({}, {})", TEXT, ("expression", TEXT), Kind.BOOLEAN),
    exp.Contains: _two("CONTAINS({}, {})", TEXT, ("expression", TEXT), Kind.BOOLEAN),
    exp.StrPosition: _two("STRPOS({}, {})", TEXT, ("substr", TEXT), Kind.INTEGER),
    exp.Replace: Function(
        "REPLACE({}, {}, {})", (("this", TEXT), ("expression", TEXT), ("replacement", TEXT)), Kind.TEXT
    ),
    exp.Translate: Function("TRANSLATE({}, {}, {})", (("this", TEXT), ("from_", TEXT), ("to", TEXT)), Kind.TEXT),
    exp.RegexpLike: Function("REGEXP_MATCHES({}, {})", (("this", TEXT), ("expression", TEXT)), Kind.BOOLEAN),
    exp.SimilarTo: Function("REGEXP_FULL_MATCH({}, {})", (("this", TEXT), ("expression", TEXT)), Kind.BOOLEAN),
    exp.RegexpReplace: Function(
        "REGEXP_REPLACE({}, {}, {})", (("this", TEXT), ("expression", TEXT), ("replacement", TEXT)), Kind.TEXT
    ),
    exp.SplitPart: Function(
        "SPLIT_PART({}, {}, {})", (("this", TEXT), ("delimiter", TEXT), ("part_index", (Kind.INTEGER,))), Kind.TEXT
    ),
    exp.Abs: _of("ABS", NUMBER, None, fallible=True),
    exp.Sign: _of("SIGN", NUMBER, Kind.INTEGER),
    exp.Sqrt: _of("SQRT", NUMBER, Kind.DOUBLE, fallible=True, finite=False),
    exp.Ln: _of("LN", NUMBER, Kind.DOUBLE, fallible=True, finite=False),
    exp.Exp: _of("EXP", NUMBER, Kind.DOUBLE, fallible=True, finite=False),
    exp.Mod: Function("({} % {})", (("this", NUMBER), ("expression", NUMBER)), None, nullable=True),
    exp.IntDiv: Function("({} // {})", (("this", NUMBER), ("expression", NUMBER)), None, nullable=True),
    exp.Pow: Function(
        "POW({}, {})", (("this", NUMBER), ("expression", NUMBER)), Kind.DOUBLE, fallible=True, finite=False
    ),
}

# known by name only; the same shape as above, arguments by position
NAMED: dict[str, tuple[str, tuple[tuple[Kind, ...], ...], Kind]] = {
    "prefix": ("PREFIX({}, {})", (TEXT, TEXT), Kind.BOOLEAN),
    "suffix": ("SUFFIX({}, {})", (TEXT, TEXT), Kind.BOOLEAN),
    "weekday": ("WEEKDAY({})", (DAY,), Kind.INTEGER),
    "yearweek": ("YEARWEEK({})", (DAY,), Kind.INTEGER),
}

# the second argument of EXTRACT(part FROM day), DATE_PART, DATE_TRUNC and DATE_DIFF
TRUNCATIONS = frozenset(["year", "month", "day", "quarter", "week", "hour", "minute", "second", "decade", "century"])
PARTS = TRUNCATIONS | {"dow", "isodow", "doy", "isoyear"}

# arguments of a function that change nothing
HARMLESS = (
    "big_int",
    "date_part_boundary",
    "input_type_preserved",
    "zone",
    "safe",
    "coalesce",
    "ignore_nulls",
    "_type",
)

# expressions that state a condition
CONDITIONS: tuple[type[exp.Expr], ...] = (
    *(*COMPARISONS, exp.Between, exp.In, exp.Like, exp.ILike, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, *LOGIC),
)

RAN = "say when it ran (a time in the log, or --now of audit, watch and ask)"

# what people reach for, and why it is refused
REFUSED: dict[type[exp.Expr], str] = {
    exp.Window: "window functions are not judged: use GROUP BY",
    exp.Subquery: "subqueries inside an expression are not judged: write the value, or put it into a view",
    exp.Exists: "subqueries inside an expression are not judged: write the condition, or put it into a view",
    exp.Select: "subqueries inside an expression are not judged: write the value, or put it into a view",
    exp.Any: "subqueries inside an expression are not judged: write IN (...) with the values",
    exp.All: "subqueries inside an expression are not judged: write the values",
    exp.Placeholder: "a parameter has no value here: write the value",
    exp.Parameter: "a parameter has no value here: write the value",
    exp.Rand: "RANDOM() gives another value each time: write a number",
    exp.Uuid: "UUID() gives another value each time: write the value",
    exp.CurrentDate: f"today's date changes: {RAN}, or write the date, DATE '2020-01-31'",
    exp.CurrentTimestamp: f"the current time changes: {RAN}, or write it, TIMESTAMP '2020-01-31 12:00:00'",
    exp.CurrentTime: "the current time changes: write it",
    exp.CurrentDatetime: f"the current time changes: {RAN}, or write it",
    exp.Interval: "intervals are not computed here: write the resulting date, DATE '2020-01-31'",
    exp.Glob: "GLOB is not judged: use LIKE",
    exp.Escape: "LIKE with ESCAPE is not judged: use a pattern without it",
    exp.Star: "* stands for all columns: only COUNT(*) takes it",
    exp.Tuple: "rows of values are not compared here: compare the columns one by one",
    exp.Distinct: "DISTINCT is judged only in COUNT(DISTINCT id) and COUNT(DISTINCT public column)",
    exp.Grouping: "GROUPING() tells nothing that is judged: leave it out",
    exp.Order: "ORDER BY inside an aggregate changes nothing that is judged: leave it out",
}
NOT_REPEATABLE = frozenset(
    ["now", "current_timestamp", "get_current_timestamp", "clock_timestamp", "random", "setseed", "gen_random_uuid"]
)
