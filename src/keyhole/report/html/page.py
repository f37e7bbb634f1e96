"""A page as one file: templates filled with text that cannot break out, under a policy that lets nothing be loaded.

Whatever a template prints is escaped, and its invisible characters are written out; only what is markup already (a
drawing, the output of a macro) is put in as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from keyhole.errors import ConfigError
from keyhole.report.charts.drawing import Drawing, read_chart_style
from keyhole.report.charts.svg import Markup, escape_text
from keyhole.report.words.sentence import counted
from keyhole.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

Item = TypeVar("Item")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
SUFFIXES = (".html", ".svg")


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that is seen first; `mood` is good, warn, bad or none."""

    number: str
    meaning: str
    mood: str = ""


def render_page(
    template: str,
    kind: str,
    sentence: str,
    *,
    mood: str = "",
    notes: Iterable[str] = (),
    tiles: Iterable[Tile] = (),
    **content: object,
) -> str:
    """A whole page: the sentence on top, notes and numbers below it, and the sections of the template."""
    frame = {"kind": kind, "sentence": sentence, "mood": mood, "notes": notes, "tiles": tuple(tiles), "contents": []}
    return _load_environment().get_template(template).render(frame, **content)


def render_fragment(template: str, **content: object) -> str:
    """A piece of a page for a notebook: with its own style, which touches nothing around it."""
    return _load_environment().get_template(template).render(style=Markup(_scope_chart_style()), **content)


def write_chart(drawing: Drawing, path: Path, *, title: str) -> None:
    """Write a drawing to `path` as its suffix says: .html (with its numbers as a table) or .svg."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"cannot plot to {path.name}: write a name that ends in {', '.join(SUFFIXES)}")
    text = (
        drawing.stand_alone(title)
        if suffix == ".svg"
        else render_page("chart.html.jinja", "chart", title, drawing=drawing)
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def read_style() -> str:
    """The style sheet of all pages."""
    return read_chart_style() + _read_file("style.css")


@cache
def _read_file(name: str) -> str:
    return files("keyhole.report.html").joinpath("templates", "frame", name).read_text(encoding="utf-8")


@cache
def _scope_chart_style() -> str:
    """The style of charts, for what is inside a fragment alone."""
    scoped = re.sub(r"(^|\}|,|\{)(\s*)svg ", r"\1\2.keyhole svg ", read_chart_style(), flags=re.MULTILINE)
    return scoped.replace(":root", ".keyhole") + _read_file("notebook.css")


@cache
def _load_environment() -> Environment:
    return load_templates("keyhole.report.html")


def load_templates(*packages: str) -> Environment:
    """Templates of these packages, filled as all pages are: what an expression prints is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        extensions=["jinja2.ext.do"],
        finalize=_show_characters,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"anchor": make_anchor, "commas": "{:,}".format, "cut": cut_text, "lines": show_lines}
    environment.globals |= {
        "counted": counted,
        "fit": fit_size,
        "page_style": Markup(read_style()),
        "page_script": Markup(_read_file("page.js")),
        "policy": POLICY,
        "version": __version__,
    }
    return environment


def _show_characters(value: object) -> object:
    """What every expression of a template goes through."""
    return value if hasattr(value, "__html__") else escape_text(value)


def make_anchor(title: str) -> str:
    """The name of a section in a link.

    >>> make_anchor("What was not judged")
    'what-was-not-judged'
    """
    return "".join(c if c.isalnum() else "-" for c in title.lower())


def cut_text(text: str, most: int) -> str:
    """The first `most` characters, and how many more there are.

    >>> cut_text("SELECT 1", 6)
    'SELECT … (2 characters more)'
    """
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} characters more)"


def show_lines(text: str) -> Markup:
    """Several lines, such as SQL with a caret under a place."""
    return Markup("\n".join(escape_text(line.replace("\t", "    ")) for line in text.split("\n")))


def fit_size(render: Callable[[Item], str], items: Sequence[Item], size: int) -> list[str]:
    """Items rendered from the first as they fit so many characters, at least one: a page stays small for every log.

    >>> fit_size(lambda n: "x" * n, [3, 2, 1], 5)
    ['xxx', 'xx']
    """
    parts: list[str] = []
    for item in items:
        part = render(item)
        size -= len(part)
        if size < 0 and parts:
            break
        parts.append(part)
    return parts
