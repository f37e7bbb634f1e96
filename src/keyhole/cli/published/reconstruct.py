"""`keyhole reconstruct`: rows from published statistics alone."""

from __future__ import annotations

from pathlib import Path

import click

from keyhole.cli.published import table_options
from keyhole.cli.shared import options
from keyhole.cli.shared.progress import progress_on_stderr
from keyhole.cli.shared.terminal import check_out, emit, emit_json, emit_lines, exit_with
from keyhole.config.arguments import Format, OutputArguments

HELP = """Rebuild the rows behind published statistics, and prove whether they are the only ones.

STATISTICS is a .toml file with figures per group (count, mean, median, sum, min, max), one or several tables of counts
(.csv, .xlsx, as in keyhole tables), or an integer model (.lp, .lp.gz). Nothing else is known: no people, no names. If
the rows are not the only ones, those that all solutions share are printed, and proved.

\b
Examples
  keyhole reconstruct block.toml
  keyhole reconstruct block.toml --time-limit 300 --format json

\b
A file of statistics
  [columns.age]           # columns of the unknown rows, and all their values
  min = 0
  max = 125
  [columns.sex]
  values = ["F", "M"]
  [[impossible]]          # what everybody knows cannot be
  where = "sex = 'M' AND age < 15"
  [[statistics]]          # without where: all rows; their count is needed
  count = 7
  mean = { age = 38.0 }   # as printed: off by half a last digit
  median = { age = 30 }
  [[statistics]]
  name = "women"
  where = "sex = 'F'"
  count = [0, 2]          # suppressed: a range; any figure may be one

\b
Exit code
  0 done: rows, or what is known when the time was up or Ctrl-C was pressed (the text says which)
  2 could not run; statistics that no rows can give are named, none of which can be left out
"""


@options.command(
    "reconstruct",
    HELP,
    click.Argument(["statistics"], nargs=-1, required=True, type=options.FILE),
    *table_options.READ,
    options.TIME_LIMIT,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def reconstruct(
    statistics: tuple[Path, ...],
    value: str | None,
    total: tuple[str, ...],
    suppressed: tuple[str, ...],
    nested: tuple[str, ...],
    rounding: str | None,
    time_limit: float | None,
    output: OutputArguments,
) -> None:
    """Read, search, print."""
    from keyhole.attacks.microdata.reconstruct import SECONDS
    from keyhole.attacks.microdata.reconstruct import reconstruct as rebuild

    check_out(output.out)
    with progress_on_stderr() as progress:
        found = rebuild(
            statistics,
            value=value,
            total=total,
            suppressed=suppressed,
            nested=nested,
            rounding=rounding,
            time_limit=time_limit or SECONDS,
            progress=progress,
        )
    if output.format is Format.JSON:
        from keyhole.report.documents.json_text import dumps
        from keyhole.report.reconstruction import describe_reconstruction

        emit_json(dumps(describe_reconstruction(found)), output.out)
    elif output.format is Format.HTML:
        from keyhole.report.html.attacks import render_reconstruction_page
        from keyhole.report.reconstruction import describe_reconstruction

        emit(render_reconstruction_page(describe_reconstruction(found)), output.out)
    else:
        from keyhole.report.reconstruction import render_reconstruction

        emit_lines(list(render_reconstruction(found)), output.out)
    exit_with(0)
