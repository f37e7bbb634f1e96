"""Integer systems lo <= C z <= hi, 0 <= z <= top, solved exactly by CP-SAT, in the process where it runs (`apart`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.extras import import_extra
from keyhole.solve.integers.other_process import call_apart
from keyhole.solve.status import SolverStatus

Ints = NDArray[np.int64]

EVERY = 4096  # tables up to which all of them are listed
EACH = 2.0  # seconds for one end


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSolution:
    """Different solutions found (one a row; none if infeasible or out of time) and how the search ended.

    `unique`: the one solution is all there is; `complete`: those found are all there are.
    """

    solutions: Ints
    status: SolverStatus
    unique: bool
    complete: bool = False


def solve_integers(
    C: NDArray[Any], lo: Ints, hi: Ints, top: Ints, *, seconds: float = 20.0, samples: int = 16, seed: int = 1
) -> IntegerSolution:
    """All tables that meet every row where at most `EVERY` do, and otherwise up to `samples` different ones.

    Guarantee: `OPTIMAL` means that no table exists but those given (`unique`: just one); `INFEASIBLE` that none does;
    `FEASIBLE` gives different solutions pulled apart by random objectives (not a uniform sample); `ITERATION_LIMIT`
    that `seconds` ran out first.

    >>> s = solve_integers(np.array([[1, 1, 0], [0, 1, 1]]), *(np.array([2, 1]),) * 2, np.ones(3, dtype=np.int64))
    >>> s.solutions.tolist(), s.unique
    ([[1, 1, 0]], True)
    """
    job = _job(np.asarray(C), lo, hi, top) | {"seconds": seconds, "samples": samples, "seed": seed, "every": EVERY}
    reply = call_apart(_solved, job)
    found = np.array(reply["solutions"], dtype=np.int64).reshape(-1, len(top))
    complete = reply["status"] == SolverStatus.OPTIMAL.value
    return IntegerSolution(found, SolverStatus(reply["status"]), complete and len(found) == 1, complete)


def extreme_tables(
    C: NDArray[Any], lo: Ints, hi: Ints, top: Ints, wanted: Sequence[tuple[int, int]], *, seconds: float = 20.0
) -> Ints:
    """Tables that meet every row, one a row: for each wanted (k, sign) one with sign * z_k as large as time allows.

    Fewer than wanted where one table is the largest of several, where time is up, or where there is none at all.

    >>> extreme_tables(np.array([[1, 1, 1]]), *(np.array([2]),) * 2, np.ones(3, dtype=np.int64), [(0, -1)]).tolist()
    [[0, 1, 1]]
    """
    job = _job(np.asarray(C), lo, hi, top) | {"seconds": seconds, "seed": 1, "wanted": [list(w) for w in wanted]}
    return np.array(call_apart(_solved, job)["solutions"], dtype=np.int64).reshape(-1, len(top))


def _job(C: NDArray[Any], lo: Ints, hi: Ints, top: Ints) -> dict[str, Any]:
    rows = [[[int(k), int(c[k])] for k in np.flatnonzero(c)] for c in C]
    ends = {"lo": [int(v) for v in lo], "hi": [int(v) for v in hi], "top": [int(v) for v in top]}
    return {"rows": rows} | ends


def _solved(job: dict[str, Any]) -> dict[str, Any]:
    """Runs apart: build the model, list every solution if they are few, pull some apart if they are many."""
    import random
    import time

    cp_model: Any = import_extra("ortools.sat.python.cp_model", "solving in whole numbers")

    model = cp_model.CpModel()
    z = [model.new_int_var(0, t, f"z{k}") for k, t in enumerate(job["top"])]
    for row, lo, hi in zip(job["rows"], job["lo"], job["hi"], strict=True):
        model.add_linear_constraint(sum(c * z[k] for k, c in row), lo, hi)
    start, draw = time.monotonic(), random.Random(job["seed"])

    def solver() -> Any:
        made = cp_model.CpSolver()
        made.parameters.num_workers = 1  # one worker is deterministic
        made.parameters.random_seed = job["seed"]
        made.parameters.max_time_in_seconds = max(0.1, job["seconds"] - (time.monotonic() - start))
        return made

    if "wanted" in job:
        return {"solutions": _extremes(job["wanted"], model, z, solver, start + job["seconds"])}
    first = solver()
    outcome = first.solve(model)
    if outcome == cp_model.INFEASIBLE:
        return {"solutions": [], "status": "infeasible"}
    if outcome not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {"solutions": [], "status": "iteration limit"}
    found = {tuple(first.value(v) for v in z)}

    class Listed(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            listed.add(tuple(self.value(v) for v in z))
            if len(listed) > job["every"]:
                self.stop_search()

    listed: set[tuple[int, ...]] = set()
    lister = solver()
    lister.parameters.enumerate_all_solutions = True
    if lister.solve(model, Listed()) == cp_model.OPTIMAL and len(listed) <= job["every"]:
        return {"solutions": sorted(listed), "status": "optimal"}
    for _ in range(4 * job["samples"]):
        if len(found) >= job["samples"] or time.monotonic() - start >= job["seconds"]:
            break
        model.clear_objective()
        model.maximize(sum(draw.choice((-1, 1)) * v for v in z))
        other = solver()
        if other.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            break
        found.add(tuple(other.value(v) for v in z))
    return {"solutions": sorted(found), "status": "feasible"}


def _extremes(wanted: list[list[int]], model: Any, z: list[Any], solver: Any, end: float) -> list[list[int]]:
    """Runs apart: one end after the other, each from the table before it."""
    import time

    found: list[list[int]] = []
    best: dict[tuple[int, int], int] = {}
    for k, sign in wanted:
        if time.monotonic() >= end:
            break
        model.clear_objective()
        model.maximize(sign * z[k])
        made = solver()
        made.parameters.max_time_in_seconds = min(EACH, max(0.1, end - time.monotonic()))
        outcome = made.status_name(made.solve(model))
        if outcome == "INFEASIBLE":
            break
        if outcome not in ("OPTIMAL", "FEASIBLE"):
            continue
        table = [int(made.value(v)) for v in z]
        if any(table[j] * s > best.get((j, s), -(2**62)) for j, s in wanted):
            found.append(table)
        for j, s in wanted:
            best[j, s] = max(best.get((j, s), -(2**62)), table[j] * s)
        model.clear_hints()
        for v, value in zip(z, table, strict=True):
            model.add_hint(v, value)
    return found
