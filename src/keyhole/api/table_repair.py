"""Repair of published tables: the fewest further cells to suppress, what coarser tables would do, and files of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from keyhole.api.tables import BY_RULE, Drawn, judge, read_tables
from keyhole.auditing.advice.advise import Effect, steps_for
from keyhole.auditing.advice.withhold import SECONDS, Remedy, withhold
from keyhole.crosstab.cells import Key
from keyhole.crosstab.hidden import (
    HiddenCells,
    combine_formula,
    find_narrow_cells,
    find_recovered_cells,
    group_tied_cells,
)
from keyhole.crosstab.numbers import LONGEST
from keyhole.crosstab.options import TableOptions
from keyhole.crosstab.protected import Rows, choose_marker, fill_tables, write_tables
from keyhole.crosstab.publication import Publication
from keyhole.crosstab.sensitivity import Sensitive
from keyhole.errors import ConfigError
from keyhole.model.numbers import expand_fraction, format_fraction
from keyhole.report.cases import INFERRED, Argument, Case
from keyhole.report.tables import TablesVerdict
from keyhole.report.words.tables import summarize_tables
from keyhole.solve.disclosure_control import Circuit, round_adjacent

Way = TypeVar("Way")
SUGGESTED = "(suggested)"
NOTHING_NEEDED = (Fraction(10) ** 400, -(Fraction(10) ** 400))  # a range that every one reaches beyond


@dataclass(frozen=True, slots=True, eq=False)
class Suggestion:
    """Cells to suppress besides, in the order of the tables; `after` is the audit of the tables without them.

    `coarser` and `rounded` say how many hidden cells are recovered when a table or a dimension is not published, or all
    numbers are rounded to a step.
    """

    remedy: Remedy[Key]
    cells: tuple[Key, ...]
    after: TablesVerdict
    coarser: tuple[tuple[str, int, Effect], ...] = ()  # what is left out, how many cells that costs
    rounded: tuple[tuple[Fraction, Effect], ...] = ()
    protects: bool = True  # it was to leave each sensitive cell the range that its rule asks for, too

    @property
    def verified(self) -> bool:
        """Does the audit of the repaired tables recover no cell, and is each protected where that was asked for?

        Cells that are suppressed besides need not stay unknown themselves: they may be shown.
        """
        found = (*(self.after.cell(case) for case in self.after), *(key for key, _ in self.after.by_rule))
        unsafe = any(key not in self.cells for key in found)
        return self.remedy.enough and not unsafe and not (self.protects and self.after.unprotected)

    @property
    def given_back(self) -> int:
        """How many of the cells that are suppressed besides are recovered: no harm, as they might be shown."""
        return sum(self.after.cell(case) in self.cells for case in self.after)


class TableRepair:
    """The search for a repair of some tables; with `protects` until rules have the ranges that they ask for.

    Suppressed cells are to be marked alike: nobody is told which of them a rule hid. Cells that fail a rule and are
    shown are suppressed first.
    """

    def __init__(
        self,
        drawn: Drawn,
        found: TablesVerdict,
        within: str | None = None,
        time_limit: float | None = None,
        *,
        protects: bool = True,
    ) -> None:
        self.found, self.within, self.time_limit, self.protects = found, within, time_limit, protects
        self.published = drawn.hidden.publication.hiding((s.key for s in found.shown), BY_RULE)
        self.drawn = replace(drawn, by_mark={}, hidden=HiddenCells.of(self.published, drawn.hidden.value))
        self.targets = self.published.hidden
        self.last: dict[frozenset[Key], TablesVerdict] = {}

    def suggestion(self) -> Suggestion:
        """The smallest set of shown cells without which no hidden cell is recovered, exactly or nearly; verified."""
        found = self.show_what_follows(withhold(self.proofs, seconds=self.time_limit or SECONDS))
        suggested = self.suggest(found)
        if found.stopped:
            return suggested
        return replace(suggested, coarser=_until_stopped(self._coarser()), rounded=_until_stopped(self._rounded()))

    def suggest(self, found: Remedy[Key]) -> Suggestion:
        """A remedy, audited; without what else would do."""
        cells = tuple(key for key in self.published.cells if key in found.units)
        after = self.found if found.stopped else self.last.get(found.units) or self.audit(found.units)
        return Suggestion(found, cells, after, protects=self.protects)

    def show_what_follows(self, found: Remedy[Key]) -> Remedy[Key]:
        """Without cells that follow from what is shown all the same: to show them tells nothing."""
        while found.enough and found.units and not self.published.radius:
            after = self.last.get(found.units) or self.audit(found.units)
            follow = {after.cell(case) for case in after.exposed} & found.units
            if not follow or self.proofs(found.units - follow):
                break
            found = replace(found, units=found.units - follow)
        return found

    def audit(self, gone: frozenset[Key]) -> TablesVerdict:
        """The audit of the tables without some cells."""
        made = self.published.hiding(gone, SUGGESTED)
        over = self._over(HiddenCells.of(made, self.drawn.hidden.value))
        found = judge(over, within=self.within, time_limit=self.time_limit)
        self.last[gone] = found
        return found

    def _over(self, hidden: HiddenCells) -> Drawn:
        return replace(self.drawn, hidden=hidden)

    def proofs(self, gone: frozenset[Key]) -> list[Circuit[Key]]:
        """What gives a hidden cell away, by its shown cells: by lines alone first, by bounds, then by all rules."""
        if not self.published.radius:
            quick = find_recovered_cells(self.published, gone, self.targets)
            if quick:
                return list(map(Circuit.of, quick.values()))
            made = HiddenCells.of(self.published.hiding(gone, SUGGESTED), self.drawn.hidden.value)
            least = None if self.drawn.floor is None else Fraction(self.drawn.floor)
            if narrow := list(find_narrow_cells(made, self._needs(least), least)):
                return narrow
        return list(map(Circuit.of, self._audit_proofs(gone)))

    def _needs(self, least: Fraction | None) -> dict[Key, tuple[Fraction, Fraction]]:
        """How far the range of each hidden cell must reach; those without a rule of that kind need two numbers."""
        values = self.published.truth
        found = {key: (values[key], values[key]) if key in values else NOTHING_NEEDED for key in self.targets}
        for need in self.drawn.needed if self.protects else ():
            low = need.lo if least is None else max(need.lo, least)
            lo, hi = found.get(need.key, (low, need.hi))
            found[need.key] = (min(lo, low), max(hi, need.hi))
        return found

    def _audit_proofs(self, gone: frozenset[Key]) -> list[frozenset[Key]]:
        """The shown cells that each proof of the auditor rests on."""
        found = self.audit(gone)
        used = [self._used(found, case) for case in self._about(found)]
        if not used and self.protects:
            narrow = {each.key for each in found.unprotected}
            used = [self._used(found, case) for case in found.ranges if found.cell(case) in narrow]
        return used or list(self._used_by_rule(found))

    def _used_by_rule(self, found: TablesVerdict) -> Iterator[frozenset[Key]]:
        """The shown cells that make a group of suppressed ones, of which somebody who knows the rule knows one."""
        known = {key for key, _ in found.by_rule}.intersection(self.targets)
        for group in group_tied_cells(found.hidden):
            if known.intersection(group.keys):
                values = found.hidden.publication.values
                yield frozenset(key for line in group.lines for key in line.cells if key in values)

    def _about(self, found: TablesVerdict) -> Iterator[Case]:
        wanted = set(self.targets)
        return (case for case in found if found.cell(case) in wanted)

    def _used(self, found: TablesVerdict, case: Case) -> frozenset[Key]:
        """The shown cells that a proof rests on."""
        hidden, argument = found.hidden, case.argument
        values = hidden.publication.values
        if argument.rule or argument.known or hidden.rounded:
            lines = [hidden.lines[int(q) - 1] for q in sorted(_queries(argument), key=int)]
            return frozenset(key for line in lines for key in line.cells if key in values)
        sides = [end.steps for end in argument.ends] or [argument.steps]
        used = [[(s.cited.number, s.weight) for s in side if s.cited.fact is None] for side in sides]
        parts = [[(hidden.lines[int(q) - 1], weight) for q, weight in part] for part in used]
        return frozenset(key for part in parts for key in combine_formula(part, values))

    # -- other ways ---------------------------------------------------------------------------------------------------

    def _effect(self, found: TablesVerdict) -> Effect:
        cases = list(self._about(found))
        narrow = [case for case in cases if case.status == INFERRED]
        ends = [(case.lo, case.hi) for case in narrow]
        widths = [Fraction(hi) - Fraction(lo) for lo, hi in ends if isinstance(lo, Decimal) and isinstance(hi, Decimal)]
        return Effect(len(cases) - len(narrow), len(narrow), min(widths, default=None), found.complete)

    def _coarser(self) -> Iterator[tuple[str, int, Effect]]:
        """Without one of several tables, or without one of several dimensions."""
        tables = self.published.tables
        for table in tables if len(tables) > 1 else ():
            elsewhere = {cell.key for other in tables if other is not table for cell in other.cells}
            gone = {key for key in self.published.values if key not in elsewhere}
            yield f"without {table.name}", len(gone), self._effect(self.audit(frozenset(gone)))
        columns = sorted({column for table in tables for column in table.columns})
        for column in columns if len(columns) > 1 else ():
            gone = {key for key in self.published.values if column in dict(key)}
            yield f"without {column}", len(gone), self._effect(self.audit(frozenset(gone)))

    def _rounded(self) -> Iterator[tuple[Fraction, Effect]]:
        """With all numbers rounded."""
        values = [case.value for case in self.found.exposed if isinstance(case.value, Decimal)]
        for step in (s for s in steps_for(values) if s > 1 or not self.published.whole):
            rounded = {key: round(v / step) * step for key, v in self.published.values.items()}
            made = replace(self.published, values=rounded, radii=dict.fromkeys(rounded, step / 2), said=True)
            found = judge(self._over(HiddenCells.of(made, self.drawn.hidden.value)), within=self.within, time_limit=10)
            yield step, self._effect(found)


@dataclass(frozen=True, slots=True, eq=False)
class ProtectedTables:
    """Tables that may be published: the files, the audit of what stands in them, and what their owner alone knows."""

    files: tuple[Path, ...]
    after: TablesVerdict
    made: Publication

    def owner_rows(self, sensitive: Sequence[Sensitive]) -> Rows:
        """Each suppressed cell with its number, why it is suppressed, and the range that everybody else can prove."""
        known, least = self.after.proved, None if self.after.least is None else Fraction(self.after.least)
        columns = sorted({column for key in self.made.cells for column, _ in key})
        rows: Rows = [[*columns, "number", "why", "least", "most"]]
        for key in self.made.hidden:
            held, marker = dict(key), self.made.cells[key].marker
            failed = ", ".join(str(each.rule) for each in sensitive if each.key == key)
            why = failed or ("to protect others" if marker == SUGGESTED else "suppressed before")
            number, lo, hi = (
                "" if end is None else format_fraction(end)
                for end in (self.made.truth.get(key), *known.get(key, (least, None)))
            )
            rows.append([*(held.get(column, "(total)") for column in columns), number, why, lo, hi])
        return rows


def write_protected_tables(
    drawn: Drawn, repair: Suggestion | None, words: TableOptions, path: Path, within: str | None = None
) -> ProtectedTables:
    """Write the tables as they may be published. They are read again and audited first: no finding may be left.

    Cells that were suppressed to protect others and follow from what is shown are shown.
    """
    made = drawn.hidden.publication if repair is None else repair.after.hidden.publication
    besides = set() if repair is None else {*repair.cells}
    while True:
        filled, after = _audit_as_written(drawn, made, words, path, within)
        found = {*(after.cell(case) for case in after), *(key for key, _ in after.by_rule)}
        if not found.intersection(besides):
            break
        made, besides = made.showing(found & besides), besides - found
    if after.exit_code == 1 or after.contradictions:
        raise ConfigError(
            f"nothing was written to {path.name}: of the tables as they would be published, {summarize_tables(after)}"
        )
    try:
        return ProtectedTables(tuple(write_tables(filled, path)), after, made)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _audit_as_written(
    drawn: Drawn, made: Publication, words: TableOptions, path: Path, within: str | None
) -> tuple[dict[str, Rows], TablesVerdict]:
    """The tables with all suppressed cells marked alike, and what somebody makes of the files who knows the rules."""
    suppressed = set(made.hidden)
    filled = fill_tables(
        drawn.sheets,
        made.tables,
        drawn.layout,
        lambda cell: None if made.nested.reduced(cell.key) in suppressed else cell.value,
    )
    again = replace(
        words,
        suppressed=[choose_marker(drawn.layout)],
        min="none" if drawn.floor is None else drawn.floor,
        rule=(),
        contributors=None,
        count=None,
        largest=(),
    )
    with tempfile.TemporaryDirectory() as folder:
        read = read_tables(write_tables(filled, Path(folder) / f"again{path.suffix}"), again)
    read = replace(read, rules=drawn.rules, sensitive=drawn.sensitive, untold=drawn.untold)
    return filled, judge(replace(read, limit=drawn.limit, needed=drawn.needed), within=within)


def write_rounded_tables(
    drawn: Drawn, words: TableOptions, step: Fraction, path: Path, time_limit: float | None = None
) -> list[Path]:
    """Write every number as one of the two multiples of `step` around it, so that all lines add up; audited before.

    Everybody is taken to know how it was done: a number is less than a step from what is shown. No cell that fails a
    rule may then be known exactly, nor in a narrower range than its rule needs.
    """
    publication = drawn.hidden.publication
    shown = {**publication.values, **publication.truth}
    if not drawn.rules or step <= 0:
        raise ConfigError("--round-to is a step above 0, and needs to know what to protect: add --rule")
    if publication.radius or publication.misfits or len(shown) < len(publication.cells):
        raise ConfigError("--round-to needs the exact number of every cell: no suppressed ones, and lines that add up")
    keys = list(dict.fromkeys((*shown, *(key for line in publication.lines for key in line.cells))))
    place = {key: k for k, key in enumerate(keys)}
    rows = [{**{place[key]: 1 for key in line.parts}, place[line.whole]: -1} for line in publication.lines]
    found = round_adjacent([shown.get(key) for key in keys], rows, step, time_limit or SECONDS)
    if found is None:
        raise ConfigError(
            f"nothing was written to {path.name}: no rounding of all numbers to multiples of {format_fraction(step)} "
            "around them was found that adds up in every line. Try another step, or --suggest"
        )
    numbers = {key: number for key, number in zip(keys, found, strict=True) if number is not None}
    filled = fill_tables(
        drawn.sheets,
        publication.tables,
        drawn.layout,
        lambda cell: expand_fraction(numbers[publication.nested.reduced(cell.key)], LONGEST),
    )
    again = replace(words, rounding="0", rule=(), contributors=None, count=None, largest=(), min="none")
    with tempfile.TemporaryDirectory() as folder:
        read = read_tables(write_tables(filled, Path(folder) / f"again{path.suffix}"), again)
    if read.hidden.publication.values != numbers or read.hidden.publication.misfits:
        raise ConfigError(f"nothing was written to {path.name}: what it would hold is not what was rounded")
    if fault := _judge_rounded(drawn, read.hidden.publication, step):
        raise ConfigError(
            f"nothing was written to {path.name}: with numbers rounded to {format_fraction(step)} {fault}"
        )
    try:
        return write_tables(filled, path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _judge_rounded(drawn: Drawn, rounded: Publication, step: Fraction) -> str:
    """What is against publishing rounded numbers; empty if nothing is."""
    whole = drawn.hidden.publication.whole and step.denominator == 1
    radii = dict.fromkeys(rounded.values, step - 1 if whole else step)
    truth = {**drawn.hidden.publication.values, **drawn.hidden.publication.truth}
    known = replace(rounded, radii=radii, said=True, truth=truth)
    failing = tuple(dict.fromkeys(each.key for each in drawn.sensitive))
    others = (*(key for key in known.values if key not in failing), *known.unpublished)
    cells = HiddenCells(known, (*failing, *others), len(failing), known.lines, drawn.hidden.value)
    found = judge(
        replace(drawn, hidden=cells, sensitive=(), needed=(), ranges={}, by_mark={}, limit=None, applied=False)
    )
    if found.exposed:
        return f"{len(found.exposed)} cells that fail a rule are known exactly; take a larger step"
    if failing and not found.complete:
        return f"it is not shown that cells that fail a rule stay open: {found.gap}"
    loose = {found.cell(case) for case in found.ranges if not case.tight}
    proved = found.proved
    narrow = [
        short
        for need in drawn.needed
        for short in need.against(proved.get(need.key) or known.ends(need.key), drawn.floor)
    ]
    if narrow or any(need.key in loose for need in drawn.needed):
        return f"{len(narrow) or 'some'} cells have a narrower range than their rule needs; take a larger step"
    return ""


def _until_stopped(ways: Iterator[Way]) -> tuple[Way, ...]:
    """All of them, or those that were judged when Ctrl-C was pressed."""
    found: list[Way] = []
    with contextlib.suppress(KeyboardInterrupt):
        found.extend(ways)
    return tuple(found)


def _queries(argument: Argument) -> set[str]:
    """The queries that a proof uses, and those that it rests on."""
    return set(argument.queries).union(*(_queries(case.argument) for case in argument.known))
