"""The type of an expression of another engine, as far as engines differ in what they make of it."""

from __future__ import annotations

import re
from enum import StrEnum

from sqlglot import exp

from keyhole.model.schema import Kind

ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
ISO_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")
WHOLE_NUMBER = re.compile(r"[-+]?\d{1,18}")
DECIMAL_NUMBER = re.compile(r"[-+]?\d{1,18}(\.\d{1,15})?")


class Sort(StrEnum):
    """The sort of a value; each is called in messages what it is here."""

    WHOLE = "a whole number"
    EXACT = "a decimal"  # a decimal, or a count or sum, of which division is not judged
    BINARY = "a double"  # surely a double there too: by a cast, or by a function
    DOUBTED = "a fraction"  # a double here, and there either a double or a decimal
    TEXT = "a text"
    SAID = "a text constant"
    TRUTH = "a condition"
    DAY = "a date"
    MOMENT = "a timestamp"
    SPAN = "an interval"
    NOTHING = "NULL"
    UNKNOWN = "something of unknown kind"
    ROWS = "no value"

    @property
    def numeric(self) -> bool:
        """Can it be added?"""
        return self in (Sort.WHOLE, Sort.EXACT, Sort.BINARY, Sort.DOUBTED)

    @property
    def dated(self) -> bool:
        """A date or a timestamp."""
        return self in (Sort.DAY, Sort.MOMENT)


OF_KIND = {
    Kind.INTEGER: Sort.WHOLE,
    Kind.DECIMAL: Sort.EXACT,
    Kind.DOUBLE: Sort.DOUBTED,
    Kind.TEXT: Sort.TEXT,
    Kind.BOOLEAN: Sort.TRUTH,
    Kind.DATE: Sort.DAY,
    Kind.TIMESTAMP: Sort.MOMENT,
    Kind.OTHER: Sort.UNKNOWN,
}
_WIDTH = (Sort.WHOLE, Sort.EXACT, Sort.BINARY, Sort.DOUBTED)


class Differs(Exception):
    """Why a statement may mean something else in DuckDB: the part of the sentence after the engine's name."""


def sort_of(node: exp.Expr | None) -> Sort:
    """The sort that was found for a node; its children come first."""
    found = None if node is None else node.meta.get("sort")
    return found if isinstance(found, Sort) else Sort.ROWS


def wider(sorts: list[Sort]) -> Sort:
    """The sort of a number that is one of these.

    >>> wider([Sort.WHOLE, Sort.EXACT])
    <Sort.EXACT: 'a decimal'>
    """
    return max(sorts, key=_WIDTH.index)


def bare_of(node: exp.Expr) -> exp.Expr:
    """The expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def number_said(node: exp.Expr | None) -> str | None:
    """The text of a number constant, with its sign; None for anything else.

    >>> number_said(exp.Neg(this=exp.Literal.number(3)))
    '-3'
    """
    sign = ""
    node = None if node is None else bare_of(node)
    while isinstance(node, exp.Neg):
        sign, node = ("" if sign else "-"), bare_of(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and DECIMAL_NUMBER.fullmatch(node.name):
        return sign + node.name
    return None


def whole_said(node: exp.Expr | None) -> int | None:
    """A whole number constant."""
    text = number_said(node)
    return int(text) if text is not None and WHOLE_NUMBER.fullmatch(text) else None


def never_zero(node: exp.Expr) -> bool:
    """Is this divisor a constant other than 0, or NULLIF(..., 0)?"""
    node = bare_of(node)
    if isinstance(node, exp.Nullif):
        return whole_said(node.expression) == 0
    text = number_said(node)
    return text is not None and text.strip("-+0.") != ""


def as_double(node: exp.Expr) -> exp.Expr:
    """The number as a double."""
    return exp.Cast(this=node.copy(), to=exp.DataType(this=exp.DataType.Type.DOUBLE))
