"""The page of published tables: which suppressed cells are given away, by which margins, and what rules say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyhole.report.charts.drawing import Drawing, draw_ranges
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


def render_verdict_page(verdict: Mapping[str, Any]) -> str:
    """The page of a verdict file: of tables, or of a log."""
    return render_tables_page(verdict) if "tables" in verdict else render_audit_page(verdict)


def render_tables_page(verdict: Mapping[str, Any], suggested: Sequence[str] = ()) -> str:
    """One page of what `keyhole tables --format json` says, with what was suggested."""
    exact, near = len(verdict["exposed"]), len(verdict["inferred"])
    sensitive = [(_name_cell(s), s["rule"]) for s in verdict["sensitive"] if s["shown"]]
    narrow = [
        (_name_cell(p), p["rule"], f"{p['needs'][0]} to {p['needs'][1]}", _say_known(p))
        for p in verdict.get("protection", ())
    ]
    some = exact or near or sensitive or narrow
    tables = verdict["tables"]
    several = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
    cases = [*(f | {"status": "exposed"} for f in verdict["exposed"]), *verdict["inferred"]]
    return render_page(
        "tables.html.jinja",
        "published tables",
        verdict["sentence"],
        mood="bad" if some else "good" if verdict["complete"] else "warn",
        notes=[f"{several}, {verdict['cells']:,} cells, {verdict['lines']:,} sums of cells."],
        tiles=[
            Tile(f"{verdict['suppressed']:,}", "cells suppressed"),
            Tile(f"{exact:,}", "recovered exactly", "bad" if exact else "good"),
            Tile(f"{near:,}", "known nearly", "warn" if near else "good"),
            Tile("complete" if verdict["complete"] else "not complete", "are all others shown to be open?"),
        ],
        verdict=verdict,
        cells=[CellCard(_name_cell(c), _say_known(c), c["status"], c.get("why") or ()) for c in cases],
        listed=LISTED,
        suggested=suggested,
        ranges=_draw_cell_ranges(verdict),
        sensitive=sensitive[:LISTED],
        narrow=narrow[:LISTED],
        uneven=verdict.get("uneven") or (),
        tables=[(t["name"], ", ".join(t["columns"]), f"{t['cells']:,}") for t in tables],
    )


def _draw_cell_ranges(verdict: Mapping[str, Any]) -> Drawing | None:
    spans = [span for item in verdict["intervals"] if (span := make_span(item, _name_cell(item))) is not None]
    if not spans:
        return None
    some = f"the {PICTURED} narrowest of {len(spans):,}" if len(spans) > PICTURED else f"{len(spans)}"
    cells = "1 cell" if len(spans) == 1 else f"{some} cells"
    return draw_ranges(list_narrowest(spans), "", ("",), f"What the numbers shown leave of suppressed ones: {cells}.")


def _name_cell(item: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in item["cell"].items()) or "the grand total"


def _say_known(case: Mapping[str, Any]) -> str:
    if case.get("status") == "exposed":
        return f"= {case.get('value', case.get('lo'))}"
    return say_range(case.get("lo"), case.get("hi"))
