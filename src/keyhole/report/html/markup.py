"""HTML that cannot be broken out of: whatever is not markup already is escaped where it is put in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from keyhole.auditing.base import visible

EMPTY = frozenset({"br", "input", "meta", "line", "path"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Any value as text: tags, quotes and invisible characters come out as what they are.

    >>> text("<b>Ann</b>")
    '&lt;b&gt;Ann&lt;/b&gt;'
    """
    return value if isinstance(value, Markup) else Markup(escape(visible(str(value))))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """One element; None among attributes is left out, `class_` is class, an underscore is a hyphen.

    >>> tag("a", "x < y", href="#q1", class_="proof")
    '<a href="#q1" class="proof">x &lt; y</a>'
    >>> tag("line", x1=0, stroke_width=2)
    '<line x1="0" stroke-width="2"/>'
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY:
        return Markup(f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{''.join(map(text, children))}</{name}>")


def join(parts: Iterable[object]) -> Markup:
    """Several parts one behind the other."""
    return Markup("".join(map(text, parts)))


def limited(parts: Iterable[Markup], size: int) -> list[Markup]:
    """As many parts from the first as fit so many characters, at least one: a page stays small whatever the log holds.

    >>> limited([Markup("abc"), Markup("de"), Markup("f")], 5)
    ['abc', 'de']
    """
    found: list[Markup] = []
    for part in parts:
        size -= len(part)
        if size < 0 and found:
            break
        found.append(part)
    return found


def lines(said: str) -> Markup:
    """Several lines, such as SQL with a caret under a place."""
    return Markup("\n".join(text(line.replace("\t", "    ")) for line in said.split("\n")))


def name(value: object) -> Markup:
    """A name: isolated, so that one written from right to left does not turn its surroundings."""
    return tag("bdi", value)


def table(head: Sequence[object], rows: Iterable[Sequence[object]], *, numbers: Iterable[int] = ()) -> Markup:
    """A table; the columns in `numbers` are aligned to the right."""
    right = set(numbers)

    def cells(kind: str, row: Sequence[object]) -> Markup:
        return join(tag(kind, cell, class_="n" if k in right else None) for k, cell in enumerate(row))

    top = tag("thead", tag("tr", cells("th", head)))
    body = tag("tbody", *(tag("tr", cells("td", row)) for row in rows))
    return tag("div", tag("table", top, body), class_="wide")


def folded(summary: object, *inside: object, open_: bool = False) -> Markup:
    """Something that is opened by a click, and printed open."""
    return tag("details", tag("summary", summary), *inside, open="" if open_ else None)
