"""The options of `tables` and `reconstruct` about table files, each defined once."""

from __future__ import annotations

import click

from keyhole.cli.shared.options import FILE, ROUNDING, flag

VALUE = click.Option(
    ["--value"],
    metavar="COL",
    help="The column with the numbers (wide form: a name for them; `a \\ b` in the corner: none needed).",
)
TOTAL = click.Option(
    ["--total"],
    multiple=True,
    default=("Total",),
    show_default="Total",
    metavar="WORD",
    help="The category that stands for all of them; none: the tables have no margins. Repeatable.",
)
SUPPRESSED = click.Option(
    ["--suppressed"],
    multiple=True,
    metavar="MARKER[=lo..hi]",
    help="What stands for a suppressed number, with what everybody knows of such cells (x=1..3). Repeatable.",
)
NESTED = click.Option(
    ["--nested"],
    multiple=True,
    metavar="CHILD:PARENT|COL:FILE",
    help="A hierarchy: two columns, or a column and its list of codes. Repeatable.",
)
LEAST = click.Option(
    ["--min"],
    metavar="NUMBER|none",
    help="No number is below this (default: 0, unless one shown is; none: nothing is known).",
)
CONTRIBUTORS = click.Option(["--contributors"], type=FILE, help="The contributors behind the cells, one a row (CSV).")
COUNT = click.Option(["--count"], metavar="COL", help="Column with the number of contributors of each cell.")
LARGEST = click.Option(
    ["--largest"],
    multiple=True,
    metavar="COL",
    help="Column with the largest contribution to each cell; once more: the second largest.",
)
ALONG = click.Option(
    ["--along"], multiple=True, metavar="COL", help="Dimension (default: all columns of text). Repeatable."
)
ACROSS = click.Option(["--across"], metavar="NAME", help="The dimension across the top of tables in wide form.")
SUGGEST = flag(
    "--suggest",
    "Also the fewest further cells to suppress so that none is recovered and each has the range that its rule needs.",
)
OWNER = click.Option(
    ["--out-owner"], type=FILE, help="With --out FILE.csv or .xlsx: which cells are suppressed and why (.csv)."
)
ROUND_TO = click.Option(
    ["--round-to"],
    metavar="STEP",
    help="With --out FILE.csv or .xlsx: suppress nothing, but write multiples of STEP that still add up.",
)
CELLS = click.Option(
    ["--cells"], type=FILE, help="Also write the suppressed cells as a .csv: `keyhole verify --data` replays on it."
)

READ = (VALUE, TOTAL, SUPPRESSED, NESTED, ROUNDING)  # how tables are read
CROSSTABS = (*READ, ALONG, ACROSS)
CONTRIBUTED = (CONTRIBUTORS, COUNT, LARGEST)  # who stands behind a cell
