"""Constants: folding them, and turning them into a value of the kind that a column holds, or lists."""

from __future__ import annotations

import datetime as dt
import operator
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.expressions import DataType

from keyhole.model.predicate import Scalar, format_literal
from keyhole.model.schema import Column, Kind, ListedValues
from keyhole.sql.lowering.date_arithmetic import add_interval, shift_date, truncate_date
from keyhole.sql.statements.parse import SourceText

Value: TypeAlias = Fraction | str | bool | dt.date | dt.datetime | None

MAX_DIGITS = 38  # what a DECIMAL holds
EXACT_DOUBLES = 2**53  # below it a power is the same in floating point
MAX_WHOLE, MAX_SCALE = 18, 12  # digits before and behind the point that any DECIMAL column can be compared with
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")


class NotConstant:
    """What `fold_constant` gives for an expression that looks at the record."""


NOT_CONSTANT: Final = NotConstant()

_ARITHMETIC = {exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul}
_T = DataType.Type
EXACT_TYPES = (_T.DOUBLE, _T.BIGINT, _T.INT128, _T.INT, _T.DECIMAL)
TIMESTAMPS = (_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.DATETIME)


def fold_constant(node: exp.Expr | None, source: SourceText) -> Value | NotConstant:
    """The value of a constant expression: numbers as exact fractions, dates from their text.

    `NOT_CONSTANT` if a column or a function is involved; refuses what has no exact value (`1/0`, `DATE 'soon'`).
    """
    if node is None:  # the parser lets SUM() through
        raise source.refuse("an argument is missing")
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this), node, source)
    if isinstance(node, exp.Column):
        return NOT_CONSTANT
    if isinstance(node, exp.Paren):
        return fold_constant(node.this, source)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.RawString):
        return str(node.this)
    if isinstance(node, exp.Neg):
        value = fold_constant(node.this, source)
        return -value if isinstance(value, Fraction) else None if value is None else NOT_CONSTANT
    if isinstance(node, exp.DateAdd | exp.DateSub | exp.TimestampTrunc | exp.DateTrunc):
        return _calendar(node, source)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _arithmetic(node, source)
    if isinstance(node, exp.Cast | exp.TryCast):
        return _cast(node, source)
    if isinstance(node, exp.Pow):
        return _power(fold_constant(node.this, source), fold_constant(node.expression, source))
    if (
        isinstance(node, exp.Date)
        and isinstance(text := fold_constant(node.this, source), str)
        and not node.args.get("zone")
    ):
        return coerce_constant(text, Kind.DATE, "DATE", node, source)  # type: ignore[return-value]
    return NOT_CONSTANT


def _power(base: Value | NotConstant, power: Value | NotConstant) -> Value | NotConstant:
    if not (isinstance(base, Fraction) and isinstance(power, Fraction) and base.denominator == power.denominator == 1):
        return NOT_CONSTANT
    small = 0 <= power <= 64 and abs(base) ** int(power) < EXACT_DOUBLES
    return base ** int(power) if small else NOT_CONSTANT


def _number(text: str, node: exp.Expr, source: SourceText) -> Fraction:
    if _NUMBER.fullmatch(text) is None:
        raise source.refuse(f"{text} is no number that is understood: write it in decimal", node)
    return _bound_number(Decimal(text), node, source)


def _bound_number(value: Decimal, node: exp.Expr, source: SourceText) -> Fraction:
    if value and (
        value.adjusted() >= MAX_DIGITS or value.adjusted() < -MAX_DIGITS or len(value.as_tuple().digits) > 60
    ):
        raise source.refuse(f"a number of more than {MAX_DIGITS} digits is out of range", node)
    return Fraction(value)


def _arithmetic(node: exp.Binary, source: SourceText) -> Value | NotConstant:
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        return _calendar(node, source)
    left = fold_constant(node.this, source)
    if isinstance(left, NotConstant):
        return NOT_CONSTANT
    right = fold_constant(node.expression, source)
    if isinstance(right, NotConstant):
        return NOT_CONSTANT
    if left is None or right is None:
        return None
    if isinstance(left, dt.date) and not isinstance(left, dt.datetime) and isinstance(right, Fraction):
        days = right.numerator * (-1 if isinstance(node, exp.Sub) else 1)
        day = shift_date(left, days, "day") if right.denominator == 1 and abs(days) < 10**6 else None
        if day is not None and isinstance(node, exp.Add | exp.Sub):
            return day.date()
    if not (isinstance(left, Fraction) and isinstance(right, Fraction)):
        raise source.refuse("arithmetic on constants is for numbers: write the result", node)
    if isinstance(node, exp.Div):
        if right == 0:
            raise source.refuse("division by zero", node.expression)
        return left / right
    value: Fraction = _ARITHMETIC[type(node)](left, right)
    if abs(value.numerator) > 10 ** (2 * MAX_DIGITS):
        raise source.refuse(f"a number of more than {MAX_DIGITS} digits is out of range", node)
    return value


