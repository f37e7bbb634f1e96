"""The whole of keyhole.toml, the one schema of all settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Literal

from keyhole.config.columns import Columns, TableRoles
from keyhole.config.file_layout import SourceTable
from keyhole.config.toml_table import Number, TomlTable, read_toml
from keyhole.errors import ConfigError
from keyhole.model.prior import Fact, Knowledge


@dataclass(frozen=True, slots=True)
class Online(TomlTable):
    """[online]: deciding before each answer.

    `exact_above` k: of a column with known bounds an exact answer is about more than k people; None: there is none.
    """

    insiders: Literal[0, 1] = 0
    exact_above: int | None = None

    def __post_init__(self) -> None:
        if self.exact_above is not None and self.exact_above < 1:
            raise ValueError(f"exact_above = {self.exact_above} must be at least 1: it is a number of people")


@dataclass(frozen=True, slots=True)
class BookTable(TomlTable):
    """[book]: what was asked, answered, published and paid, and how questions are answered.

    `policy` None: private if there is a budget, else audited; monitored only if it is written here. `changes` says
    whether everybody knows whose private values were written between two versions of the data, and `written` is then
    a CSV of them. `begun` says that the book exists. `path` is a file, or postgresql://ROLE@HOST/DATABASE; `key` is
    the file with the key that binds it to the values, beside the book if it is not named.
    """

    path: str | None = None
    population: str | None = None
    key: str | None = None
    witness: str | None = None
    policy: Literal["audited", "private", "monitored"] | None = None
    changes: Literal["secret", "public"] = "secret"
    written: str | None = None
    begun: bool = False

    def __post_init__(self) -> None:
        if self.path == ":memory:":
            raise ValueError("path = ':memory:' would forget what was answered: name a file")


@dataclass(frozen=True, slots=True)
class BudgetTable(TomlTable):
    """[budget]: what may be spent on private answers. `accuracy` is what a question costs if it does not say.

    `unit` None: rho (zCDP) for the planner where delta is above 0, else epsilon. With delta, epsilon and delta are what
    is promised in the end, also where rho is counted; without, the number given is the rho. `rows_per_person` is how
    many rows of a person count where an id is repeated; None: every row has an id of its own. `delta_for_keys` is how
    much of delta may go to GROUP BY over keys that nobody declared. `firings` is how often a run of `pmw-tuned` or
    `pmw-warm` may find its hypothesis wrong (default 30): a bet that is paid in full. `beta` is the chance that an
    error bar is missed, `horizon` how many questions to expect (what is left is shared out over them), `spend` the
    share of what is left that one file may spend.
    """

    epsilon: Number | None = None
    delta: Number = Decimal(0)
    unit: Literal["epsilon", "rho"] | None = None
    neighbours: Literal["replace-one", "add-remove"] = "replace-one"
    accuracy: Number | str | None = None  # "1%" is 0.01
    beta: Number = Decimal("0.05")
    horizon: int | None = None
    spend: Number | None = None
    mechanism: str | None = None
    firings: int = 30
    rows_per_person: int | None = None
    delta_for_keys: Number = Decimal(0)
    analysts: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TlsTable(TomlTable):
    """[serve] tls: the certificate and its key, as PEM files."""

    cert: str
    key: str


@dataclass(frozen=True, slots=True)
class ServeTable(TomlTable):
    """[serve]: the doors of `keyhole serve`, each at ADDRESS:PORT; None: that door is shut.

    `keys` None: keys.keyhole beside the settings. `hosts` are names under which browsers and agents reach the server.
    """

    http: str | None = None
    postgres: str | None = None
    mcp: bool = True
    keys: str | None = None
    hosts: tuple[str, ...] = ()
    tls: TlsTable | None = None
    per_minute: int = 60

    def __post_init__(self) -> None:
        if self.per_minute < 1:
            raise ValueError(f"per_minute = {self.per_minute} must be at least 1")


@dataclass(frozen=True, slots=True)
class FactTable(TomlTable):
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
        for low, high, ends in (
            ("min", "max", (self.min, self.max)),
            ("sum_min", "sum_max", (self.sum_min, self.sum_max)),
        ):
            if ends[0] is not None and ends[1] is not None and ends[0] > ends[1]:
                raise ValueError(f"{low} = {ends[0]} is above {high} = {ends[1]}: they are crossed, swap them")
        if self.equals is not None and (self.min is not None or self.max is not None):
            raise ValueError("write equals alone, without min or max")


@dataclass(frozen=True, slots=True)
class Config(TomlTable):
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
    serve: ServeTable = field(default_factory=ServeTable)
    facts: tuple[FactTable, ...] = ()

    @classmethod
    def parse(cls, text: str, name: str = "keyhole.toml") -> Config:
        """Read TOML text; every fault is said with the key to mend."""
        return cls.checked(read_toml(text, name), name)

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
            return name if name is None or "://" in name else str(folder / name)

        data = self.source.data
        return replace(
            self,
            source=replace(self.source, data=data if data is not None and "://" in data else at(data)),
            book=replace(
                self.book,
                path=at(self.book.path),
                key=at(self.book.key),
                witness=at(self.book.witness),
                written=at(self.book.written),
            ),
            serve=replace(
                self.serve,
                keys=at(self.serve.keys),
                tls=None
                if self.serve.tls is None
                else TlsTable(str(at(self.serve.tls.cert)), str(at(self.serve.tls.key))),
            ),
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


def home(path: str | Path) -> Path:
    """The folder of a settings file, wherever a link to it stands: paths in it, and a book, are there once."""
    given = Path(path)
    return given.resolve().parent if given.is_symlink() else given.parent
