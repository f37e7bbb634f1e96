"""One call from a log and a table to the verdict."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.assumed_domains import with_assumptions
from keyhole.auditing.base import Exposure, query_order
from keyhole.auditing.clock import Deadline, by_the_clock, interrupted, not_read, read_in_time
from keyhole.auditing.contradiction import irreducible
from keyhole.auditing.first import with_firsts
from keyhole.auditing.judge import Judge
from keyhole.auditing.known import Known, Rule, Rules
from keyhole.auditing.numbers import Within
from keyhole.auditing.promise import COMPLETE, last_digits_gap
from keyhole.auditing.rules import every_rule, groups
from keyhole.auditing.rules.interval import SECONDS, interval
from keyhole.config import Columns, Config, FactTable
from keyhole.config.arguments import Names
from keyhole.config.settings import Settings, has_private, settings, with_private
from keyhole.datasets.open import Table, Use, compared_with_text, open_table
from keyhole.engines.engine import dialect_of
from keyhole.errors import ConfigError, NumberError
from keyhole.gather import gather, transcribe
from keyhole.gather.evidence import OF_TABLE, Evidence, System, Unjudged
from keyhole.gather.transcribe import may_show_rows
from keyhole.logs.fold import fold_repeats, split_by_analyst
from keyhole.logs.open import Log, as_log
from keyhole.logs.people_table import keep_people_table
from keyhole.model.numbers import read_fraction
from keyhole.model.prior import Knowledge
from keyhole.model.transcript import ABSENT, Noise, Transcript
from keyhole.sql.statements.clock import parse_now
from keyhole.sql.statements.table_names import list_tables_read

Progress = Callable[[str, int, int], None]
NO_TIME = "the time limit was reached before a statement was read: give it more (--time-limit)"
NOT_AMONG = "it is not shown that everybody else has more than {} possible values (--among)"
SEARCHING = 0.95  # of the time: what is searched ends by itself a little before all is ended
NAMED = 5  # columns that a sentence lists
_ALL_COLUMNS = re.compile(r"(select|distinct|all|,|\.)\s*\*")
ASSUMING = 20.0  # seconds for ranges where values of undeclared columns are assumed
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
    among: int | None = None,
    rounding: str | int | Decimal | None = None,
    within: str | None = None,
    time_limit: float | Deadline | None = None,
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
    written for ("postgres"; default: what the export says, else the engine of the data). `rounding`: the answers of the
    log were rounded to multiples of it. A proved range of at most `within` ("0.5", or a share: "5%") counts as
    inferred. With `among` K an all-clear needs that everybody else has more than K possible values.
    `time_limit` is for the whole audit, in seconds: what is not read by then is not judged, and what is proved is kept;
    without it ranges are searched for a minute in each system of columns, and all else is finished. `now` is when
    statements ran whose log does not say it, for CURRENT_DATE and its kin. `by` "analyst" also judges what each analyst
    asked alone (`views`), where the log says who asked.

    >>> people = {"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"], "pay": [10, 20, 30]}
    >>> import pyarrow as pa
    >>> found = examine("SELECT SUM(pay) FROM t; SELECT SUM(pay) FROM t WHERE team = 'a'",
    ...                 data=pa.table(people), private="pay", id="name")
    >>> [(f.who, f.value) for f in found]
    [('Cyd', Decimal('30'))]
    """
    if group_size < 1:
        raise ConfigError(f"group size {group_size} must be at least 1")
    if among is not None and among < 1:
        raise ConfigError(f"among {among} must be at least 1: it is a number of values")
    given = settings(config, data=data, table=table, view=view, private=private, id=id, hidden=hidden)
    read = as_log(log, dialect, dialect_of(given.data))
    lines = read.lines
    answered = bool(lines) and all(line.answer is not ABSENT for line in lines)
    clock = time_limit if isinstance(time_limit, Deadline) else Deadline(time_limit)
    doubt = _doubt_of_roles(given.columns.unreviewed)
    both_ways = roles_both_ways(given, read)

    def prepared(roles: Settings) -> Examination:
        text = compared_with_text(lines, roles.columns.private)
        opened = open_table(roles, Use.ANSWERED if answered else Use.AUDIT, text=text)
        judge = Judge(rules_for(group_size, within, clock), progress, opened.values, within is None, clock=clock)
        brief = replace(judge, rules=rules_for(1, within, BRIEF), progress=None)
        assuming = replace(judge, rules=rules_for(1, within, ASSUMING))
        law = _rounded(rounding, answered=answered)
        doubts = [doubt] if doubt else []
        knowledge, date = roles.knowledge(), parse_now(now)
        return Examination(opened, knowledge, law, date, judge, brief, assuming, clock, among, doubts=doubts)

    if not has_private(given) and both_ways:
        given, *both_ways = both_ways
    return _in_time(prepared, [with_private(given), *both_ways], read, by, clock)


