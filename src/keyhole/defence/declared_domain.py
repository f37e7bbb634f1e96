"""What keyhole.toml declares of a table's columns: the cells that can be asked about, and how questions are read."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import DeclaredColumn, Domain
from keyhole.basis.cells.numbers import Range
from keyhole.config import Columns, PrivateColumn, PublicColumn
from keyhole.errors import ConfigError
from keyhole.model.numbers import read_decimal
from keyhole.model.predicate import Scalar
from keyhole.model.schema import Column, Kind, Role, Schema


def declare_domain(roles: Columns, schema: Schema) -> Domain:
    """The domain of keyhole.toml: each private or public column with values, or with min, max and step or width.

    Depends on the declaration and the columns' types only. A column without a finite domain stays out, and conditions
    on it are refused.

    >>> roles = Columns(public={"age": PublicColumn(min=0, max=99, width=10)})
    >>> declare_domain(roles, Schema("t", (Column("age", Kind.INTEGER),))).shape
    (11,)
    """
    publics: dict[str, PublicColumn] = {}
    for name, table in roles.public.items():
        named = schema.find(name)
        if named is None:
            near = schema.nearest(name)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ConfigError(f"[columns.public.{name}]: the table has no such column{hint}")
        publics[named.name] = table
    declared: list[DeclaredColumn] = []
    for column in schema.columns:
        if column.role is Role.HIDDEN:
            continue
        public, private = publics.get(column.name), roles.private.get(column.name)
        if public is not None and public.finite:
            declared.append(_make_public(column, public))
        elif private is not None and (made := _make_private(column, private)) is not None:
            declared.append(made)
    return Domain(tuple(declared))


def _make_public(column: Column, declared: PublicColumn) -> DeclaredColumn:
    if declared.values is not None:
        return Categories(column.name, tuple(parse_value(v, column) for v in declared.values))
    if declared.min is None or declared.max is None:
        raise ConfigError(f"column {column.name!r}: write either values = [...] or min, max and width")
    return _make_range(column, declared.min, declared.max, declared.width, None)


def _make_private(column: Column, declared: PrivateColumn) -> DeclaredColumn | None:
    if declared.values is not None:
        # another value counts as NULL
        return Categories(column.name, tuple(parse_value(v, column) for v in declared.values), other=False)
    if declared.min is None or declared.max is None:
        return None
    if declared.step is None and declared.width is None and column.kind in (Kind.DECIMAL, Kind.DOUBLE):
        return None
    return _make_range(column, declared.min, declared.max, declared.width, declared.step)


def _make_range(column: Column, lo: Decimal, hi: Decimal, width: Decimal | None, step: Decimal | None) -> Range:
    if not column.kind.numeric:
        raise ConfigError(f"column {column.name!r} holds {column.kind}: declare values = [...], not a range")
    grid = Fraction(step) if step is not None else Fraction(1) if column.kind is Kind.INTEGER else None
    wide = Fraction(width) if width is not None else grid
    if wide is None:
        raise ConfigError(f"column {column.name!r} holds {column.kind}: write a width for its bins")
    return Range(column.name, Fraction(lo), Fraction(hi), wide, grid)


def parse_value(value: str | int | bool, column: Column) -> Scalar:
    """A declared value as the engine returns it."""
    try:
        if column.kind is Kind.DATE:
            return dt.date.fromisoformat(str(value))
        if column.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE) and not isinstance(value, bool):
            number = read_decimal(str(value))
            return int(number) if number == int(number) else number
    except (ValueError, ArithmeticError):
        raise ConfigError(f"column {column.name!r} holds {column.kind}, and {value!r} is none") from None
    if column.kind is Kind.BOOLEAN and not isinstance(value, bool):
        if str(value).lower() not in ("true", "false"):
            raise ConfigError(f"column {column.name!r} holds {column.kind}, and {value!r} is none")
        return str(value).lower() == "true"
    return str(value) if column.kind is Kind.TEXT else value


def make_asking_schema(schema: Schema, domain: Domain) -> Schema:
    """The schema under which questions are read: every declared column is read as a secret that may be NULL.

    What the data happens to hold (whether a column has any NULL) must not change the price of a question.

    >>> schema = Schema("t", (Column("age", Kind.INTEGER, nullable=False), Column("name", Kind.TEXT)))
    >>> domain = Domain((Range("age", Fraction(0), Fraction(9), Fraction(1), Fraction(1)),))
    >>> [(c.name, str(c.role), c.nullable) for c in make_asking_schema(schema, domain).columns]
    [('age', 'declared', True), ('name', 'public', True)]
    """
    declared = {c.name for c in domain.columns}
    columns = tuple(
        replace(c, role=Role.DECLARED if c.name in declared else c.role, nullable=True) for c in schema.columns
    )
    return replace(schema, columns=columns)
