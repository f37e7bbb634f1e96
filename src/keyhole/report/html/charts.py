"""Charts as SVG inside the page: they need no script, follow light and dark, print, and have a table behind them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from keyhole.report.html.axes import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Axis, frame, short
from keyhole.report.html.markup import Markup, folded, join, name, table, tag

COLOURS = 8
ROW = 22
NAMED = 30  # rows of a heat map that are named beside it


@dataclass(frozen=True, slots=True)
class Series:
    """A line through points; `style` is a class of the style sheet, else its own colour; bands are lo and hi of y."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str = ""
    stepped: bool = False
    dots: bool = False
    bands: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What was known of one person before (`prior`) and is now (`lo` to `hi`)."""

    who: str
    lo: float
    hi: float
    prior: tuple[float, float] | None
    status: str
    told: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart before it is put anywhere: its marks, what it says, the numbers behind it, the meaning of its colours."""

    marks: Markup
    height: int
    caption: str
    behind: Markup
    key: tuple[tuple[str, str], ...] = ()

    def figure(self) -> Markup:
        """For a page: a picture with its caption, the meaning of its colours, and its numbers as a table."""
        said = join(tag("span", tag("i", class_=style), what) for style, what in self.key)
        parts = [tag("div", said, class_="key")] if said else []
        size = f"0 0 {WIDTH} {self.height}"
        picture = tag("svg", self.marks, viewBox=size, role="img", aria_label=self.caption)
        parts += [tag("div", picture, class_="plot"), tag("figcaption", self.caption)]
        return tag("figure", *parts, folded("As a table", self.behind))


def line_chart(series: Sequence[Series], x: Axis, y: Axis, caption: str, *, height: int = 300) -> Markup:
    """Lines, steps or dots over two axes, for a page."""
    return line_drawing(series, x, y, caption, height=height).figure()


def line_drawing(series: Sequence[Series], x: Axis, y: Axis, caption: str, *, height: int = 300) -> Drawing:
    """Lines, steps or dots over two axes."""
    styles = [each.style or f"s{k % COLOURS}" for k, each in enumerate(series)]
    marks = [frame(x, y, height)]
    for each, style in zip(series, styles, strict=True):
        marks += _marks(each, style, x, y, height)
    rows = [(each.name, _said(px), _said(py)) for each in series for px, py in each.points]
    behind = table(("", x.title, y.title), rows, numbers=(1, 2))
    key = tuple((style, each.name) for each, style in zip(series, styles, strict=True))
    return Drawing(join(marks), height, caption, behind, key if len(key) > 1 else ())


def _marks(each: Series, style: str, x: Axis, y: Axis, height: int) -> list[Markup]:
    places = [(x.at(px, LEFT, WIDTH - RIGHT), y.at(py, height - BOTTOM, TOP)) for px, py in each.points]
    found = []
    if each.bands:
        upper = [(x.at(px, LEFT, WIDTH - RIGHT), y.at(hi, height - BOTTOM, TOP)) for px, _, hi in each.bands]
        lower = [(x.at(px, LEFT, WIDTH - RIGHT), y.at(lo, height - BOTTOM, TOP)) for px, lo, _ in each.bands]
        found.append(tag("path", d=_path([*upper, *reversed(lower)]) + "Z", class_=f"band {style}"))
    if not each.dots:
        found.append(tag("path", d=_path(_stepped(places) if each.stepped else places), class_=f"line {style}"))
    if each.dots or len(places) <= 40:
        often = Counter(places)
        most = max(often.values(), default=1)
        for (px, py), times in often.items():  # the more points at one place, the larger the dot
            size = 3 if most == 1 or not each.dots else round(3 + 9 * math.sqrt(times / most), 1)
            found.append(tag("circle", cx=px, cy=py, r=size, class_=style, fill_opacity=0.75))
    return found


def _stepped(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found = list(places[:1])
    for px, py in places[1:]:
        found += [(px, found[-1][1]), (px, py)]
    return found


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if k else 'M'}{px:g} {py:g}" for k, (px, py) in enumerate(places))