def _in_time(
    prepared: Callable[[Settings], Examination], roles: Sequence[Settings], read: Log, by: str | None, clock: Deadline
) -> Exposure:
    """The verdict under the first roles, with what the others add; what is found when the time is up is it."""
    found: Exposure | None = None
    try:
        with clock.ringing():
            for given in roles:
                asked = prepared(given)
                if found is None:
                    read = asked.about_people(read)
                about = _without_tables(read, roles[0].config.tables.keys() - given.config.tables.keys())
                part = asked.of(fold_repeats(about))
                part = replace(part, views={} if by is None else asked.alone(about, by, part))
                found = part if found is None else with_reading(found, part)
                if interrupted(part) or asked.heard:
                    break
    except KeyboardInterrupt:
        if not clock.rang:
            raise
    if found is None:
        raise ConfigError(NO_TIME)
    return found


def roles_both_ways(given: Settings, log: Log) -> list[Settings]:
    """The settings under which columns that nobody has reviewed are judged too, besides those that are given.

    Of such columns that the log names one is private at a time, or none; the others are public, so that whoever asks
    is assumed to know them. Facts about a column that is then public, or under a condition on one that is then
    private, are left out, and so are tables that are joined on it: nothing is proved by them.
    """
    columns, texts = given.columns, [line.sql.casefold() for line in log.lines]
    every = any(_ALL_COLUMNS.search(text) for text in texts)
    named = [name for name in columns.unreviewed if every or any(name.casefold() in text for text in texts)]
    unnamed = set(columns.unreviewed) - set(named)
    seen = [columns.private.keys() - unnamed]
    found = []
    for wanted in (None, *named) if named else ():
        roles = columns.with_private_only(wanted)
        tables = {
            name: table
            for name, table in given.config.tables.items()
            if wanted is None or wanted.casefold() not in {column.casefold() for _, column in table.pairs}
        }
        facts = _facts_under(given.config, roles, wanted)
        config = replace(given.config, columns=roles, facts=facts, tables=tables)
        judged = replace(given, config=config, asked=tuple(roles.private))
        if has_private(judged) and (private := roles.private.keys() - unnamed) not in seen:
            seen.append(private)
            found.append(judged)
    return found


def _without_tables(log: Log, names: Collection[str]) -> Log:
    """The log without the statements that read these tables."""
    if not names:
        return log
    left_out = {name.casefold() for name in names}
    lines = (line for line in log.lines if left_out.isdisjoint(n[-1] for n in list_tables_read(line.sql, line.dialect)))
    return replace(log, lines=tuple(lines))


def _facts_under(config: Config, roles: Columns, wanted: str | None) -> tuple[FactTable, ...]:
    names = list(config.columns.private)
    only = names[0] if len(names) == 1 else None
    facts = (replace(fact, column=fact.column or only) for fact in config.facts)
    about = (fact for fact in facts if fact.column in roles.private)
    return tuple(fact for fact in about if wanted is None or wanted.casefold() not in fact.where.casefold())


def _doubt_of_roles(names: Sequence[str]) -> str:
    """Why a verdict is not complete where nobody has reviewed the roles of some columns; empty if there are none."""
    if not names:
        return ""
    listed = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    guess = "role of {} is a guess" if len(names) == 1 else "roles of {} are guesses"
    return (
        f"the {guess.format(listed)}, judged both ways, as public and as private: correct keyhole.toml and write "
        "reviewed = true there"
    )


