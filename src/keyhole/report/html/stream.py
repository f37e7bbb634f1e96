"""The report of a watched stream: which statements were allowed, and which were held back and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.admission import formula
from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Series, line_chart
from keyhole.report.html.markup import Markup, folded, lines, name, table, tag
from keyhole.report.html.page import Section, Tile, page
from keyhole.report.words.sentence import counted

LISTED = 2000
MOODS = {"allow": "good", "deny": "warn", "refused": "warn", "published": "", "unjudged": "warn"}
TOLD = {
    "allow": "allowed",
    "deny": "denied",
    "refused": "refused",
    "published": "entered as published",
    "unjudged": "not represented",
}
STYLES = {"allow": "s2", "deny": "exposed", "refused": "inferred", "published": "s0", "unjudged": "inferred"}


def stream_page(replies: Sequence[Mapping[str, Any]]) -> str:
    """One page of the lines that `keyhole watch --format json` prints."""
    found = Counter(r["verdict"] for r in replies)
    exposing = sum(bool(r.get("who")) and r["verdict"] == "published" for r in replies)
    said = ", ".join(f"{found[v]:,} {TOLD[v]}" for v in TOLD if found[v])
    sentence = f"Of {counted(len(replies), 'statement')}: {said}." if replies else "No statement was asked."
    if exposing:
        sentence += f" {counted(exposing, 'statement')} {'exposes' if exposing == 1 else 'expose'} somebody."
    mood = "bad" if exposing else "warn" if found["deny"] or found["refused"] or found["unjudged"] else "good"
    tiles = [Tile(f"{found[v]:,}", TOLD[v], MOODS[v] if found[v] else "") for v in TOLD if found[v] or v == "allow"]
    under = ["Each was decided before it was answered, from what is public and what was answered before."]
    under = under if not (found["published"] or found["unjudged"]) else []
    return page("watch", sentence, mood, under, tiles, _sections(replies))


def _sections(replies: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    reasons: dict[str, list[Mapping[str, Any]]] = {}
    for reply in replies:
        if reply["verdict"] in ("deny", "refused", "unjudged") or reply.get("who"):
            reasons.setdefault(f"{TOLD[reply['verdict']]}: {reply.get('reason') or ''}", []).append(reply)
    by_size = sorted(reasons.items(), key=lambda item: -len(item[1]))
    yield Section("What was held back, and why", tuple(_held(reason, several) for reason, several in by_size))
    yield Section("Over the stream", tuple(_over(replies)))
    rows = [(f"Q{r['query']}", TOLD[r["verdict"]], tag("code", lines(r["sql"]))) for r in replies[:LISTED]]
    more = f" (the first {LISTED:,})" if len(replies) > LISTED else ""
    all_of_them = folded(f"{counted(len(replies), 'statement')}{more}", table(("", "", "statement"), rows))
    yield Section("All statements", (all_of_them,) if rows else ())


def _held(reason: str, several: Sequence[Mapping[str, Any]]) -> Markup:
    """Those with one reason; with `--explain`, whom each would expose and how."""
    instead = any(r.get("instead") for r in several)
    who = any(r.get("who") for r in several)
    head = ["", "statement", *(["would be allowed instead"] if instead else []), *(["would expose"] if who else [])]
    rows = []
    for r in several[:LISTED]:
        row: list[object] = [f"Q{r['query']}", tag("code", lines(r["sql"]))]
        row += [tag("code", lines(r.get("instead") or ""))] if instead else []
        row += [tag("div", *map(_person, r.get("who") or []), _proof(r))] if who else []
        rows.append(row)
    title = tag("b", f"{counted(len(several), 'statement')} {reason}")
    return folded(title, table(head, rows), open_=len(several) < 10)


def _person(item: Mapping[str, Any]) -> Markup:
    to = f", to {_name(item['insider'])}" if item.get("insider") else ""
    return tag("div", name(_name(item["record"])), f": {item.get('form') or item['column']}{to}")


def _proof(reply: Mapping[str, Any]) -> Markup:
    steps = reply.get("proof") or []
    return tag("code", formula(list(steps)), class_="small") if steps else tag("span")


def _name(record: Mapping[str, Any]) -> str:
    return ", ".join(f"row {v}" if k == "row" else str(v) for k, v in record.items())


def _over(replies: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """How many of each verdict there were after so many statements."""
    if len(replies) < 2:
        return
    so_far: Counter[str] = Counter()
    drawn: dict[str, list[tuple[float, float]]] = {r["verdict"]: [(0.0, 0.0)] for r in replies}
    for place, reply in enumerate(replies, 1):
        so_far[reply["verdict"]] += 1
        drawn[reply["verdict"]].append((float(place), float(so_far[reply["verdict"]])))
    end = float(len(replies))
    series = [
        Series(TOLD[v], list(dict([*drawn[v], (end, drawn[v][-1][1])]).items()), STYLES[v], stepped=True)
        for v in TOLD
        if v in drawn
    ]
    x, y = Axis("statement", 0, end, whole=True), Axis("statements so far", 0, max(so_far.values()), whole=True)
    yield line_chart(series, x, y, "How many were allowed and held back after so many statements.", height=240)
