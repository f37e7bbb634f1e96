"""The table as everybody may know it: column names, kinds and roles. No rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

_FOLD = {ord(c): ord(c) + 32 for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def fold_name(name: str) -> str:
    """A name as DuckDB compares names: the case of A to Z does not count, any other letter is itself.

    >>> [fold_name(name) for name in ("STRAßE", "STRASSE", "Ähre")]
    ['straße', 'strasse', 'Ähre']
    """
    return name.translate(_FOLD)


class Role(StrEnum):
    """Who knows a column: everybody (`id`, `public`), nobody but its owner (`private`), nobody at all (`hidden`).

    Where answers are private a column with a declared domain is `declared`, public or not: read as a secret.
    """

    ID = "id"
    PUBLIC = "public"
    PRIVATE = "private"
    HIDDEN = "hidden"
    DECLARED = "declared"


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


@dataclass(frozen=True, slots=True)
class ListedValues:
    """The texts that a private column was declared to hold, where the database may hold them as something else.

    It is read as text, and so only what means the same to both is judged: = and IN with these very texts. `type` is
    the type that the data gives the column; empty if it does not say (a text file).
    """

    values: tuple[str, ...]
    type: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name as the table spells it, its kind, its role, and whether it holds any NULL.

    `digits` are those after the point that its declared type DECIMAL(p, s) has; None if its type says nothing.
    `computed`: the data has no such column, the engine made it of the public ones (`WholeTableColumn`).
    `listed`: it is no text, or may be none, and is read as one since its values were declared by a list.
    """

    name: str
    kind: Kind
    role: Role = Role.PUBLIC
    nullable: bool = True
    digits: int | None = None
    computed: bool = False
    listed: ListedValues | None = None

    @property
    def secret(self) -> bool:
        """True if the column's values are not public knowledge."""
        return self.role in (Role.PRIVATE, Role.HIDDEN, Role.DECLARED)


@dataclass(frozen=True, slots=True)
class Related:
    """Another table, whose rows belong to records: its columns, and the (own column, column of the table) it joins on.

    `dimension`: public facts, one row a key; its columns are columns of the table too, named NAME.column. Else it has
    rows of people: `secret` if who has rows is private, otherwise only its private columns are. `agrees`: a row that
    names several keys names one record with them.
    """

    name: str
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, str], ...]
    dimension: bool = False
    secret: bool = True
    agrees: bool = True

    def find(self, name: str) -> Column | None:
        """The column of that name, by the engine's rule."""
        return next((c for c in self.columns if fold_name(c.name) == fold_name(name)), None)


@dataclass(frozen=True, slots=True)
class WholeTableColumn:
    """A public column that the engine computes: `sql` gives (r, v), the value v of record r; NULL for the others.

    `ties` gives a row if several records share a place that decides the value, which then changes from run to run.
    """

    name: str
    sql: str
    ties: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of the one table, in its order.

    >>> s = Schema("staff", (Column("Salary", Kind.INTEGER, Role.PRIVATE), Column("Dept", Kind.TEXT)))
    >>> s.find("salary").name, s.find("wage"), s.nearest("Salery")
    ('Salary', None, 'Salary')
    """

    table: str
    columns: tuple[Column, ...]
    strict_table: bool = False  # True: FROM must name the table; False: whoever reads a log has seen to that
    names: tuple[str, ...] = ()  # other names of the table in FROM: `employees`, or `hr.employees`
    unnamed: bool = False  # a frame: whatever name a log uses is its name
    related: tuple[Related, ...] = ()  # other tables, by their keys
    unread: tuple[str, ...] = ()  # declared tables with rows of people that this use does not look at
    unreviewed: tuple[str, ...] = ()  # columns that nobody may ask about until somebody has looked at their roles
    repeated: bool = False  # True: several rows have one id, and are records of one person
    # the values of public columns of text, where they were looked up
    spelt: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)

    @property
    def people(self) -> bool:
        """May a person have several rows, here or in other tables?"""
        return self.repeated or any(not r.dimension for r in self.related)

    @property
    def word(self) -> str:
        """What messages call a column that may only be summed or compared with constants."""
        return str(Role.DECLARED if any(c.role is Role.DECLARED for c in self.columns) else Role.PRIVATE)

    @property
    def private_names(self) -> frozenset[str]:
        """The names of the columns whose values are not public knowledge."""
        return frozenset(column.name for column in self.columns if column.secret)

    def find(self, name: str) -> Column | None:
        """The column of that name: exact spelling first, then by the engine's rule (`fold_name`)."""
        for column in self.columns:
            if column.name == name:
                return column
        wanted = fold_name(name)
        return next((c for c in self.columns if fold_name(c.name) == wanted), None)

    @property
    def several(self) -> bool:
        """Were other tables declared?"""
        return bool(self.related or self.unread)

    def is_people(self, name: Sequence[str]) -> bool:
        """Does a name in FROM, given by its parts, mean the table? Its schema does not count, but in `names`.

        >>> staff = Schema("staff", (), names=("hr.employees",))
        >>> staff.is_people(("hr", "STAFF")), staff.is_people(("hr", "Employees")), staff.is_people(("employees",))
        (True, True, False)
        """
        parts = [fold_name(part) for part in name]
        known = ([fold_name(part) for part in each.split(".")] for each in self.names)
        return parts[-1] == fold_name(self.table) or any(parts[-len(each) :] == each for each in known)

    def table_named(self, name: str) -> Related | None:
        """The other table of that name, by the engine's rule."""
        return next((r for r in self.related if fold_name(r.name) == fold_name(name)), None)

    def nearest(self, name: str) -> str | None:
        """The most similar column name, if any is similar."""
        names = {c.name.casefold(): c.name for c in self.columns}
        close = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.6)
        return names[close[0]] if close else None

    def of_role(self, role: Role) -> tuple[Column, ...]:
        """The columns that play `role`."""
        return tuple(c for c in self.columns if c.role is role)
