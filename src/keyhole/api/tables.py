"""Which suppressed cells of published tables can be recovered, by the auditor of logs: the verb of `keyhole tables`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import Progress, rules_for
from keyhole.auditing.judge import Judge
from keyhole.auditing.known import Known, Rule, Rules
from keyhole.auditing.numbers import Within
from keyhole.config import Columns, Config, FactTable, PrivateColumn
from keyhole.config.settings import settings
from keyhole.crosstab.cells import Ends, Key, TableLayout, check_totals, read_cells
from keyhole.crosstab.hidden import (
    ID,
    NAME,
    HiddenCells,
    find_recovered_cells,
    group_tied_cells,
    name_condition,
)
from keyhole.crosstab.nesting import Nesting, read_nesting
from keyhole.crosstab.options import TableOptions, read_number_option, read_rounding_step
from keyhole.crosstab.publication import Publication, combine_tables
from keyhole.crosstab.sensitivity import (
    Contributions,
    ProtectionInterval,
    Sensitive,
    SensitivityRule,
    count_contributors,
    find_protection_intervals,
    find_sensitive_cells,
    read_contributors,
)
from keyhole.crosstab.sheet import Sheet, read_sheet, read_sheets
from keyhole.datasets.open import Use, open_table
from keyhole.errors import ConfigError
from keyhole.gather import gather, transcribe
from keyhole.gather.evidence import System
from keyhole.logs.open import Log, LogFormat
from keyhole.report.tables import TablesVerdict
from keyhole.report.verdict import Verdict

BY_RULE = "(rule)"
MOST_BY_RULE = 200  # audits to find out what knowing the rule adds


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tables put together and ready to be judged: with the rules that hid cells, and what is known of hidden ones.

    `limit`: the tables are of counts, and their one rule hides those from 1 to below it. Then `by_mark` says what each
    marker tells if it stands for cells that fail the rule and for no others.
    """

    sheets: tuple[Sheet, ...]
    layout: TableLayout
    hidden: HiddenCells
    ranges: Mapping[str, Ends]
    floor: Decimal | None
    rules: tuple[SensitivityRule, ...] = ()
    sensitive: tuple[Sensitive, ...] = ()
    untold: Mapping[SensitivityRule, int] | None = None
    applied: bool = False
    assumed: bool = False  # the floor was read off the numbers shown
    needed: tuple[ProtectionInterval, ...] = ()
    limit: int | None = None
    by_mark: Mapping[str, Ends] = field(default_factory=dict)


