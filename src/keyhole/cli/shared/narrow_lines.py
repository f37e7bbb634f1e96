"""Lines for a narrow terminal: output is broken between words, help so that examples can still be pasted."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

import click

BROKEN_AT = 110  # where proofs are broken already (`report.text.WIDTH`); a narrow terminal puts them together again
CONTINUED = " " * 6
LEAST = 40

Styled = tuple[str, str]


def fit_lines(lines: Iterable[Styled], width: int) -> Iterator[Styled]:
    """The lines with their styles, none longer than the width; a statement over a caret stays as it is.

    >>> [line for line, _ in fit_lines([("  one two three four five six seven eight nine ten", "")], 40)]
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


WIDTH = 78  # click indents by two
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")


def narrow_help(command: click.Command) -> click.Command:
    """The command, its subcommands too, with no line of help beyond 80 columns."""
    if command.help:
        command.help = fit_help(command.help)
    for option in command.params:
        choices = option.type.choices if isinstance(option.type, click.Choice) else ()
        listed = "|".join(map(str, choices))
        if isinstance(option, click.Option) and option.metavar is None and len(listed) > WIDTH - 20:
            option.metavar = "WORD"
            option.help = f"{option.help or ''} One of {', '.join(map(str, choices))}.".strip()
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        narrow_help(inner)
    return command


def fit_help(text: str) -> str:
    """A help text whose blocks that stand as they are written fit; click fits the others."""
    found: list[str] = []
    as_written = False
    for line in text.splitlines():
        as_written = line == "\b" or (as_written and bool(line.strip()))
        found += break_line(line) if as_written else [line]
    return "\n".join(found)


def break_line(line: str) -> list[str]:
    r"""One line of help as lines that fit; a command goes on behind a backslash.

    >>> line = '  keyhole plan --data people.csv --id Name --private "Blood sugar" --target "Name = \'Jeremy Doe\'"'
    >>> break_line(line)
    ['  keyhole plan --data people.csv --id Name --private "Blood sugar" \\', '      --target "Name = \'Jeremy Doe\'"']
    """
    if len(line) <= WIDTH:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    if not line.lstrip().startswith("keyhole "):
        deeper = indent + ("  " if indent else "")
        return textwrap.wrap(line, WIDTH, subsequent_indent=deeper, break_long_words=False, break_on_hyphens=False)
    found, now = [], ""
    words = _WORD.findall(line)
    pairs: list[str] = []
    for word in words:  # an option stays with its value
        loose = bool(pairs) and pairs[-1].startswith("-") and " " not in pairs[-1] and not word.startswith("-")
        if loose:
            pairs[-1] += f" {word}"
        else:
            pairs.append(word)
    for pair in pairs:
        if now and len(now) + 1 + len(pair) > WIDTH - 2:
            found.append(f"{now} \\")
            now = f"{indent}    {pair}"
        else:
            now = f"{now} {pair}" if now else f"{indent}{pair}"
    return [*found, now]