def _calendar(node: exp.Expr, source: SourceText) -> Value | NotConstant:
    """A constant day or moment with an interval added, or cut to a unit; a moment unless it was cut from a day."""
    start = fold_constant(node.this, source)
    if not isinstance(start, dt.date):
        return NOT_CONSTANT
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        moment = truncate_date(start, node.args["unit"].name) if node.args.get("unit") else None
    else:
        moment = add_interval(start, node.expression, -1 if isinstance(node, exp.Sub | exp.DateSub) else 1)
    if moment is None:
        raise source.refuse("this interval is not read: write the resulting date, DATE '2020-01-31'", node)
    return moment


def _cast(node: exp.Cast, source: SourceText) -> Value | NotConstant:
    value = fold_constant(node.this, source)
    if isinstance(value, NotConstant):
        return NOT_CONSTANT
    if value is None:
        return None
    target = node.to.this
    if target in (_T.DATE, _T.DATE32):
        if isinstance(value, dt.datetime):
            return value.date()
        return coerce_constant(value, Kind.DATE, "DATE", node, source)  # type: ignore[return-value]
    if target in TIMESTAMPS:
        return coerce_constant(value, Kind.TIMESTAMP, "TIMESTAMP", node, source)  # type: ignore[return-value]
    if target in (_T.VARCHAR, _T.TEXT) and isinstance(value, str):
        return value
    if target is _T.BOOLEAN and isinstance(value, bool):
        return value
    if target in EXACT_TYPES and isinstance(value, Fraction | str):
        number = _bound_number(Decimal(value), node, source) if isinstance(value, str) and _is_number(value) else value
        if isinstance(number, Fraction) and (number.denominator == 1 or target is _T.DOUBLE):
            return number
    raise source.refuse("this cast of a constant is not understood: write the value itself", node)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text.strip()) is not None


def coerce_constant(value: Value, kind: Kind, name: str, node: exp.Expr, source: SourceText) -> Scalar:
    """The constant as a value of `kind`, so that comparing it with `name` can never fail in the engine.

    `value` is not NULL. Refuses what the engine would reject, or would convert by rounding.
    """
    if kind.numeric:
        return _to_number(value, kind, name, node, source)
    if kind is Kind.TEXT:
        if isinstance(value, str):
            return value
        shown = (
            format_literal(str(to_decimal(value)))
            if isinstance(value, Fraction) and to_decimal(value) is not None
            else None
        )
        hint = f"write {shown}" if shown else "write the text in single quotes"
        if isinstance(value, bool):
            hint += ', or declare kind = "boolean" of it'
        raise source.refuse(f"{name} holds text: {hint}", node)
    if kind is Kind.BOOLEAN:
        if isinstance(value, bool):
            return value
        if isinstance(value, Fraction) and value in (0, 1):
            return value == 1
        if isinstance(value, str) and value.lower() in ("true", "false", "t", "f"):
            return value.lower() in ("true", "t")
        raise source.refuse(f"{name} is true or false: write TRUE or FALSE", node)
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        return _to_date(value, kind, name, node, source)
    raise source.refuse(f"{name} has a type that cannot be compared with a constant here: cast it in a view", node)


def _to_number(value: Value, kind: Kind, name: str, node: exp.Expr, source: SourceText) -> int | Decimal:
    if isinstance(value, str):
        # an engine rounds text to the column's digits; only where nothing can be rounded is the number meant
        exact = _INTEGER.fullmatch(value) if kind is not Kind.DOUBLE else _is_number(value)
        if not exact:
            if _is_number(value):
                raise source.refuse(f"{name} holds numbers: write {value.strip()} without quotes", node)
            raise source.refuse(f"{name} holds numbers and {format_literal(value)} is none", node)
        value = _bound_number(Decimal(value.strip()), node, source)
    if isinstance(value, bool) or not isinstance(value, Fraction):
        raise source.refuse(f"{name} holds numbers: compare it with a number", node)
    number = to_decimal(value)
    if number is None:
        raise source.refuse(f"{value} has no finite decimal form: write the number you mean", node)
    if isinstance(number, Decimal) and kind is not Kind.DOUBLE:
        # comparing with a DECIMAL of many digits makes the engine cast the column, which fails on large values
        if -number.as_tuple().exponent > MAX_SCALE or number.adjusted() >= MAX_WHOLE:  # type: ignore[operator]
            raise source.refuse(f"write at most {MAX_WHOLE} digits before and {MAX_SCALE} behind the point", node)
    elif isinstance(number, int) and kind is Kind.DECIMAL and abs(number) >= 10**MAX_WHOLE:
        raise source.refuse(f"write at most {MAX_WHOLE} digits before and {MAX_SCALE} behind the point", node)
    return number


