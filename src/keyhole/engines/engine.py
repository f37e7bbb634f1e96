"""The narrow door to a database: SQL goes in, Arrow comes out. Which engine answers is said by the data's URL.

Nothing of privacy is known here: what a role may read is the database's own matter. A URL may carry a password, so no
message, verdict or settings file has a URL but as `DataUrl.shown` writes it, and no message has the driver's own words
where these could quote one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol
from urllib.parse import quote, unquote

from keyhole.engines.words import Words
from keyhole.errors import ConfigError, DataError

ENGINES = {"postgresql": "postgres", "postgres": "postgres", "sc": "spark", "spark": "spark"}  # scheme: dialect
_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]+)://(?:(?P<who>.*)@)?(?P<where>[^@/?;]*)(?P<rest>[/?;].*)?", re.DOTALL)
_SECRET = re.compile(r"(?P<name>password|passfile|sslpassword|token|secret)=[^&;]*", re.IGNORECASE)
LISTED = 10  # tables that a message names


@dataclass(frozen=True, slots=True)
class DataUrl:
    """Where a database is, and who asks. The password is in no text that is made of it but `dsn`.

    >>> url = DataUrl.parse("postgresql://ann:s%40cret@db.example:5432/hr?sslmode=require")
    >>> url.dialect, url.name, url.shown
    ('postgres', 'hr', 'postgresql://ann@db.example:5432/hr?sslmode=require')
    >>> "cret" in repr(url)
    False
    """

    scheme: str
    user: str
    where: str
    rest: str = field(repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> DataUrl:
        """Take a URL apart; a scheme without an engine is said."""
        parts = _URL.fullmatch(text)
        if parts is None or parts["scheme"].lower() not in ENGINES:
            scheme = text.partition("://")[0][:20]
            raise ConfigError(
                f"no engine reads {scheme}:// addresses: data are a file, a folder, a frame, "
                "postgresql://USER@HOST/DB, or Spark by sc://HOST:15002 and spark://HOST:7077"
            )
        user, colon, password = (parts["who"] or "").partition(":")
        secret = unquote(password) if colon else None
        return cls(parts["scheme"].lower(), unquote(user), parts["where"], parts["rest"] or "", secret)

    @property
    def dialect(self) -> str:
        """The dialect of its engine."""
        return ENGINES[self.scheme]

    @property
    def name(self) -> str:
        """What messages call the data: the database, else the server."""
        return unquote(re.split(r"[?;]", self.rest.lstrip("/"))[0]) or self.where or self.scheme

    @property
    def shown(self) -> str:
        """The address without anything secret."""
        who = f"{quote(self.user)}@" if self.user else ""
        rest = _SECRET.sub(r"\g<name>=...", self.rest)
        return f"{self.scheme}://{who}{self.where}{rest}"

    @property
    def dsn(self) -> str:
        """The whole address, for the driver alone."""
        secret = "" if self.password is None else f":{quote(self.password, safe='')}"
        who = f"{quote(self.user, safe='')}{secret}@" if self.user or secret else ""
        return f"{self.scheme}://{who}{self.where}{self.rest}"

    @property
    def has_secret(self) -> bool:
        """Does the address itself hold a password or a token?"""
        return self.password is not None or _SECRET.search(self.rest) is not None


def is_url(data: object) -> bool:
    """Is it the address of a database, or of something that would have to be one?

    >>> is_url("postgresql://db/hr"), is_url("staff.csv"), is_url("C:\\\\staff.csv")
    (True, False, False)
    """
    return isinstance(data, str) and re.match(r"[A-Za-z][\w+.-]+://", data) is not None


def dialect_of(data: object) -> str | None:
    """The dialect of the engine that holds the data; None for files and frames."""
    return DataUrl.parse(str(data)).dialect if is_url(data) else None


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of a database: where it stands, its name, whether its name alone means it.

    `key` is its primary key, as SQL writes it. `files`: it is in no catalog, and this is where its files are.
    """

    schema: str
    name: str
    visible: bool = True
    key: tuple[str, ...] = ()
    files: str = ""

    @property
    def qualified(self) -> str:
        """Schema and name, as messages write them."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True)
class CopiedColumn:
    """A column on its way to DuckDB: what the engine is asked for, and what DuckDB makes of that (`{0}`).

    `digits` are those after the point that its type says; None if it says nothing. `declared` is the type as the
    engine writes it.
    """

    name: str
    there: str
    here: str = "{0}"
    type: str = ""
    digits: int | None = None
    declared: str = ""


class Engine(Protocol):
    """A connection to a database, by one role.

    `words` records every statement that it was asked to run; `spelling` is how it spells what engines spell in their
    own ways; `fault` is what ended rows that were being fetched.
    """

    dialect: str
    spelling: Words
    words: list[str]
    fault: DataError | None

    def arrow(self, sql: str) -> Any:
        """The rows of a SELECT as a `pyarrow.RecordBatchReader`."""

    def do(self, sql: str) -> None:
        """Run a statement without rows."""

    def attempt(self, sql: str) -> list[tuple[Any, ...]] | None:
        """The rows of a small SELECT; None if the engine does not run it, and the connection goes on."""

    def put(self, name: str, rows: Any) -> str:
        """A small Arrow table that this connection alone sees; its name in SQL."""

    def keep(self, name: str, sql: str) -> str:
        """The rows of a SELECT as a table there that this connection alone sees; its name in SQL."""

    def run_aside(
        self, names: Sequence[tuple[str, ...]], rows: Any, types: Mapping[str, str], texts: Sequence[str]
    ) -> list[list[tuple[Any, ...]] | None]:
        """What each text gives where a table of these names holds these rows (cast to `types`), which is gone then;
        None: it fails."""

    def cancel(self) -> None:
        """Stop what runs."""

    def close(self) -> None:
        """Let go of the connection."""

    def relations(self) -> Sequence[Relation]:
        """The tables and views that this role may read."""

    def find_files(self, name: str) -> Relation | None:
        """The table that a name means if it is in no catalog; None where it is no name of files."""

    def columns(self, relation: Relation) -> Sequence[CopiedColumn]:
        """The columns of a table, each with the way that its values are copied exactly."""

    def quoted(self, relation: Relation) -> str:
        """The table in FROM."""


def fetch_rows(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a small SELECT; decimals that Arrow has no type for come as they are written."""
    table = engine.arrow(sql).read_all()
    columns = []
    for kind, column in zip(table.schema.types, table.columns, strict=True):
        cells = column.to_pylist()
        if getattr(kind, "type_name", None) == "numeric":
            cells = [None if cell is None else Decimal(cell) for cell in cells]
        columns.append(cells)
    return list(zip(*columns, strict=True))


