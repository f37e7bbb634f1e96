"""What an attacker is assumed to know, and keyhole.toml, the one schema of all settings."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from keyhole.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of a private column beforehand: a range, a grid, or the list of its values."""

    lo: Decimal | None = None
    hi: Decimal | None = None
    step: Decimal | None = None
    values: tuple[str, ...] | None = None
    rates: tuple[tuple[str, Decimal], ...] = field(default=(), compare=False)  # how common single values are

    def admits(self, value: Decimal) -> bool:
        """True if a number lies in the range and on the grid."""
        if (self.lo is not None and value < self.lo) or (self.hi is not None and value > self.hi):
            return False
        return self.step is None or (value - (self.lo or Decimal(0))) % self.step == 0


@dataclass(frozen=True, slots=True)
class Fact:
    """Background knowledge about the records that match `where`: each value, or the group's total, lies in a range."""

    where: str
    column: str
    lo: Decimal | None = None
    hi: Decimal | None = None
    sum_lo: Decimal | None = None
    sum_hi: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Priors per private column and facts about single records or groups. Empty: the attacker knows nothing."""

    priors: dict[str, Prior] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()

    def prior(self, column: str) -> Prior:
        """The prior of a column; the empty one if nothing was declared."""
        return self.priors.get(column, Prior())


Number = Decimal
_WORDS = {Decimal: "a number", str: "text", int: "a whole number", bool: "true or false"}


class _Table:
    """A table of keyhole.toml: a frozen dataclass of settings; `__post_init__` checks what they say."""

    __slots__ = ()

    @classmethod
    def checked(cls, raw: Mapping[str, Any], name: str = "keyhole.toml") -> Self:
        """From settings that were already read; every fault is said with the key to mend.

        >>> Columns.checked({"id": ["Name"], "private": {"pay": {"min": 0}}}).private["pay"].min
        Decimal('0')
        """
        faults: list[str] = []
        made = _table(cls, raw, (), faults)
        if faults:
            raise ConfigError("\n".join(f"{name}: {fault}" for fault in faults))
        assert isinstance(made, cls)
        return made


Missing = str | int | bool | Number | None
KindName = Literal["integer", "decimal", "double", "text", "boolean", "date", "timestamp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout(_Table):
    """How a text file or a sheet is written; what is not said is found, or is as usual.

    `columns` names the columns of a file without a header; `null` are words for NULL; `trim` takes blanks off the ends
    of values. `decimal` and `thousands` are the signs inside numbers.
    """

    encoding: str | None = None
    delimiter: str | None = None
    columns: tuple[str, ...] = ()
    decimal: Literal[",", "."] | None = None
    thousands: str | None = None
    null: tuple[str, ...] = ()
    trim: bool = False
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter = {self.delimiter!r}: write one character")
        if self.decimal not in (None, ",", "."):
            raise ValueError(f"decimal = {self.decimal!r}: write , or .")
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands.isalnum()):
            raise ValueError(f"thousands = {self.thousands!r}: write one character that is no digit or letter")
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            raise ValueError(f"thousands and decimal are both {self.thousands!r}: say decimal = ',' or another")
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        if twice:
            raise ValueError(f"columns names {twice[0]!r} twice")


@dataclass(frozen=True, slots=True)
class SourceTable(FileLayout):
    """[source]: where the people are, and how the file is written."""

    data: str | None = None
    table: str | None = None
    view: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class PrivateColumn(_Table):
    """[columns.private.NAME]: what an attacker knows of a private column."""

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

    def __post_init__(self) -> None:
        _exact(self, "min", "max", "step", "width")
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
        return Prior(self.min, self.max, self.step, self.values, tuple(self.prior.items()))

    def implied(self) -> KindName:
        """The kind that was declared, or else follows from the declaration: no value is looked at.

        >>> PrivateColumn(values=("flu",)).implied(), PrivateColumn(min=0, max=9).implied(), PrivateColumn().implied()
        ('text', 'integer', 'decimal')
        """
        return self.kind or ("text" if self.values is not None else _number_kind(self.min, self.max, self.step))


def _rates(rates: Mapping[str, Decimal], prior: Prior) -> None:
    """Base rates are of values the column can have, and leave something for those that are not named."""
    bounded = prior.lo is not None and prior.hi is not None and prior.step is not None
    if prior.values is None and not bounded:
        raise ValueError("prior = {...} needs values = [...], or min, max and step: it says how common each value is")
    for name, rate in rates.items():
        number = _number(name)
        admitted = name in prior.values if prior.values is not None else number is not None and prior.admits(number)
        if not admitted:
            raise ValueError(f"prior names {name!r}, which is not among the values of the column")
        if not (rate.is_finite() and rate > 0):
            raise ValueError(f"prior gives {name!r} the share {rate}: write a positive number")
    if prior.values is not None:
        every = len(prior.values)
    else:
        assert prior.lo is not None
        assert prior.hi is not None
        assert prior.step is not None
        every = int((prior.hi - prior.lo) / prior.step) + 1
    if len(rates) < every and sum(rates.values()) >= 1:
        raise ValueError(f"prior names {len(rates)} of {every} values and leaves nothing for the others: add them")


@dataclass(frozen=True, slots=True)
class PublicColumn(_Table):
    """[columns.public.NAME]: a finite domain, for private answering."""

    min: Number | None = None
    max: Number | None = None
    width: Number | None = None
    values: tuple[str | int | bool, ...] | None = None
    kind: KindName | None = None
    cuts: tuple[Number, ...] = field(default=(), repr=False)
    missing: Missing = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _exact(self, "min", "max", "width")
        bare = self.kind is not None and self.max is None and self.width is None
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


def home(path: str | Path) -> Path:
    """The folder of a settings file, wherever a link to it stands: paths in it, and a ledger, are there once."""
    given = Path(path)
    return given.resolve().parent if given.is_symlink() else given.parent


def _exact(table: _Table, *names: str) -> None:
    """In Python a number may be given as int or text too: 0 or "0.1"."""
    for name in names:
        given = getattr(table, name)
        if isinstance(given, int | str):
            object.__setattr__(table, name, Decimal(given))


def _missing(values: tuple[str | int | bool, ...] | None, missing: Missing) -> None:
    """What NULL counts as is a value that the column can have."""
    if missing is None:
        return
    if values is not None and missing not in values:
        raise ValueError(f"missing = {missing!r} must be one of its values")
    if values is None and _number(missing) is None:
        raise ValueError(f"missing = {missing!r} must be a number")


def _number_kind(*given: Decimal | None) -> KindName:
    """Whole numbers, if all that was given is written so; if nothing was given, decimals."""
    numbers = [number for number in given if number is not None]
    whole = all(number == number.to_integral_value() and int(number.as_tuple().exponent) >= 0 for number in numbers)
    return "integer" if numbers and whole else "decimal"


@dataclass(frozen=True, slots=True)
class Columns(_Table):
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


@dataclass(frozen=True, slots=True)
class TableRoles(_Table):
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


@dataclass(frozen=True, slots=True)
class Online(_Table):
    """[online]: deciding before each answer."""

    insiders: Literal[0, 1] = 0
    history: str | None = None


@dataclass(frozen=True, slots=True)
class BookTable(_Table):
    """[book]: what was asked, answered, published and paid, and how questions are answered.

    `policy` None: private if there is a budget, else audited; monitored only if it is written here. `changes` says
    whether everybody knows whose private values were written between two versions of the data, and `written` is then
    a CSV of them. `begun` says that the book exists.
    """

    path: str | None = None
    population: str | None = None
    witness: str | None = None
    policy: Literal["audited", "private", "monitored"] | None = None
    changes: Literal["secret", "public"] = "secret"
    written: str | None = None
    begun: bool = False

    def __post_init__(self) -> None:
        if self.path == ":memory:":
            raise ValueError("path = ':memory:' would forget what was answered: name a file")


@dataclass(frozen=True, slots=True)
class BudgetTable(_Table):
    """[budget]: what may be spent on private answers. `accuracy` is what a question costs if it does not say.

    `unit` None: rho (zCDP) for the planner where delta is above 0, else epsilon. With delta, epsilon and delta are what
    is promised in the end, also where rho is counted; without, the number given is the rho.
    """

    epsilon: Number | None = None
    delta: Number = Decimal(0)
    unit: Literal["epsilon", "rho"] | None = None
    neighbours: Literal["replace-one", "add-remove"] = "replace-one"
    ledger: str | None = None
    accuracy: Number | None = None
    mechanism: str | None = None
    analysts: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FactTable(_Table):
    """[[facts]]: background knowledge about records or groups."""

    where: str
    column: str | None = None
    min: Number | None = None
    max: Number | None = None
    equals: Number | None = None
    sum_min: Number | None = None
    sum_max: Number | None = None

    def __post_init__(self) -> None:
        if all(v is None for v in (self.min, self.max, self.equals, self.sum_min, self.sum_max)):
            raise ValueError("a fact needs min, max, equals, sum_min or sum_max")
        if self.equals is not None and (self.min is not None or self.max is not None):
            raise ValueError("write equals alone, without min or max")


@dataclass(frozen=True, slots=True)
class Config(_Table):
    """The whole of keyhole.toml.

    >>> Config.parse('[columns]\\nid = ["Name"]\\n[columns.private.Salary]\\nmin = 0').columns.id
    ('Name',)
    """

    source: SourceTable = field(default_factory=SourceTable)
    columns: Columns = field(default_factory=Columns)
    tables: dict[str, TableRoles] = field(default_factory=dict)
    online: Online = field(default_factory=Online)
    book: BookTable = field(default_factory=BookTable)
    budget: BudgetTable = field(default_factory=BudgetTable)
    facts: tuple[FactTable, ...] = ()

    @classmethod
    def parse(cls, text: str, name: str = "keyhole.toml") -> Config:
        """Read TOML text; every fault is said with the key to mend."""
        try:
            raw = tomllib.loads(text, parse_float=Decimal)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{name} is not valid TOML: {error}") from None
        return cls.checked(raw, name)

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read a file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}. Is the path right?") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is not UTF-8 text") from None
        return cls.parse(text, str(path)).relative_to(home(path))

    def relative_to(self, folder: Path) -> Config:
        """File names in the settings are relative to the settings file."""

        def at(name: str | None) -> str | None:
            return None if name is None or "://" in name else str(folder / name)

        return replace(
            self,
            source=replace(self.source, data=at(self.source.data)),
            online=replace(self.online, history=at(self.online.history)),
            book=replace(
                self.book, path=at(self.book.path), witness=at(self.book.witness), written=at(self.book.written)
            ),
            budget=replace(self.budget, ledger=at(self.budget.ledger)),
        )

    def knowledge(self) -> Knowledge:
        """The attacker's part of the settings."""
        names = list(self.columns.private)
        facts = []
        for number, f in enumerate(self.facts, 1):
            column = f.column or (names[0] if len(names) == 1 else None)
            if column is None:
                raise ConfigError(
                    f"fact {number}: several columns are private; say which with column = {names[0]!r}"
                    if names
                    else f"fact {number}: no private column is declared"
                )
            lo, hi = (f.equals, f.equals) if f.equals is not None else (f.min, f.max)
            facts.append(Fact(f.where, column, lo, hi, f.sum_min, f.sum_max))
        return Knowledge({name: c.known() for name, c in self.columns.private.items()}, tuple(facts))


