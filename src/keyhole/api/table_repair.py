"""Repair of published tables: the fewest further cells to suppress, and what coarser or rounded tables would do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from keyhole.api.tables import Drawn, judge
from keyhole.auditing.advice.advise import Effect, steps_for
from keyhole.auditing.advice.withhold import SECONDS, Remedy, withhold
from keyhole.crosstab.cells import Key
from keyhole.crosstab.hidden import HiddenCells, combine_formula, find_recovered_cells
from keyhole.report.cases import INFERRED, Argument, Case
from keyhole.report.tables import TablesVerdict

Way = TypeVar("Way")
SUGGESTED = "(suggested)"


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
    protects: bool = False  # it was to leave each sensitive cell the range that its rule asks for, too

    @property
    def verified(self) -> bool:
        """Does the audit of the repaired tables recover no cell, and is each protected where that was asked for?

        Cells that are suppressed besides need not stay unknown themselves: they may be shown.
        """
        unsafe = any(self.after.cell(case) not in self.cells for case in self.after)
        return self.remedy.enough and not unsafe and not (self.protects and self.after.unprotected)

    @property
    def given_back(self) -> int:
        """How many of the cells that are suppressed besides are recovered: no harm, as they might be shown."""
        return sum(self.after.cell(case) in self.cells for case in self.after)


class TableRepair:
    """The search for a repair of some tables; with `protects` until rules have the ranges that they ask for."""

    def __init__(
        self,
        drawn: Drawn,
        found: TablesVerdict,
        within: str | None = None,
        time_limit: float | None = None,
        *,
        protects: bool = False,
    ) -> None:
        self.drawn, self.found, self.within, self.time_limit = drawn, found, within, time_limit
        self.protects = protects
        self.published = drawn.hidden.publication
        self.targets = self.published.hidden
        self.last: dict[frozenset[Key], TablesVerdict] = {}

    def suggestion(self) -> Suggestion:
        """The smallest set of shown cells without which no hidden cell is recovered, exactly or nearly; verified."""
        found = withhold(self.proofs, seconds=self.time_limit or SECONDS)
        cells = tuple(key for key in self.published.cells if key in found.units)
        if found.stopped:
            return Suggestion(found, cells, self.found, protects=self.protects)
        after = self.last.get(found.units) or self.audit(found.units)
        coarser, rounded = _until_stopped(self._coarser()), _until_stopped(self._rounded())
        return Suggestion(found, cells, after, coarser, rounded, self.protects)

    def audit(self, gone: frozenset[Key]) -> TablesVerdict:
        """The audit of the tables without some cells."""
        made = self.published.hiding(gone, SUGGESTED)
        found = judge(self._over(HiddenCells.of(made, self.drawn.hidden.value)), within=self.within, time_limit=10)
        self.last[gone] = found
        return found

    def _over(self, hidden: HiddenCells) -> Drawn:
        return replace(self.drawn, hidden=hidden)

    def proofs(self, gone: frozenset[Key]) -> list[frozenset[Key]]:
        """The shown cells that each recovery of a hidden cell uses: by lines alone first, then by all rules."""
        quick = {} if self.published.radius else find_recovered_cells(self.published, gone, self.targets)
        if quick:
            return list(quick.values())
        found = self.audit(gone)
        used = [self._used(found, case) for case in self._about(found)]
        if used or not self.protects:
            return used
        narrow = {each.key for each in found.unprotected}
        return [self._used(found, case) for case in found.ranges if found.cell(case) in narrow]

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


def _until_stopped(ways: Iterator[Way]) -> tuple[Way, ...]:
    """All of them, or those that were judged when Ctrl-C was pressed."""
    found: list[Way] = []
    with contextlib.suppress(KeyboardInterrupt):
        found.extend(ways)
    return tuple(found)


def _queries(argument: Argument) -> set[str]:
    """The queries that a proof uses, and those that it rests on."""
    return set(argument.queries).union(*(_queries(case.argument) for case in argument.known))
