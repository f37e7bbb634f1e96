"""`keyhole explain`: what a word of the output means."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.options import Format
from keyhole.cli.shared.terminal import check_out, emit_json, emit_text

HELP = """Say what a word of the output means.

Without a word, all that are explained are listed.

\b
Examples
  keyhole explain atoms
  keyhole explain singled out
  keyhole explain --format json
"""


def explain(word: tuple[str, ...], format: Format, out: Path | None) -> None:  # noqa: A002 - the word of the option
    """Look the words up, print. Several words are one name first, else each is looked up."""
    from keyhole.errors import ConfigError
    from keyhole.report.words.glossary import PAGES, WORDS, found

    check_out(out)
    try:
        asked = [found(" ".join(word))] if word else sorted(WORDS)
    except ConfigError:
        asked = [found(each) for each in word]
    if format is Format.JSON:
        import json

        emit_json(json.dumps({name: WORDS[name] for name in asked}, indent=2, ensure_ascii=False), out)
        return

    narrow = out is None and sys.stdout is not None and sys.stdout.isatty()
    wide = min(100, shutil.get_terminal_size().columns) if narrow else 100

    def lines() -> Iterator[str]:
        for name in asked:
            page = f" (docs/{PAGES[name]})" if name in PAGES else ""
            yield from textwrap.wrap(f"{name}: {WORDS[name]}{page}", wide, subsequent_indent="  ")

    emit_text("\n".join(lines()), out)


command = click.Command(
    "explain",
    callback=explain,
    help=HELP,
    params=[
        click.Argument(["word"], nargs=-1),
        options.formats(Format.TEXT, Format.JSON),
        options.OUT,
    ],
)
