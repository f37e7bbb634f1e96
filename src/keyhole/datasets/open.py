"""The one door to the data: settings, a file or frame, and what it is for, to a `Table`.

Here, and nowhere else, a table is opened and kinds are decided. Paths of keyhole.toml were put behind its folder when
it was read (`Config.load`, once); a path given beside the settings is meant from the working directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self

from keyhole.config.settings import Settings
from keyhole.datasets.column_kinds import Reading
from keyhole.datasets.fact_conditions import check_public_facts
from keyhole.datasets.load import Loaded, read, read_columns
from keyhole.engines.base import Roster, Seal, Source
from keyhole.engines.open_files import Lifetime
from keyhole.errors import ConfigError, DataError
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.model.transcript import Line

if TYPE_CHECKING:
    from keyhole.datasets.public_half import Staying

__all__ = ["Table", "Use", "compared_with_text", "open_table", "read_columns"]


class Use(Enum):
    """What a table is opened for: which half is needed, and what may depend on private values.

    AUDIT: the whole; kinds of private columns of a text file may be read off the values, and are listed as assumed.
    ANSWERED: as AUDIT, for a log that has all its answers: the data may lack private columns, then there is no source.
    WATCH: the public half; nothing that can be seen may depend on a private value, so kinds are declared or implied.
    EXACT: as WATCH, with the source: what is admitted is answered.
    ATTACK: the public half as an outsider has it; private columns are left out by name, and of private rows of other
    tables only columns, kinds and keys are looked at, if they are there.
    PLAN: the public half, where one row is one person.
    ANSWER: the whole; every column may be a secret, so no kind is read off and a fault names a column at most.
    """

    AUDIT = Reading(records=True)
    ANSWERED = Reading(may_lack=True, records=True)
    WATCH = Reading(may_lack=True, declared=True, records=True, reviewed=True)
    EXACT = Reading(declared=True, records=True, reviewed=True)
    ATTACK = Reading(may_lack=True, leave_out=True, records=True)
    PLAN = Reading(may_lack=True, declared=True)
    ANSWER = Reading(declared=True, guarded=True)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """An opened table. `roster` lives in a database without secrets; `source` is there where the use needs it."""

    name: str
    roster: Roster
    source: Source | None
    seal: Seal | None  # makes keyed digests of the private columns at hand; None: none is
    version: str | None
    absent: tuple[str, ...]  # private columns that the data has not
    left_out: tuple[str, ...]  # private columns that the data has and that were not read
    assumed: Mapping[str, str]  # private columns whose kind was read off their values
    life: Lifetime
    given: Settings  # how it was opened: `data=table` means the same again

    def close(self) -> None:
        """Let go of the data; whoever opened the table does it, or uses it in a `with` block."""
        self.life.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def values(self) -> Source | None:
        """The source, if it gives values of single records; what is proved is then also looked up."""
        return self.source if self.source is not None and self.source.gives_values else None

    @property
    def whole(self) -> Source:
        """The source, for uses that always have one."""
        assert self.source is not None
        return self.source


def open_table(given: Settings, use: Use, *, text: frozenset[str] = frozenset(), decides: bool = False) -> Table:
    """Open the table of the settings: a file or a frame (pandas, polars, Arrow), or a view over it.

    `text` names private columns that the data may lack and that hold text. `decides`: answers are decided upon before
    they are given, so columns that were called unbounded must look so. Cost: the data is read once.

    >>> import pyarrow as pa
    >>> from keyhole.config.settings import settings
    >>> staff = pa.table({"name": ["Ann", "Bob"], "pay": [10, 20]})
    >>> opened = open_table(settings(data=staff, private="pay"), Use.WATCH)
    >>> opened.roster.n, opened.source, opened.absent
    (2, None, ())
    """
    check_public_facts(given.config)
    bounded = use is Use.ANSWER and given.config.budget.rows_per_person is not None
    how = replace(use.value, text=text, records=use.value.records or bounded, decides=decides)
    try:
        tables, layout = given.config.tables, given.config.source
        place = {"table": given.table, "view": given.view}
        loaded: Loaded | Staying
        if layout.stay:
            from keyhole.datasets.public_half import read_staying

            loaded = read_staying(given.data, given.columns, how, layout, tables)
        else:
            loaded = read(given.data, given.columns, how, **place, layout=layout, others=tables, names=layout.names)
    except DataError as error:
        if use in (Use.ANSWER, Use.EXACT):
            raise _quiet(error) from None
        raise
    there = {c.name for c in loaded.schema.of_role(Role.PRIVATE)} if given.config.source.stay else set()
    absent = tuple(n for n in given.columns.private if n not in (*loaded.at_hand, *loaded.left_out, *there))
    _check_spelling(loaded, absent)
    wanted = use in (Use.AUDIT, Use.EXACT, Use.ANSWER) or (use is Use.ANSWERED and not absent)
    if given.config.source.stay:
        wanted = use in (Use.AUDIT, Use.EXACT, Use.ANSWER)  # where the log has its answers nothing more is asked for
        if wanted and given.config.source.secrets is None:
            raise ConfigError(
                'these answers are computed where the data stay: write secrets = "postgresql://keyhole_source@HOST/DB" '
                "under [source], the address of the role that may read them"
            )
    source = loaded.source()
    seal = source.seal() if source is not None and (wanted or not given.config.source.stay) else None
    return Table(
        loaded.schema.table,
        loaded.roster(),
        source if wanted else None,
        seal,
        given.config.source.version,
        absent,
        loaded.left_out,
        {name: str(kind) for name, kind in loaded.assumed},
        loaded.life,
        given,
    )


def _quiet(error: DataError) -> DataError:
    """The same fault where others may read it: no value, no row, nobody's id."""
    if error.told == str(error):
        return error
    what = error.told or "the table is unfit. Every row needs an id of its own, and numbers must be finite"
    return DataError(
        f"{what}. No value is shown here, where answers are private: `keyhole audit` on the same file says where the "
        "fault is"
    )


