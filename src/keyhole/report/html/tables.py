"""The page of published tables: which suppressed cells are given away, by which margins, and what rules say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keyhole.report.charts.drawing import Drawing, draw_ranges
from keyhole.report.documents.json_text import Value
from keyhole.report.documents.tables import ReadTable, TablesDocument
from keyhole.report.documents.verdict import ExposedValue, Interval, VerdictDocument
from keyhole.report.html.audit import PICTURED, list_narrowest, make_span, render_audit_page, say_range
from keyhole.report.html.page import Tile, render_page

LISTED = 500
ROWS = 2000  # of a table that the page shows
ACROSS = 12  # categories of the dimension that stands across the top
ALL = "(total)"
HIDDEN = "x"
KNOWING = "One cell of each group of suppressed ones fails the rule, and who knows the rule knows that."
MARKS = {
    "suppressed": "suppressed",
    "narrowed": "in a narrower range than was known",
    "unprotected": "in a narrower range than a rule needs",
    "nearly": "known nearly",
    "by_rule": "follows for who knows the rule",
    "recovered": "recovered",
    "against_rule": "shown against a rule",
    "besides": "to suppress besides",
}


@dataclass(frozen=True, slots=True)
class CellCard:
    """What the page says of one cell that is given away."""

    cell: str
    known: str
    status: str
    why: Sequence[str]


@dataclass(frozen=True, slots=True)
class MarkedCell:
    """A cell as the page shows it: its text, and a mark with its meaning."""

    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class MarkedTable:
    """A table with one dimension across the top, if it has several; `left` rows are not shown."""

    name: str
    head: Sequence[str]
    names: int  # columns of categories
    rows: Sequence[tuple[Sequence[str], Sequence[MarkedCell]]]
    left: int


def render_verdict_page(verdict: VerdictDocument | TablesDocument) -> str:
    """The page of a verdict file: of tables, or of a log."""
    return render_tables_page(verdict) if isinstance(verdict, TablesDocument) else render_audit_page(verdict)


def render_tables_page(verdict: TablesDocument, suggested: Sequence[str] = ()) -> str:
    """One page of what `keyhole tables --format json` says, with what was suggested."""
    exact, near = len(verdict.exposed), len(verdict.inferred)
    sensitive = [(_name_cell(s.cell), s.rule) for s in verdict.sensitive if s.shown]
    narrow = [
        (_name_cell(p.cell), p.rule, f"{p.needs[0]} to {p.needs[1]}", say_range(p.lo, p.hi)) for p in verdict.protection
    ]
    by_rule = [CellCard(_name_cell(c.cell), f"= {c.value}", "inferred", (KNOWING,)) for c in verdict.by_rule]
    some = exact or near or sensitive or narrow or by_rule
    marked = list(_mark_tables(verdict))
    used = {cell.mark for table in marked for _, cells in table.rows for cell in cells}
    several = "1 table" if len(verdict.tables) == 1 else f"{len(verdict.tables)} tables"
    return render_page(
        "tables.html.jinja",
        "published tables",
        verdict.sentence,
        mood="bad" if some else "good" if verdict.complete else "warn",
        notes=[f"{several}, {verdict.cells:,} cells, {verdict.lines:,} sums of cells."],
        tiles=[
            Tile(f"{verdict.suppressed:,}", "cells suppressed"),
            Tile(f"{exact:,}", "recovered exactly", "bad" if exact else "good"),
            Tile(f"{near:,}", "known nearly", "warn" if near else "good"),
            Tile("complete" if verdict.complete else "not complete", "are all others shown to be open?"),
        ],
        verdict=verdict,
        cells=[*map(_make_card, verdict.exposed), *map(_make_card, verdict.inferred), *by_rule],
        marked=marked,
        meanings=MARKS,
        marks=[(mark, meaning) for mark, meaning in MARKS.items() if mark in used],
        listed=LISTED,
        suggested=suggested,
        ranges=_draw_cell_ranges(verdict),
        sensitive=sensitive[:LISTED],
        narrow=narrow[:LISTED],
        uneven=verdict.uneven,
        tables=[(t.name, ", ".join(t.columns), f"{t.cells:,}") for t in verdict.tables],
    )


def _make_card(case: ExposedValue | Interval) -> CellCard:
    if isinstance(case, ExposedValue):
        return CellCard(_name_cell(case.cell), f"= {case.value}", "exposed", case.why)
    return CellCard(_name_cell(case.cell), say_range(case.lo, case.hi), case.status, case.why or ())


def _mark_tables(verdict: TablesDocument) -> Iterator[MarkedTable]:
    """The tables with a mark on each cell of which something is said."""
    known = {_name_cell(i.cell): _write_range(i.lo, i.hi) for i in verdict.intervals}
    known |= {_name_cell(each.cell): f"= {each.value}" for each in verdict.exposed}
    known |= {_name_cell(each.cell): f"= {each.value}" for each in verdict.by_rule}
    besides = set() if verdict.suggestion is None else set(map(_name_cell, verdict.suggestion.withhold))
    for table in verdict.tables:
        across = _choose_across(table)
        grid: dict[tuple[str, ...], dict[str, MarkedCell]] = {}
        for cell in table.content:
            name, names = _name_cell(cell.cell), [ALL if v is None else v for v in cell.categories]
            top = "" if across is None else names.pop(across)
            text = known.get(name, HIDDEN) if cell.number is None else str(cell.number)
            mark = "besides" if name in besides else "" if cell.status == "shown" else cell.status
            grid.setdefault(tuple(names), {})[top] = MarkedCell(text, mark)
        tops = list(dict.fromkeys(top for row in grid.values() for top in row))
        rows = [(side, [row.get(top, MarkedCell("")) for top in tops]) for side, row in grid.items()]
        sides = [column for k, column in enumerate(table.columns) if k != across]
        yield MarkedTable(
            table.name if across is None else f"{table.name}: {table.columns[across]} across",
            [*sides, *(["number"] if across is None else tops)],
            len(sides),
            rows[:ROWS],
            max(0, len(rows) - ROWS),
        )


def _choose_across(table: ReadTable) -> int | None:
    """The dimension with the fewest categories, if there are several dimensions and it has few."""
    sizes = [len({cell.categories[k] for cell in table.content}) for k in range(len(table.columns))]
    found = min(range(len(sizes)), key=sizes.__getitem__) if len(sizes) > 1 else None
    filled = found is not None and 2 * len(table.content) >= sizes[found] * len(
        {(*c.categories[:found], *c.categories[found + 1 :]) for c in table.content}
    )
    return found if found is not None and sizes[found] <= ACROSS and filled else None


def _write_range(lo: Value, hi: Value) -> str:
    if lo is None or hi is None:
        return HIDDEN if lo is None and hi is None else f"at least {lo}" if hi is None else f"at most {hi}"
    return f"{lo} to {hi}"


def _draw_cell_ranges(verdict: TablesDocument) -> Drawing | None:
    spans = [span for item in verdict.intervals if (span := make_span(item, _name_cell(item.cell))) is not None]
    if not spans:
        return None
    some = f"the {PICTURED} narrowest of {len(spans):,}" if len(spans) > PICTURED else f"{len(spans)}"
    cells = "1 cell" if len(spans) == 1 else f"{some} cells"
    return draw_ranges(list_narrowest(spans), "", ("",), f"What the numbers shown leave of suppressed ones: {cells}.")


def _name_cell(cell: dict[str, str] | None) -> str:
    return ", ".join(f"{k} {v}" for k, v in (cell or {}).items()) or "the grand total"