def _table(kind: type[Any], raw: Any, place: tuple[str, ...], faults: list[str]) -> Any:
    """A table as a value of `kind`; what is wrong goes to `faults`."""
    if isinstance(raw, kind):
        return raw
    if not isinstance(raw, Mapping):
        faults.append(f"{_at(place)}: write a table of settings")
        return None
    hints, given = get_type_hints(kind), {}
    known, before = [f.name for f in fields(kind)], len(faults)
    for key, value in raw.items():
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known here: {', '.join(known)}"
            faults.append(f"{_at((*place, str(key)))} is not a setting{hint}")
        else:
            given[key] = _value(hints[key], value, (*place, key), faults)
    if len(faults) > before:
        return None
    try:
        return kind(**given)
    except TypeError:
        missing = ", ".join(f.name for f in fields(kind) if f.name not in given and f.name in _needed(kind))
        faults.append(f"{_at(place)}: {missing} is missing")
    except ValueError as error:
        faults.append(f"{_at(place)}: {error}")
    return None


def _needed(kind: type[Any]) -> list[str]:
    return [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]


def _value(hint: Any, value: Any, place: tuple[str, ...], faults: list[str]) -> Any:
    """One setting as what its field holds."""
    kind, parts = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _table(hint, value, place, faults)
    if kind is dict:
        if isinstance(value, Mapping):
            return {str(key): _value(parts[1], each, (*place, str(key)), faults) for key, each in value.items()}
        faults.append(f"{_at(place)}: write a table")
    elif kind is tuple:
        if isinstance(value, list | tuple):
            return tuple(_value(parts[0], each, (*place, str(at)), faults) for at, each in enumerate(value))
        faults.append(f"{_at(place)}: write a list, [...]")
    elif kind is Literal:
        if value in parts and type(value) in {type(part) for part in parts}:
            return value
        faults.append(f"{_at(place)}: write {' or '.join(repr(part) for part in parts)}, not {value!r}")
    else:
        choices = [part for part in parts or (hint,) if part is not NoneType]
        if value is None and NoneType in parts:
            return None
        if len(choices) == 1 and (get_origin(choices[0]) or is_dataclass(choices[0])):
            return _value(choices[0], value, place, faults)
        for choice in choices:
            if get_origin(choice) is tuple and isinstance(value, list | tuple):
                return _value(choice, value, place, faults)
            if choice is Decimal and (number := _number(value)) is not None:
                return number
            if type(value) is choice:
                return value
        words = " or ".join(_WORDS.get(choice, "a list") for choice in choices)
        faults.append(f"{_at(place)}: write {words}, not {value!r}")
    return None


