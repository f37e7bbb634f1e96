"""What an attacker is assumed to know, and keyhole.toml, the one schema of all settings."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from keyhole.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of a private column beforehand: a range, a grid, or the list of its values."""

    lo: Decimal | None = None
    hi: Decimal | None = None
    step: Decimal | None = None
    values: tuple[str, ...] | None = None

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


def _decimal(value: Any) -> Any:
    return Decimal(repr(value)) if isinstance(value, float) else value


Number = Annotated[Decimal, BeforeValidator(_decimal), Field(allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


KindName = Literal["integer", "decimal", "double", "text", "boolean", "date", "timestamp"]


class SourceTable(_Table):
    """[source]: where the people are."""

    data: str | None = None
    table: str | None = None
    view: str | None = None
    version: str | None = None


class PrivateColumn(_Table):
    """[columns.private.NAME]: what an attacker knows of a private column."""

    min: Number | None = None
    max: Number | None = None
    step: Number | None = None
    values: tuple[str, ...] | None = None
    width: Number | None = None
    family: Literal["sum", "minmax"] = "sum"
    kind: KindName | None = None

    @model_validator(mode="after")
    def _sensible(self) -> PrivateColumn:
        if self.values is not None and (self.min is not None or self.max is not None or self.step is not None):
            raise ValueError("write either values = [...] or min/max/step, not both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min = {self.min} is above max = {self.max}: swap them")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step = {self.step} must be positive; omit it for real numbers")
        if self.values is not None and len(set(self.values)) != len(self.values):
            raise ValueError("values has a repeated entry")
        return self

    def prior(self) -> Prior:
        """As a value without pydantic."""
        return Prior(self.min, self.max, self.step, self.values)

    def implied(self) -> KindName:
        """The kind that was declared, or else follows from the declaration: no value is looked at.

        >>> PrivateColumn(values=("flu",)).implied(), PrivateColumn(min=0, max=9).implied(), PrivateColumn().implied()
        ('text', 'integer', 'decimal')
        """
        return self.kind or ("text" if self.values is not None else _number_kind(self.min, self.max, self.step))


class PublicColumn(_Table):
    """[columns.public.NAME]: a finite domain, for private answering."""

    min: Number | None = None
    max: Number | None = None
    width: Number | None = None
    values: tuple[str | int | bool, ...] | None = None
    kind: KindName | None = None

    @model_validator(mode="after")
    def _sensible(self) -> PublicColumn:
        bare = self.kind is not None and self.max is None and self.width is None
        if (self.values is None) == (self.min is None) and not (bare and self.values is None):
            raise ValueError("write either values = [...] or min, max and width")
        if self.min is not None and (self.max is None or self.min > self.max):
            raise ValueError("min needs a max that is not below it")
        if self.width is not None and self.width <= 0:
            raise ValueError(f"width = {self.width} must be positive")
        return self

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


def _number_kind(*given: Decimal | None) -> KindName:
    """Whole numbers, if all that was given is written so; if nothing was given, decimals."""
    numbers = [number for number in given if number is not None]
    whole = all(number == number.to_integral_value() and int(number.as_tuple().exponent) >= 0 for number in numbers)
    return "integer" if numbers and whole else "decimal"


class Columns(_Table):
    """[columns]: who is who. Columns not named here are public."""

    id: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    private: dict[str, PrivateColumn] = Field(default_factory=dict)
    public: dict[str, PublicColumn] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_role_each(self) -> Columns:
        seen: dict[str, str] = {}
        for role, names in (("id", self.id), ("hidden", self.hidden), ("private", tuple(self.private))):
            for name in names:
                if name in seen:
                    raise ValueError(f"column {name!r} is listed as {seen[name]} and as {role}: keep one")
                seen[name] = role
        return self


class Online(_Table):
    """[online]: deciding before each answer."""

    insiders: Literal[0, 1] = 0
    history: str | None = None


class BudgetTable(_Table):
    """[budget]: what may be spent on private answers."""

    epsilon: Number | None = None
    delta: Number = Decimal(0)
    unit: Literal["epsilon", "rho"] = "epsilon"
    neighbours: Literal["replace-one", "add-remove"] = "replace-one"
    ledger: str | None = None
    analysts: dict[str, Number] = Field(default_factory=dict)


class FactTable(_Table):
    """[[facts]]: background knowledge about records or groups."""

    where: str
    column: str | None = None
    min: Number | None = None
    max: Number | None = None
    equals: Number | None = None
    sum_min: Number | None = None
    sum_max: Number | None = None

    @model_validator(mode="after")
    def _says_something(self) -> FactTable:
        if all(v is None for v in (self.min, self.max, self.equals, self.sum_min, self.sum_max)):
            raise ValueError("a fact needs min, max, equals, sum_min or sum_max")
        if self.equals is not None and (self.min is not None or self.max is not None):
            raise ValueError("write equals alone, without min or max")
        return self


class Config(_Table):
    """The whole of keyhole.toml.

    >>> Config.parse('[columns]\\nid = ["Name"]\\n[columns.private.Salary]\\nmin = 0').columns.id
    ('Name',)
    """

    source: SourceTable = Field(default_factory=SourceTable)
    columns: Columns = Field(default_factory=Columns)
    online: Online = Field(default_factory=Online)
    budget: BudgetTable = Field(default_factory=BudgetTable)
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
    def checked(cls, raw: dict[str, Any], name: str = "keyhole.toml") -> Config:
        """Validate settings that were already read."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError("\n".join(_explain(e, name) for e in error.errors())) from None

    @classmethod
    def load(cls, path: str | Path) -> Config:
        """Read a file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}. Is the path right?") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is not UTF-8 text") from None
        return cls.parse(text, str(path)).relative_to(Path(path).parent)

    def relative_to(self, folder: Path) -> Config:
        """File names in the settings are relative to the settings file."""

        def at(name: str | None) -> str | None:
            return None if name is None or "://" in name else str(folder / name)

        return self.model_copy(
            update={
                "source": self.source.model_copy(update={"data": at(self.source.data)}),
                "online": self.online.model_copy(update={"history": at(self.online.history)}),
                "budget": self.budget.model_copy(update={"ledger": at(self.budget.ledger)}),
            }
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
        return Knowledge({name: c.prior() for name, c in self.columns.private.items()}, tuple(facts))


def _explain(error: Any, name: str) -> str:
    place = ".".join(str(part) for part in error["loc"]) or "the file"
    if error["type"] == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        close = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known here: {', '.join(known)}" if known else ""
        return f"{name}: {place} is not a setting{hint}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{name}: {place}: {message[0].lower()}{message[1:]}"


def _known_keys(path: tuple[Any, ...]) -> list[str]:
    model: Any = Config
    by_place: dict[str, type[BaseModel]] = {
        "source": SourceTable,
        "columns": Columns,
        "online": Online,
        "budget": BudgetTable,
        "facts": FactTable,
    }
    if path:
        model = by_place.get(str(path[0]), Config)
    if len(path) >= 3 and path[0] == "columns":
        model = {"private": PrivateColumn, "public": PublicColumn}.get(str(path[1]), Columns)
    return list(model.model_fields)


_PRIVATE = re.compile(r"^(?P<name>.+?)(?::(?P<lo>[^:]*)\.\.(?P<hi>[^:]*?)(?::(?P<step>[^:]+))?)?$", re.DOTALL)


def parse_private(text: str) -> tuple[str, PrivateColumn]:
    """`COL[:min..max[:step]]`, the short form of a private column.

    >>> parse_private("Blood sugar:3..10:0.1")[1].step
    Decimal('0.1')
    >>> parse_private("salary:0..")[1].max is None
    True
    """
    found = _PRIVATE.match(text)
    if not found or not text.strip():
        raise ConfigError("--private needs a column: write --private COL, COL:min..max or COL:min..max:step")
    numbers: dict[str, Decimal] = {}
    for key, part in (("min", found["lo"]), ("max", found["hi"]), ("step", found["step"])):
        if part is None or not part.strip():
            continue
        try:
            numbers[key] = Decimal(part.strip())
        except InvalidOperation:
            raise ConfigError(f"--private {text!r}: {part!r} is not a number; write COL:min..max:step") from None
    try:
        return found["name"], PrivateColumn(**numbers)
    except ValidationError as error:
        raise ConfigError(
            f"--private {text!r}: " + "; ".join(str(e["msg"]).removeprefix("Value error, ") for e in error.errors())
        ) from None
