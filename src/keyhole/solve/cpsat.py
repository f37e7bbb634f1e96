"""Integer systems lo <= C z <= hi, 0 <= z <= top, solved exactly by CP-SAT in a child process.

CP-SAT (OR-tools) and HiGHS cannot live in one process, so the solver always runs in a child that speaks JSON: this
module is also the child's program (`python -m keyhole.solve.cpsat`).
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import MissingExtra
from keyhole.solve.status import Status

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSolution:
    """Solutions found (one a row; none if infeasible or out of time), how the search ended, and whether one is all."""

    solutions: Ints
    status: Status
    unique: bool


def solve_integers(
    C: NDArray[Any], lo: Ints, hi: Ints, top: Ints, *, seconds: float = 20.0, samples: int = 16, seed: int = 1
) -> IntegerSolution:
    """A table that meets every row; proof that it is the only one, or up to `samples` different ones.

    Guarantee: `OPTIMAL` with `unique` means that no other table exists; `INFEASIBLE` that none does; `FEASIBLE` gives
    solutions pulled apart by random objectives (not a uniform sample); `ITERATION_LIMIT` that `seconds` ran out first.

    >>> s = solve_integers(np.array([[1, 1, 0], [0, 1, 1]]), *(np.array([2, 1]),) * 2, np.ones(3, dtype=np.int64))
    >>> s.solutions.tolist(), s.unique
    ([[1, 1, 0]], True)
    """
    if importlib.util.find_spec("ortools") is None:
        raise MissingExtra("exact integer decoding", "attack")
    job = {
        "rows": [[[int(k), int(c[k])] for k in np.flatnonzero(c)] for c in np.asarray(C)],
        "lo": [int(v) for v in lo],
        "hi": [int(v) for v in hi],
        "top": [int(v) for v in top],
        "seconds": seconds,
        "samples": samples,
        "seed": seed,
    }
    child = subprocess.run(
        [sys.executable, "-m", "keyhole.solve.cpsat"],
        input=json.dumps(job), capture_output=True, text=True, timeout=seconds + 60, check=False,
    )  # fmt: skip
    if child.returncode != 0:
        raise RuntimeError(f"the CP-SAT child failed: {child.stderr.strip().splitlines()[-1:]}")
    reply = json.loads(child.stdout)
    found = np.array(reply["solutions"], dtype=np.int64).reshape(-1, len(top))
    return IntegerSolution(found, Status(reply["status"]), bool(reply["unique"]))


def _child(job: dict[str, Any]) -> dict[str, Any]:
    """Runs in the child: build the model, solve, ask for a second solution, then for more."""
    import random
    import time

    cp_model: Any = import_module("ortools.sat.python.cp_model")

    model = cp_model.CpModel()
    z = [model.new_int_var(0, t, f"z{k}") for k, t in enumerate(job["top"])]
    for row, lo, hi in zip(job["rows"], job["lo"], job["hi"], strict=True):
        model.add_linear_constraint(sum(c * z[k] for k, c in row), lo, hi)
    start, draw = time.monotonic(), random.Random(job["seed"])

    def solve() -> Any:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1  # one worker is deterministic
        solver.parameters.random_seed = job["seed"]
        solver.parameters.max_time_in_seconds = max(0.1, job["seconds"] - (time.monotonic() - start))
        return solver, solver.solve(model)

    solver, outcome = solve()
    if outcome == cp_model.INFEASIBLE:
        return {"solutions": [], "status": "infeasible", "unique": False}
    if outcome not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {"solutions": [], "status": "iteration limit", "unique": False}
    first = [solver.value(v) for v in z]
    found = [first]
    differs = []
    for v, value, top in zip(z, first, job["top"], strict=True):
        for lo, hi in ((0, value - 1), (value + 1, top)):
            if lo <= hi:
                other = model.new_bool_var("")
                model.add_linear_constraint(v, lo, hi).only_enforce_if(other)
                differs.append(other)
    model.add_bool_or(differs)
    while len(found) < job["samples"] and time.monotonic() - start < job["seconds"]:
        model.clear_objective()
        if len(found) > 1:
            model.maximize(sum(draw.choice((-1, 1)) * v for v in z))
        solver, outcome = solve()
        if outcome == cp_model.INFEASIBLE:
            return {"solutions": found, "status": "optimal", "unique": True}
        if outcome not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            break
        found.append([solver.value(v) for v in z])
    return {"solutions": found, "status": "feasible", "unique": False}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_child(json.loads(sys.stdin.read()))))
