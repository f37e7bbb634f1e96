"""What came of a reconstruction: the rows, whether they are the only ones, and what all solutions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from keyhole.errors import ContradictionError
from keyhole.model.predicate import Scalar
from keyhole.solve.integers.other_process import call_apart, call_until_stopped
from keyhole.solve.integers.search import SharedValues, find_irreducible, find_shared_values, search_feasible
from keyhole.solve.integers.system import IntegerSystem, Ints
from keyhole.solve.status import SolverStatus

RowValues = dict[str, Scalar]
Progress = Callable[[str, int, int], None]
SHOWN = 12
MOST_ROWS = 10**6


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
