"""`keyhole report`: a verdict as one page."""

from __future__ import annotations

from pathlib import Path

import click

from keyhole.cli import options
from keyhole.cli.review import read_verdict
from keyhole.cli.terminal import check_out, emit

HELP = """Write a verdict as one self-contained page: no network, any browser, light and dark, prints.

VERDICT is what `keyhole audit ... --format json --out verdict.json` wrote, or `keyhole tables`. (`keyhole audit
--format html` writes the page at once, with the map of queries and people, which a verdict file does not hold.)

\b
Examples
  keyhole report verdict.json --out report.html
  keyhole audit log.sql -c keyhole.toml --format html --out report.html
"""


def report(verdict: Path, out: Path | None) -> None:
    """Read and write."""
    from keyhole.report.html.published import verdict_page

    check_out(out)
    emit(verdict_page(read_verdict(verdict)), out)


command = click.Command(
    "report", callback=report, help=HELP, params=[click.Argument(["verdict"], type=options.FILE), options.OUT]
)
