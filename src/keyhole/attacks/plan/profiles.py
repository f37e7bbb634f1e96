"""A roster as profiles: people whom no question about the public columns tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.plan.question import CodeCondition, CodedColumn, Question
from keyhole.datasets import Roster
from keyhole.errors import ConfigError
from keyhole.model.schema import Column, Kind, Role

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
WRITTEN = tuple(kind for kind in Kind if kind is not Kind.OTHER)  # kinds whose values can be written as constants


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """`codes[c, p]` is what column c says of profile p, `of[r]` the profile of record r.

    `people[p]` counts those who match a question (what a minimum group size is about), `unknowns[p]` those of them who
    have a value to find out.

    >>> sex = CodedColumn("sex", ("F", "M"), False)
    >>> made = Profiles.of_codes((sex,), np.array([[0, 1, 1]]), np.array([True, True, False]))
    >>> made.people.tolist(), made.unknowns.tolist(), made.of.tolist()
    ([1, 2], [1, 1], [0, 1, 1])
    """

    columns: tuple[CodedColumn, ...]
    codes: Ints
    people: Ints
    unknowns: Ints
    of: Ints

    @classmethod
    def of_codes(cls, columns: tuple[CodedColumn, ...], codes: Ints, valued: Bools) -> Profiles:
        """From the codes of each record (columns, n), and who has a value."""
        n = len(valued)
        if not len(columns):
            of = np.zeros(n, dtype=np.int64)
            first = np.zeros(min(n, 1), dtype=np.int64)
        else:
            key, first, of = np.zeros(n, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(n, dtype=np.int64)
            for column, row in zip(columns, codes, strict=True):
                _, first, of = np.unique(key * max(1, column.codes) + row, return_index=True, return_inverse=True)
                key = of = of.ravel()
        people = np.bincount(of, minlength=len(first))
        unknowns = np.bincount(of, weights=valued, minlength=len(first)).astype(np.int64)
        return cls(columns, codes[:, first], people, unknowns, of.astype(np.int64))

    @property
    def count(self) -> int:
        """How many profiles."""
        return len(self.people)

    @property
    def n(self) -> int:
        """How many records."""
        return len(self.of)

    def mask(self, question: Question) -> Bools:
        """The profiles that a question is about."""
        found = np.zeros(self.count, dtype=np.bool_)
        for conjunction in question:
            part = np.ones(self.count, dtype=np.bool_)
            for condition in conjunction:
                part &= self.table(condition)[self.codes[condition.column]]
            found |= part
        return found

    def table(self, condition: CodeCondition) -> Bools:
        """Whether a condition holds, for each code of its column; a range never holds for NULL."""
        return _table(condition, len(self.columns[condition.column].values), self.columns[condition.column].codes)

    def size(self, question: Question) -> int:
        """How many people a question is about."""
        return int(self.people[self.mask(question)].sum())


@lru_cache(maxsize=4096)
def _table(condition: CodeCondition, values: int, codes: int) -> Bools:
    found = condition.among(np.arange(codes))
    if codes > values and condition.op in ("<", "<=", ">", ">=", "BETWEEN"):
        found[values] = False
    found.flags.writeable = False
    return found


def build_profiles(roster: Roster, private: str, names: Sequence[str] = ()) -> Profiles:
    """Who there is, as far as these columns tell (default: all public ones); an id may be named too."""
    chosen = [_named(roster, name) for name in dict.fromkeys(names)] if names else _public(roster)
    columns, codes = [], []
    for column in chosen:
        values, row = roster.code_column(column.name)
        if any(isinstance(v, Decimal) and not v.is_finite() for v in values):
            raise ConfigError(f"{column.name!r} holds numbers that are not finite: leave it out, with --columns")
        nullable = bool((row >= len(values)).any())
        columns.append(CodedColumn(column.name, values, nullable))
        codes.append(row)
    made = np.array(codes, dtype=np.int64).reshape(len(columns), roster.n)
    return Profiles.of_codes(tuple(columns), made, roster.has_value(private))


def _public(roster: Roster) -> list[Column]:
    return [c for c in roster.schema.of_role(Role.PUBLIC) if c.kind in WRITTEN]


def list_unwritten_columns(roster: Roster) -> tuple[str, ...]:
    """Public columns whose values cannot be written as constants: no plan is about them."""
    return tuple(c.name for c in roster.schema.of_role(Role.PUBLIC) if c.kind not in WRITTEN)


def _named(roster: Roster, name: str) -> Column:
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
