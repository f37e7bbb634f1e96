"""`keyhole explain`: what a word of the output means."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import emit_text
from keyhole.errors import ConfigError

ENTRY = re.compile(
    r"^\*\*(?P<word>[^*]+)\*\*(?: \(also: (?P<others>[^)]+)\))?: "
    r"(?P<text>.+?)(?: See \[[^]]+\]\((?P<page>[^)]+)\)\.)?$",
    re.MULTILINE,
)


def _read_page() -> str:
    """docs/glossary.md: beside this module in a wheel, in docs/ of a checkout."""
    here = Path(__file__)
    shipped = here.with_name("glossary.md")
    return (shipped if shipped.is_file() else here.parents[4] / "docs" / "glossary.md").read_text(encoding="utf-8")


_ENTRIES = tuple(ENTRY.finditer(_read_page()))
WORDS: Mapping[str, str] = {entry["word"]: entry["text"] for entry in _ENTRIES}
PAGES: Mapping[str, str] = {entry["word"]: entry["page"] for entry in _ENTRIES if entry["page"]}
OTHERS: Mapping[str, str] = {
    other: entry["word"] for entry in _ENTRIES if entry["others"] for other in entry["others"].split(", ")
}

HELP = """Say what a word of the output means.

Without a word, all that are explained are listed.

\b
Examples
  keyhole explain exposed
  keyhole explain singled out
"""


@options.command(
    "explain",
    HELP,
    click.Argument(["word"], nargs=-1),
)
def explain(word: tuple[str, ...]) -> None:
    """Look the words up, print. Several words are one name first, else each is looked up."""
    try:
        asked = [found(" ".join(word))] if word else sorted(WORDS)
    except ConfigError:
        asked = [found(each) for each in word]
    narrow = sys.stdout is not None and sys.stdout.isatty()
    wide = min(100, shutil.get_terminal_size().columns) if narrow else 100

    def lines() -> Iterator[str]:
        for name in asked:
            page = f" (docs/{PAGES[name]})" if name in PAGES else ""
            yield from textwrap.wrap(f"{name}: {WORDS[name]}{page}", wide, subsequent_indent="  ")

    emit_text("\n".join(lines()), None)


def found(word: str) -> str:
    """The entry that explains a word, in whichever form it is asked for.

    >>> found("Classes"), found("replace-one"), found("queries"), found("singled_out")
    ('class', 'neighbours', 'query', 'singled out')
    >>> found("clas")
    Traceback (most recent call last):
    keyhole.errors.ConfigError: 'clas' is not explained here; did you mean 'class'? `keyhole explain` lists all words
    """
    plain = " ".join(word.casefold().replace("_", " ").split())
    for form in (plain, plain.removesuffix("s"), plain.removesuffix("es"), plain.removesuffix("ies") + "y"):
        entry = OTHERS.get(form, form)
        if entry in WORDS:
            return entry
    near = difflib.get_close_matches(plain, [*WORDS, *OTHERS], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ConfigError(f"{word!r} is not explained here{hint} `keyhole explain` lists all words")