def number_kind(node: exp.Expr) -> Kind:
    """What kind of number an engine makes of a constant expression: as it is written, whatever its value."""
    parts = list(node.walk(prune=_to_whole))
    if any(isinstance(part, exp.Div | exp.Pow | exp.Sqrt) for part in parts):
        return Kind.DOUBLE
    casts = [part for part in parts if isinstance(part, exp.Cast) and not _to_whole(part)]
    if any(cast.to.this in (DataType.Type.DOUBLE, DataType.Type.FLOAT) for cast in casts):
        return Kind.DOUBLE
    written = [part.name.lower() for part in parts if isinstance(part, exp.Literal) and not part.is_string]
    if any("e" in text for text in written):
        return Kind.DOUBLE
    return Kind.DECIMAL if any("." in text for text in written) or casts else Kind.INTEGER


def _to_whole(node: exp.Expr) -> bool:
    """A cast to an integer, whatever is below it."""
    return isinstance(node, exp.Cast) and node.to.this in (_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT)


def to_decimal(value: Fraction) -> int | Decimal | None:
    """The number as an int or a plain Decimal; None if its expansion never ends or is longer than a DECIMAL.

    >>> to_decimal(Fraction(7, 2)), to_decimal(Fraction(12000)), to_decimal(Fraction(1, 3))
    (Decimal('3.5'), 12000, None)
    """
    if value.denominator == 1:
        return value.numerator if abs(value.numerator) < 10**MAX_DIGITS else None
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    if rest != 1 or places > MAX_DIGITS:
        return None
    digits = value.numerator * 10**places // value.denominator
    if abs(digits) >= 10**MAX_DIGITS:
        return None
    return Decimal((int(digits < 0), tuple(int(d) for d in str(abs(digits))), -places))


def _to_date(value: Value, kind: Kind, name: str, node: exp.Expr, source: SourceText) -> dt.date | dt.datetime:
    if isinstance(value, dt.date):
        if kind is Kind.TIMESTAMP and not isinstance(value, dt.datetime):
            return dt.datetime(value.year, value.month, value.day)
        if kind is Kind.DATE and isinstance(value, dt.datetime) and value.time() == dt.time():
            return value.date()
        return value
    example = "DATE '2020-01-31'" if kind is Kind.DATE else "TIMESTAMP '2020-01-31 12:00:00'"
    if not isinstance(value, str):
        raise source.refuse(f"{name} is compared with a date: write {example}", node)
    text = value.strip()
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            day = dt.date.fromisoformat(text)
            return day if kind is Kind.DATE else dt.datetime(day.year, day.month, day.day)
        if kind is Kind.TIMESTAMP and re.fullmatch(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", text):
            return dt.datetime.fromisoformat(text)
    except ValueError:
        pass
    raise source.refuse(f"{format_literal(value)} is no {kind.value} for {name}: write {example}", node)


# --- columns with listed values ---------------------------------------------------------------------------------------
# Constants that a column with listed values is compared with, where the database may hold them as something else.
#
# `score = '10'` finds the same people whether `score` holds texts or whole numbers. `score < '9'`, `score = '010'` and
# `flag = 't'` do not: the engine casts the constant to the type of the column. They are refused.


def read_listed_text(column: Column, operator: str, value: Value, node: exp.Expr, source: SourceText) -> str:
    """The listed text that a constant is, for = and <>; refused for any other operator, and if it is none."""
    assert column.listed is not None
    if not column.listed.type and not isinstance(value, str):
        coerce_constant(value, column.kind, column.name, node, source)
    meant = _find_listed_text(column.listed, value) if operator in ("=", "<>") else None
    if meant is None:
        shown = ", ".join(map(format_literal, column.listed.values[:5])) + (", ..." if column.listed.values[5:] else "")
        raise source.refuse(
            f"the values of {column.name} were listed as texts ({shown}), and a database that holds them as numbers, "
            "days or truth values compares otherwise: only =, <> and IN with these very values are judged",
            node,
        )
    return meant


def _find_listed_text(listed: ListedValues, value: Value) -> str | None:
    """The listed text that a constant is in every database; None if there is none.

    >>> two = ListedValues(("1", "2"), "INTEGER")
    >>> [_find_listed_text(two, constant) for constant in ("2", "02", Fraction(2))]
    ['2', None, '2']
    >>> _find_listed_text(ListedValues(("1",)), Fraction(1))
    """
    if isinstance(value, str):
        return value if value in listed.values else None
    if isinstance(value, bool):
        meant = str(value).lower() if listed.type == "BOOLEAN" else ""
    elif isinstance(value, Fraction):
        whole = listed.type.endswith(("INT", "INTEGER")) and value.denominator == 1
        meant = str(value.numerator) if whole else ""
    else:
        meant = value.isoformat() if listed.type == "DATE" and type(value) is dt.date else ""
    return meant if meant in listed.values else None
