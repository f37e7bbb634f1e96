"""A roster to profiles: the public columns that questions may be about, coded."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from keyhole.attacks.plan.profiles import Profiles
from keyhole.attacks.plan.question import CodedColumn
from keyhole.datasets import DuckDBRoster
from keyhole.errors import ConfigError
from keyhole.model.schema import Column, Kind, Role

WRITTEN = tuple(kind for kind in Kind if kind is not Kind.OTHER)  # kinds whose values can be written as constants


def profiles_of(roster: DuckDBRoster, private: str, names: Sequence[str] = ()) -> Profiles:
    """Who there is, as far as these columns tell (default: all public ones); an id may be named too."""
    chosen = [_named(roster, name) for name in dict.fromkeys(names)] if names else _public(roster)
    columns, codes = [], []
    for column in chosen:
        values, row = roster.coded(column.name)
        if any(isinstance(v, Decimal) and not v.is_finite() for v in values):
            raise ConfigError(f"{column.name!r} holds numbers that are not finite: leave it out, with --columns")
        nullable = bool((row >= len(values)).any())
        columns.append(CodedColumn(column.name, values, nullable))
        codes.append(row)
    made = np.array(codes, dtype=np.int64).reshape(len(columns), roster.n)
    return Profiles.of_codes(tuple(columns), made, roster.valued(private))


def _public(roster: DuckDBRoster) -> list[Column]:
    return [c for c in roster.schema.of_role(Role.PUBLIC) if c.kind in WRITTEN]


def unwritten(roster: DuckDBRoster) -> tuple[str, ...]:
    """Public columns whose values cannot be written as constants: no plan is about them."""
    return tuple(c.name for c in roster.schema.of_role(Role.PUBLIC) if c.kind not in WRITTEN)


def _named(roster: DuckDBRoster, name: str) -> Column:
    column = roster.schema.find(name)
    if column is None:
        near = roster.schema.nearest(name)
        hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(c.name for c in roster.schema.columns)}"
        raise ConfigError(f"the table has no column {name!r}{hint}")
    if column.secret:
        raise ConfigError(f"{column.name!r} is {column.role}: questions of a plan are about public columns alone")
    if column.kind not in WRITTEN:
        raise ConfigError(f"{column.name!r} holds values that cannot be written as constants: leave it out")
    return column
