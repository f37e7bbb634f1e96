"""One call from a log and a table to the verdict."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyhole.audit.base import Exposure, query_order
from keyhole.audit.first import with_firsts
from keyhole.audit.interrupted import interrupted
from keyhole.audit.judge import Judge
from keyhole.audit.known import Rules
from keyhole.audit.rules import RULES, groups, order
from keyhole.audit.rules.integer import integer
from keyhole.audit.rules.interval import SECONDS, interval
from keyhole.audit.rules.order import within_order
from keyhole.audit.width import Within
from keyhole.errors import ConfigError
from keyhole.evidence import OF_TABLE, Unjudged
from keyhole.gather import gather, transcribe
from keyhole.knowledge import Config, Knowledge
from keyhole.logs.fold import apart, folded
from keyhole.logs.open import Log, as_log
from keyhole.settings import Names, settings, with_private
from keyhole.tables.open import Table, Use, compared_with_text, open_table
from keyhole.transcript import ABSENT, Noise, Transcript

Progress = Callable[[str, int, int], None]
BRIEF = 2.0  # seconds for ranges of a part of the log, when it is asked which statement completed a finding


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
    rounding: str | int | Decimal | None = None,
    within: str | None = None,
    time_limit: float | None = None,
    config: Config | str | Path | None = None,
    now: str | None = None,
    dialect: str | None = None,
    by: str | None = None,
    progress: Progress | None = None,
) -> Exposure:
    """Who is exposed by a log of aggregate queries, with the proof.

    `log` is a path (.sql, .jsonl, or an export that `open_log` knows), SQL text, a `Log`, or a list of statements (a
    statement, or a pair of statement and answer). What an export has besides statements is listed as refused.
    `data` is a path or a pandas, polars or Arrow frame; `private` names columns as on the command line
    ("salary", or ["salary", "sugar:3..10:0.1"]). Answers that the log lacks are computed from the data. `config` (a
    `Config` or the path of a keyhole.toml) gives what the arguments do not. `dialect` is what the statements were
    written for ("postgres"; default: what the export says, else DuckDB). `rounding`: the answers of the log were
    rounded to multiples of it. A proved range of at most `within` ("0.5", or a share: "5%") counts as inferred; ranges
    are searched for `time_limit` seconds in each system. `now` is when statements ran whose log does not say it, for
    CURRENT_DATE and its kin. `by` "analyst" also judges what each analyst asked alone (`views`), where the log says who
    asked.

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
    read = as_log(log, dialect)
    lines = read.lines
    answered = bool(lines) and all(line.answer is not ABSENT for line in lines)
    text = compared_with_text(lines, given.columns.private)
    opened = open_table(given, Use.ANSWERED if answered else Use.AUDIT, text=text)
    asked = Examination(
        opened,
        given.knowledge(),
        _rounded(rounding, answered=answered),
        _moment(now),
        Judge(rules_for(group_size, within, time_limit), progress, opened.source, within is None),
        Judge(rules_for(1, within, min(time_limit or SECONDS, BRIEF)), None, opened.source, within is None),
    )
    found = asked.of(folded(read))
    return replace(found, views={} if by is None else asked.alone(read, by, found))


@dataclass(frozen=True, slots=True)
class Examination:
    """An opened table, what is known of it, and the rules: for the whole log, and in brief for parts of it."""

    opened: Table
    knowledge: Knowledge
    noise: Noise | None
    now: dt.date | None
    judge: Judge
    brief: Judge
    heard: list[bool] = field(default_factory=list)  # Ctrl-C, while it was asked what completed a finding

    def of(self, read: Log) -> Exposure:
        """What a log gives away."""
        opened, roster, source = self.opened, self.opened.roster, self.opened.source
        transcript = transcribe(read.lines, roster, source=source, noise=self.noise, now=self.now)
        if read.refused or read.unjudged:
            refused = sorted((*transcript.refused, *read.refused), key=lambda r: query_order(r.number))
            unjudged = sorted((*transcript.unjudged, *read.unjudged), key=lambda r: query_order(r.number))
            transcript = Transcript(transcript.entries, tuple(refused), tuple(unjudged))
        evidence = gather(transcript, roster, self.knowledge, source=source, progress=self.judge.progress)
        evidence = replace(evidence, nobody=(*evidence.nobody, *self._strays(read)))
        found = with_firsts(self.judge.examine(evidence, roster), self._again, lambda: self.heard.append(True))
        return replace(found, version=opened.version, assumed=opened.assumed, dialect=read.dialect, log=read)

    def _strays(self, read: Log) -> list[Unjudged]:
        """The tables that the log reads and of which some rows belong to nobody, or to people who may be one."""
        source = self.opened.source
        if source is None:
            return []
        asked = " ".join(line.sql for line in read.lines).casefold()
        names = [r.name for r in source.schema.related if not r.dimension and r.name.casefold() in asked]
        names.append(source.schema.table)
        return [Unjudged(f"{OF_TABLE}{name}", "", said) for name in names if (said := source.strays(name))]

    def alone(self, read: Log, by: str, last: Exposure) -> dict[str, Exposure]:
        """What each analyst asked alone gives away; after an interruption nothing is searched any more."""
        found: dict[str, Exposure] = {}
        stopped = replace(self, judge=replace(self.judge, rules=(), stopped=True))
        for who, part in apart(read, by).items():
            try:
                last = (stopped if interrupted(last) or self.heard else self).of(folded(part))
            except KeyboardInterrupt:
                last = stopped.of(folded(part))
            found[who] = last
        return found

    def _again(self, part: Transcript) -> Exposure:
        roster, source = self.opened.roster, self.opened.source
        found = self.brief.examine(gather(part, roster, self.knowledge, source=source), roster)
        if interrupted(found):
            raise KeyboardInterrupt
        return found


def rules_for(group_size: int = 1, within: str | None = None, time_limit: float | None = None) -> Rules:
    """The rules of every audit; ranges as narrow and as long as was asked for, groups where they were."""
    width = None if within is None else Within.parse(within)
    *first, _, _ = (within_order(width) if rule is order else rule for rule in RULES)
    some = () if group_size == 1 else (groups(group_size),)
    return (*first, interval(width, time_limit or SECONDS), integer(width), *some)


def _moment(now: str | None) -> dt.date | None:
    """When statements ran whose lines do not say it: a day, or a moment."""
    try:
        if now is not None and len(now.strip()) == len("2026-11-15"):
            return dt.date.fromisoformat(now.strip())
        return None if now is None else dt.datetime.fromisoformat(now)
    except ValueError:
        raise ConfigError(f"--now {now!r} is no time: write 2026-11-15 or 2026-11-15 12:00") from None


def _rounded(rounding: str | int | Decimal | None, *, answered: bool) -> Noise | None:
    """The law of answers that were rounded to multiples of a step: off by half of it at most."""
    if rounding is None:
        return None
    try:
        step = Fraction(str(rounding))
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"rounding {rounding!r} is not a number") from None
    if step <= 0:
        raise ConfigError(f"rounding {rounding} must be above 0")
    if not answered:
        raise ConfigError("--rounding is about the answers of the log, and some statement of this one has none")
    return Noise("rounded", step / 2)
