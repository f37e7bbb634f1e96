"""Which suppressed cells of published tables can be recovered, by the auditor of logs: the verb of `keyhole tables`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import Progress, rules_for
from keyhole.auditing.judge import Judge
from keyhole.auditing.known import Rules
from keyhole.auditing.numbers import Within
from keyhole.auditing.stoppable import stoppable
from keyhole.config import Columns, Config, FactTable, PrivateColumn
from keyhole.config.settings import settings
from keyhole.crosstab.cells import Ends, Key, TableLayout, check_totals, read_cells
from keyhole.crosstab.hidden import ID, NAME, HiddenCells, find_recovered_cells
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
from keyhole.crosstab.sheet import read_sheet
from keyhole.datasets.open import Use, open_table
from keyhole.errors import ConfigError
from keyhole.gather import gather, transcribe
from keyhole.logs.open import Log, LogFormat
from keyhole.report.tables import TablesVerdict
from keyhole.report.verdict import Verdict

BY_RULE = "(rule)"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tables put together and ready to be judged: with the rules that hid cells, and what is known of hidden ones."""

    hidden: HiddenCells
    ranges: Mapping[str, Ends]
    floor: Decimal | None
    rules: tuple[SensitivityRule, ...] = ()
    sensitive: tuple[Sensitive, ...] = ()
    untold: Mapping[SensitivityRule, int] | None = None
    applied: bool = False
    assumed: bool = False  # the floor was read off the numbers shown
    needed: tuple[ProtectionInterval, ...] = ()


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
    largest: str | None = None,
    second: str | None = None,
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
        second=second,
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
    read = [read_cells(read_sheet(file), layout) for file in files]
    check_totals(read, layout)
    above = read_nesting(words.nested, read)
    whole = combine_tables(read, above, read_rounding_step(words.rounding))
    rules = tuple(map(SensitivityRule.parse, words.rule))
    people = _contributions(whole, layout, rules, contributors, above)
    found, untold = find_sensitive_cells(whole, people, rules)
    applied = bool(rules) and not whole.hidden
    judged = whole.hiding((s.key for s in found), BY_RULE) if applied else whole
    ranges = dict(layout.markers)
    counts = layout.count is None and contributors is None
    limit = next((r.n for r in rules if r.kind == "threshold"), None) if len(rules) == 1 and counts else None
    if limit is not None and whole.whole:
        mine = (Decimal(1), Decimal(limit - 1)) if applied else (Decimal(0), Decimal(limit - 1))
        ranges = {BY_RULE: mine} if applied else {m: mine if e == (None, None) else e for m, e in ranges.items()}
    lowest = None if floor is None or floor == "none" else read_number_option(str(floor), "--min")
    assumed = floor is None and not whole.negative
    hidden = HiddenCells.of(judged, _free(layout.value, judged))
    needed = tuple(find_protection_intervals(found, people, judged.hidden))
    least = Decimal(0) if assumed else lowest
    return Drawn(hidden, ranges, least, rules, tuple(found), untold, applied, assumed, needed)


def judge(
    drawn: Drawn, *, within: str | None = None, time_limit: float | None = None, progress: Progress | None = None
) -> TablesVerdict:
    """Audit the hidden cells as records, and the lines as questions about them."""
    hidden, verdict = drawn.hidden, None
    if within is not None:
        Within.parse(within)
    if hidden.lines:
        verdict = Verdict.of(_audited(drawn, stoppable(rules_for(1, within, time_limit)), progress))
    blurred = hidden.rounded and within is None and verdict is not None
    return TablesVerdict(
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


def _audited(drawn: Drawn, rules: Rules, progress: Progress | None) -> Exposure:
    """The lines, audited. Which line completed a finding is not asked: they are published at once."""
    hidden = drawn.hidden
    log = Log("the tables", LogFormat.JSONL, tuple(hidden.log()))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / f"{NAME}.csv"
        data.write_text(hidden.csv(hidden.publication.truth), encoding="utf-8")
        given = settings(_known(drawn), data=data)
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
    met = {marker: _above(ends, drawn.floor) for marker, ends in drawn.ranges.items()}
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
