"""The rows behind published statistics, and whether they are the only ones: the verb of `keyhole reconstruct`.

Each kind of file brings its own imports: a model needs no SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from keyhole.attacks.microdata.outcome import Progress, RebuiltRows, RowValues, rebuild_rows
from keyhole.attacks.microdata.statistics import Statistics, load_statistics
from keyhole.errors import ConfigError, ContradictionError

if TYPE_CHECKING:
    from keyhole.crosstab.cells import TableLayout

SECONDS = 60.0
SHEETS = (".csv", ".tsv", ".txt", ".xlsx")


def reconstruct(
    files: str | Path | Sequence[str | Path],
    *,
    value: str | None = None,
    total: str | Sequence[str] = "Total",
    suppressed: Sequence[str] = (),
    nested: Sequence[str] = (),
    by: Sequence[str] = (),
    across: str | None = None,
    rounding: str | None = None,
    time_limit: float = SECONDS,
    progress: Progress | None = None,
) -> RebuiltRows:
    """The rows that give published statistics: a .toml of figures per group, tables of counts, or an .lp model.

    `value` to `rounding` are about tables, as in `keyhole tables`. Raises ContradictionError where no rows give all
    of them, with a set of statements none of which can be left out.
    """
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    kinds = {_kind(path) for path in paths}
    if len(kinds) != 1 or (kinds != {"tables"} and len(paths) != 1):
        raise ConfigError("name one .toml, one .lp, or one or several tables (.csv, .tsv, .xlsx)")
    if kinds == {"lp"}:
        return _from_model(paths[0], time_limit, progress)
    if kinds == {"toml"}:
        return from_statistics(load_statistics(paths[0]), time_limit, progress)
    if value is None:
        raise ConfigError("tables of counts: --value names the column with the counts")
    from keyhole.crosstab.options import make_layout

    layout = make_layout(value, total, suppressed, nested, by=by, across=across)
    return from_statistics(_tabled(paths, layout, nested, rounding), time_limit, progress)


def from_statistics(given: Statistics, time_limit: float = SECONDS, progress: Progress | None = None) -> RebuiltRows:
    """The rows that give figures per group.

    >>> from keyhole.attacks.microdata.statistics import parse_statistics
    >>> text = "[columns.age]\\nmin = 0\\nmax = 9\\n[[statistics]]\\ncount = 2\\nmax = { age = 5 }\\nsum = { age = 7 }"
    >>> found = from_statistics(parse_statistics(text))
    >>> found.rows, found.unique
    (({'age': 2}, {'age': 5}), True)
    """
    from keyhole.attacks.microdata.model import build_row_model

    model = build_row_model(given)

    def told(group: int) -> str:
        return str(given.statistics[group])

    asked, bounding = model.system.asked, model.bounding
    return rebuild_rows(model.system, model.row, told, time_limit, asked, progress, bounding=bounding)


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".lp"):
        return "lp"
    if name.endswith(".toml"):
        return "toml"
    if Path(name).suffix in SHEETS:
        return "tables"
    raise ConfigError(f"{path.name}: what is it? Statistics end in .toml, tables in .csv, .tsv or .xlsx, models in .lp")


def _from_model(path: Path, time_limit: float, progress: Progress | None) -> RebuiltRows:
    """The columns of a model that are not 0."""
    from keyhole.solve.integers.lp_file import read_lp
    from keyhole.solve.integers.reduce import reduce_system

    model = read_lp(path)
    small = reduce_system(model.system)

    def row(column: int) -> RowValues:
        return {"variable": model.names[int(small.kept[column])]}

    def told(group: int) -> str:
        return model.rows[group]

    found = rebuild_rows(small.system, row, told, time_limit, model.system.columns, progress, valued=True)
    pairs = zip(model.names, small.fixed.tolist(), strict=True)
    settled: list[RowValues] = [{"variable": name, "value": n} for name, n in pairs if n]
    if not settled or not found.rows:
        return found
    common = None if found.common is None else (*settled, *found.common)
    return replace(found, rows=(*settled, *found.rows), common=common)


def _tabled(paths: Sequence[Path], layout: TableLayout, nested: Sequence[str], rounding: str | None) -> Statistics:
    from keyhole.attacks.microdata.statistics import read_count_tables
    from keyhole.crosstab.cells import check_totals, read_cells
    from keyhole.crosstab.nesting import read_nesting
    from keyhole.crosstab.options import read_rounding_step
    from keyhole.crosstab.publication import combine_tables
    from keyhole.crosstab.sheet import read_sheet

    read = [read_cells(read_sheet(path), layout) for path in paths]
    check_totals(read, layout)
    above = read_nesting(nested, read)
    step = read_rounding_step(rounding or "0")  # counts are exact unless somebody says not
    found = combine_tables(read, above, step)
    if found.misfits:
        raise ContradictionError(f"the tables do not add up: {'; '.join(m.reason for m in found.misfits[:5])}")
    return read_count_tables(found, above, layout.markers)
