"""One call from a log and a table to the verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keyhole.audit.base import Exposure, query_order
from keyhole.audit.rank import Rank
from keyhole.errors import ConfigError
from keyhole.gather import gather, transcribe
from keyhole.gather.log import Log, as_log
from keyhole.knowledge import Columns, Config
from keyhole.schema import Column, Kind, Role, Schema
from keyhole.settings import Names, settings, with_private
from keyhole.sources import DuckDBRoster, DuckDBSource, load, load_roster
from keyhole.transcript import ABSENT, Line, Transcript

Progress = Callable[[str, int, int], None]


def examine(
    log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]],
    *,
    data: object = None,
    private: Names = (),
    id: Names = (),  # noqa: A002 - the word of the contract
    hidden: Names = (),
    table: str | None = None,
    view: str | None = None,
    group_size: int = 1,
    config: Config | str | Path | None = None,
    progress: Progress | None = None,
) -> Exposure:
    """Who is exposed by a log of aggregate queries, with the proof.

    `log` is a path (.sql, .jsonl, or an export that `open_log` knows), SQL text, a `Log`, or a list of statements (a
    statement, or a pair of statement and answer). What an export has besides statements is listed as refused.
    `data` is a path or a pandas, polars or Arrow frame; `private` names columns as on the command line
    ("salary", or ["salary", "sugar:3..10:0.1"]). Answers that the log lacks are computed from the data. `config` (a
    `Config` or the path of a keyhole.toml) gives what the arguments do not.

    >>> people = {"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]}
    >>> import pyarrow as pa
    >>> found = examine("SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE team = 'a'",
    ...                 data=pa.table(people), private="pay", id="name")
    >>> [(f.who, f.value) for f in found]
    [('Cyd', Decimal('30'))]
    """
    if group_size < 1:
        raise ConfigError(f"group size {group_size} must be at least 1")
    given = with_private(settings(config, data=data, table=table, view=view, private=private, id=id, hidden=hidden))
    read = as_log(log)
    lines = read.lines
    roster, source = open_table(
        given.data,
        given.columns,
        table=given.table,
        view=given.view,
        answered=bool(lines) and all(line.answer is not ABSENT for line in lines),
        text=compared_with_text(lines, given.columns.private),
    )
    knowledge = given.knowledge()
    transcript = transcribe(lines, roster, source=source)
    if read.refused:
        refused = sorted((*transcript.refused, *read.refused), key=lambda r: query_order(r.number))
        transcript = Transcript(transcript.entries, tuple(refused))
    evidence = gather(transcript, roster, knowledge, source=source, progress=progress)
    return Rank(group_size, progress).examine(evidence, roster)


def open_table(
    data: object,
    columns: Columns,
    *,
    table: str | None,
    view: str | None,
    answered: bool,
    text: frozenset[str] = frozenset(),
) -> tuple[DuckDBRoster, DuckDBSource | None]:
    """The table as (public half, whole); the whole is None where the private column is not in the data.

    Only a log that has all its answers can do without the private column.
    """
    if not answered:
        source = load(data, columns, table=table, view=view)
        return source.roster, source
    public = open_roster(data, columns, table=table, view=view, text=text)
    if all(public.has(name) for name in columns.private):
        source = load(data, columns, table=table, view=view)
        return source.roster, source
    return public, None


def compared_with_text(lines: Sequence[Line], names: Iterable[str]) -> frozenset[str]:
    """Private columns that the log compares with text: what a roster without them is told of their kind.

    >>> compared_with_text([Line(1, "SELECT COUNT(*) FROM t WHERE d = 'flu' AND x > 3")], ["d", "x"])
    frozenset({'d'})
    """
    found = set()
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
            found.add(name)
    return frozenset(found)


def open_roster(
    data: object, columns: Columns, *, table: str | None, view: str | None, text: frozenset[str] = frozenset()
) -> DuckDBRoster:
    """The public half alone; a private column may be missing from the data, unless its name looks misspelt."""
    public = load_roster(data, columns, table=table, view=view, text=text)
    others = Schema("", tuple(Column(c.name, Kind.OTHER) for c in public.schema.of_role(Role.PUBLIC)))
    for name in columns.private:
        near = others.nearest(name) if len(name) > 3 else None  # short names are near each other by chance
        if near is not None and not public.has(name):
            raise ConfigError(f"the table has no column {name!r} to be private; did you mean {near!r}?")
    return public
