"""The rows behind published statistics, and whether they are the only ones: the verb of `keyhole reconstruct`.

Each kind of file brings its own imports: a model needs no SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keyhole.attacks.microdata.statistics import Statistics, load_statistics
from keyhole.errors import ConfigError, ContradictionError
from keyhole.model.predicate import Scalar
from keyhole.solve.integers.other_process import call_apart, call_until_stopped
from keyhole.solve.integers.search import SharedValues, find_irreducible, find_shared_values, search_feasible
from keyhole.solve.integers.system import IntegerSystem, Ints
from keyhole.solve.status import SolverStatus

if TYPE_CHECKING:
    from keyhole.crosstab.cells import TableLayout

RowValues = dict[str, Scalar]
Progress = Callable[[str, int, int], None]
SHOWN = 12
MOST_ROWS = 10**6
SECONDS = 60.0
SHEETS = (".csv", ".tsv", ".txt", ".xlsx")


class RebuiltStatus(StrEnum):
    """How a reconstruction ended: all is proved; rows, but the time was up before it was known what others there are;
    the time was up before any rows were found; the same where Ctrl-C ended the search."""

    PROVED = "proved"
    ROWS = "rows found, others not searched to the end"
    LIMIT = "time limit"
    STOPPED_ROWS = "rows found, stopped before others were searched to the end"
    STOPPED = "stopped before any rows were found"


@dataclass(frozen=True, slots=True)
class RebuiltRows:
    """The rows of one solution, each as often as it occurs; `common` those of all solutions (None: not known).

    `cells` are the numbers that were searched for, `of` how many the model had at first.
    """

    status: RebuiltStatus
    unique: bool | None
    rows: tuple[RowValues, ...]
    common: tuple[RowValues, ...] | None
    cells: int
    of: int

    @property
    def proved(self) -> bool:
        """Is it proved what all solutions share?"""
        return self.status is RebuiltStatus.PROVED


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


def rebuild_rows(
    system: IntegerSystem,
    row: Callable[[int], RowValues],
    told: Callable[[int], str],
    seconds: float,
    of: int,
    progress: Progress | None = None,
    *,
    valued: bool = False,
    bounding: int | None = None,
) -> RebuiltRows:
    """Search; `row` are the values that a column counts, `told` a group of rows in words.

    With `valued` a column is listed once, with its value, not once for each row that it counts. `bounding` is the
    statement from which the upper ends of all columns follow.

    Raises ContradictionError with an irreducible set of statements where no rows give them all.
    """
    if progress is not None:
        progress("rows that give these statistics", 0, 0)
    found, stopped = call_until_stopped(find_shared_values, system, seconds)
    if found.status is SolverStatus.INFEASIBLE:
        raise explain_contradiction(system, told, seconds, bounding)
    listed = _rows(found.solution, system.asked, row, valued=valued)
    status = _status(found, stopped)
    common = None if found.common is None else _rows(found.common, system.asked, row, valued=valued)
    return RebuiltRows(status, _unique(found), listed, common, system.asked, of)


def _status(found: SharedValues, stopped: bool) -> RebuiltStatus:
    if found.status is SolverStatus.OPTIMAL:
        return RebuiltStatus.PROVED
    if found.solution is None:
        return RebuiltStatus.STOPPED if stopped else RebuiltStatus.LIMIT
    return RebuiltStatus.STOPPED_ROWS if stopped else RebuiltStatus.ROWS


def _unique(found: SharedValues) -> bool | None:
    return None if found.solution is None else found.unique


def _rows(values: Ints | None, asked: int, row: Callable[[int], RowValues], *, valued: bool) -> tuple[RowValues, ...]:
    if values is None:
        return ()
    if valued:
        return tuple(row(int(k)) | {"value": int(values[k])} for k in np.flatnonzero(values[:asked]))
    return tuple(row(int(k)) for k in np.flatnonzero(values[:asked]) for _ in range(int(values[k])))


def explain_contradiction(
    system: IntegerSystem, told: Callable[[int], str], seconds: float, bounding: int | None = None
) -> ContradictionError:
    """Which statements cannot all be true; none of them can be left out."""
    (groups, sure), stopped = call_until_stopped(find_irreducible, system, seconds)
    if bounding is not None and bounding not in groups:  # its ends were there all the time: is it needed?
        wide = replace(system, upper=np.full(system.columns, MOST_ROWS))
        if call_apart(search_feasible, wide, groups, seconds) is not SolverStatus.INFEASIBLE:
            groups = tuple(sorted((bounding, *groups)))
    listed = "; ".join(told(group) for group in groups[:SHOWN])
    more = f"; and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
    ended = "it was stopped" if stopped else "the time was up"
    least = "none of them can be left out" if sure else f"{ended} before all that can be left out was found"
    count = "1 statement" if len(groups) == 1 else f"these {len(groups)} statements"
    return ContradictionError(f"no rows give {count} ({least}): {listed}{more}")
