"""[columns] and [tables]: who is who, and what is known of each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

from keyhole.config.toml_table import Number, TomlTable, as_number
from keyhole.model.numbers import read_decimal
from keyhole.model.prior import DomainState, Prior

Missing = str | int | bool | Number | None
KindName = Literal["integer", "decimal", "double", "text", "boolean", "date", "timestamp"]


@dataclass(frozen=True, slots=True)
class PrivateColumn(TomlTable):
    """[columns.private.NAME]: what an attacker knows of a private column.

    `domain` says what holds where no min, max, step or values are given: "real", any number is possible; "?", nobody
    said, and what is not said is assumed against us. `reviewed` false: `keyhole init` guessed that the column is
    private, and nobody has looked yet.
    """

    min: Number | None = None
    max: Number | None = None
    step: Number | None = None
    values: tuple[str, ...] | None = None
    width: Number | None = None
    family: Literal["sum", "minmax"] = "sum"
    kind: KindName | None = None
    cuts: tuple[Number, ...] = field(default=(), repr=False)  # where private answers may cut it
    missing: Missing = field(default=None, repr=False)  # what NULL and undeclared values count as in private answers
    prior: dict[str, Number] = field(default_factory=dict, repr=False, hash=False)  # base rates, for attacks
    domain: Literal["real", "?"] = field(default="?", repr=False)
    reviewed: bool = field(default=True, repr=False)

    @classmethod
    def rewrite(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """A list of numbers with even steps is min, max and step: values = [0, 1]. Texts stay texts: ["0", "1"]."""
        values = raw.get("values")
        if not isinstance(values, list | tuple) or raw.keys() & {"min", "max", "step"} or raw.get("kind") == "text":
            return raw
        numbers = [v for v in values if isinstance(v, int | Decimal) and not isinstance(v, bool)]
        grid = even_grid([read_decimal(v) for v in numbers]) if len(numbers) == len(values) else None
        if grid is None:
            return raw
        return {k: v for k, v in raw.items() if k != "values"} | dict(zip(("min", "max", "step"), grid, strict=True))

    def __post_init__(self) -> None:
        _exact(self, "min", "max", "step", "width")
        if self.domain == "real":
            _check_real(self)
        if self.values is not None and (self.min is not None or self.max is not None or self.step is not None):
            raise ValueError("write either values = [...] or min/max/step, not both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min = {self.min} is above max = {self.max}: swap them")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step = {self.step} must be positive; omit it for real numbers")
        if self.values is not None and len(set(self.values)) != len(self.values):
            raise ValueError("values has a repeated entry")
        _missing(self.values, self.missing)
        if self.prior:
            _rates(self.prior, self.known())

    def known(self) -> Prior:
        """As what the attacker knows."""
        rates = tuple(self.prior.items())
        return Prior(self.min, self.max, self.step, self.values, rates, is_real=self.domain == "real")

    @property
    def state(self) -> DomainState:
        """Was a domain declared, was the column called unbounded, or was nothing said?"""
        return self.known().state

    def implied(self) -> KindName:
        """The kind that was declared, or else follows from the declaration: no value is looked at.

        >>> PrivateColumn(values=("flu",)).implied(), PrivateColumn(min=0, max=9).implied(), PrivateColumn().implied()
        ('text', 'integer', 'decimal')
        """
        return self.kind or ("text" if self.values is not None else _number_kind(self.min, self.max, self.step))


def even_grid(numbers: Sequence[Decimal]) -> tuple[Decimal, Decimal, Decimal] | None:
    """(min, max, step) of two or more numbers with the same step between neighbours; None if they have none.

    >>> even_grid([Decimal(0), Decimal(10), Decimal(5)])
    (Decimal('0'), Decimal('10'), Decimal('5'))
    >>> even_grid([Decimal(0), Decimal(1), Decimal(5)]) is None, even_grid([Decimal(0)]) is None
    (True, True)
    """
    ordered = sorted(numbers)
    steps = {Fraction(b) - Fraction(a) for a, b in pairwise(ordered)}
    if len(steps) != 1 or steps == {Fraction(0)}:
        return None
    return ordered[0], ordered[-1], ordered[1] - ordered[0]


def _check_real(column: PrivateColumn) -> None:
    """A column that is called unbounded has no bounds, and holds numbers."""
    bounds = [name for name in ("min", "max", "step", "values") if getattr(column, name) is not None]
    if bounds:
        raise ValueError(
            f'domain = "real" says that any number is possible: leave out {" and ".join(bounds)}, or domain'
        )
    if column.kind in ("text", "boolean", "date", "timestamp"):
        raise ValueError(f'domain = "real" is for numbers, and kind is {column.kind!r}: declare values = [...]')


def _rates(rates: Mapping[str, Decimal], prior: Prior) -> None:
    """Base rates are of values the column can have, and leave something for those that are not named."""
    bounded = prior.lo is not None and prior.hi is not None and prior.step is not None
    if prior.values is None and not bounded:
        raise ValueError("prior = {...} needs values = [...], or min, max and step: it says how common each value is")
    for name, rate in rates.items():
        number = as_number(name)
        admitted = name in prior.values if prior.values is not None else number is not None and prior.admits(number)
        if not admitted:
            raise ValueError(f"prior = {{...}} names {name!r}, which is not among the values")
        if not (rate.is_finite() and rate > 0):
            raise ValueError(f"prior = {{...}} gives {name!r} the share {rate}: write a positive number")
    if prior.values is not None:
        every = len(prior.values)
    else:
        assert prior.lo is not None
        assert prior.hi is not None
        assert prior.step is not None
        every = int((prior.hi - prior.lo) / prior.step) + 1
    if len(rates) < every and sum(rates.values()) >= 1:
        raise ValueError(f"prior = {{...}} names {len(rates)} of {every} values and leaves nothing for others")


@dataclass(frozen=True, slots=True)
class PublicColumn(TomlTable):
    """[columns.public.NAME]: a finite domain, for private answering; and whether somebody has looked at the role.

    `reviewed` false: `keyhole init` guessed that the column is public; None: the settings do not speak of it.
    """

    min: Number | None = None
    max: Number | None = None
    width: Number | None = None
    values: tuple[str | int | bool, ...] | None = None
    kind: KindName | None = None
    cuts: tuple[Number, ...] = field(default=(), repr=False)
    missing: Missing = field(default=None, repr=False)
    reviewed: bool | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _exact(self, "min", "max", "width")
        named = self.kind is not None or self.reviewed is not None
        bare = named and self.max is None and self.width is None
        if (self.values is None) == (self.min is None) and not (bare and self.values is None):
            raise ValueError("write either values = [...] or min, max and width")
        if self.min is not None and (self.max is None or self.min > self.max):
            raise ValueError("min needs a max that is not below it")
        if self.width is not None and self.width <= 0:
            raise ValueError(f"width = {self.width} must be positive")
        _missing(self.values, self.missing)

    @property
    def finite(self) -> bool:
        """Is a domain declared, or only a kind?"""
        return self.values is not None or self.min is not None

    @property
    def has_kind(self) -> bool:
        """Does a kind follow from what is declared?"""
        return self.finite or self.kind is not None

    def implied(self) -> KindName:
        """The kind that was declared, or else follows from the declaration.

        >>> PublicColumn(values=(1, 2)).implied(), PublicColumn(min=0, max=1, width="0.1").implied()
        ('integer', 'decimal')
        """
        if self.kind is not None or self.values is None:
            return self.kind or _number_kind(self.min, self.max, self.width)
        if all(isinstance(v, bool) for v in self.values):
            return "boolean"
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in self.values)
        return "integer" if whole else "text"


def _exact(table: TomlTable, *names: str) -> None:
    """In Python a number may be given as int or text too: 0 or "0.1"."""
    for name in names:
        given = getattr(table, name)
        if isinstance(given, int | str | Decimal):
            object.__setattr__(table, name, read_decimal(given))


def _missing(values: tuple[str | int | bool, ...] | None, missing: Missing) -> None:
    """What NULL counts as is a value that the column can have."""
    if missing is None:
        return
    if values is not None and missing not in values:
        raise ValueError(f"missing = {missing!r} must be one of its values")
    if values is None and as_number(missing) is None:
        raise ValueError(f"missing = {missing!r} must be a number")


def _number_kind(*given: Decimal | None) -> KindName:
    """Whole numbers, if all that was given is written so; if nothing was given, decimals."""
    numbers = [number for number in given if number is not None]
    whole = all(number == number.to_integral_value() and int(number.as_tuple().exponent) >= 0 for number in numbers)
    return "integer" if numbers and whole else "decimal"


@dataclass(frozen=True, slots=True)
class Columns(TomlTable):
    """[columns]: who is who. Columns not named here are public."""

    id: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    private: dict[str, PrivateColumn] = field(default_factory=dict)
    public: dict[str, PublicColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for role, names in (("id", self.id), ("hidden", self.hidden), ("private", tuple(self.private))):
            for name in names:
                if name in seen:
                    raise ValueError(f"column {name!r} is listed as {seen[name]} and as {role}: keep one")
                seen[name] = role

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """The columns whose role is a guess that nobody has looked at yet.

        >>> Columns(public={"dx": PublicColumn(reviewed=False), "sex": PublicColumn(values=("F", "M"))}).unreviewed
        ('dx',)
        """
        private = (name for name, column in self.private.items() if not column.reviewed)
        taken = {*self.id, *self.hidden, *self.private}
        public = (name for name, column in self.public.items() if column.reviewed is False and name not in taken)
        return (*private, *public)

    def with_private_only(self, wanted: str | None) -> Columns:
        """The same, where of the columns that nobody has reviewed one (or none) is private, and the others are public.

        >>> both = Columns(private={"los": PrivateColumn(reviewed=False)}, public={"dx": PublicColumn(reviewed=False)})
        >>> [list(both.with_private_only(name).private) for name in ("los", "dx", None)]
        [['los'], ['dx'], []]
        """
        unreviewed = set(self.unreviewed)
        private = {name: column for name, column in self.private.items() if name not in unreviewed or name == wanted}
        public = {name: column for name, column in self.public.items() if name != wanted}
        for name in unreviewed - private.keys() - {wanted}:
            if name not in public and (kind := self.private[name].kind) is not None:
                public[name] = PublicColumn(kind=kind)
        if wanted is not None and wanted not in private:
            private[wanted] = PrivateColumn(kind=self.public[wanted].kind, reviewed=False)
        return replace(self, private=private, public=public)


@dataclass(frozen=True, slots=True)
class TableRoles(TomlTable):
    """[tables.NAME]: another table of the data, and how its rows belong to people.

    `keys` name what it is joined on: "col", or "col=other" where the table of the people calls it `other`. With
    `public = "all"` it is a dimension (one row a key, public facts). With `private = "all"` who has rows is private
    too; a list of private columns leaves the rows and the other columns public.
    """

    keys: tuple[str, ...]
    private: str | tuple[str, ...] | None = None
    public: str | None = None
    hidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError('keys = [...] names the columns it is joined on: "col", or "col=other"')
        for key in self.keys:
            if not all(part.strip() for part in key.split("=")) or key.count("=") > 1:
                raise ValueError(f'key {key!r}: write "col", or "col=other" where the names differ')
        if (self.private is None) == (self.public is None):
            raise ValueError('write private = "all", private = [columns], or public = "all"')
        for word, said in (("private", self.private), ("public", self.public)):
            if isinstance(said, str) and said != "all":
                raise ValueError(
                    f'{word} = "all"' + (" or a list of columns" if word == "private" else "") + f", not {said!r}"
                )

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """(own column, column of the table of the people) for each key.

        >>> TableRoles(("code=state", "year"), public="all").pairs
        (('code', 'state'), ('year', 'year'))
        """
        parts = (key.partition("=") for key in self.keys)
        return tuple((own.strip(), other.strip() or own.strip()) for own, _, other in parts)
