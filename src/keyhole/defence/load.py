"""From the custodian's table to domain and histogram: declarations checked, data counted by one GROUP BY."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import DeclaredColumn, Domain
from keyhole.basis.cells.numbers import Range
from keyhole.config import Columns, PrivateColumn, PublicColumn
from keyhole.datasets import Source
from keyhole.defence.budget.loss import Neighbours
from keyhole.defence.histogram import Histogram
from keyhole.defence.kernels import dot_counts
from keyhole.defence.linear import LinearQuery
from keyhole.errors import ConfigError, PrivacyParameterError
from keyhole.model.numbers import read_decimal
from keyhole.model.predicate import Scalar
from keyhole.model.schema import Column, Kind, Role, Schema


def declared_domain(roles: Columns, schema: Schema) -> Domain:
    """The domain of keyhole.toml: each private or public column with values, or with min, max and step or width.

    Depends on the declaration and the columns' types only. A column without a finite domain stays out, and conditions
    on it are refused.

    >>> roles = Columns(public={"age": PublicColumn(min=0, max=99, width=10)})
    >>> declared_domain(roles, Schema("t", (Column("age", Kind.INTEGER),))).shape
    (11,)
    """
    publics: dict[str, PublicColumn] = {}
    for name, given in roles.public.items():
        named = schema.find(name)
        if named is None:
            near = schema.nearest(name)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ConfigError(f"[columns.public.{name}]: the table has no such column{hint}")
        publics[named.name] = given
    found: list[DeclaredColumn] = []
    for column in schema.columns:
        if column.role is Role.HIDDEN:
            continue
        public, private = publics.get(column.name), roles.private.get(column.name)
        if public is not None and public.finite:
            found.append(_public(column, public))
        elif private is not None and (made := _private(column, private)) is not None:
            found.append(made)
    return Domain(tuple(found))


def _public(column: Column, given: PublicColumn) -> DeclaredColumn:
    if given.values is not None:
        return Categories(column.name, tuple(typed(v, column) for v in given.values))
    if given.min is None or given.max is None:
        raise ConfigError(f"column {column.name!r}: write either values = [...] or min, max and width")
    return _range(column, given.min, given.max, given.width, None)


def _private(column: Column, given: PrivateColumn) -> DeclaredColumn | None:
    if given.values is not None:
        # another value counts as NULL
        return Categories(column.name, tuple(typed(v, column) for v in given.values), other=False)
    if given.min is None or given.max is None:
        return None
    if given.step is None and given.width is None and column.kind in (Kind.DECIMAL, Kind.DOUBLE):
        return None
    return _range(column, given.min, given.max, given.width, given.step)


def _range(column: Column, lo: Decimal, hi: Decimal, width: Decimal | None, step: Decimal | None) -> Range:
    if not column.kind.numeric:
        raise ConfigError(f"column {column.name!r} holds {column.kind}: declare values = [...], not a range")
    grid = Fraction(step) if step is not None else Fraction(1) if column.kind is Kind.INTEGER else None
    wide = Fraction(width) if width is not None else grid
    if wide is None:
        raise ConfigError(f"column {column.name!r} holds {column.kind}: write a width for its bins")
    return Range(column.name, Fraction(lo), Fraction(hi), wide, grid)


def typed(value: str | int | bool, column: Column) -> Scalar:
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


def asking_schema(schema: Schema, domain: Domain) -> Schema:
    """The schema under which questions are read: every declared column is read as a secret that may be NULL.

    What the data happens to hold (whether a column has any NULL) must not change the price of a question.

    >>> schema = Schema("t", (Column("age", Kind.INTEGER, nullable=False), Column("name", Kind.TEXT)))
    >>> domain = Domain((Range("age", Fraction(0), Fraction(9), Fraction(1), Fraction(1)),))
    >>> [(c.name, str(c.role), c.nullable) for c in asking_schema(schema, domain).columns]
    [('age', 'declared', True), ('name', 'public', True)]
    """
    declared = {c.name for c in domain.columns}
    columns = tuple(
        replace(c, role=Role.DECLARED if c.name in declared else c.role, nullable=True) for c in schema.columns
    )
    return replace(schema, columns=columns)


LARGEST_DOMAIN = 2**24


class CountedMargins(Histogram):
    """A histogram that is counted when it is needed, over the columns that a question names and no others.

    What needs every cell of the domain at once (a hypothesis, a whole histogram) is refused beyond 2^24 of them.
    Cost: one scan for each new set of columns.
    """

    def __init__(self, source: Source, domain: Domain, neighbours: Neighbours) -> None:
        object.__setattr__(self, "neighbours", neighbours)
        object.__setattr__(self, "_margins", {})
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_domain", domain)

    _source: Source
    _domain: Domain

    @property
    def counts(self) -> NDArray[np.int64]:
        """Every cell."""
        return self._margin(tuple(range(len(self._domain.columns)))).ravel()

    @property
    def cells(self) -> int:
        """The size of the domain, if something can be held for each cell."""
        if self._domain.cells > LARGEST_DOMAIN:
            sizes = " x ".join(f"{c.name} {c.size}" for c in self._domain.columns)
            raise PrivacyParameterError(
                f"this mechanism holds a number for each of {self._domain.cells:.3g} cells ({sizes}); at most 2^24: "
                "use the planner, laplace or gaussian, or declare wider bins"
            )
        return self._domain.cells

    def _people(self) -> int:
        return int(self._margin(()).sum())

    def total(self, query: LinearQuery) -> int:
        """As `Histogram.total`; the margin is counted in the engine."""
        place = query.place
        if place is None:
            return int(dot_counts(self.counts, query.stored))
        over = tuple(sorted((*place.axes, *(axis for axis, _ in place.keys))))
        inside = np.ascontiguousarray(place.block(self._margin(over), over)).ravel()
        total = int(dot_counts(inside, query.stored))
        return total + place.rest * (self._people() - int(inside.sum())) if place.rest else total

    def _margin(self, over: tuple[int, ...]) -> NDArray[np.int64]:
        shape = tuple(self._domain.shape[axis] for axis in over)
        found = self._margins.get((self._domain.shape, over))
        if found is None:
            if math.prod(shape) > LARGEST_DOMAIN:
                raise PrivacyParameterError(f"{math.prod(shape):.3g} cells are too many to count; at most 2^24")
            cells, counted = self._source.tally(self._domain.code(over))
            flat = np.zeros(math.prod(shape), dtype=np.int64)
            flat[cells] = counted
            found = flat.reshape(shape)
            self._margins[self._domain.shape, over] = found
        return found

    def __repr__(self) -> str:
        return f"CountedMargins(columns={len(self._domain.columns)}, neighbours={self.neighbours!r})"


def count_cells(source: Source, domain: Domain, neighbours: Neighbours) -> Histogram:
    """The true margins, each counted by one GROUP BY in the engine when it is first asked for."""
    return CountedMargins(source, domain, neighbours)
