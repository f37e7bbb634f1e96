"""A chart as one file: an SVG that stands alone, or a page that loads nothing."""

from __future__ import annotations

from pathlib import Path

from keyhole.errors import ConfigError
from keyhole.report.html.axes import LEFT, WIDTH
from keyhole.report.html.charts import Drawing
from keyhole.report.html.markup import Markup, join, tag
from keyhole.report.html.page import Section, chart_style, page

SUFFIXES = (".html", ".svg")
HEAD = 26  # the title
LINE = 18  # a line of the key


def write_chart(drawing: Drawing, path: Path, *, title: str) -> None:
    """Write a drawing to `path` as its suffix says: .html (with its numbers as a table) or .svg."""
    check_suffix(path)
    made = standing_alone(drawing, title) if path.suffix.lower() == ".svg" else _page(drawing, title)
    try:
        path.write_text(made, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def check_suffix(path: Path) -> None:
    """Refuse a name whose ending says nothing that can be drawn."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"cannot plot to {path.name}: write a name that ends in {', '.join(SUFFIXES)}")


def standing_alone(drawing: Drawing, title: str) -> str:
    """An SVG with its own style, title and key, light or dark as the reader's."""
    key = join(_key(k, style, said) for k, (style, said) in enumerate(drawing.key))
    above = HEAD + LINE * ((len(drawing.key) + 1) // 2)
    tall = above + drawing.height
    body = (
        tag("title", drawing.caption),
        tag("style", Markup(chart_style())),
        tag("rect", width=WIDTH, height=tall, style="fill: var(--paper)"),
        tag("text", title, x=LEFT, y=18, class_="label", style="font-weight: 600; font-size: 14px"),
        key,
        tag("g", drawing.marks, transform=f"translate(0,{above})"),
    )
    size = {"width": WIDTH, "height": tall, "viewBox": f"0 0 {WIDTH} {tall}"}
    return tag("svg", *body, xmlns="http://www.w3.org/2000/svg", role="img", **size) + "\n"


def _key(place: int, style: str, said: str) -> Markup:
    """A stroke in its colour and what it means, two in a line."""
    x, y = LEFT + (place % 2) * (WIDTH - LEFT) // 2, HEAD + LINE * (place // 2) + 8
    stroke = tag("path", d=f"M{x} {y - 4}L{x + 22} {y - 4}", class_=f"line {style}")
    return join((stroke, tag("text", said, x=x + 28, y=y, class_="label")))


def _page(drawing: Drawing, title: str) -> str:
    return page("chart", title, "", [], [], [Section("Chart", (drawing.figure(),))])
