"""Kinds of charts: lines over two axes, ranges of people, bars, and a map of shares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from keyhole.report.charts.svg import (
    BOTTOM,
    HEAD,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Markup,
    draw_axes,
    draw_value_axis,
    join,
    tag,
)

COLOURS = 8
ROW = 36  # a name, and its bar below it
BAR = 26  # from the top of a row to the middle of its bar
EDGE = 8
LONGEST_NAME = 64
NAMED = 30  # rows of a map that are named beside it
TITLE_HEIGHT = 26  # of a chart that stands alone
KEY_HEIGHT = 18  # of a line of its key


@dataclass(frozen=True, slots=True)
class Series:
    """A line through points; `style` is a class of the style sheet, else its own colour."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str = ""
    stepped: bool = False
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """What was known of one person before (`prior`) and is now (`lo` to `hi`); `notes` stand in the table behind it."""

    who: str
    lo: float
    hi: float
    prior: tuple[float, float] | None
    status: str
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart: its marks, what it says, the table of its numbers, and the meaning of its colours."""

    marks: Markup
    height: int
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numeric: Sequence[int] = ()  # columns of the table that are aligned to the right
    key: tuple[tuple[str, str], ...] = ()  # style, meaning

    @property
    def svg(self) -> Markup:
        """The picture for a page, which has the style sheet, the caption and the key."""
        size = f"0 0 {WIDTH} {self.height}"
        return tag("svg", self.marks, viewBox=size, role="img", aria_label=self.caption)

    def stand_alone(self, title: str) -> str:
        """The picture as a file: with its own style, title and key, light or dark as the reader's."""
        above = TITLE_HEIGHT + KEY_HEIGHT * ((len(self.key) + 1) // 2)
        height = above + self.height
        body = (
            tag("title", self.caption),
            tag("style", Markup(read_chart_style())),
            tag("rect", width=WIDTH, height=height, style="fill: var(--paper)"),
            tag("text", title, x=LEFT, y=18, class_="label", style="font-weight: 600; font-size: 14px"),
            join(_draw_key_entry(k, style, meaning) for k, (style, meaning) in enumerate(self.key)),
            tag("g", self.marks, transform=f"translate(0,{above})"),
        )
        size = {"width": WIDTH, "height": height, "viewBox": f"0 0 {WIDTH} {height}"}
        return tag("svg", *body, xmlns="http://www.w3.org/2000/svg", role="img", **size) + "\n"


@cache
def read_chart_style() -> str:
    """Colours, and the style of charts."""
    return files("keyhole.report.charts").joinpath("chart.css").read_text(encoding="utf-8")


def _draw_key_entry(place: int, style: str, meaning: str) -> Markup:
    """A stroke in its colour and what it means, two in a line."""
    x, y = LEFT + (place % 2) * (WIDTH - LEFT) // 2, TITLE_HEIGHT + KEY_HEIGHT * (place // 2) + 8
    stroke = tag("path", d=f"M{x} {y - 4}L{x + 22} {y - 4}", class_=f"line {style}")
    return join((stroke, tag("text", meaning, x=x + 28, y=y, class_="label")))


def draw_lines(series: Sequence[Series], x: Axis, y: Axis, caption: str, *, height: int = 300) -> Drawing:
    """Lines, steps or dots over two axes."""
    styles = [each.style or f"s{k % COLOURS}" for k, each in enumerate(series)]
    marks = [draw_axes(x, y, height)]
    for each, style in zip(series, styles, strict=True):
        places = [(x.at(px, LEFT, WIDTH - RIGHT), y.at(py, height - BOTTOM, HEAD)) for px, py in each.points]
        if not each.dots:
            marks.append(
                tag("path", d=_write_path(_add_steps(places) if each.stepped else places), class_=f"line {style}")
            )
        if each.dots or len(places) <= 40:
            marks += _draw_dots(places, style, sized=each.dots)
    rows = [(each.name, write_number(px), write_number(py)) for each in series for px, py in each.points]
    key = tuple((style, each.name) for each, style in zip(series, styles, strict=True))
    return Drawing(join(marks), height, caption, ("", x.title, y.title), rows, (1, 2), key if len(key) > 1 else ())


def _draw_dots(places: Sequence[tuple[float, float]], style: str, *, sized: bool) -> list[Markup]:
    """A dot at each place; `sized`: the more points at one place, the larger."""
    times_at = Counter(places)
    most = max(times_at.values(), default=1)
    dots = []
    for (px, py), times in times_at.items():
        radius = 3 if most == 1 or not sized else round(3 + 9 * math.sqrt(times / most), 1)
        dots.append(tag("circle", cx=px, cy=py, r=radius, class_=style, fill_opacity=0.75))
    return dots


def _add_steps(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    stepped = list(places[:1])
    for px, py in places[1:]:
        stepped += [(px, stepped[-1][1]), (px, py)]
    return stepped


def _write_path(places: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if k else 'M'}{px:g} {py:g}" for k, (px, py) in enumerate(places))


def draw_ranges(spans: Sequence[Span], what: str, note_heads: Sequence[str], caption: str) -> Drawing:
    """A bar from lo to hi for each person, over the bar of what was known before; infinite ends fade at the edge."""
    finite = [v for s in spans for v in (s.lo, s.hi, *(s.prior or ())) if not math.isinf(v)]
    axis = Axis.of(what, finite)
    room = EDGE
    height = TOP + ROW * len(spans) + BOTTOM
    marks = [draw_value_axis(axis, room, height - BOTTOM, 5)]
    marks.append(tag("text", what, x=(room + WIDTH) / 2, y=height - 6, text_anchor="middle"))
    for k, span in enumerate(spans):
        y = TOP + ROW * k + BAR
        marks.append(_draw_name(span.who, k))
        if span.prior is not None:
            marks.append(_draw_range(axis, room, y, span.prior, "prior", 10))
        if span.lo == span.hi:
            ends = f"= {write_number(span.lo)}"
            mark = tag("circle", cx=axis.at(span.lo, room, WIDTH - RIGHT), cy=y, r=5, class_=span.status)
        else:
            ends = f"{write_number(span.lo)} to {write_number(span.hi)}"
            mark = _draw_range(axis, room, y, (span.lo, span.hi), span.status, 6)
        marks.append(tag("g", tag("title", f"{span.who}: {ends}"), mark))
    has_priors = any(s.prior is not None for s in spans)
    rows: list[tuple[object, ...]] = []
    for span in spans:
        before = (write_number(span.prior[0]), write_number(span.prior[1])) if span.prior else ("", "")
        now = (write_number(span.lo), write_number(span.hi))
        rows.append((tag("bdi", span.who), *(before if has_priors else ()), *now, *span.notes))
    head = ("who", "known before: from", "to", "now: from", "to") if has_priors else ("", "from", "to")
    key = [("prior", "known before")] if has_priors else []
    key += [(s, s) for s in ("exposed", "inferred", "open", "limit") if any(x.status == s for x in spans)]
    says_something = has_priors or any(s.status not in ("open", "limit") for s in spans)
    return Drawing(
        join(marks),
        height,
        caption,
        (*head, *note_heads),
        rows,
        range(1, len(head)),
        tuple(key) if says_something else (),
    )


def _draw_name(name: str, row: int) -> Markup:
    """A name above its bar."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return tag("text", short, x=EDGE, y=TOP + ROW * row + BAR - 10, class_="label", unicode_bidi="isolate")


def _draw_range(axis: Axis, room: int, y: float, ends: tuple[float, float], style: str, thickness: int) -> Markup:
    left, right = (axis.at(v, room, WIDTH - RIGHT) for v in ends)
    return tag(
        "line",
        x1=left,
        x2=max(right, left + 1),
        y1=y,
        y2=y,
        stroke_width=thickness,
        class_=style,
        stroke_linecap="round",
    )


def draw_bars(values: Mapping[str, float], what: str, caption: str) -> Drawing:
    """A bar for every positive number on a logarithmic axis, the shortest first; the others are in the table alone."""
    ordered = sorted((v, name) for name, v in values.items() if math.isfinite(v) and v > 0)
    axis = Axis.of(what, [v for v, _ in ordered] or [1.0], log=True)
    axis = Axis(what, axis.lo / 2, axis.hi, log=True)  # the shortest bar is seen too
    room = EDGE
    height = TOP + ROW * len(ordered) + BOTTOM
    marks = [draw_value_axis(axis, room, height - BOTTOM)]
    marks.append(tag("text", what, x=(room + WIDTH - RIGHT) / 2, y=height - 6, text_anchor="middle"))
    for k, (value, name) in enumerate(ordered):
        y, right = TOP + ROW * k + BAR, axis.at(value, room, WIDTH - RIGHT)
        title = tag("title", f"{name}: {value:.4g}")
        marks.append(_draw_name(name, k))
        marks.append(tag("rect", title, x=room, y=y - 4, width=round(right - room, 2), height=8, class_="s0"))
    rows = [(name, f"{v:.6g}" if math.isfinite(v) else "none") for name, v in values.items()]
    return Drawing(join(marks), height, caption, ("", what), rows, (1,))


def draw_heat_map(
    shares: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    caption: str,
) -> Drawing:
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
    return Drawing(join(marks), height, caption, ("", *columns), body)


def write_number(value: float) -> str:
    """A number in the table behind a chart."""
    return "-∞" if value == float("-inf") else "∞" if value == float("inf") else f"{value:.10g}"
