"""GROUP BY a function of a private column: buckets, each of which is a private condition.

`CASE WHEN pay < 1000 THEN 'low' ELSE 'high' END` has a condition for each of its constants; `FLOOR(pay / 1000) * 1000`
has a range for each value. Only what is exact: whole numbers and decimals, boundaries with few digits.
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import (
    FALSE,
    Predicate,
    Scalar,
    format_literal,
    format_predicate,
    make_and,
    make_is_true,
    make_not,
    make_or,
    quote_name,
)
from keyhole.model.query import CEIL, FLOOR, ZERO, Key, Steps
from keyhole.model.schema import Column, Kind
from keyhole.sql.lowering.constants import NotConstant, to_decimal
from keyhole.sql.lowering.linear import LinearReader
from keyhole.sql.lowering.names import DerivedColumn
from keyhole.sql.statements.tree import strip_parentheses

MAX_CASES = 200
FEW_DIGITS = 9  # of a boundary, before and behind the point
_ROUNDED: dict[type[exp.Expr], str] = {exp.Floor: FLOOR, exp.Ceil: CEIL, exp.IntDiv: ZERO}


def read_bucket(reader: LinearReader, node: exp.Expr, word: str) -> Key:
    """The key that a function of a private column is, without its name; refused if it has no buckets.

    >>> from keyhole.model.schema import Role, Schema
    >>> from keyhole.sql.lowering.lower import lower_statement
    >>> staff = Schema("t", (Column("pay", Kind.INTEGER, Role.PRIVATE, nullable=False),))
    >>> asked = lower_statement("SELECT FLOOR(pay / 100) * 100 AS b, COUNT(*) FROM t GROUP BY b", staff)
    >>> asked.group({"b": 200})[0].canonical()
    'COALESCE(SUM(1) FILTER (WHERE "pay" >= 200 AND "pay" < 300), 0)'
    """
    node = strip_parentheses(node)
    if isinstance(node, exp.Column):
        found = reader.scope.resolve(node)
        if isinstance(found, DerivedColumn):
            return read_bucket(reader.in_scope(found.scope), found.node, word)
    columns = frozenset(c.name for c in reader.list_columns(node))
    if isinstance(node, exp.Case | exp.If):
        cases = _cases(reader, node)
        text = " ".join(
            f"WHEN {format_predicate(condition)} THEN {format_literal(value)}" for value, condition in cases
        )
        return Key("", f"CASE {text} END", None, columns, cases)
    steps = _steps(reader, node, Fraction(1), Fraction(0))
    if steps is None:
        raise reader.refuse(
            f"of a {word} column GROUP BY takes the column, a CASE with constant results, or FLOOR(column / 1000)",
            node,
        )
    return Key("", _written(steps), None, columns, steps=steps)


def write_bucket(reader: LinearReader, node: exp.Expr, word: str) -> str:
    """The canonical text of a function of a private column that has buckets; empty if it is none."""
    plain = strip_parentheses(node)
    if isinstance(plain, exp.Column) and isinstance(reader.scope.resolve(plain), Column):
        return ""
    if not reader.touches_private(node):
        return ""
    try:
        return read_bucket(reader, node, word).sql
    except UnsupportedQuery:
        return ""


def _cases(reader: LinearReader, node: exp.Expr) -> tuple[tuple[Scalar | None, Predicate], ...]:
    """(value, condition) of each constant that a CASE can come to; conditions are disjoint, and true or false."""
    conditions: dict[Scalar | None, list[Predicate]] = {}
    earlier: list[Predicate] = []
    branches = reader.read_branches(node)
    for condition, result in (*branches, *([] if branches[-1][0] is None else [(None, exp.Null())])):
        value = reader.fold_constant(strip_parentheses(result))
        if isinstance(value, NotConstant):
            raise reader.refuse("a CASE that groups by private values has constants as its results", result)
        scalar = to_decimal(value) if isinstance(value, Fraction) else value
        if isinstance(value, Fraction) and scalar is None:
            raise reader.refuse(f"{value} has no finite decimal form: write the number you mean", result)
        here = make_and(*earlier) if condition is None else make_and(*earlier, make_is_true(condition))
        conditions.setdefault(scalar, []).append(here)
        if condition is not None:
            earlier.append(make_not(make_is_true(condition)))
    cases = tuple((value, make_or(*parts)) for value, parts in conditions.items())
    if len(cases) > MAX_CASES or len({type(value) for value, _ in cases if value is not None}) > 1:
        raise reader.refuse(f"a CASE that groups has results of one kind, and at most {MAX_CASES} of them", node)
    return tuple((value, condition) for value, condition in cases if condition != FALSE)


def _steps(reader: LinearReader, node: exp.Expr, size: Fraction, start: Fraction) -> Steps | None:
    """`FLOOR(column / c)`, times a constant, plus a constant; None if it is not of that form."""
    node = strip_parentheses(node)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        left, right = reader.fold_constant(node.this), reader.fold_constant(node.expression)
        if isinstance(right, Fraction) and right:
            if isinstance(node, exp.Mul):
                return _steps(reader, node.this, size * right, start)
            return _steps(reader, node.this, size, start + size * (right if isinstance(node, exp.Add) else -right))
        if isinstance(left, Fraction) and left and not isinstance(node, exp.Sub):
            by, plus = (size * left, start) if isinstance(node, exp.Mul) else (size, start + size * left)
            return _steps(reader, node.expression, by, plus)
        return None
    rounding = _ROUNDED.get(type(node))
    if rounding is None or node.args.get("decimals") is not None:
        return None
    divided, by = strip_parentheses(node.this), Fraction(1)
    if isinstance(node, exp.IntDiv):
        below = reader.fold_constant(node.expression)
    elif isinstance(divided, exp.Div):
        divided, below = strip_parentheses(divided.this), reader.fold_constant(divided.expression)
    else:
        below = by
    if not isinstance(below, Fraction) or below <= 0:
        return None
    column = _column(reader, divided)
    if column is None or (rounding == ZERO and (column.kind is not Kind.INTEGER or below.denominator != 1)):
        return None
    return Steps(column.name, 1 / below, size, start, rounding) if _short(below) and _short(size) else None


def _column(reader: LinearReader, node: exp.Expr) -> Column | None:
    """The private column of exact numbers that this is."""
    line = reader.read_line(node)
    if line is None or line[1] != 1 or line[2] != 0 or line[0].kind not in (Kind.INTEGER, Kind.DECIMAL):
        return None
    return line[0]


def _short(value: Fraction) -> bool:
    number = to_decimal(abs(value))
    return number is not None and number < 10**FEW_DIGITS and (value * 10**FEW_DIGITS).denominator == 1


def _written(steps: Steps) -> str:
    """The key in canonical SQL."""
    name, by = quote_name(steps.column), to_decimal(1 / steps.factor)
    text = {
        FLOOR: f"FLOOR({name} / {by})" if by != 1 else f"FLOOR({name})",
        CEIL: f"CEIL({name} / {by})" if by != 1 else f"CEIL({name})",
        ZERO: f"({name} // {by})",
    }[steps.rounding]
    text = text if steps.size == 1 else f"({text} * {to_decimal(steps.size)})"
    return text if not steps.start else f"({text} + {to_decimal(steps.start)})"