def _number(value: Any) -> Decimal | None:
    """A finite number, as it was written."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _at(place: tuple[str, ...]) -> str:
    return ".".join(place) or "the file"


_DASHED = re.compile(
    r"^(?P<name>.+):\s*(?P<lo>-?[\d.]+)\s*(?:-|\u2013|,)\s*(?P<hi>-?[\d.]+)(?P<step>:[\d.]+)?$", re.DOTALL
)
_PRIVATE = re.compile(r"^(?P<name>.+?)(?::(?P<lo>[^:]*)\.\.(?P<hi>[^:]*?)(?::(?P<step>[^:]+))?)?$", re.DOTALL)


def parse_private(text: str) -> tuple[str, PrivateColumn]:
    """`COL[:min..max[:step]]`, or `COL=value,value,...` for categories: the short form of a private column.

    >>> parse_private("ill=flu,cold")
    ('ill', PrivateColumn(min=None, max=None, step=None, values=('flu', 'cold'), width=None, family='sum', kind=None))
    >>> parse_private("Blood sugar:3..10:0.1")[1].step
    Decimal('0.1')
    >>> parse_private("salary:0..")[1].max is None
    True
    """
    if dashed := _DASHED.match(text):
        meant = f"{dashed['name']}:{dashed['lo']}..{dashed['hi']}{dashed['step'] or ''}"
        raise ConfigError(f"--private {text!r}: write {meant} for a range")
    name, equals, listed = text.partition("=")
    if equals and name.strip() and ".." not in listed:
        return _categories(text, name.strip(), listed)
    found = _PRIVATE.match(text)
    if not found or not text.strip():
        raise ConfigError("--private needs a column: write --private COL, COL:min..max or COL:min..max:step")
    numbers: dict[str, Decimal | None] = {}
    for key, part in (("min", found["lo"]), ("max", found["hi"]), ("step", found["step"])):
        if part is None or not part.strip():
            continue
        numbers[key] = _number(part.strip())
        if numbers[key] is None:
            raise ConfigError(f"--private {text!r}: {part!r} is not a number; write COL:min..max:step")
    try:
        return found["name"], PrivateColumn(numbers.get("min"), numbers.get("max"), numbers.get("step"))
    except ValueError as error:
        raise ConfigError(f"--private {text!r}: {error}") from None


def _categories(text: str, name: str, listed: str) -> tuple[str, PrivateColumn]:
    values = tuple(value.strip() for value in listed.split(","))
    if not all(values):
        raise ConfigError(f"--private {text!r}: a value is empty; write {name}=flu,cold")
    try:
        return name, PrivateColumn(values=values)
    except ValueError as error:
        raise ConfigError(f"--private {text!r}: {error}") from None