def with_reading(found: Exposure, other: Exposure) -> Exposure:
    """A verdict with what is found beside it where the roles of columns are others."""
    known = [found, *found.readings]
    seen = {(f.row, f.rows, f.column, f.form, f.status) for part in known for f in part.findings}
    exposed = {(f.row, f.rows, f.column, f.form) for part in known for f in part.exposed}
    totals = {(g.rows, g.column) for part in known for g in part.groups}
    findings = tuple(
        f
        for f in other.findings
        if (f.row, f.rows, f.column, f.form) not in exposed and (f.row, f.rows, f.column, f.form, f.status) not in seen
    )
    groups = tuple(g for g in other.groups if (g.rows, g.column) not in totals)
    views = {who: with_reading(v, other.views[who]) if who in other.views else v for who, v in found.views.items()}
    shown = {rows.number for part in known for rows in part.handed_out}
    if not findings and not groups and all(rows.number in shown for rows in other.handed_out):
        return replace(found, views=views)
    return replace(
        found, views=views, readings=(*found.readings, replace(other, findings=findings, groups=groups, views={}))
    )


@dataclass(frozen=True, slots=True)
class Examination:
    """An opened table, what is known of it, and the rules: for the whole log, and in brief for parts of it."""

    opened: Table
    knowledge: Knowledge
    noise: Noise | None
    now: dt.date | None
    judge: Judge
    brief: Judge
    assuming: Judge
    clock: Deadline
    among: int | None = None
    heard: list[bool] = field(default_factory=list)  # Ctrl-C, while it was asked what completed a finding
    doubts: list[str] = field(default_factory=list)  # is the log about these people, and what are their columns?

    def about_people(self, read: Log) -> Log:
        """What of a log is about these people; why that is not sure is kept."""
        kept = keep_people_table(read, self.opened.roster.schema, self.opened.given.config.source.ignore)
        self.doubts.extend(filter(None, [kept.doubt]))
        return kept.log

    def of(self, read: Log) -> Exposure:
        """What a log gives away; nothing is judged if the time is up before the first rule is done."""
        opened = self.opened
        try:
            found = self._of(read)
        except (KeyboardInterrupt, Exception):  # an engine may turn the bell into an error of its own
            if not self.clock.rang:
                raise
            evidence = self._gathered(
                read,
                Transcript((), (), tuple(not_read(read.lines)), (), frozenset(str(line.number) for line in read.lines)),
            )
            found = replace(self.judge, rules=(), stopped=True).examine(evidence, opened.roster)
        found = by_the_clock(found) if self.clock.rang else found
        if found.complete:
            given = any(line.answer is not ABSENT for line in read.lines)
            schema, digits = opened.roster.schema, opened.given.config.source.digits
            gap = last_digits_gap(found.evidence, schema, self._held_floats, digits, given=given)
            if not gap and self.among is not None and found.promise != COMPLETE:
                gap = NOT_AMONG.format(self.among)
            found = replace(found, missed=(gap,)) if gap else found
        more = self.among is not None or not self.judge.exchanges
        found = replace(found, version=opened.version, assumed=opened.assumed, dialect=read.dialect, log=read)
        return replace(found, needs_more=more)

    def _held_floats(self, column: str) -> NDArray[np.float64] | None:
        """A private column of the people's table as it is held; None if it is not at hand."""
        source = self.opened.values
        if source is None or column not in {c.name for c in source.schema.columns}:
            return None
        return source.values(column).floats

    def _of(self, read: Log) -> Exposure:
        roster, source = self.opened.roster, self.opened.source
        asked = partial(transcribe, roster=roster, source=source, noise=self.noise, now=self.now)
        evidence = self._gathered(read, read_in_time(read.lines, asked, self.clock))
        evidence = replace(evidence, nobody=(*evidence.nobody, *self._strays(read)))
        found = irreducible(self.judge.examine(evidence, roster), self._of_answers)
        found = with_firsts(found, self._again, lambda: self.heard.append(True))
        again = partial(self._assuming, evidence)
        found = with_assumptions(found, roster, self.opened.values, again, exchanges=self.judge.exchanges)
        return replace(found, missed=(*found.missed, *self.doubts), doubts=tuple(self.doubts))

    def _assuming(self, evidence: Evidence, knowledge: Knowledge) -> Exposure:
        """The same log, where more is known of private columns; ranges are searched for a part of the time."""
        roster, source = self.opened.roster, self.opened.source
        made = gather(evidence.transcript, roster, knowledge, source=source)
        entered = {entry.number for entry in evidence.transcript.entries}
        unread = (u for u in evidence.unjudged if u.number not in entered)
        return self.assuming.examine(replace(made, unjudged=(*unread, *made.unjudged)), roster)

    def _gathered(self, read: Log, transcript: Transcript) -> Evidence:
        """The evidence, with what the log itself lists as refused and not judged."""
        if read.refused or read.unjudged:
            refused = sorted((*transcript.refused, *read.refused), key=lambda r: query_order(r.number))
            unjudged = sorted((*transcript.unjudged, *read.unjudged), key=lambda r: query_order(r.number))
            schema = self.opened.roster.schema
            may_show = frozenset(
                r.number for r in (*read.refused, *read.unjudged) if may_show_rows(r.sql, schema, read.dialect)
            )
            transcript = replace(
                transcript,
                refused=tuple(refused),
                unjudged=tuple(unjudged),
                may_show_rows=transcript.may_show_rows | may_show,
            )
        opened, progress = self.opened, self.judge.progress
        return gather(transcript, opened.roster, self.knowledge, source=opened.source, progress=progress)

    def _strays(self, read: Log) -> list[Unjudged]:
        """What a join loses of the tables that the log reads, and people who may be one."""
        source = self.opened.source
        if source is None:
            return []
        asked = " ".join(line.sql for line in read.lines).casefold()
        names = [r.name for r in source.schema.related if r.name.casefold() in asked]
        names.append(source.schema.table)
        return [
            Unjudged(f"{OF_TABLE}{name}", "", said) for name in names if (said := source.describe_orphan_rows(name))
        ]

    def alone(self, read: Log, by: str, last: Exposure) -> dict[str, Exposure]:
        """What each analyst asked alone gives away; after an interruption nothing is searched any more."""
        found: dict[str, Exposure] = {}
        stopped = replace(self, judge=replace(self.judge, rules=(), stopped=True))
        for who, part in split_by_analyst(read, by).items():
            try:
                last = (stopped if interrupted(last) or self.heard else self).of(fold_repeats(part))
            except KeyboardInterrupt:
                last = stopped.of(fold_repeats(part))
            found[who] = last
        return found

    def _of_answers(self, part: Transcript, knowledge: Knowledge) -> Exposure:
        """What some answers say with some of what is known, whatever the data are."""
        return replace(self.brief, source=None).examine(gather(part, self.opened.roster, knowledge), self.opened.roster)

    def _again(self, part: Transcript) -> Exposure:
        roster, source = self.opened.roster, self.opened.source
        found = self.brief.examine(gather(part, roster, self.knowledge, source=source), roster)
        if interrupted(found):
            raise KeyboardInterrupt
        return found


