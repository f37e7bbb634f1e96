"""`keyhole explain`: what a word of the output means."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit_json, emit_text
from keyhole.config.arguments import Format, OutputArguments

HELP = """Say what a word of the output means.

Without a word, all that are explained are listed.

\b
Examples
  keyhole explain atoms
  keyhole explain singled out
  keyhole explain --format json
"""


@options.command(
    "explain",
    HELP,
    click.Argument(["word"], nargs=-1),
    options.output(Format.TEXT, Format.JSON),
)
def explain(word: tuple[str, ...], output: OutputArguments) -> None:
    """Look the words up, print. Several words are one name first, else each is looked up."""
    from keyhole.errors import ConfigError
    from keyhole.report.words.glossary import PAGES, WORDS, found

    check_out(output.out)
    try:
        asked = [found(" ".join(word))] if word else sorted(WORDS)
    except ConfigError:
        asked = [found(each) for each in word]
    if output.format is Format.JSON:
        import json

        emit_json(json.dumps({name: WORDS[name] for name in asked}, indent=2, ensure_ascii=False), output.out)
        return

    narrow = output.out is None and sys.stdout is not None and sys.stdout.isatty()
    wide = min(100, shutil.get_terminal_size().columns) if narrow else 100

    def lines() -> Iterator[str]:
        for name in asked:
            page = f" (docs/{PAGES[name]})" if name in PAGES else ""
            yield from textwrap.wrap(f"{name}: {WORDS[name]}{page}", wide, subsequent_indent="  ")

    emit_text("\n".join(lines()), output.out)
