"""The report of a watched stream: which statements were allowed, and which were held back and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.html.markup import Markup, folded, lines, table, tag
from keyhole.report.html.page import Section, Tile, page

LISTED = 2000
MOODS = {"allow": "good", "deny": "bad", "refused": "warn"}
TOLD = {"allow": "allowed", "deny": "denied", "refused": "refused"}


def stream_page(replies: Sequence[Mapping[str, Any]]) -> str:
    """One page of the lines that `keyhole watch --format json` prints."""
    counted = Counter(r["verdict"] for r in replies)
    said = ", ".join(f"{counted[v]:,} {TOLD[v]}" for v in TOLD if counted[v])
    sentence = f"Of {len(replies):,} statements: {said}." if replies else "No statement was asked."
    mood = "bad" if counted["deny"] else "warn" if counted["refused"] else "good"
    tiles = [Tile(f"{counted[v]:,}", TOLD[v], MOODS[v] if counted[v] else "") for v in TOLD]
    return page("watch", sentence, mood, [], tiles, _sections(replies))


def _sections(replies: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    held = [r for r in replies if r["verdict"] != "allow"]
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for reply in held:
        reasons.setdefault(f"{TOLD[reply['verdict']]}: {reply.get('reason') or ''}", []).append(reply)
    by_size = sorted(reasons.items(), key=lambda item: -len(item[1]))
    yield Section("What was held back", tuple(_held(reason, several) for reason, several in by_size))
    rows = [(f"Q{r['query']}", TOLD[r["verdict"]], tag("code", lines(r["sql"]))) for r in replies[:LISTED]]
    more = f" (the first {LISTED:,})" if len(replies) > LISTED else ""
    yield Section(
        "All statements", (folded(f"{len(replies):,}{more}", table(("", "", "statement"), rows)),) if rows else ()
    )


def _held(reason: str, several: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [(f"Q{r['query']}", tag("code", lines(r["sql"])), r.get("instead") or "") for r in several[:LISTED]]
    count = "1 statement" if len(several) == 1 else f"{len(several):,} statements"
    return folded(
        tag("b", f"{count} {reason}"),
        table(("", "statement", "would be allowed instead"), rows),
        open_=len(several) < 10,
    )
