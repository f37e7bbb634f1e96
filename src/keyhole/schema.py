"""The table as everybody may know it: column names, kinds and roles. No rows."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who knows a column: everybody (`id`, `public`), nobody but its owner (`private`), nobody at all (`hidden`)."""

    ID = "id"
    PUBLIC = "public"
    PRIVATE = "private"
    HIDDEN = "hidden"


class Kind(StrEnum):
    """What a column holds, as far as SQL comparison and summation care."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"

    @property
    def numeric(self) -> bool:
        """True if SUM makes sense."""
        return self in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)


_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def folded(name: str) -> str:
    """A name as engines compare names: the letters A to Z count as a to z, all others as they are.

    >>> folded("Name"), folded("STRA\u00dfE"), folded("\u00d6l")
    ('name', 'stra\xdfe', '\xd6l')
    """
    return name.translate(_ASCII)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name as the table spells it, its kind, its role, and whether it holds any NULL."""

    name: str
    kind: Kind
    role: Role = Role.PUBLIC
    nullable: bool = True

    @property
    def secret(self) -> bool:
        """True if the column's values are not public knowledge."""
        return self.role in (Role.PRIVATE, Role.HIDDEN)


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of the one table, in its order.

    >>> s = Schema("staff", (Column("Salary", Kind.INTEGER, Role.PRIVATE), Column("Dept", Kind.TEXT)))
    >>> s.find("salary").name, s.find("wage"), s.nearest("Salery")
    ('Salary', None, 'Salary')
    """

    table: str
    columns: tuple[Column, ...]
    strict_table: bool = False  # True: FROM must name `table`; False: any name means the one table

    def find(self, name: str) -> Column | None:
        """The column of that name: exact spelling first, then A-Z in any case, as SQL engines do."""
        for column in self.columns:
            if column.name == name:
                return column
        wanted = folded(name)
        return next((c for c in self.columns if folded(c.name) == wanted), None)

    def nearest(self, name: str) -> str | None:
        """The most similar column name, if any is similar."""
        names = {c.name.casefold(): c.name for c in self.columns}
        close = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.6)
        return names[close[0]] if close else None

    def of_role(self, role: Role) -> tuple[Column, ...]:
        """The columns that play `role`."""
        return tuple(c for c in self.columns if c.role is role)
