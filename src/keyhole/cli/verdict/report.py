"""`keyhole report`: a verdict or a book as one page."""

from __future__ import annotations

from pathlib import Path

import click

from keyhole.cli.shared import options
from keyhole.cli.shared.terminal import check_out, emit
from keyhole.cli.verdict.review import read_verdict
from keyhole.errors import ConfigError

HELP = """Write a verdict or a book as one self-contained page: no network, any browser, light and dark, prints.

FILE is what `keyhole audit ... --format json --out verdict.json` wrote, or `keyhole tables`, or a book: then the page
shows what was asked, answered and paid. (`keyhole audit --format html` writes a page at once, with the map of queries
and people, which a verdict file does not hold, and takes a book as its log.)

\b
Examples
  keyhole report verdict.json --out report.html
  keyhole report book.keyhole --out book.html
"""


@options.command("report", HELP, click.Argument(["file"], type=options.FILE), options.OUT)
def report(file: Path, out: Path | None) -> None:
    """Read and write."""
    check_out(out)
    if _is_database(file):
        from keyhole.cli.book import find_cap, opened_book
        from keyhole.report.book import describe_book
        from keyhole.report.html.sessions import render_book_page

        with opened_book(str(file)) as book:
            emit(render_book_page(describe_book(book, find_cap(book)), file.name), out)
        return
    from keyhole.report.html.tables import render_verdict_page

    emit(render_verdict_page(read_verdict(file)), out)


def _is_database(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(16) == b"SQLite format 3\0"
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
