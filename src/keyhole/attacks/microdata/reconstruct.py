"""The rows behind published statistics, and whether they are the only ones: the verb of `keyhole reconstruct`.

Each kind of file brings its own imports: a model needs no SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
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
    """The rows of one solution, each as often as it occurs; `common` those that all solutions are proved to share.

    Where the search ended early more rows may be common. `cells` are the numbers that were searched for, `of` how many
    the model had at first; `people`: the model numbers its people, and the rows are they, without their numbers.
    """

    status: RebuiltStatus
    unique: bool | None
    rows: tuple[RowValues, ...]
    common: tuple[RowValues, ...] | None
    cells: int
    of: int
    people: bool = False

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
    from keyhole.crosstab.options import TableOptions

    layout = TableOptions(value, total, suppressed, nested, by=by, across=across).layout
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
    people = name_people(model.names, model.system)
    names = model.names if people is None else people
    kept = [names[k] for k in small.kept.tolist()]
    labels = list(dict.fromkeys(kept))

    def row(column: int) -> RowValues:
        return {"variable" if people is None else "person": labels[column]}

    def told(group: int) -> str:
        return model.rows[group]

    searched, columns = _sum_by_label(small.system, kept, labels), model.system.columns
    found = rebuild_rows(searched, row, told, time_limit, columns, progress, valued=people is None)
    pairs = [(name, n) for name, n in zip(names, small.fixed.tolist(), strict=True) if n]
    settled: list[RowValues] = [{"variable": name, "value": n} for name, n in pairs]
    if people is not None:
        settled = [{"person": name} for name, n in pairs for _ in range(n)]
        found = replace(found, people=True)
    if not settled or not found.rows:
        return found
    common = (*settled, *(found.common or ()))
    return replace(found, rows=(*settled, *found.rows), common=common)


def name_people(names: Sequence[str], system: IntegerSystem) -> tuple[str, ...] | None:
    """The variables of a model without the number of the person they are about; None: none is numbered.

    In C_block_female_2_Y the 2 is such a number if it runs from 0 or 1 in all variables that are alike otherwise, and
    if these are interchangeable: they stand in the same rows, but for rows that say what kind one person is of.
    """
    parts = [name.split("_") for name in names]
    width = max(map(len, parts), default=0)
    whole = [each for each in parts if len(each) == width]
    for k in range(1, width):
        alike: dict[tuple[str, ...], list[str]] = {}
        for each in whole:
            alike.setdefault((*each[:k], *each[k + 1 :]), []).append(each[k])
        runs = [sorted(map(int, g)) if all(n.isdecimal() for n in g) else [9] for g in alike.values()]
        through = all(run[0] <= 1 and run == list(range(run[0], run[0] + len(run))) for run in runs)
        if through and any(len(run) > 1 for run in runs):
            numbers = np.array([int(each[k]) if len(each) == width else -1 for each in parts])
            labels = tuple(
                "_".join(each[:k] + each[k + 1 :]) if len(each) == width else "_".join(each) for each in parts
            )
            if _interchangeable(system, labels, numbers):
                return labels
    return None


def _interchangeable(system: IntegerSystem, labels: Sequence[str], numbers: Ints) -> bool:
    """Do columns with one label stand in the same rows, but for rows of one person? By a random sum of each column."""
    some = np.diff(system.start) > 0
    at = system.start[:-1][some]
    one = np.zeros(system.rows, dtype=np.bool_)
    if len(at):
        told = numbers[system.column]
        alone = np.minimum.reduceat(told, at) == np.maximum.reduceat(told, at)
        units = (np.minimum.reduceat(system.coefficient, at) == 1) & (np.maximum.reduceat(system.coefficient, at) == 1)
        one[some] = alone & units & (system.hi[some] <= 1)
    key = np.random.default_rng(0).integers(1 << 63, size=system.rows, dtype=np.uint64)
    key[one] = 0
    sums = np.zeros(system.columns, dtype=np.uint64)
    np.add.at(sums, system.column, key[system.row_of] * system.coefficient.astype(np.uint64))
    seen: dict[str, tuple[int, int, int]] = {}
    columns = zip(sums.tolist(), system.lower.tolist(), system.upper.tolist(), strict=True)
    return all(seen.setdefault(label, column) == column for label, column in zip(labels, columns, strict=True))


def _sum_by_label(system: IntegerSystem, kept: Sequence[str], labels: Sequence[str]) -> IntegerSystem:
    """The same system, asked for the sum of the columns of each label; these sums are its first columns."""
    if len(labels) == len(kept):
        return system
    at = {label: i for i, label in enumerate(labels)}
    of = np.array([at[label] for label in kept], dtype=np.int64)
    n, order = len(labels), np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=n)
    zeros = np.zeros(n, dtype=np.int64)

    def add(ends: Ints) -> Ints:
        return np.concatenate([np.bincount(of, weights=ends, minlength=n).astype(np.int64), ends])

    starts = np.cumsum([0, *counts])
    sums = [np.append(order[a:b] + n, i) for i, (a, b) in enumerate(pairwise(starts.tolist()))]
    signs = np.ones(len(kept) + n, dtype=np.int64)
    signs[np.cumsum(counts + 1) - 1] = -1
    return replace(
        system,
        start=np.concatenate([system.start, system.start[-1] + np.cumsum(counts + 1)]),
        column=np.concatenate([system.column + n, *sums]),
        coefficient=np.concatenate([system.coefficient, signs]),
        lo=np.concatenate([system.lo, zeros]),
        hi=np.concatenate([system.hi, zeros]),
        lower=add(system.lower),
        upper=add(system.upper),
        groups=np.concatenate([system.groups, np.full(n, -1)]),
        wanted=n,
    )


def _tabled(paths: Sequence[Path], layout: TableLayout, nested: Sequence[str], rounding: str | None) -> Statistics:
    from keyhole.attacks.microdata.statistics import read_count_tables
    from keyhole.crosstab.cells import check_totals, read_cells
    from keyhole.crosstab.nesting import read_nesting
    from keyhole.crosstab.options import read_rounding_step
    from keyhole.crosstab.publication import combine_tables
    from keyhole.crosstab.sheet import read_sheets

    read = [read_cells(sheet, layout) for sheet in read_sheets(paths)]
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
    groups = tuple(group for group in groups if group >= 0)  # sums of columns are no statements
    listed = "; ".join(told(group) for group in groups[:SHOWN])
    more = f"; and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
    ended = "it was stopped" if stopped else "the time was up"
    least = "none of them can be left out" if sure else f"{ended} before all that can be left out was found"
    count = "1 statement" if len(groups) == 1 else f"these {len(groups)} statements"
    return ContradictionError(f"no rows give {count} ({least}): {listed}{more}")