def rules_for(group_size: int = 1, within: str | None = None, time_limit: float | Deadline | None = None) -> Rules:
    """The rules of every audit; ranges as narrow and as long as was asked for, groups where they were."""
    width = None if within is None else Within.parse(within)
    if isinstance(time_limit, Deadline):
        ranges = _timed(width, time_limit)
    else:
        ranges = interval(width, SECONDS if time_limit is None else time_limit)
    return (*every_rule(width, ranges), *(() if group_size == 1 else (groups(group_size),)))


def _timed(width: Within | None, clock: Deadline) -> Rule:
    """Ranges, searched for as long as there is time."""
    most = clock.searching or (SECONDS if clock.seconds is None else inf)

    def rule(system: System, known: Known) -> Iterable[Any]:
        return interval(width, max(clock.left(most, share=SEARCHING), 1e-9))(system, known)

    return rule


def _rounded(rounding: str | int | Decimal | None, *, answered: bool) -> Noise | None:
    """The law of answers that were rounded to multiples of a step: off by half of it at most."""
    if rounding is None:
        return None
    try:
        step = read_fraction(str(rounding))
    except NumberError as error:
        raise ConfigError(f"rounding: {error}") from None
    except ValueError:
        raise ConfigError(f"rounding {rounding!r} is not a number") from None
    if step <= 0:
        raise ConfigError(f"rounding {rounding} must be above 0")
    if not answered:
        raise ConfigError("--rounding is about the answers of the log, and some statement of this one has none")
    return Noise("rounded", step / 2)
