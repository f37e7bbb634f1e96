"""The report of an attack on a live target that says yes or no: what was learnt, and what of it is certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from keyhole.report.html.charts import Narrowed, range_chart
from keyhole.report.html.markup import folded, name, table
from keyhole.report.html.page import Section, Tile, page

PICTURED = 40
LISTED = 3000


def learnt_page(found: Mapping[str, Any], certain: str) -> str:
    """One page of what `keyhole attack --oracle --format json` says; `certain` is what is certified, in a sentence."""
    entries = found["estimates"]
    sentence = f"{len(entries):,} hidden numbers were estimated from {found['asked']:,} yes/no answers."
    tiles = [
        Tile(f"{found['asked']:,}", "answers"),
        Tile(f"{found['recalled']:,}", "of them from the record"),
        Tile(f"{found['not_asked']:,}", "queries not asked"),
    ]
    noise = f"{found['method']}; noise: {found['noise']}{', measured' if found['noise_measured'] else ''}."
    rests = [f"If {c['claim']} ({'' if c['checked'] else 'not '}checked: {c['how']})." for c in found["conditions"]]
    under = [noise, f"{certain[:1].upper()}{certain[1:]}.", *rests, *found["notes"]]
    return page("attack on an oracle", sentence, "", under, tiles, _sections(found))


def _certified(entry: Mapping[str, Any]) -> bool:
    return entry["low"] is not None and entry["high"] is not None


def _end(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _sections(found: Mapping[str, Any]) -> Iterator[Section]:
    entries = found["estimates"]
    spans = [Narrowed(str(e["entry"]), e["low"], e["high"], None, "open") for e in entries[:PICTURED] if _certified(e)]
    shown = f" (the first {PICTURED})" if len(entries) > PICTURED else ""
    if spans:
        caption = f"The certified range of each entry{shown}."
        yield Section("Certified ranges", (range_chart(spans, "value", (), caption),))
    rows = [(name(e["entry"]), f"{e['value']:.6g}", _end(e["low"]), _end(e["high"])) for e in entries[:LISTED]]
    listed = table(("entry", "estimate", "certified: from", "to"), rows, numbers=(1, 2, 3))
    yield Section("Estimates", (folded(f"{len(entries):,} entries", listed, open_=len(entries) <= 50),))
    told = [
        (str(k), f"{p['answer']:.6g}", _end(p["low"]), _end(p["high"]))
        for k, p in enumerate(found["predictions"][:LISTED], 1)
    ]
    if told:
        yield Section("Answers to test queries", (table(("test", "answer", "from", "to"), told, numbers=(1, 2, 3)),))
