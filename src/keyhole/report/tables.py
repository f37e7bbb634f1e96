"""What published tables give away, as Python users meet it: the verdict over hidden cells, and its JSON."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from msgspec.structs import replace

from keyhole.crosstab.cells import Key, label
from keyhole.crosstab.hidden import ID, HiddenCells
from keyhole.crosstab.sensitivity import ProtectionInterval, Range, Sensitive, SensitivityRule, Unprotected
from keyhole.report.cases import INFERRED, OPEN, Case
from keyhole.report.documents.json_text import dumps, json_fraction, json_number, to_builtins
from keyhole.report.documents.tables import (
    CellByRule,
    ReadCell,
    ReadTable,
    SensitiveCell,
    TableContradiction,
    TablesDocument,
    UnevenLine,
    UnprotectedCell,
    UnroundedCell,
)
from keyhole.report.documents.verdict import ExposedValue, Interval
from keyhole.report.verdict import Verdict

E = TypeVar("E", ExposedValue, Interval)

NOT_JOINT = (
    "tables that share dimensions in a circle may give away more than their margins do, and that was not searched"
)
ROUNDING_READ_OFF = (
    "that numbers are rounded was read off margins that do not add up to the last digit, or off decimals; say "
    "--rounding STEP, or --rounding 0 if they are exact"
)
NOT_ADDING_UP = "the tables do not add up (if their numbers are rounded, --rounding STEP says to what)"


@dataclass(frozen=True, slots=True, eq=False)
class TablesVerdict:
    """Which hidden cells can be recovered, and why; iterate it for the cases.

    `verdict` is what the audit proved of the hidden cells, None if no line says anything of one. `sensitive` are cells
    that fail a rule; `applied`: the rules hid them here, before the audit; else those shown are findings. `blurred`:
    cells that lines give, and that rounding alone blurs: known nearly, unless `--within` said what nearly is.
    """

    hidden: HiddenCells
    verdict: Verdict | None
    rules: tuple[SensitivityRule, ...] = ()
    sensitive: tuple[Sensitive, ...] = ()
    untold: Mapping[SensitivityRule, int] = field(default_factory=dict)
    applied: bool = False
    least: Decimal | None = None  # no number is below it
    floor: bool = False  # hidden numbers are taken to be at least 0, since none shown is below it
    blurred: frozenset[Key] = frozenset()
    needed: tuple[ProtectionInterval, ...] = ()
    by_rule: tuple[tuple[Key, Fraction], ...] = ()  # what follows for somebody who knows the rule, besides
    unknown_by_rule: int = 0  # of so many cells that is not known

    def __iter__(self) -> Iterator[Case]:
        return iter((*self.exposed, *self.inferred))

    @property
    def exposed(self) -> tuple[Case, ...]:
        """Hidden cells whose number is known exactly."""
        return () if self.verdict is None else tuple(filter(self._published, self.verdict.plain.exposed))

    @property
    def inferred(self) -> tuple[Case, ...]:
        """Hidden cells whose number is known nearly."""
        if self.verdict is None:
            return ()
        near = [case for case in self._narrowed() if self.cell(case) in self.blurred]
        nearly = (dataclasses.replace(case, status=INFERRED) for case in near)
        return (*filter(self._published, self.verdict.plain.inferred), *nearly)

    @property
    def ranges(self) -> tuple[Case, ...]:
        """Hidden cells that stay open in a narrower range than was known."""
        return tuple(case for case in self._narrowed() if self.cell(case) not in self.blurred)

    @property
    def unrounded(self) -> tuple[Case, ...]:
        """Shown cells whose rounded number is one number only: what rounding hid of them is recovered."""
        plain = () if self.verdict is None else self.verdict.plain.exposed
        return tuple(case for case in plain if self.cell(case) in self.hidden.publication.values)

    def _narrowed(self) -> Iterator[Case]:
        return iter(()) if self.verdict is None else filter(self._published, self.verdict.plain.narrowed)

    def _published(self, case: Case) -> bool:
        return case.rows[0] <= self.hidden.published

    @property
    def shown(self) -> tuple[Sensitive, ...]:
        """Cells that fail a rule, and are shown all the same."""
        return tuple(each for each in self.sensitive if each.key in self.hidden.publication.values)

    @property
    def proved(self) -> dict[Key, Range]:
        """Between which numbers each hidden cell lies of which more is proved than was known."""
        return {self.cell(case): _ends(case) for case in (*self, *self.ranges)}

    @property
    def unprotected(self) -> tuple[Unprotected, ...]:
        """Hidden cells that fail a rule, in a narrower range than the rule asks for, and are not given away anyway."""
        known = self.proved
        given = {self.cell(case) for case in self}
        given |= self.hidden.publication.values.keys()
        needed = [need for need in self.needed if need.key not in given]
        return tuple(p for need in needed for p in need.against(known.get(need.key, (None, None)), self.least))

    @property
    def loosely(self) -> bool:
        """Does some hidden cell have an outer range, so that whether it is protected is not shown?"""
        cases = {self.cell(case) for case in self.ranges if not case.tight}
        return any(need.key in cases for need in self.needed)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What does not add up."""
        found = [m.reason for m in self.hidden.publication.misfits]
        if self.verdict is not None:
            found += [
                f"{_lined(c.reason)} ({'; '.join(map(self.line, c.queries))})" for c in self.verdict.contradictions
            ]
        return tuple(found)

    def line(self, query: str) -> str:
        """The line behind a query number, in words."""
        if not query.isdigit():
            return query
        line = self.hidden.lines[int(query) - 1]
        return f"line {query}: {label(line.whole)} = sum of its {len(line.parts)} cells by {line.column}"

    @property
    def gap(self) -> str:
        """Why the verdict is not complete, as the end of a sentence; else empty."""
        publication = self.hidden.publication
        if publication.misfits:
            return NOT_ADDING_UP
        if not self.hidden.published:
            return "" if self.rules and not any(self.untold.values()) else "no cell is suppressed, so none was judged"
        if self.verdict is None:
            return "no line says anything of a suppressed cell: is a total or a hierarchy missing (--total, --nested)?"
        if self.verdict.plain.gap:
            return self.verdict.plain.gap
        if any(self.untold.values()):
            return "a rule cannot be decided for some cells: too little is known of their contributors"
        if publication.radius and not publication.said:
            return ROUNDING_READ_OFF
        if self.unknown_by_rule:
            return f"what knowing the rule tells of {self.unknown_by_rule} suppressed cells was not found out"
        if self.loosely:
            return "the ranges of some sensitive cells are outer ones, so whether a rule protects them is not shown"
        bounded = self.hidden.rounded or any(
            p.lo is not None or p.hi is not None for p in self.verdict.plain.priors.values()
        )
        return NOT_JOINT if bounded and not publication.joint else ""

    @property
    def complete(self) -> bool:
        """Is every hidden cell that is not listed shown to be open?"""
        return not self.gap

    @property
    def exit_code(self) -> int:
        """0 nothing recovered, and complete; 1 some cell is recovered, exactly or nearly, or shown against a rule."""
        if self.exposed or self.inferred or self.shown or self.unprotected or self.by_rule:
            return 1
        return 0 if self.complete else 3

    def cell(self, case: Case) -> Key:
        """The cell that a case is about."""
        return self.hidden.keys[case.rows[0] - 1]

    def text(self, besides: Sequence[tuple[str, str]] = ()) -> str:
        """What `keyhole tables` prints; `besides` are the lines of a suggestion."""
        from keyhole.report.words.tables import render_tables

        return "\n".join(line.rstrip() for line, _ in render_tables(self, besides))

    def document(self) -> TablesDocument:
        """What `keyhole tables --format json` writes: the fields of an audit, about cells, so that `keyhole verify`
        replays them; see docs/tables.md.
        """
        from keyhole.report.words.tables import summarize_tables

        publication = self.hidden.publication
        audited = None if self.verdict is None else self.verdict.document()
        exposed = () if audited is None else tuple(self._about_cells(audited.exposed))
        intervals = () if audited is None else tuple(self._about_cells(audited.intervals))
        near = {label(self.cell(case)) for case in self.inferred}
        intervals = tuple(
            replace(each, status=INFERRED) if each.status == OPEN and each.record[ID] in near else each
            for each in intervals
        )
        return TablesDocument(
            tables=tuple(self._describe_tables()),
            cells=len(publication.cells),
            suppressed=self.hidden.published,
            lines=len(publication.lines),
            groups=() if audited is None else audited.groups,
            unjudged=() if audited is None else audited.unjudged,
            refused=() if audited is None else audited.refused,
            source={} if audited is None else to_builtins(audited.source),
            sentence=summarize_tables(self),
            records=None if audited is None else audited.records,
            people=None if audited is None else audited.people,
            queries=None if audited is None else audited.queries,
            statements=None if audited is None else audited.statements,
            complete=self.complete,
            atoms=None if audited is None else audited.atoms,
            rank=None if audited is None else audited.rank,
            promise="complete" if self.complete else f"sound, not complete: {self.gap}",
            assumed=None if audited is None else audited.assumed,
            exposed=exposed,
            by_assumption=None if audited is None else audited.by_assumption,
            features=None if audited is None else audited.features,
            grades=None if audited is None else audited.grades,
            rows=None if audited is None else audited.rows,
            intervals=intervals,
            contradictions=tuple(TableContradiction(reason=reason) for reason in self.contradictions),
            warnings=None if audited is None else audited.warnings,
            inferred=tuple(each for each in intervals if each.status == INFERRED),
            rules=tuple(map(str, self.rules)),
            rules_applied=self.applied,
            sensitive=tuple(
                SensitiveCell(cell=dict(sorted(s.key)), rule=str(s.rule), shown=s.key in publication.values)
                for s in self.sensitive
            ),
            protection=tuple(map(_describe_unprotected, self.unprotected)),
            by_rule=tuple(
                CellByRule(cell=dict(sorted(key)), value=json_fraction(value)) for key, value in self.by_rule
            ),
            rounding=json_fraction(2 * publication.radius),
            rounding_given=publication.said,
            uneven=tuple(UnevenLine(reason=m.reason, off=json_fraction(m.off)) for m in publication.uneven),
            unrounded=tuple(
                UnroundedCell(cell=dict(sorted(self.cell(case))), value=json_number(case.value))
                for case in self.unrounded
            ),
        )

    def _describe_tables(self) -> Iterator[ReadTable]:
        """The tables with what is said of each cell; of several things the worst."""
        publication = self.hidden.publication
        statuses = dict.fromkeys(publication.hidden, "suppressed")
        statuses |= dict.fromkeys((self.cell(case) for case in self.ranges), "narrowed")
        statuses |= dict.fromkeys((each.key for each in self.unprotected), "unprotected")
        statuses |= dict.fromkeys((self.cell(case) for case in self.inferred), "nearly")
        statuses |= dict.fromkeys((key for key, _ in self.by_rule), "by_rule")
        statuses |= dict.fromkeys((self.cell(case) for case in self.exposed), "recovered")
        statuses |= dict.fromkeys((each.key for each in self.shown), "against_rule")
        for table in publication.tables:
            content = []
            for cell in table.cells:
                key, held = publication.nested.reduced(cell.key), dict(cell.key)
                number = None if key not in publication.values else json_fraction(publication.values[key])
                content.append(
                    ReadCell(
                        categories=tuple(held.get(column) for column in table.columns),
                        cell=dict(sorted(key)),
                        number=number,
                        status=statuses.get(key, "shown"),
                    )
                )
            yield ReadTable(name=table.name, columns=table.columns, cells=len(content), content=tuple(content))

    def _about_cells(self, entries: Sequence[E]) -> Iterator[E]:
        """Entries of an audit about published cells, with the cell and, where it is recovered, why in its words."""
        from keyhole.report.words.tables import explain_cell

        published = {label(key): key for key in self.hidden.keys[: self.hidden.published]}
        proofs = {label(self.cell(case)): tuple(explain_cell(self, case)) for case in (*self, *self.ranges)}
        for entry in entries:
            name = str(entry.record[ID])
            if name in published:
                entry = replace(entry, cell=dict(sorted(published[name])))
                yield replace(entry, why=proofs[name]) if name in proofs else entry

    def to_json(self) -> dict[str, Any]:
        """The same as dicts and lists."""
        return to_builtins(self.document())

    def dumps(self) -> str:
        """The JSON text."""
        return dumps(self.document())

    def __repr__(self) -> str:
        return (
            f"<TablesVerdict: {len(self.exposed)} of {self.hidden.published} suppressed cells recovered exactly, "
            f"{len(self.inferred)} nearly>"
        )


def _ends(case: Case) -> Range:
    """What is proved of a cell."""
    ends = (case.lo, case.hi) if case.value is None else (case.value, case.value)
    lo, hi = (Fraction(end) if isinstance(end, Decimal | int) else None for end in ends)
    return lo, hi


def _lined(reason: str) -> str:
    """A contradiction in the words of tables: their questions are lines. Names of columns and categories stay.

    >>> _lined("Q2, Q10 and the max of Q4, 4 cannot all be true")
    'line 2, line 10 and the max of Q4, 4 cannot all be true'
    """
    return re.sub(r"(?<!of )(?<!['\"])\bQ(?=\d+\b)", "line ", reason)


def _describe_unprotected(cell: Unprotected) -> UnprotectedCell:
    return UnprotectedCell(
        cell=dict(sorted(cell.key)),
        rule=str(cell.rule),
        needs=(json_fraction(cell.needs[0]), json_fraction(cell.needs[1])),
        lo=json_fraction(cell.lo),
        hi=json_fraction(cell.hi),
    )