def open_engine(url: DataUrl) -> Engine:
    """Connect; what is read from here on is one state of the data."""
    if url.dialect == "postgres":
        from keyhole.engines.postgres.engine import PostgresEngine

        return PostgresEngine(url, snapshot=True)
    from keyhole.engines.spark.engine import SparkEngine

    return SparkEngine(url)


def find_relation(relations: Iterable[Relation], name: str, url: DataUrl) -> Relation:
    """The table of a name, with or without its schema: as it is spelled, else whatever its case."""
    named = [r for r in relations if is_called(r, name, exact=True)] or [r for r in relations if is_called(r, name)]
    chosen = [r for r in named if r.visible] if len(named) > 1 else named
    if len(chosen) == 1:
        return chosen[0]
    if named:
        several = ", ".join(r.qualified for r in named)
        raise ConfigError(f"{url.shown} has several tables {name!r} ({several}): choose one with --table SCHEMA.TABLE")
    raise ConfigError(f"{url.shown} has no table {name!r} that this role may read; {_list(relations)}")


def only_relation(relations: Sequence[Relation], url: DataUrl) -> Relation:
    """The table, where nobody named one and there is no other."""
    if len(relations) == 1:
        return relations[0]
    if not relations:
        raise DataError.of_file(f"{url.shown} has no table that this role may read: GRANT SELECT ON the table to it")
    raise ConfigError(f"{url.shown} holds {len(relations)} tables: choose one with --table; {_list(relations)}")


def is_called(relation: Relation, name: str, *, exact: bool = False) -> bool:
    """Does a name, with or without a schema, mean this table: as it is spelled, or whatever its case?

    >>> is_called(Relation("hr", "a.b"), 'HR."a.b"'), is_called(Relation("hr", "staff"), "shop.staff")
    (True, False)
    """
    words = re.findall(r'"(?:[^"]|"")+"|[^."]+', name)
    parts = [word[1:-1].replace('""', '"') if word[0] == '"' else word for word in words]
    mine = (relation.schema, relation.name)[-len(parts) :]
    if exact:
        return list(mine) == list(parts)
    return [part.casefold() for part in mine] == [part.casefold() for part in parts]


def _list(relations: Iterable[Relation]) -> str:
    names = sorted(r.name if r.visible else r.qualified for r in relations)
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"it has {', '.join(names[:LISTED])}{more}" if names else "it may read none"
