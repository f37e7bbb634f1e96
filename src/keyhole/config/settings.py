"""Options and arguments, merged over keyhole.toml: one step for all commands and for Python."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from keyhole.config import Columns, Config, FileLayout, PrivateColumn, SourceTable, parse_private
from keyhole.config.arguments import Names
from keyhole.errors import ConfigError
from keyhole.model.prior import Knowledge

FILE = "keyhole.toml"  # what settings are called


@dataclass(frozen=True, slots=True)
class Settings:
    """What a command works with. `data` is a path or a frame; `config` is the rest, with the options put over it.

    `asked` names the private columns that were given as options, in their order; all of them if none was.
    """

    data: object
    config: Config
    asked: tuple[str, ...]

    @property
    def columns(self) -> Columns:
        """Who is who."""
        return self.config.columns

    @property
    def table(self) -> str | None:
        """The table's name, if FROM must name it."""
        return self.config.source.table

    @property
    def view(self) -> str | None:
        """The SELECT that gives one row per person."""
        return self.config.source.view

    def knowledge(self) -> Knowledge:
        """What the attacker knows beforehand."""
        return self.config.knowledge()


@dataclass(frozen=True, slots=True)
class File(FileLayout):
    """A file and how it is written, wherever data is asked for: `data=File("staff.csv", encoding="latin-1")`.

    Without a path it is about the file that the settings name.
    """

    path: str | Path | None = None

    def over(self, source: SourceTable) -> SourceTable:
        """The settings of a file, with what is said here put over them.

        >>> File(trim=True).over(SourceTable(data="a.csv", encoding="latin-1")).encoding
        'latin-1'
        """
        said = {f.name: getattr(self, f.name) for f in fields(FileLayout) if getattr(self, f.name) != f.default}
        return replace(source, **said)


def settings(
    config: Config | str | Path | None = None,
    *,
    data: object = None,
    table: str | None = None,
    view: str | None = None,
    private: Names = (),
    id: Names = (),  # noqa: A002 - the word of the contract
    hidden: Names = (),
) -> Settings:
    """Settings with the arguments put over them; an argument that is not given leaves what the file says.

    A private column with a range replaces what the file says of it; its name alone does not.

    >>> merged = settings(Config.parse("[columns.private.pay]\\nmin = 0"), data="staff.csv", private="pay", id="name")
    >>> merged.columns.private["pay"].min, merged.columns.id, merged.asked
    (Decimal('0'), ('name',), ('pay',))
    """
    opened = getattr(data, "given", None)
    if isinstance(opened, Settings):  # what `keyhole.open` gave
        config, data = (config if config is not None else opened.config), opened.data
    read = config if isinstance(config, Config) else Config() if config is None else Config.load(config)
    named: dict[str, PrivateColumn] = dict(read.columns.private)
    asked = []
    for text in names(private):
        name, column = parse_private(text)
        asked.append(name)
        if name not in named or text != name:
            named[name] = column
        named[name] = replace(named[name], reviewed=True)
    public = dict(read.columns.public)
    for name in {*asked, *names(id), *names(hidden)} & public.keys():  # who says a role has looked at it
        public[name] = replace(public[name], reviewed=True)
    columns = Columns.checked(
        {
            "id": names(id) or read.columns.id,
            "hidden": names(hidden) or read.columns.hidden,
            "private": named,
            "public": public,
        },
        "the options",
    )
    source = replace(
        read.source,
        table=table if table is not None else read.source.table,
        view=view if view is not None else read.source.view,
    )
    if isinstance(data, File):
        source, data = data.over(source), data.path
    where = data if data is not None else read.source.data
    if where is None:
        raise ConfigError(
            f"no data: give --data FILE (data=... in Python), or data under [source] in keyhole.toml{_unread(config)}"
        )
    return Settings(where, replace(read, columns=columns, source=source), tuple(asked) or tuple(named))


def has_private(found: Settings) -> bool:
    """Is a column private, of the people's table or of another one?"""
    return bool(found.columns.private) or any(t.private for t in found.config.tables.values())


def with_private(found: Settings) -> Settings:
    """The same, or an error where no column is private: there would be nothing to judge."""
    if not has_private(found):
        told = found.config if found.config != Config() else None
        raise ConfigError(
            f"no column is private: name one with --private COL, or under [columns.private.COL]{_unread(told)}"
        )
    return found


def _unread(config: object) -> str:
    """Where settings lie in the working folder and were not asked for, that is said."""
    return ". There is a keyhole.toml here: add -c keyhole.toml" if config is None and Path(FILE).is_file() else ""


def names(given: Names) -> tuple[str, ...]:
    """One name is a list of one.

    >>> names("pay"), names(["pay", "bonus"])
    (('pay',), ('pay', 'bonus'))
    """
    return (given,) if isinstance(given, str) else tuple(given)
