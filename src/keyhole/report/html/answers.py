"""The report of private answers: each number with its bar, what it cost, and what is left of the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Narrowed, Series, line_chart, range_chart
from keyhole.report.html.fragment import fragment
from keyhole.report.html.markup import Markup, lines, table, tag
from keyhole.report.html.page import Section, Tile, page
from keyhole.report.words.digits import with_bar
from keyhole.report.words.sentence import counted

PICTURED = 40


def answers_page(found: Mapping[str, Any]) -> str:
    """One page of what `keyhole answer --format json` or a private `keyhole ask --format json` says."""
    replies = found.get("answers") or found.get("replies") or []
    told = [r for r in replies if "refused" not in r and r.get("outcome") not in ("deny", "refused")]
    refused = len(replies) - len(told)
    how = " with noise" if found.get("policy", "private") == "private" else ""
    were = "was" if len(told) == 1 else "were"
    sentence = f"{len(told):,} of {counted(len(replies), 'statement')} {were} answered{how}."
    if found.get("dry_run"):
        sentence = f"What {counted(len(replies), 'statement')} would cost; nothing was spent."
    mood = "warn" if refused else "good"
    return page("answers", sentence, mood, [], list(_tiles(found, replies, refused)), _sections(replies))


def answers_fragment(found: Mapping[str, Any]) -> str:
    """The same for a notebook: each answer, and the bars."""
    replies = found.get("answers") or found.get("replies") or []
    spans = [span for number, reply in enumerate(replies, 1) for span in _spans(number, reply)]
    cards = [_card(number, reply) for number, reply in enumerate(replies[:PICTURED], 1)]
    return fragment(*cards, range_chart(spans[:PICTURED], "answer", (), "Each answer with its bar.") if spans else "")


def _tiles(found: Mapping[str, Any], replies: Sequence[Mapping[str, Any]], refused: int) -> Iterator[Tile]:
    unit = found.get("unit", "epsilon")
    if found.get("spent") is not None:
        yield Tile(f"{found['spent']:.4g}", f"{unit} spent so far")
    left = next((r["left"] for r in reversed(replies) if r.get("left") is not None), None)
    if left is not None:
        yield Tile(f"{left:.4g}", f"{unit} left", "warn" if left == 0 else "")
    cost = sum(r.get("cost") or 0 for r in replies)
    yield Tile(f"{cost:.4g}", f"{unit} for these statements")
    if refused:
        yield Tile(str(refused), "refused", "warn")


def _sections(replies: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    yield Section("Answers", tuple(_card(number, reply) for number, reply in enumerate(replies, 1)))
    spans = [span for number, reply in enumerate(replies, 1) for span in _spans(number, reply)]
    if spans:
        caption = f"Each answer with its bar{'' if len(spans) <= PICTURED else f' (the first {PICTURED})'}."
        yield Section("Bars", (range_chart(spans[:PICTURED], "answer", (), caption),))
    left = [(float(k), float(r["left"])) for k, r in enumerate(replies, 1) if r.get("left") is not None]
    if len(left) > 1:
        start = left[0][1] + float(replies[int(left[0][0]) - 1].get("cost") or 0)
        points = [(left[0][0] - 1, start), *left]
        x, y = Axis("statement", points[0][0], left[-1][0], whole=True), Axis("left", 0, max(v for _, v in points) or 1)
        drawn = line_chart(
            [Series("budget", points, stepped=True)], x, y, "The budget after each statement.", height=240
        )
        yield Section("Budget", (drawn,))


def _card(number: int, reply: Mapping[str, Any]) -> Markup:
    parts = [tag("h3", f"{number}. ", tag("code", lines(" ".join(str(reply["sql"]).split()))))]
    if reply.get("refused") or reply.get("reason"):
        first, _, rest = str(reply.get("refused") or reply.get("reason")).partition("\n")
        parts.append(tag("p", f"Refused: {first}"))
        parts += [tag("pre", lines(rest))] if rest else []
        return tag("div", *parts, class_="card inferred")
    if "groups" in reply:
        rows = [
            (", ".join(f"{k} = {v}" for k, v in g["key"].items()), *_numbers(g["values"], g.get("error")))
            for g in reply["groups"]
        ]
        width = max((len(row) for row in rows), default=1)
        head = ("group", *("" for _ in range(width - 1)))
        parts.append(table(head, rows, numbers=range(1, width)))
    elif "value" in reply:
        value, *bar = _numbers([reply["value"]], [reply.get("error")] if "error" in reply else None)
        ranks = f" (its rank is within {reply['ranks']} people)" if reply.get("ranks") is not None else ""
        parts.append(tag("p", tag("b", value), f" {bar[0]}" if bar and bar[0] else "", ranks))
    told = [f"cost {reply['cost']:.4g}" if reply.get("cost") is not None else "", reply.get("neighbours", "")]
    told += [f"bars hold with probability {1 - reply['beta']:g}"] if reply.get("beta") is not None else []
    told += [reply.get("how", "")]
    parts.append(tag("p", "; ".join(str(t) for t in told if t), class_="soft small"))
    parts += [tag("p", note, class_="soft small") for note in reply.get("notes", [])]
    return tag("div", *parts, class_="card")


def _spans(number: int, reply: Mapping[str, Any]) -> Iterator[Narrowed]:
    alone = {"key": {}, "values": [reply.get("value")], "error": [reply.get("error")]}
    groups = reply.get("groups") or [alone]
    for group in groups:
        for value, bar in zip(group["values"], group.get("error") or [], strict=False):
            if value is not None and bar is not None:
                key = ", ".join(str(v) for v in group["key"].values())
                yield Narrowed(f"{number}. {key}".strip(), value - bar, value + bar, None, "open")


def _numbers(values: Sequence[Any], errors: Sequence[Any] | None) -> list[str]:
    """Values and their bars as the command line shows them: cut to what the bar lets one see."""
    if errors is None:
        return list(map(_number, values))
    pairs = [with_bar(v, e) if v is not None and e is not None else None for v, e in zip(values, errors, strict=True)]
    shown = [_number(v) if p is None else p[0] for v, p in zip(values, pairs, strict=True)]
    return [*shown, *("" if p is None else f"± {p[1]}" for p in pairs)]


def _number(value: Any) -> str:
    return "NULL" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