def range_chart(spans: Sequence[Narrowed], what: str, head: Sequence[str], caption: str) -> Markup:
    """A bar from lo to hi for each person, over the bar of what was known before; infinite ends fade at the edge."""
    known = [v for s in spans for v in (s.lo, s.hi, *(s.prior or ())) if abs(v) != float("inf")]
    axis = Axis.of(what, known)
    room = min(220, 20 + 7 * max(len(s.who) for s in spans))
    height = TOP + ROW * len(spans) + BOTTOM
    floor = height - BOTTOM
    marks = []
    for tick in axis.ticks(5):
        at = axis.at(tick, room, WIDTH - RIGHT)
        marks.append(tag("line", x1=at, x2=at, y1=TOP, y2=floor, class_="grid"))
        marks.append(tag("text", short(tick), x=at, y=floor + 18, text_anchor="middle"))
    marks.append(tag("text", what, x=(room + WIDTH) / 2, y=height - 6, text_anchor="middle"))
    for k, span in enumerate(spans):
        at = TOP + ROW * k + ROW / 2
        shown = span.who if len(span.who) <= 28 else span.who[:27] + "…"
        marks.append(
            tag("text", shown, x=room - 8, y=at + 4, text_anchor="end", class_="label", unicode_bidi="isolate")
        )
        if span.prior is not None:
            marks.append(_bar(axis, room, at, span.prior, "prior", 10))
        title = tag("title", f"{span.who}: {_ends(span)}")
        if span.lo == span.hi:
            marks.append(
                tag("g", title, tag("circle", cx=axis.at(span.lo, room, WIDTH - RIGHT), cy=at, r=5, class_=span.status))
            )
        else:
            marks.append(tag("g", title, _bar(axis, room, at, (span.lo, span.hi), span.status, 6)))
    rows = [(name(s.who), *_before(s), _said(s.lo), _said(s.hi), *s.told) for s in spans]
    behind = table(("who", "known before: from", "to", "now: from", "to", *head), rows, numbers=(1, 2, 3, 4))
    if all(s.prior is None for s in spans):
        rows = [(name(s.who), _said(s.lo), _said(s.hi), *s.told) for s in spans]
        behind = table(("", "from", "to", *head), rows, numbers=(1, 2))
    told = any(s.prior is not None for s in spans) or any(s.status not in ("open", "limit") for s in spans)
    key = [("prior", "known before")] if any(s.prior is not None for s in spans) else []
    key += [(s, s) for s in ("exposed", "inferred", "open", "limit") if any(x.status == s for x in spans)]
    return Drawing(join(marks), height, caption, behind, tuple(key) if told else ()).figure()


def _bar(axis: Axis, room: int, y: float, ends: tuple[float, float], style: str, thick: int) -> Markup:
    left, right = (axis.at(v, room, WIDTH - RIGHT) for v in ends)
    return tag(
        "line", x1=left, x2=max(right, left + 1), y1=y, y2=y, stroke_width=thick, class_=style, stroke_linecap="round"
    )


def _before(span: Narrowed) -> tuple[str, str]:
    return (_said(span.prior[0]), _said(span.prior[1])) if span.prior else ("", "")


def _ends(span: Narrowed) -> str:
    return f"{_said(span.lo)} to {_said(span.hi)}" if span.lo != span.hi else f"= {_said(span.lo)}"


def heat_map(
    shares: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    caption: str,
) -> Markup:
    """One square for each row and column, the darker the larger its share (0 to 1); few rows have their name beside."""
    named = len(rows) <= NAMED
    room = 90 if named else LEFT
    step = min(40.0, (WIDTH - room - RIGHT) / max(1, len(columns)))
    tall = min(26.0, max(5.0, 420 / max(1, len(rows))))
    height = round(TOP + tall * len(rows) + BOTTOM)
    marks = []
    for i, row in enumerate(shares):
        if named:
            at = round(TOP + (i + 0.5) * tall + 4, 2)
            marks.append(tag("text", rows[i], x=room - 8, y=at, text_anchor="end", class_="label"))
        for j, share in enumerate(row):
            title = tag("title", f"{rows[i]}, {columns[j]}: {share:.0%}")
            place = {"x": round(room + j * step, 2), "y": round(TOP + i * tall, 2)}
            size = {"width": round(step * 0.94, 2), "height": round(tall * 0.92, 2)}
            opacity = 0.05 if share == 0 else round(0.2 + 0.8 * share, 2)
            marks.append(tag("rect", title, **place, **size, class_="heat", fill_opacity=opacity))
    marks.append(tag("text", titles[0], x=room, y=height - 22))
    if not named:
        middle = TOP + tall * len(rows) / 2
        turned = f"translate(40,{middle}) rotate(-90)"
        marks.append(tag("text", titles[1], x=0, y=0, text_anchor="middle", transform=turned))
    body = [(row, *(f"{s:.0%}" if s else "" for s in shared)) for row, shared in zip(rows, shares, strict=True)]
    return Drawing(join(marks), height, caption, table(("", *columns), body)).figure()


def _said(value: float) -> str:
    return "-∞" if value == float("-inf") else "∞" if value == float("inf") else f"{value:.10g}"
