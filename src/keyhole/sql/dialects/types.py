"""The type of an expression of another engine, as far as engines differ in what they make of it."""

from __future__ import annotations

import re
from enum import StrEnum

from sqlglot import exp

from keyhole.model.schema import Kind
from keyhole.sql.statements.tree import strip_parentheses

ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
ISO_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
WHOLE_NUMBER = re.compile(r"[-+]?\d{1,18}")
DECIMAL_NUMBER = re.compile(r"[-+]?\d{1,18}(\.\d{1,15})?")


class SqlType(StrEnum):
    """The type of a value; each is called in messages what it is here."""

    INTEGER = "a whole number"
    DECIMAL = "a decimal"  # a decimal, or a count or sum, of which division is not judged
    DOUBLE = "a double"  # surely a double there too: by a cast, or by a function
    FRACTION = "a fraction"  # a double here, and there either a double or a decimal
    TEXT = "a text"
    TEXT_CONSTANT = "a text constant"
    CONDITION = "a condition"
    DATE = "a date"
    TIMESTAMP = "a timestamp"
    INTERVAL = "an interval"
    NULL = "NULL"
    UNKNOWN = "something of unknown kind"
    NO_VALUE = "no value"

    @property
    def numeric(self) -> bool:
        """Can it be added?"""
        return self in (SqlType.INTEGER, SqlType.DECIMAL, SqlType.DOUBLE, SqlType.FRACTION)

    @property
    def dated(self) -> bool:
        """A date or a timestamp."""
        return self in (SqlType.DATE, SqlType.TIMESTAMP)


TYPE_OF_KIND = {
    Kind.INTEGER: SqlType.INTEGER,
    Kind.DECIMAL: SqlType.DECIMAL,
    Kind.DOUBLE: SqlType.FRACTION,
    Kind.TEXT: SqlType.TEXT,
    Kind.BOOLEAN: SqlType.CONDITION,
    Kind.DATE: SqlType.DATE,
    Kind.TIMESTAMP: SqlType.TIMESTAMP,
    Kind.OTHER: SqlType.UNKNOWN,
}
_WIDTH = (SqlType.INTEGER, SqlType.DECIMAL, SqlType.DOUBLE, SqlType.FRACTION)


class NotPortable(Exception):
    """Why a statement may mean something else in DuckDB: the part of the sentence after the engine's name."""


def type_of(node: exp.Expr | None) -> SqlType:
    """The type that was found for a node; its children come first."""
    found = None if node is None else node.meta.get("sql_type")
    return found if isinstance(found, SqlType) else SqlType.NO_VALUE


def widest_type(types: list[SqlType]) -> SqlType:
    """The type of a number that is one of these.

    >>> widest_type([SqlType.INTEGER, SqlType.DECIMAL])
    <SqlType.DECIMAL: 'a decimal'>
    """
    return max(types, key=_WIDTH.index)


def read_number(node: exp.Expr | None) -> str | None:
    """The text of a number constant, with its sign; None for anything else.

    >>> read_number(exp.Neg(this=exp.Literal.number(3)))
    '-3'
    """
    sign = ""
    node = None if node is None else strip_parentheses(node)
    while isinstance(node, exp.Neg):
        sign, node = ("" if sign else "-"), strip_parentheses(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and DECIMAL_NUMBER.fullmatch(node.name):
        return sign + node.name
    return None


def read_integer(node: exp.Expr | None) -> int | None:
    """A whole number constant."""
    text = read_number(node)
    return int(text) if text is not None and WHOLE_NUMBER.fullmatch(text) else None


def is_never_zero(node: exp.Expr) -> bool:
    """Is this divisor a constant other than 0, or NULLIF(..., 0)?"""
    node = strip_parentheses(node)
    if isinstance(node, exp.Nullif):
        return read_integer(node.expression) == 0
    text = read_number(node)
    return text is not None and text.strip("-+0.") != ""


def cast_to_double(node: exp.Expr) -> exp.Expr:
    """The number as a double."""
    return exp.Cast(this=node.copy(), to=exp.DataType(this=exp.DataType.Type.DOUBLE))
