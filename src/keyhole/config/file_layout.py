"""[source]: where the people are, and how the file is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keyhole.config.toml_table import TomlTable

MOST_DIGITS = 15  # that every DOUBLE keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout(TomlTable):
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
    """[source]: where the people are, and how the file is written.

    `names` are other names that logs give the table; `ignore` are tables (`orders`, `sales.orders`, `sales.*`) that
    hold nothing about these people. `stay`: the private half stays in its database; `data` is then the address of the
    role that decides and cannot read it, `secrets` that of the role that can; `probe` that of an empty database of the
    same server, where statements run as they are written, on made-up rows. `decide` says where questions are decided
    upon: from bits held here for each person, in the engine, or there above `client_rows` people.
    """

    data: str | None = None
    table: str | None = None
    names: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    view: str | None = None
    version: str | None = None
    stay: bool = False
    secrets: str | None = field(default=None, repr=False)
    probe: str | None = field(default=None, repr=False)
    decide: Literal["auto", "client", "engine"] = "auto"
    client_rows: int = 20_000_000
    digits: int | None = None  # of an answer that analysts see at most, from its first that is not 0

    def __post_init__(self) -> None:
        FileLayout.__post_init__(self)
        if self.probe is not None and not self.stay:
            raise ValueError("probe is for data that stay: say stay = true too")
        if self.secrets is not None and not self.stay:
            raise ValueError("secrets is the address of a role for data that stay: say stay = true too")
        if self.decide == "engine" and not self.stay:
            raise ValueError('decide = "engine" is for data that stay: say stay = true too')
        if self.client_rows < 0:
            raise ValueError(f"client_rows = {self.client_rows}: write a number of people, such as 20_000_000")
        if self.digits is not None and not 1 <= self.digits <= MOST_DIGITS:
            raise ValueError(f"digits = {self.digits}: write a number from 1 to {MOST_DIGITS}, such as 12")
