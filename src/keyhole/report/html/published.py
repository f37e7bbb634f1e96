"""The report of published tables: which suppressed cells are given away, by which margins, and what rules say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.html.audit import findings, not_judged, ranges
from keyhole.report.html.markup import Markup, lines, table, tag
from keyhole.report.html.page import Section, Tile, page

LISTED = 500


def tables_page(found: Mapping[str, Any], sentence: str, suggested: Sequence[str] = ()) -> str:
    """One page of what `keyhole tables --format json` says, with what was suggested."""
    exact, near = len(found["exposed"]), len(found["inferred"])
    mood = "bad" if exact or near else "good" if found["complete"] else "warn"
    under = [f"{len(found['tables'])} tables, {found['cells']:,} cells, {found['lines']:,} sums that tie them."]
    tiles = [
        Tile(f"{found['suppressed']:,}", "cells suppressed"),
        Tile(f"{exact:,}", "recovered exactly", "bad" if exact else "good"),
        Tile(f"{near:,}", "recovered nearly", "warn" if near else "good"),
        Tile("complete" if found["complete"] else "not complete", "are all others shown to be open?"),
    ]
    return page("published tables", sentence, mood, under, tiles, _sections(found, suggested))


def _sections(found: Mapping[str, Any], suggested: Sequence[str]) -> Iterator[Section]:
    whole: dict[str, Any] = {"source": {"private": []}, "unjudged": [], "refused": [], "groups": [], **found}
    yield Section("Cells that are given away", tuple(findings(whole)))
    yield Section("What to withhold besides", (tag("pre", lines("\n".join(suggested))),) if suggested else ())
    yield Section("Ranges of suppressed cells", tuple(ranges(whole)))
    yield Section("Shown against a rule", tuple(_sensitive(found)))
    yield Section("What does not add up", tuple(not_judged(whole)))
    rows = [(t["name"], ", ".join(t["columns"]), f"{t['cells']:,}") for t in found["tables"]]
    promise = tag("p", f"Promise: {found['promise']}.")
    yield Section("What was read", (promise, table(("table", "dimensions", "cells"), rows, numbers=(2,))))


def _sensitive(found: Mapping[str, Any]) -> Iterator[Markup]:
    shown = [s for s in found["sensitive"] if s["shown"]]
    if shown:
        rows = [(", ".join(f"{k} = {v}" for k, v in s["cell"].items()), s["rule"]) for s in shown[:LISTED]]
        yield table(("cell", "rule"), rows)
