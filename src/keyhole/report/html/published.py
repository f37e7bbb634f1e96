"""The report of published tables: which suppressed cells are given away, by which margins, and what rules say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.html.audit import audit_page
from keyhole.report.html.charts import Narrowed, range_chart
from keyhole.report.html.markup import Markup, folded, lines, table, tag
from keyhole.report.html.page import Section, Tile, page

LISTED = 500
PICTURED = 40
INFINITE = float("inf")
STATUS = {"exposed": "recovered", "inferred": "known nearly"}


def verdict_page(found: Mapping[str, Any]) -> str:
    """The page of a verdict file: of tables, or of a log."""
    return tables_page(found) if "tables" in found else audit_page(found)


def tables_page(found: Mapping[str, Any], suggested: Sequence[str] = ()) -> str:
    """One page of what `keyhole tables --format json` says, with what was suggested."""
    exact, near, shown = len(found["exposed"]), len(found["inferred"]), [s for s in found["sensitive"] if s["shown"]]
    failing = len(shown) + len(found.get("protection", ()))
    mood = "bad" if exact or near or failing else "good" if found["complete"] else "warn"
    many = len(found["tables"])
    under = [
        f"{'1 table' if many == 1 else f'{many} tables'}, {found['cells']:,} cells, {found['lines']:,} sums of cells."
    ]
    tiles = [
        Tile(f"{found['suppressed']:,}", "cells suppressed"),
        Tile(f"{exact:,}", "recovered exactly", "bad" if exact else "good"),
        Tile(f"{near:,}", "known nearly", "warn" if near else "good"),
        Tile("complete" if found["complete"] else "not complete", "are all others shown to be open?"),
    ]
    return page("published tables", found["sentence"], mood, under, tiles, _sections(found, suggested))


def _sections(found: Mapping[str, Any], suggested: Sequence[str]) -> Iterator[Section]:
    yield Section("Cells that are given away", tuple(_given_away(found)))
    yield Section("What to suppress besides", (tag("pre", lines("\n".join(suggested))),) if suggested else ())
    yield Section("Ranges of suppressed cells", tuple(_ranges(found)))
    yield Section("What the rules say", tuple(_rules(found)))
    yield Section("What does not add up", tuple(_contradictions(found)))
    rows = [(t["name"], ", ".join(t["columns"]), f"{t['cells']:,}") for t in found["tables"]]
    promise = tag("p", f"Promise: {found['promise']}.")
    yield Section("What was read", (promise, table(("table", "dimensions", "cells"), rows, numbers=(2,))))
    replay = (
        "keyhole tables ... --format json --out verdict.json --cells cells.csv\nkeyhole verify verdict.json --data "
    )
    yield Section("How to check this yourself", (tag("pre", lines(f"{replay}cells.csv")),))


def _given_away(found: Mapping[str, Any]) -> Iterator[Markup]:
    cases = [*(f | {"status": "exposed"} for f in found["exposed"]), *found["inferred"]]
    if not cases:
        yield tag("p", "No suppressed cell is recovered.", class_="soft")
    for case in cases[:LISTED]:
        status = case["status"]
        head = tag("h3", f"{_cell(case)} {_known(case)}", tag("span", STATUS[status], class_=f"pill {status}"))
        why = (tag("pre", lines("\n".join(case["why"]))),) if case.get("why") else ()
        yield tag("div", head, *why, class_=f"card {status}")
    if len(cases) > LISTED:
        rows = [(_cell(case), _known(case)) for case in cases[LISTED:]]
        yield folded(f"{len(rows):,} more", table(("cell", "what is known"), rows))


def _ranges(found: Mapping[str, Any]) -> Iterator[Markup]:
    spans = [span for span in map(_span, found["intervals"]) if span is not None]
    if spans:
        spans.sort(key=lambda s: ({"exposed": 0, "inferred": 1}.get(s.status, 2), s.hi - s.lo))
        some = f"the {PICTURED} narrowest of {len(spans):,}" if len(spans) > PICTURED else f"{len(spans)}"
        cells = "1 cell" if len(spans) == 1 else f"{some} cells"
        yield range_chart(spans[:PICTURED], "", ("",), f"What the numbers shown leave of suppressed ones: {cells}.")


def _span(item: Mapping[str, Any]) -> Narrowed | None:
    """A range that says more than was known."""
    lo, hi = (end if item[name] is None else float(item[name]) for name, end in (("lo", -INFINITE), ("hi", INFINITE)))
    before = [end if at is None else float(at) for at, end in zip(item["prior"], (-INFINITE, INFINITE), strict=True)]
    if [lo, hi] == before or (lo == -INFINITE and hi == INFINITE):
        return None
    outer = "" if item.get("tight", True) else "outer, not shown to be reached"
    bounded = abs(before[0]) != INFINITE or abs(before[1]) != INFINITE
    return Narrowed(_cell(item), lo, hi, (before[0], before[1]) if bounded else None, item["status"], (outer,))


def _rules(found: Mapping[str, Any]) -> Iterator[Markup]:
    shown = [(_cell(s), s["rule"]) for s in found["sensitive"] if s["shown"]]
    if shown:
        yield tag("p", "Shown, though a rule says that too few or too large contributors stand behind the number:")
        yield table(("cell", "rule"), shown[:LISTED])
    short = [
        (_cell(p), p["rule"], f"{p['needs'][0]} to {p['needs'][1]}", _known(p)) for p in found.get("protection", ())
    ]
    if short:
        yield tag("p", "Suppressed, but in a narrower range than the rule asks for:")
        yield table(("cell", "rule", "needed", "what is known"), short[:LISTED])


def _contradictions(found: Mapping[str, Any]) -> Iterator[Markup]:
    for each in found["contradictions"][:LISTED]:
        yield tag("div", tag("h3", "Does not add up"), tag("p", each["reason"]), class_="card inferred")
    if found.get("uneven"):
        yield tag("p", "Off by no more than rounding explains:")
        yield table(("margin",), [(each["reason"],) for each in found["uneven"][:LISTED]])


def _cell(item: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in item["cell"].items()) or "the grand total"


def _known(case: Mapping[str, Any]) -> str:
    if case.get("status") == "exposed":
        return f"= {case.get('value', case.get('lo'))}"
    lo, hi = case.get("lo"), case.get("hi")
    return f"lies in [{'-∞' if lo is None else lo}, {'∞' if hi is None else hi}]"
