"""The declared columns as the planner cuts them: one partition each, and others that questions ask for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from shlex import quote
from typing import TypeAlias

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.numbers import Cuts
from keyhole.config import Columns, PrivateColumn, PublicColumn, toml_key
from keyhole.defence.declared_domain import parse_value
from keyhole.defence.tables.noisy_tables import Quantity
from keyhole.errors import ConfigError, UnsupportedQuery
from keyhole.model.predicate import (
    Comparison,
    Has,
    IsNull,
    Leaf,
    Like,
    Membership,
    Opaque,
    Predicate,
    Scalar,
    find_leaves,
    quote_name,
)
from keyhole.model.schema import Column, Kind, Role, Schema

Partition: TypeAlias = Categories | Cuts
REACH = 2**31  # of one person in a sum: so that sums of 2^31 people stay within 62 bits
FINEST = 1000  # steps of a range of reals for which none was declared


@dataclass(frozen=True, slots=True)
class CutAxis:
    """A column under one partition; tables are combined along axes with the same `key` alone."""

    key: str
    column: Partition = field(compare=False)

    @property
    def size(self) -> int:
        """How many cells."""
        return self.column.size

    @classmethod
    def of(cls, column: Partition) -> CutAxis:
        """Its key says where it is cut.

        >>> CutAxis.of(Cuts("age", Fraction(0), Fraction(1), 99, (0, 18))).key
        'age|18'
        """
        if isinstance(column, Categories):
            return cls(column.name, column)
        cuts = ",".join(map(str, column.starts[1:]))
        if len(cuts) > 60:
            cuts = hashlib.blake2b(cuts.encode(), digest_size=8).hexdigest()
        return cls(f"{column.name}|{cuts}", column)


@dataclass(frozen=True, slots=True)
class Partitions:
    """Every declared column by name, cut as declared.

    >>> roles = Columns(public={"sex": PublicColumn(values=("F", "M"))}, private={"pay": PrivateColumn(min=0, max=90)})
    >>> schema = Schema("t", (Column("sex", Kind.TEXT), Column("pay", Kind.INTEGER, Role.PRIVATE)))
    >>> Partitions.declared(roles, schema).of("pay").steps
    90
    """

    columns: Mapping[str, Partition]
    ids: tuple[str, ...] = ()  # whom a row is about; nobody is without
    several: bool = False  # may a person have several rows?
    unknown: frozenset[str] = frozenset()  # undeclared columns whose values may be keys that noise chooses
    schema: Schema | None = field(default=None, repr=False, compare=False)  # says what to write for undeclared ones

    @classmethod
    def declared(cls, roles: Columns, schema: Schema) -> Partitions:
        """From keyhole.toml: depends on the declaration and the columns' types alone."""
        publics = {named.name: table for name, table in roles.public.items() if (named := schema.find(name))}
        partitions: dict[str, Partition] = {}
        for column in schema.columns:
            table = publics.get(column.name) or roles.private.get(column.name)
            if column.role is not Role.HIDDEN and table is not None:
                made = _make_partition(column, table)
                if made is not None:
                    partitions[column.name] = made
        if not partitions:
            raise ConfigError(
                "no column has a finite domain: declare [columns.public.NAME] or [columns.private.NAME] with values, "
                "or with min and max"
            )
        return cls(partitions, tuple(c.name for c in schema.of_role(Role.ID)), schema=schema)

    def of(self, name: str) -> Partition:
        """A declared column; an undeclared one is refused."""
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise UnsupportedQuery(f"column {name!r} {self._what_to_declare(name)}; declared are {known}")
        return self.columns[name]

    def _what_to_declare(self, name: str) -> str:
        """Why an undeclared column is refused, and what to write."""
        column = None if self.schema is None else self.schema.find(name)
        if name in self.ids or (column is not None and column.role is Role.ID):
            return "names people, and nobody is asked about by id privately: ask about a public column"
        refused = "has no declared domain, so it cannot be answered about privately: write"
        public = column is not None and column.role is not Role.PRIVATE
        table = f"[columns.{'public' if public else 'private'}.{toml_key(name)}]"
        if column is not None and not column.kind.numeric:
            return f"{refused} values = [...] under {table}"
        if public:
            return f"{refused} values = [...], or min, max and width, under {table}"
        return f"{refused} min and max under {table} (`keyhole ask --clip {quote(name)}` buys bounds)"

    def number(self, name: str) -> Cuts:
        """A declared column of numbers: what sums are taken of."""
        found = self.of(name)
        if not isinstance(found, Cuts):
            raise UnsupportedQuery(f"{name!r} has no bounds to sum within: declare min and max for it")
        return found

    def key_values(self, name: str) -> tuple[Scalar, ...]:
        """The keys of a grouping column: every value, or every point of its grid."""
        column = self.of(name)
        return column.at(range(1, column.steps + 1)).keys() if isinstance(column, Cuts) else column.keys()

    def make_axis(self, name: str, cuts: set[int]) -> CutAxis:
        """The partition that a purchase has: the declared one, cut further where the question needs it.

        A column that is only asked whether it is NULL keeps one cell for all its numbers.
        """
        column = self.of(name)
        if not isinstance(column, Cuts):
            return CutAxis.of(column)
        inside = {c for c in cuts if 0 < c <= column.steps}
        return CutAxis.of(column.at({*column.starts, *inside}) if inside else column.at(()))

    def distinct_code(self, name: str) -> str:
        """What COUNT(DISTINCT ...) counts, as SQL: the id itself; of a declared column the values that it declares
        (NULL and others are none of them).
        """
        if name in self.ids:
            return quote_name(name)
        column = self.of(name)
        if isinstance(column, Cuts):
            return column.point()
        return f"CASE WHEN ({column.code()}) < {len(column.values)} THEN {column.code()} END"

    def quantity(self, name: str, power: int = 1) -> Quantity:
        """The centred sum of a column; refused where one person's part would need more than 31 bits."""
        made = Quantity(name, max(1, self.number(name).steps), power)
        if made.reach > REACH:
            raise UnsupportedQuery(f"{name!r}: its sums need more than 62 bits; declare a coarser step")
        return made

    def find_cuts(self, where: Iterable[Predicate]) -> dict[str, set[int]]:
        """The columns that conditions look at, each with the grid points where they cut it."""
        cuts: dict[str, set[int]] = {}
        for predicate in where:
            for leaf in find_leaves(predicate):
                column = self.of(_check_leaf(leaf).column)
                cuts.setdefault(column.name, set()).update(column.cut_by(leaf) if isinstance(column, Cuts) else ())
        return cuts

    def fingerprint(self) -> str:
        """A digest of the declaration."""
        return hashlib.blake2b(repr(sorted(self.columns.items())).encode(), digest_size=16).hexdigest()


