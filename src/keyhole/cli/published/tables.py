"""`keyhole tables`: what published cross-tabulations give away."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from keyhole.cli.published import table_options
from keyhole.cli.shared import options
from keyhole.cli.shared.progress import progress_on_stderr
from keyhole.cli.shared.terminal import check_out, emit, emit_json, emit_lines, exit_with
from keyhole.config.arguments import Format, OutputArguments
from keyhole.errors import ConfigError

if TYPE_CHECKING:
    from keyhole.api.table_repair import Suggestion
    from keyhole.api.tables import Drawn
    from keyhole.crosstab.options import TableOptions
    from keyhole.report.tables import TablesVerdict

HELP = """Prove which suppressed cells of published tables can be recovered.

TABLES are cross-tabulations with margins: CSV (comma, semicolon or tab) or .xlsx, in long form (one row a cell, the
number in the column that --value names) or wide form (one dimension across the top). Rows whose category is --total are
margins. All tables are judged together: what one of them hides, another may give away. Every cell that can be
recovered comes with the sum of shown cells that gives it.

\b
Examples
  keyhole tables towns.csv sizes.csv --value n --suppressed x=1..3 --nested town:county --nested town:size
  keyhole tables cj.csv size.csv --value TOT --count N_OBS --largest MAX --nested ACTIVITY:nace.csv \\
      --rule "N<3" --rule "dominance 85%" --suggest --out protected.xlsx --out-owner owner.csv

\b
Hierarchies
  --nested town:county    two columns; who lies where is read off a table that shows both
  --nested activity:codes.csv    one column with codes of several levels; the file has a row a code, the codes
                          above it beside it, finest first; or it is a .hrc file of tau-Argus (@ before a lower level)

\b
Rules (--rule) look at one cell at a time
  N<3              fewer than 3 contributors (in a table of counts: the number itself)
  dominance 85%    the largest contributor has more than 85% of the total; "dominance 2,85%": the largest two
  p 15%            the second largest can estimate the largest to within 15%
If no cell of the files is suppressed, the rules hide theirs first: may these tables be published so? A cell that fails
p or dominance also needs a range as wide as the rule asks for: a suppressed one in a narrower range is a finding.

\b
Tables to publish: --out FILE.csv or .xlsx writes them, all suppressed cells marked alike, once the audit of what stands
in the file finds nothing. --out-owner says which cells are suppressed and why. --round-to STEP rounds instead.

\b
Rounding: --rounding STEP says that numbers are multiples of STEP, off by half of it at most (0: exact). If nobody says
it, numbers are exact if every line without a gap adds up, else each is within half a unit of the last digit of its
table; the margins that show it are named, and it is no all-clear.

\b
Exit code
  0 no suppressed cell is recovered, every one is shown to be open
  1 some cell is recovered exactly or nearly, or shown against a rule, or in a narrower range than a rule asks for
  3 none is, but the tables do not add up, nothing is suppressed, or the search is not complete (the text says why)
  2 could not run, or tables with a finding were to be written
