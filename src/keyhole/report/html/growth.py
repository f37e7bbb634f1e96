"""How findings grew over a log: after which statement, by whose question, on which day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyhole.report.html.axes import Axis
from keyhole.report.html.charts import Series, line_chart
from keyhole.report.html.markup import Markup, name, table, tag


def growth(total: int, exposed: Sequence[Mapping[str, Any]], inferred: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """A chart over statements; tables by analyst and day, where the log has them."""
    series = []
    for status, cases in (("exposed", exposed), ("inferred", inferred)):
        at = sorted(n for n in map(_completed, cases) if n is not None)
        if at:
            points = [(0.0, 0.0), *((float(n), float(k)) for k, n in enumerate(at, 1))]
            points.append((float(max(total, at[-1])), float(len(at))))
            series.append(Series(status, list(dict(points).items()), style=status, stepped=True))
    if not series:
        return
    last = max(x for s in series for x, _ in s.points)
    top = max(y for s in series for _, y in s.points)
    axes = Axis("statement", 0, last, whole=True), Axis("findings", 0, max(1.0, top), whole=True)
    yield line_chart(series, *axes, "Findings that the log had completed after so many statements.", height=240)
    found = [*exposed, *inferred]
    yield from _counted("completed by a question of", (_said(f, "analyst") for f in found))
    yield from _counted("completed on", (_said(f, "time")[:10] for f in found), by_name=True)


def _counted(title: str, words: Iterator[str], *, by_name: bool = False) -> Iterator[Markup]:
    counts = Counter(word for word in words if word)
    if counts:
        rows = sorted(counts.items()) if by_name else counts.most_common()
        yield table((title, "findings"), [(name(word), f"{n:,}") for word, n in rows], numbers=(1,))


def _said(finding: Mapping[str, Any], key: str) -> str:
    first = finding.get("first")
    return str(first.get(key) or "") if isinstance(first, Mapping) else ""


def _completed(finding: Mapping[str, Any]) -> int | None:
    """The statement that completed a finding: what `first` says, else the last one of its proof."""
    first = finding.get("first")
    number = first.get("query") if isinstance(first, Mapping) else first
    numbers = [number] if number else [i["query"] for i in finding["proof"] if i.get("query")]
    return max((int(str(n).split(".")[0]) for n in numbers), default=None)


def first_said(first: Any) -> Markup:
    """`Q74, asked by Bo, at 2026-03-05`."""
    if not isinstance(first, Mapping):
        return tag("span", f"Q{first}")
    parts: list[object] = [f"Q{first.get('query')}"]
    for key, word in (("analyst", "asked by"), ("time", "at")):
        if first.get(key):
            parts += [f", {word} ", name(first[key])]
    return tag("span", *parts)