def tables(
    files: Sequence[str | Path],
    *,
    value: str,
    total: str | Sequence[str] = "Total",
    suppressed: Sequence[str] = (),
    nested: Sequence[str] = (),
    min: str | int | Decimal | None = None,  # noqa: A002 - the word of the option
    rule: Sequence[str] = (),
    contributors: str | Path | None = None,
    count: str | None = None,
    largest: str | Sequence[str] = (),
    by: Sequence[str] = (),
    across: str | None = None,
    within: str | None = None,
    rounding: str | int | Decimal | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> TablesVerdict:
    """Which suppressed cells of published cross-tabulations can be recovered, exactly or nearly, with the proof.

    All tables are one system: margins, hierarchies (`nested`) and links. The words are those of `keyhole tables`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "towns.csv")
    ...     _ = file.write_text("town,n\\nA,x\\nB,7\\nTotal,9\\n")
    ...     found = tables([file], value="n", suppressed=["x"])
    >>> [(case.who, str(case.value)) for case in found]
    [('town A', '2')]
    """
    words = TableOptions(
        value=value,
        total=total,
        suppressed=suppressed,
        nested=nested,
        min=min,
        rule=rule,
        contributors=contributors,
        count=count,
        largest=largest,
        by=by,
        across=across,
        rounding=rounding,
    )
    drawn = read_tables([Path(file) for file in files], words)
    return judge(drawn, within=within, time_limit=time_limit, progress=progress)


def read_tables(files: Sequence[Path], words: TableOptions) -> Drawn:
    """Read the tables and put them together; where no cell is suppressed, the rules hide theirs."""
    layout, contributors, floor = words.layout, words.contributors, words.min
    if not files:
        raise ConfigError("no table: name at least one file")
    sheets = tuple(read_sheets(files))
    read = [read_cells(sheet, layout) for sheet in sheets]
    check_totals(read, layout)
    above = read_nesting(words.nested, read)
    whole = combine_tables(read, above, read_rounding_step(words.rounding))
    rules = tuple(map(SensitivityRule.parse, words.rule))
    people = _contributions(whole, layout, rules, contributors, above)
    found, untold = find_sensitive_cells(whole, people, rules)
    applied = bool(rules) and not whole.hidden
    judged = whole.hiding((s.key for s in found), BY_RULE) if applied else whole
    counts = layout.count is None and contributors is None and whole.whole
    limit = next((r.n for r in rules if r.kind == "threshold"), None) if len(rules) == 1 and counts else None
    by_mark: dict[str, Ends] = {}
    if limit is not None:
        among = (Decimal(applied), Decimal(limit - 1))
        by_mark = {BY_RULE: among} if applied else {m: among for m, e in layout.markers.items() if e == (None, None)}
    lowest = None if floor is None or floor == "none" else read_number_option(str(floor), "--min")
    assumed = floor is None and not whole.negative
    return Drawn(
        sheets,
        layout,
        HiddenCells.of(judged, _free(layout.value, judged)),
        layout.markers,
        Decimal(0) if assumed else lowest,
        rules,
        tuple(found),
        untold,
        applied,
        assumed,
        tuple(find_protection_intervals(found, people)),
        limit,
        by_mark,
    )


def judge(
    drawn: Drawn, *, within: str | None = None, time_limit: float | None = None, progress: Progress | None = None
) -> TablesVerdict:
    """Audit the hidden cells as records, and the lines as questions about them.

    A marker that nobody explained is taken for one of cells that fail the rule, unless the tables contradict it: then
    some of its cells are there to protect others.
    """
    hidden, verdict = drawn.hidden, None
    if within is not None:
        Within.parse(within)
    rules = stoppable(rules_for(1, within, time_limit))
    if hidden.lines:
        verdict = Verdict.of(_audited(drawn, rules, progress))
        if drawn.by_mark and not drawn.applied and verdict.contradictions:
            drawn = replace(drawn, by_mark={})
            verdict = Verdict.of(_audited(drawn, rules, progress))
    blurred = hidden.rounded and within is None and verdict is not None
    found = TablesVerdict(
        hidden,
        verdict,
        drawn.rules,
        drawn.sensitive,
        drawn.untold or {},
        drawn.applied,
        drawn.floor,
        drawn.assumed,
        frozenset(find_recovered_cells(hidden.publication, frozenset(), hidden.publication.hidden))
        if blurred
        else frozenset(),
        drawn.needed,
    )
    if drawn.limit is None or drawn.by_mark or hidden.rounded or verdict is None:
        return found
    by_rule, unknown = _judge_by_rule(drawn, drawn.limit, found, rules)
    return replace(found, by_rule=by_rule, unknown_by_rule=unknown)


def _judge_by_rule(
    drawn: Drawn, limit: int, found: TablesVerdict, rules: Rules
) -> tuple[tuple[tuple[Key, Fraction], ...], int]:
    """Cells that follow if somebody knows the rule, but not which cells it hid; and how many could not be judged.

    He knows that in each group of suppressed cells that lines tie together some cell fails the rule (1 to below
    `limit`), since the others would not be suppressed else. A cell follows if it has one value, and the same one,
    whichever of them it is that fails.
    """
    known, least = found.proved, None if drawn.floor is None else Fraction(drawn.floor)
    follow: list[tuple[Key, Fraction]] = []
    unknown = runs = 0
    for group in group_tied_cells(drawn.hidden):
        published = group.keys[: group.published]
        ends = {key: known.get(key, (least, None)) for key in published}
        if any(lo is not None and hi is not None and 1 <= lo <= hi < limit for lo, hi in ends.values()):
            continue  # some cell fails the rule anyway
        left: dict[Key, set[Fraction]] = {key: set() for key, (lo, hi) in ends.items() if lo is None or lo != hi}
        may_fail = [key for key, (lo, hi) in ends.items() if (lo is None or lo < limit) and (hi is None or hi >= 1)]
        for key in may_fail:
            runs += 1
            if not left or runs > MOST_BY_RULE:
                break
            fails = FactTable(where=name_condition([key]), min=Decimal(1), max=Decimal(limit - 1))
            verdict = Verdict.of(_audited(replace(drawn, hidden=group), rules, None, (fails,)))
            if verdict.contradictions:
                continue
            fixed = {group.keys[case.rows[0] - 1]: case.value for case in verdict.plain.exposed}  # whole numbers
            fixed |= {key: Decimal(1)} if limit == 2 else {}
            for each in [each for each in left if each not in fixed and verdict.complete]:
                del left[each]
            for each, values in left.items():
                value = fixed.get(each)
                values.update((Fraction(value),) if isinstance(value, Decimal | int) else ())
        judged = runs <= MOST_BY_RULE
        follow += [(key, next(iter(values))) for key, values in left.items() if judged and len(values) == 1]
        unknown += sum(not judged or not values for values in left.values())
    return tuple(follow), unknown


def _audited(drawn: Drawn, rules: Rules, progress: Progress | None, assumed: tuple[FactTable, ...] = ()) -> Exposure:
    """The lines, audited. Which line completed a finding is not asked: they are published at once."""
    hidden = drawn.hidden
    log = Log("the tables", LogFormat.JSONL, tuple(hidden.log()))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / f"{NAME}.csv"
        data.write_text(hidden.csv({} if assumed else hidden.publication.truth), encoding="utf-8")
        known = _known(drawn)
        given = settings(replace(known, facts=(*known.facts, *assumed)), data=data)
        opened = open_table(given, Use.ANSWERED)
        asked = transcribe(log.lines, opened.roster, source=opened.source)
        evidence = gather(asked, opened.roster, given.knowledge(), source=opened.source, progress=progress)
        found = Judge(rules, progress, opened.source).examine(evidence, opened.roster)
        return replace(found, version=opened.version, assumed=opened.assumed, dialect=log.dialect, log=log)


def _known(drawn: Drawn) -> Config:
    """What is known of hidden cells beforehand, as settings of an audit."""
    hidden, step = drawn.hidden, Decimal(1) if drawn.hidden.publication.whole else None
    column = PrivateColumn(min=drawn.floor, step=step, kind="integer" if step else "decimal")
    facts: tuple[FactTable, ...] = ()
    met = {marker: _above(ends, drawn.floor) for marker, ends in {**drawn.ranges, **drawn.by_mark}.items()}
    markers = {hidden.marker(key) or "" for key in hidden.keys}
    if len(markers) == 1 and hidden.published == len(hidden.keys) and (only := next(iter(markers))) in met:
        lo, hi = met[only]
        column = replace(column, min=lo, max=hi)
    else:
        told = hidden.facts({m: ends for m, ends in met.items() if ends != (drawn.floor, None)})
        facts = tuple(FactTable(where=where, min=lo, max=hi) for where, (lo, hi) in told)
    return Config(columns=Columns(id=(ID,), private={hidden.value: column}), facts=facts)


def _above(ends: Ends, floor: Decimal | None) -> Ends:
    lo, hi = ends
    return (floor if lo is None else lo), hi


def _contributions(
    whole: Publication,
    layout: TableLayout,
    rules: Sequence[SensitivityRule],
    contributors: str | Path | None,
    above: Nesting,
) -> dict[Key, Contributions]:
    """Who stands behind each cell, where rules ask for it."""
    if not rules:
        return {}
    if contributors is not None:
        return count_contributors(read_sheet(Path(contributors)), layout.value, whole.cells, above)
    known = read_contributors(whole, layout, rules)
    if not known:
        raise ConfigError(
            "--rule needs to know the contributors of a cell: --count COL and --largest COL of the tables, or "
            "--contributors FILE with one row a contributor"
        )
    return known


def _free(value: str, of: Publication) -> str:
    """A name for the numbers that no column of the hidden cells has."""
    taken = {ID, "marker", *(column for table in of.tables for column in table.columns)}
    return value if value.casefold() not in {t.casefold() for t in taken} else f"{value} (number)"


STOPPED = "the search was stopped (Ctrl-C); what was proved until then is listed"


def stoppable(rules: Rules) -> Rules:
    """The same rules; the first KeyboardInterrupt ends all of them, and is told as what was `missed`.

    A second one, while the verdict is written, passes through.
    """
    return tuple(map(_stopping, rules))


def _stopping(rule: Rule) -> Rule:
    def until_stopped(system: System, known: Known) -> list[Any]:
        found: list[Any] = []
        if STOPPED in known.missed:
            return found
        try:
            found.extend(rule(system, known))
        except KeyboardInterrupt:
            known.missed.add(STOPPED)
        return found

    return until_stopped
