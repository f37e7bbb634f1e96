"""What all solutions of an integer system share, by CP-SAT: a first one, then others that differ, until there is none.

`common` starts as the first solution; a solution with as many columns below it as possible lowers it. While many are
lowered all columns are looked at, then some at a time, until CP-SAT proves that none of them goes lower. Then common[j]
is the least value of column j over all solutions. CP-SAT computes in whole numbers, exhaustively, and every
solution is checked here again. A search that ends early claims what was proved by then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyhole.extras import import_extra
from keyhole.solve.integers.stopping import STOPPED
from keyhole.solve.integers.system import NO_END, IntegerSystem, Ints, LinearRow
from keyhole.solve.status import SolverStatus

SMALL = 5000  # columns up to which one worker, which repeats itself, is fast enough
SEED = 1
PARTS = 8  # in which the columns are proved


@dataclass(frozen=True, slots=True, eq=False)
class SharedValues:
    """How the search ended, a solution, and what each column has at least in all of them.

    `OPTIMAL`: proved, and `common` is the least value; `FEASIBLE`: a solution, but the time was up before it was known
    what others there are, and `common` is what was proved by then; `INFEASIBLE`: there is none; `ITERATION_LIMIT`: the
    time was up before one was found. `another` is a second one.
    """

    status: SolverStatus
    solution: Ints | None = None
    common: Ints | None = None
    another: Ints | None = None

    @property
    def unique(self) -> bool | None:
        """Is it the only solution? None if that is not known."""
        if self.status is SolverStatus.OPTIMAL:
            return self.another is None
        return False if self.another is not None else None


def find_shared_values(system: IntegerSystem, seconds: float) -> SharedValues:
    """A solution, and what all of them share, within `seconds`.

    >>> from keyhole.solve.integers.other_process import call_apart
    >>> from keyhole.solve.integers.system import system_of_rows
    >>> two = system_of_rows([LinearRow((0, 1), (1, 1), 2, 2), LinearRow((0,), (1,), 1, 2)], [0, 0], [2, 2])
    >>> found = call_apart(find_shared_values, two, 10)
    >>> found.common.tolist(), found.unique
    ([1, 0], False)
    """
    search = CpSearch(system, seconds)
    status, first = search.solve()
    if first is None:
        return SharedValues(status)
    least = system.lower[: system.asked]
    common, another, proved = first[: system.asked].copy(), None, least.copy()
    size = system.asked
    while (open_ := np.flatnonzero(common > proved)).size:
        part = open_[:size]
        target = least.copy()
        target[part] = common[part]
        status, found = search.solve(below=target)
        if found is not None:
            another = found if another is None else another
            lowered = int((found[: system.asked] < common).sum())
            common = np.minimum(common, found[: system.asked])
            size = system.asked if lowered * PARTS > open_.size else max(1, -(-open_.size // PARTS))
        elif status is SolverStatus.INFEASIBLE:
            proved[part] = common[part]
        else:
            return SharedValues(SolverStatus.FEASIBLE, first, proved, another)
    if another is None:
        status, another = search.solve(above=first[: system.asked])
        if status is SolverStatus.ITERATION_LIMIT:
            return SharedValues(SolverStatus.FEASIBLE, first, proved)
    return SharedValues(SolverStatus.OPTIMAL, first, common, another)


class CpSearch:
    """One model, solved again and again under what was learned."""

    def __init__(self, system: IntegerSystem, seconds: float) -> None:
        self.system = system
        self.until = time.monotonic() + seconds
        self._cp = import_extra("ortools.sat.python.cp_model", "solving in whole numbers")

    def solve(
        self, *, below: Ints | None = None, above: Ints | None = None, only: Iterable[int] | None = None
    ) -> tuple[SolverStatus, Ints | None]:
        """A solution (in some column `below`, or `above`, what is given; under the groups `only`), or why not."""
        model, z = self._model(None if only is None else set(only))
        if below is not None:
            self._elsewhere(model, z, below, -1)
        if above is not None:
            self._elsewhere(model, z, above, 1)
        left = self.until - time.monotonic()
        if left <= 0 or STOPPED.is_set():
            return SolverStatus.ITERATION_LIMIT, None
        solver = self._solver(left)
        ended = self._run(solver, model)
        if ended == self._cp.INFEASIBLE:
            return SolverStatus.INFEASIBLE, None
        if ended not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return SolverStatus.ITERATION_LIMIT, None
        found = np.array([solver.value(v) for v in z], dtype=np.int64)
        assert only is not None or self.system.holds(found), "CP-SAT gave a solution that is none"
        return SolverStatus.FEASIBLE, found

    def _run(self, solver: Any, model: Any) -> int:
        """Solve in a thread of its own, so that Ctrl-C is heard at once."""
        ended: list[Any] = []

        def work() -> None:
            try:
                ended.append(solver.solve(model))
            except Exception as error:  # handed over to whoever waits
                ended.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.05)
                if STOPPED.is_set():
                    solver.stop_search()
        except BaseException:
            solver.stop_search()
            thread.join(5)
            raise
        if isinstance(ended[0], Exception):
            raise ended[0]
        return int(ended[0])

    def _solver(self, seconds: float) -> Any:
        made = self._cp.CpSolver()
        made.parameters.max_time_in_seconds = seconds
        made.parameters.random_seed = SEED
        made.parameters.catch_sigint_signal = False
        if self.system.columns <= SMALL:
            made.parameters.num_workers = 1
        return made

    def _model(self, only: set[int] | None) -> tuple[Any, list[Any]]:
        system, model = self.system, self._cp.CpModel()
        z = [model.new_int_var(lo, hi, "") for lo, hi in zip(system.lower.tolist(), system.upper.tolist(), strict=True)]
        start, column, amount = system.start.tolist(), system.column.tolist(), system.coefficient.tolist()
        for k, (lo, hi, group) in enumerate(
            zip(system.lo.tolist(), system.hi.tolist(), system.groups.tolist(), strict=True)
        ):
            if only is None or group in only:
                part = slice(start[k], start[k + 1])
                self._row(model, z, LinearRow(tuple(column[part]), tuple(amount[part]), lo, hi))
        for choice in system.choices:
            if only is None or choice.group in only:
                picks = [model.new_bool_var("") for _ in choice.alternatives]
                model.add_exactly_one(picks)
                for pick, rows in zip(picks, choice.alternatives, strict=True):
                    for row in rows:
                        self._row(model, z, row).only_enforce_if(pick)
        return model, z

    def _row(self, model: Any, z: list[Any], row: LinearRow) -> Any:
        terms = self._cp.LinearExpr.weighted_sum([z[k] for k in row.columns], list(row.coefficients))
        lo = -(2**60) if row.lo <= -NO_END else row.lo
        hi = 2**60 if row.hi >= NO_END else row.hi
        return model.add_linear_constraint(terms, lo, hi)

    def _elsewhere(self, model: Any, z: list[Any], values: Ints, side: int) -> None:
        """Some column is below (side -1) or above what is given; as many as possible."""
        flags, ends = [], (self.system.lower if side < 0 else self.system.upper).tolist()
        for k, value in enumerate(values.tolist()):
            if value != ends[k]:
                flag = model.new_bool_var("")
                model.add(side * z[k] >= side * value + 1).only_enforce_if(flag)
                flags.append(flag)
        model.add_bool_or(flags)
        model.maximize(sum(flags))


def search_feasible(system: IntegerSystem, groups: Iterable[int], seconds: float) -> SolverStatus:
    """Can these groups of rows hold together?"""
    return CpSearch(system, seconds).solve(only=groups)[0]


def find_irreducible(system: IntegerSystem, seconds: float) -> tuple[tuple[int, ...], bool]:
    """Groups of rows that cannot hold together, none of which can be left out; False: the time was up before that.

    Halves are left out first, then single ones: a deletion filter. Cost: a search for each group of the answer, and
    few more.
    """
    search = CpSearch(system, seconds)
    groups = sorted({*system.groups.tolist(), *(choice.group for choice in system.choices)})
    size = max(1, len(groups) // 2)
    kept, sure = list(groups), True
    while size:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            status, _ = search.solve(only=fewer)
            if status is SolverStatus.INFEASIBLE:
                kept = fewer
            else:
                sure = sure and status is not SolverStatus.ITERATION_LIMIT
                at += size
        size = 0 if size == 1 else max(1, size // 2)
    return tuple(kept), sure