def _check_leaf(leaf: Leaf) -> Comparison | Membership | Like | IsNull:
    if isinstance(leaf, Opaque | Has):
        written = leaf.sql if isinstance(leaf, Opaque) else "a condition on another table"
        raise UnsupportedQuery(
            f"{written} is no condition on cells: compare one column with constants (=, <>, <, <=, >, >=, IN, BETWEEN)"
        )
    return leaf


def _make_partition(column: Column, declared: PublicColumn | PrivateColumn) -> Partition | None:
    if declared.values is not None:
        values = tuple(parse_value(v, column) for v in declared.values)
        missing = None if declared.missing is None else parse_value(_unwrap_decimal(declared.missing), column)
        return Categories(column.name, values, missing is None, missing)
    if declared.min is None or declared.max is None:
        return None
    if not column.kind.numeric:
        raise ConfigError(f"column {column.name!r} is {column.kind}: declare values = [...] for it")
    return _make_cuts(column, declared, Fraction(declared.min), Fraction(declared.max))


def _unwrap_decimal(value: object) -> str | int | bool:
    return value if isinstance(value, str | int | bool) else str(value)


def _make_cuts(column: Column, declared: PublicColumn | PrivateColumn, lo: Fraction, hi: Fraction) -> Cuts:
    written = declared.step if isinstance(declared, PrivateColumn) else None
    step = Fraction(written) if written is not None else _default_step(column, declared, lo, hi)
    if (hi - lo) % step:
        raise ConfigError(
            f"column {column.name!r}: max - min {float(hi - lo):g} must be a multiple of the step {float(step):g}"
        )
    steps = int((hi - lo) / step)
    if declared.cuts:
        starts = {math.ceil((Fraction(c) - lo) / step) for c in declared.cuts}
    elif declared.width is not None:
        width = Fraction(declared.width)
        starts = {math.ceil(k * width / step) for k in range(1, math.ceil((hi - lo) / width) + 1)}
    else:
        starts = set()
    missing = None
    if declared.missing is not None:
        missing = round((min(max(Fraction(str(declared.missing)), lo), hi) - lo) / step)
    return Cuts(column.name, lo, step, steps, (0, *sorted(s for s in starts if 0 < s <= steps)), missing)


def _default_step(column: Column, declared: PublicColumn | PrivateColumn, lo: Fraction, hi: Fraction) -> Fraction:
    """1 for whole numbers; for reals the finest power of ten that cuts the range into at least FINEST steps."""
    if column.kind is Kind.INTEGER or hi == lo:
        return Fraction(1)
    step = Fraction(10) ** math.floor(math.log10((hi - lo) / FINEST))
    ends = math.lcm(lo.denominator, hi.denominator, Fraction(declared.width or Decimal(1)).denominator)
    return min(step, Fraction(1, ends))
