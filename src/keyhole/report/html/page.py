"""The frame of every report: one file, under a policy that forbids the browser to load anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from keyhole.report.html.markup import Markup, join, tag, text
from keyhole.version import __version__

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under a heading of its own."""

    title: str
    body: tuple[Markup, ...]

    @property
    def anchor(self) -> str:
        """Its name in a link."""
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that is seen first; `mood` is good, warn, bad or none."""

    number: str
    what: str
    mood: str = ""


def page(
    kind: str, sentence: str, mood: str, under: Iterable[object], tiles: Sequence[Tile], sections: Iterable[Section]
) -> str:
    """A whole page: the sentence on top, numbers, what the sections say, and who made it."""
    shown = [section for section in sections if section.body]
    head = tag(
        "header",
        tag("div", f"Keyhole · {kind}", class_="brand"),
        tag("h1", sentence, class_=mood),
        *(tag("p", line, class_="soft") for line in under),
        tag("div", *(tag("div", tag("b", t.number), t.what, class_=f"tile {t.mood}") for t in tiles), class_="tiles"),
        tag("nav", *(tag("a", s.title, href=f"#{s.anchor}") for s in shown), class_="contents"),
        class_="top",
    )
    body = join(tag("section", tag("h2", s.title, id=s.anchor), *s.body) for s in shown)
    foot = tag("footer", f"Made by keyhole {__version__}. This file loads nothing from anywhere.")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{text(POLICY)}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Keyhole: {text(sentence)}</title>\n"
        f"<style>\n{style()}</style>\n</head>\n<body>\n<main>\n{head}\n{body}\n{foot}\n</main>\n"
        f"<script>\n{_file('page.js')}</script>\n</body>\n</html>\n"
    )


def style() -> str:
    """The style sheet of all pages."""
    return chart_style() + _file("style.css")


def chart_style() -> str:
    """Colours, and the style of charts."""
    return _file("chart.css")


@cache
def _file(name: str) -> str:
    return files("keyhole.report.html").joinpath(name).read_text(encoding="utf-8")
