"""Lines for a terminal that is narrower than they are: broken between words, under their own indent."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

BROKEN_AT = 110  # where proofs are broken already (`report.text.WIDTH`); a narrow terminal puts them together again
CONTINUED = " " * 6
LEAST = 40

Styled = tuple[str, str]


def fitted(lines: Iterable[Styled], width: int) -> Iterator[Styled]:
    """The lines with their styles, none longer than the width; a statement over a caret stays as it is.

    >>> [line for line, _ in fitted([("  one two three four five six seven eight nine ten", "")], 40)]
    ['  one two three four five six seven', '      eight nine ten']
    """
    width = max(LEAST, width)
    told = list(_joined(lines)) if width < BROKEN_AT else list(lines)
    for place, (line, style) in enumerate(told):
        under = told[place + 1][0].strip() if place + 1 < len(told) else ""
        if len(line) <= width or under == "^":
            yield line, style
            continue
        deep = len(line) - len(line.lstrip())
        indent = " " * min(deep + 4, width // 3) if deep else ""
        parts = textwrap.wrap(
            line,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
        yield from ((part, style) for part in parts)


def _joined(lines: Iterable[Styled]) -> Iterator[Styled]:
    """What was broken for a wide page, in one line again."""
    held: Styled | None = None
    last = 0  # length of the last piece of what is held
    for line, style in lines:
        first = line.strip().partition(" ")[0]
        if held is not None and line.startswith(CONTINUED) and last <= BROKEN_AT < last + 1 + len(first):
            held, last = (f"{held[0]} {line.strip()}", held[1]), len(line)
            continue
        if held is not None:
            yield held
        held, last = (line, style), len(line)
    if held is not None:
        yield held
