"""Help on a terminal of 80 columns: examples are broken so that they can still be pasted, sentences between words."""

from __future__ import annotations

import re
import textwrap

import click

WIDTH = 78  # click indents by two
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")


def narrow(command: click.Command) -> click.Command:
    """The command, its subcommands too, with no line of help beyond 80 columns."""
    if command.help:
        command.help = fitting(command.help)
    for option in command.params:
        choices = option.type.choices if isinstance(option.type, click.Choice) else ()
        listed = "|".join(map(str, choices))
        if isinstance(option, click.Option) and option.metavar is None and len(listed) > WIDTH - 20:
            option.metavar = "WORD"
            option.help = f"{option.help or ''} One of {', '.join(map(str, choices))}.".strip()
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        narrow(inner)
    return command


def fitting(text: str) -> str:
    """A help text whose blocks that stand as they are written fit; click fits the others."""
    found: list[str] = []
    as_written = False
    for line in text.splitlines():
        as_written = line == "\b" or (as_written and bool(line.strip()))
        found += broken(line) if as_written else [line]
    return "\n".join(found)


def broken(line: str) -> list[str]:
    r"""One line of help as lines that fit; a command goes on behind a backslash.

    >>> broken('  keyhole plan --data people.csv --id Name --private "Blood sugar" --target "Name = \'Jeremy Doe\'"')
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


__all__ = ["broken", "fitting", "narrow"]