def _check_spelling(loaded: Loaded | Staying, absent: Iterable[str]) -> None:
    """A private column may be missing from the data, unless its name looks misspelt."""
    others = Schema("", tuple(Column(c.name, Kind.OTHER) for c in loaded.schema.of_role(Role.PUBLIC)))
    for name in absent:
        near = others.nearest(name) if len(name) > 3 else None  # short names are near each other by chance
        if near is not None:
            raise ConfigError(f"the table has no column {name!r} to be private; did you mean {near!r}?")


def compared_with_text(lines: Sequence[Line], names: Iterable[str]) -> frozenset[str]:
    """Private columns that the log compares with text: what a roster without them is told of their kind.

    >>> compared_with_text([Line(1, "SELECT COUNT(*) FROM t WHERE d = 'flu' AND x > 3")], ["d", "x"])
    frozenset({'d'})
    """
    compared = set()
    for name in names:
        word = re.escape(name)
        pattern = rf"(?<![\w\"]){word}(?!\w)\"?\s*(=|<>|!=|<=?|>=?|(NOT\s+)?(I?LIKE|IN\s*\(|BETWEEN))\s*'"
        quoted = rf"\"{word}\"\s*(=|<>|!=|<=?|>=?|(NOT\s+)?(I?LIKE|IN\s*\(|BETWEEN))\s*'"
        test = re.compile(f"{pattern}|{quoted}", re.IGNORECASE)
        keyed = (
            isinstance(part, Mapping)
            and isinstance(part.get("key"), Mapping)
            and isinstance(part["key"].get(name), str)
            for line in lines
            if isinstance(line.answer, list)
            for part in line.answer
        )
        if any(test.search(line.sql) for line in lines) or any(keyed):
            compared.add(name)
    return frozenset(compared)