Ctrl-C keeps what was proved until then, and says so; a second one ends the command.
"""


@options.command(
    "tables",
    HELP,
    click.Argument(["tables"], nargs=-1, required=True, type=options.FILE),
    *table_options.CROSSTABS,
    table_options.LEAST,
    options.RULE,
    *table_options.CONTRIBUTED,
    options.WITHIN,
    options.TIME_LIMIT,
    table_options.CELLS,
    table_options.SUGGEST,
    table_options.ROUND_TO,
    table_options.OWNER,
    options.output(Format.TEXT, Format.JSON, Format.HTML),
)
def tables(
    tables: tuple[Path, ...],
    value: str | None,
    total: tuple[str, ...],
    suppressed: tuple[str, ...],
    nested: tuple[str, ...],
    min: str | None,  # noqa: A002 - the word of the option
    rule: tuple[str, ...],
    contributors: Path | None,
    count: str | None,
    largest: tuple[str, ...],
    along: tuple[str, ...],
    across: str | None,
    within: str | None,
    rounding: str | None,
    time_limit: float | None,
    cells: Path | None,
    suggest: bool,
    round_to: str | None,
    out_owner: Path | None,
    output: OutputArguments,
) -> None:
    """Read, judge, print; the exit code is the verdict."""
    from keyhole.api.table_repair import TableRepair, write_protected_tables
    from keyhole.api.tables import judge, read_tables
    from keyhole.crosstab.cells import name_wide_value
    from keyhole.crosstab.options import TableOptions
    from keyhole.crosstab.protected import SUFFIXES, as_csv
    from keyhole.crosstab.sheet import read_sheets
    from keyhole.report.words.tables import summarize_tables

    if value is None and contributors is None:
        value = name_wide_value(read_sheets(tables))
    if value is None:
        raise ConfigError("which column has the numbers? --value COL (in wide form: any name for them)")
    published = None if output.out is None or output.out.suffix.lower() not in SUFFIXES else output.out
    if out_owner is not None and published is None:
        raise ConfigError("--out-owner goes with --out FILE.csv or FILE.xlsx, the tables as they may be published")
    if round_to is not None and (published is None or suggest or out_owner is not None):
        raise ConfigError("--round-to goes with --out FILE.csv or FILE.xlsx, and instead of --suggest and --out-owner")
    check_out(out_owner)
    check_out(output.out)
    check_out(cells)
    words = TableOptions(
        value=value,
        by=along,
        across=across,
        rounding=rounding,
        total=total,
        suppressed=suppressed,
        nested=nested,
        min=min,
        rule=rule,
        contributors=contributors,
        count=count,
        largest=largest,
    )
    if round_to is not None and published is not None:
        _round(read_tables(tables, words), words, round_to, published, time_limit)
    with progress_on_stderr() as progress:
        drawn = read_tables(tables, words)
        found = judge(drawn, within=within, time_limit=time_limit, progress=progress)
        repair = TableRepair(drawn, found, within, time_limit).suggestion() if suggest else None
    if cells is not None:
        emit(found.hidden.csv(found.hidden.publication.truth), cells)
    _show(found, repair, output.format, None if published else output.out)
    if published is None:
        exit_with(found.exit_code)
    written = write_protected_tables(drawn, repair, words, published, within)
    if out_owner is not None:
        emit(as_csv(written.owner_rows(drawn.sensitive)), out_owner)
    names = ", ".join(file.name for file in written.files)
    emit_lines([("", ""), (f"Written to {names}, and audited again: {summarize_tables(written.after)}", "bold")], None)
    exit_with(written.after.exit_code)


def _round(drawn: Drawn, words: TableOptions, step: str, out: Path, time_limit: float | None) -> NoReturn:
    """Write rounded tables, and say what was audited."""
    from keyhole.api.table_repair import write_rounded_tables
    from keyhole.crosstab.options import read_number_option

    size = Fraction(read_number_option(step, "--round-to"))
    files = ", ".join(file.name for file in write_rounded_tables(drawn, words, size, out, time_limit))
    cells = len({each.key for each in drawn.sensitive})
    said = f"Written to {files}: every number is a multiple of {step} next to the true one, and every line adds up."
    said += f" Audited: of {cells} cells that fail a rule none is known exactly or in too narrow a range."
    emit_lines([(said, "bold")], None)
    exit_with(0)


def _show(found: TablesVerdict, repair: Suggestion | None, how: Format, out: Path | None) -> None:
    from keyhole.cli.shared.advising import add_suggestion, suggestion_lines

    if how is not Format.TEXT:
        document = found.document() if repair is None else add_suggestion(found.document(), repair)
    if how is Format.JSON:
        from keyhole.report.documents.json_text import dumps

        emit_json(dumps(document), out)
    elif how is Format.HTML:
        from keyhole.report.html.tables import render_tables_page

        told = () if repair is None else tuple(line for line, _ in suggestion_lines(repair))
        emit(render_tables_page(document, told), out)
    else:
        from keyhole.report.words.tables import render_tables

        emit_lines(list(render_tables(found, () if repair is None else suggestion_lines(repair))), out)
