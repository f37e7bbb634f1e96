"""One call from a log and a table to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keyhole.audit.base import Exposure, query_order
from keyhole.audit.judge import Judge
from keyhole.audit.rules import RULES, groups
from keyhole.errors import ConfigError
from keyhole.gather import gather, transcribe
from keyhole.gather.log import Log, LogFormat, open_log
from keyhole.knowledge import Config, PrivateColumn, parse_private
from keyhole.tables.open import Use, compared_with_text, open_table
from keyhole.transcript import ABSENT, Line, Transcript

Progress = Callable[[str, int, int], None]


def examine(
    log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]],
    *,
    data: object = None,
    private: Sequence[str] = (),
    id: str | Sequence[str] = (),  # noqa: A002 - the word of the contract
    hidden: Sequence[str] = (),
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
    ("salary", "sugar:3..10:0.1"). Answers that the log lacks are computed from the data. `config` (a `Config` or the
    path of a keyhole.toml) gives what the arguments do not.

    >>> people = {"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]}
    >>> import pyarrow as pa
    >>> found = examine("SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE team = 'a'",
    ...                 data=pa.table(people), private=["pay"], id="name")
    >>> [(f.who, f.value) for f in found]
    [('Cyd', Decimal('30'))]
    """
    settings = config if isinstance(config, Config) else Config.load(config) if config is not None else Config()
    settings = merged(settings, private=private, id=[id] if isinstance(id, str) else id, hidden=hidden)
    if group_size < 1:
        raise ConfigError(f"group size {group_size} must be at least 1")
    read = _log(log)
    lines = read.lines
    answered = bool(lines) and all(line.answer is not ABSENT for line in lines)
    opened = open_table(
        settings,
        Use.ANSWERED if answered else Use.AUDIT,
        data=data,
        table=table,
        view=view,
        text=compared_with_text(lines, settings.columns.private),
    )
    roster, source = opened.roster, opened.source
    knowledge = settings.knowledge()
    transcript = transcribe(lines, roster, source=source)
    if read.refused:
        refused = sorted((*transcript.refused, *read.refused), key=lambda r: query_order(r.number))
        transcript = Transcript(transcript.entries, tuple(refused), transcript.unjudged)
    evidence = gather(transcript, roster, knowledge, source=source, progress=progress)
    rules = RULES if group_size == 1 else (*RULES, groups(group_size))
    return replace(Judge(rules, progress).examine(evidence, roster), version=opened.version, assumed=opened.assumed)


def merged(settings: Config, *, private: Sequence[str], id: Sequence[str], hidden: Sequence[str]) -> Config:  # noqa: A002
    """Settings with the short forms of the command line put over them."""
    named: dict[str, PrivateColumn] = dict(settings.columns.private)
    for text in private:
        name, column = parse_private(text)
        if name not in named or text != name:
            named[name] = column
    if not named:
        raise ConfigError("no column is private: name one with --private COL, or under [columns.private.COL]")
    columns = {
        "id": tuple(id) or settings.columns.id,
        "hidden": tuple(hidden) or settings.columns.hidden,
        "private": named,
        "public": settings.columns.public,
    }
    return settings.model_copy(update={"columns": Config.checked({"columns": columns}, "the options").columns})


def _log(log: str | Path | Log | Sequence[str | Mapping[str, Any] | tuple[str, Any]]) -> Log:
    if isinstance(log, Log):
        return log
    if isinstance(log, str | Path):
        return open_log(log)
    found = []
    for number, item in enumerate(log, 1):
        if isinstance(item, str):
            found.append(Line(number, item, at=number))
        elif isinstance(item, Mapping):
            found.append(Line(number, str(item["sql"]), item.get("answer", ABSENT), at=number))
        else:
            found.append(Line(number, item[0], item[1], at=number))
    return Log("the log", LogFormat.SQL, tuple(found))
