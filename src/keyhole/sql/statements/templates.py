"""Statements of one shape are parsed once: a log repeats its statements with other constants.

The shape of a text is the text with its constants blanked. The syntax tree of a shape is kept, and the constants of
the next text are put into it. Only constants that the parser takes as they are (`_PARENTS`) are exchanged; places in
the kept tree belong to another text, so whoever meets an error parses the text again to find the caret.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

from sqlglot import exp

from keyhole.sql.statements.parse import SourceText

MAX_SHAPES = 1024
MAX_SHAPE_LENGTH = 4_000
_CONSTANT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.$])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])""")
_PARENTS = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Like, exp.ILike),
    *(exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Paren, exp.If, exp.Case),
)
_UNSAFE = ("--", "/*", "$")


@dataclass(frozen=True, slots=True)
class Template:
    """A tree, its constants in the order of the text, and the labels with the places of constants in them."""

    tree: exp.Select
    constants: tuple[exp.Literal, ...]
    labels: tuple[tuple[str | int, ...], ...]


class _Shapes(threading.local):
    """The kept trees: one set per thread, since a tree is filled in place."""

    def __init__(self) -> None:
        self.known: dict[str, Template] = {}


_SHAPES = _Shapes()


def forget() -> None:
    """Drops every kept tree of this thread."""
    _SHAPES.known.clear()


def shape_of(text: str) -> tuple[str, list[tuple[int, int]]] | None:
    """The text with its constants blanked, and where they stood; None if the text is not worth keeping.

    >>> shape_of("SELECT SUM(x2) FROM t WHERE a = 'b' AND c < 1.5")
    ("SELECT SUM(x2) FROM t WHERE a = '' AND c < 0", [(32, 35), (44, 47)])
    """
    if len(text) > MAX_SHAPE_LENGTH or any(mark in text for mark in _UNSAFE):
        return None
    places: list[tuple[int, int]] = []
    pieces: list[str] = []
    last = 0
    for match in _CONSTANT.finditer(text):
        start, end = match.span()
        if text[start] == '"':
            continue
        places.append((start, end))
        pieces += (text[last:start], "''" if text[start] == "'" else "0")
        last = end
    pieces.append(text[last:])
    return "".join(pieces), places


def recall(text: str, shape: str, places: list[tuple[int, int]]) -> tuple[SourceText, exp.Select] | None:
    """The kept tree of the shape, with the constants of `text` in it."""
    template = _SHAPES.known.get(shape)
    if template is None:
        return None
    for node, (start, end) in zip(template.constants, places, strict=True):
        node.args["this"] = _value(text[start:end])
    source = SourceText(text, ())
    source.labels = [
        " ".join("".join(p if isinstance(p, str) else text[slice(*places[p])] for p in label).split())
        for label in template.labels
    ]
    return source, template.tree


def keep(
    source: SourceText, tree: exp.Select, shape: str, places: list[tuple[int, int]], spans: list[tuple[int, int]]
) -> None:
    """Keeps the tree of a text that was lowered; `spans` are the places of its labels."""
    constants = sorted((n for n in tree.find_all(exp.Literal) if "start" in n.meta), key=lambda n: int(n.meta["start"]))
    if len(constants) != len(places) or len(spans) != len(tree.expressions):
        return
    for node, (start, end) in zip(constants, places, strict=True):
        text = source.text[start:end]
        if node.meta["start"] != start or node.this != _value(text) or node.is_string != (text[0] == "'"):
            return
        if not isinstance(node.parent, _PARENTS):
            return
    if len(_SHAPES.known) >= MAX_SHAPES:
        forget()
    labels = tuple(_pieces(source.text, span, places) for span in spans)
    _SHAPES.known[shape] = Template(tree, tuple(constants), labels)


def _value(text: str) -> str:
    return text[1:-1].replace("''", "'") if text[0] == "'" else text


def _pieces(text: str, span: tuple[int, int], places: list[tuple[int, int]]) -> tuple[str | int, ...]:
    at, end = span
    found: list[str | int] = []
    for index, (start, stop) in enumerate(places):
        if at <= start and stop <= end:
            found += (text[at:start], index)
            at = stop
    return (*found, text[at:end])
