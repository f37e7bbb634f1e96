"""The page of published tables: which suppressed cells are given away, by which margins, and what rules say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyhole.report.charts.drawing import Drawing, draw_ranges
from keyhole.report.documents.tables import TablesDocument
from keyhole.report.documents.verdict import ExposedValue, Interval, VerdictDocument
from keyhole.report.html.audit import PICTURED, list_narrowest, make_span, render_audit_page, say_range
from keyhole.report.html.page import Tile, render_page

LISTED = 500


@dataclass(frozen=True, slots=True)
class CellCard:
    """What the page says of one cell that is given away."""

    cell: str
    known: str
    status: str
    why: Sequence[str]


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
    some = exact or near or sensitive or narrow
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
        cells=[*map(_make_card, verdict.exposed), *map(_make_card, verdict.inferred)],
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


def _draw_cell_ranges(verdict: TablesDocument) -> Drawing | None:
    spans = [span for item in verdict.intervals if (span := make_span(item, _name_cell(item.cell))) is not None]
    if not spans:
        return None
    some = f"the {PICTURED} narrowest of {len(spans):,}" if len(spans) > PICTURED else f"{len(spans)}"
    cells = "1 cell" if len(spans) == 1 else f"{some} cells"
    return draw_ranges(list_narrowest(spans), "", ("",), f"What the numbers shown leave of suppressed ones: {cells}.")


def _name_cell(cell: dict[str, str] | None) -> str:
    return ", ".join(f"{k} {v}" for k, v in (cell or {}).items()) or "the grand total"
