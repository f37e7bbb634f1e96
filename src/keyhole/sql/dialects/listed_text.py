"""Constants that a column with listed values is compared with, where the database may hold them as something else.

`score = '10'` finds the same people whether `score` holds texts or whole numbers. `score < '9'`, `score = '010'` and
`flag = 't'` do not: the engine casts the constant to the type of the column. They are refused.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from sqlglot import exp

from keyhole.model.predicate import Scalar, literal
from keyhole.model.schema import Column, ListedValues
from keyhole.sql.lowering.constants import Value, coerce
from keyhole.sql.lowering.expression import Public
from keyhole.sql.statements.parse import SourceText


def constant_of(found: Column | Public, operator: str, value: Value, node: exp.Expr, source: SourceText) -> Scalar:
    """What a column, or an expression over public ones, is compared with: a value of its kind, or a listed one."""
    if not isinstance(found, Column):
        return coerce(value, found.kind, "this expression", node, source)
    if found.listed is not None:
        return listed_text(found, operator, value, node, source)
    return coerce(value, found.kind, found.name, node, source)


def listed_text(column: Column, operator: str, value: Value, node: exp.Expr, source: SourceText) -> str:
    """The listed text that a constant is, for = and <>; refused for any other operator, and if it is none."""
    assert column.listed is not None
    if not column.listed.type and not isinstance(value, str):
        coerce(value, column.kind, column.name, node, source)
    meant = _meant(column.listed, value) if operator in ("=", "<>") else None
    if meant is None:
        shown = ", ".join(map(literal, column.listed.values[:5])) + (", ..." if column.listed.values[5:] else "")
        raise source.refuse(
            f"the values of {column.name} were listed as texts ({shown}), and a database that holds them as numbers, "
            "days or truth values compares otherwise: only =, <> and IN with these very values are judged",
            node,
        )
    return meant


def _meant(listed: ListedValues, value: Value) -> str | None:
    """The listed text that a constant is in every database; None if there is none.

    >>> two = ListedValues(("1", "2"), "INTEGER")
    >>> _meant(two, "2"), _meant(two, "02"), _meant(two, Fraction(2)), _meant(ListedValues(("1",)), Fraction(1))
    ('2', None, '2', None)
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
