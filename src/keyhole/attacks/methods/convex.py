"""Any convex background knowledge, through cvxpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from keyhole.attacks.base import Reconstruction, Target
from keyhole.attacks.batch import BatchAttack, find_culprits, form_dense_design, make_reconstruction
from keyhole.attacks.estimates.standard_errors import find_midpoint
from keyhole.attacks.problem.cell_constraints import build_cell_rows
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem, refine_atoms
from keyhole.errors import CannotHonour, ContradictionError
from keyhole.extras import import_extra
from keyhole.solve.status import SolverStatus

Knows = Callable[[Any], Sequence[Any]]  # a cvxpy expression of the n values -> cvxpy constraints on it


def nothing_more(values: Any) -> Sequence[Any]:
    """No further knowledge."""
    return ()


class Convex(BatchAttack):
    """Maximum likelihood over the bounds, the facts and any convex constraints you can write in cvxpy.

    `knows(x)` receives the expression of the n record values and returns constraints. Among equally likely values it
    gives the one nearest to the prior's middle. Guarantee: that of the cvxpy solver chosen (barrier methods). Slower
    than `Bounded`, which needs no extra; take it for knowledge `Bounded` cannot state. Reference: diamond2016.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> e = from_arrays(np.array([[1, 1, 1]]), [6.0])
    >>> attack = Convex(Target.of(e), knows=lambda x: [x[0] >= 3 * x[1], x[2] == 2])
    >>> attack.observe(e)
    >>> attack.estimate().values.round(3).tolist()
    [3.0, 1.0, 2.0]
    """

    name: ClassVar[str] = "convex"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def __init__(self, target: Target, *, knows: Knows = nothing_more) -> None:
        super().__init__(target)
        self.knows = knows

    def _solve(self, problem: Problem) -> Reconstruction:
        cp = import_extra("cvxpy", "the convex attack")
        if self.knows is not nothing_more:
            problem = _one_atom_each(problem)
        A = form_dense_design(problem, self.name)
        u = cp.Variable(problem.p)
        law, scale = problem.law, problem.scale
        constraints, loss = [], 0.0
        exact, interval = law == NoiseLaw.EXACT, law == NoiseLaw.INTERVAL
        if exact.any():
            constraints.append(A[exact] @ u == problem.y[exact])
        extra, lo, hi = build_cell_rows(problem)
        B = np.concatenate([A[interval], extra])
        low, high = np.concatenate([problem.lo[interval], lo]), np.concatenate([problem.hi[interval], hi])
        for side, ends in ((1.0, low), (-1.0, -high)):
            finite = np.isfinite(ends)
            if finite.any():
                constraints.append(side * (B[finite] @ u) >= ends[finite])
        for side, ends in ((1.0, problem.lower), (-1.0, -problem.upper)):
            finite = np.isfinite(ends)
            if finite.any():
                constraints.append(side * u[finite] >= ends[finite])
        if (law == NoiseLaw.LAPLACE).any():
            rows = law == NoiseLaw.LAPLACE
            loss += cp.norm1(cp.multiply(1 / scale[rows], A[rows] @ u - problem.y[rows]))
        if (law == NoiseLaw.GAUSSIAN).any():
            rows = law == NoiseLaw.GAUSSIAN
            loss += cp.sum_squares(cp.multiply(1 / scale[rows], A[rows] @ u - problem.y[rows])) / 2
        if self.knows is not nothing_more:
            if len(problem.features) > 1:
                raise CannotHonour("convex constraints on values need a log without private conditions")
            constraints.extend(self.knows(u))
        # Nothing noisy: every feasible table is equally likely, so take the one nearest to the prior's middle.
        if isinstance(loss, float):
            loss = cp.sum_squares(cp.multiply(np.sqrt(problem.weights()), u - find_midpoint(problem)))
        task = cp.Problem(cp.Minimize(loss), constraints)
        try:
            task.solve()
        except cp.error.SolverError as error:
            raise CannotHonour(f"cvxpy found no solver that ends on this problem: {error}") from None
        if task.status in ("infeasible", "infeasible_inaccurate", "unbounded") or u.value is None:
            names = find_culprits(problem, A)
            raise ContradictionError(
                f"no values explain the answers to {', '.join(names) or 'the log'} within the stated knowledge: "
                "one is wrong, or noise was added; state it (--noise laplace:2)"
            )
        status = SolverStatus.CONVERGED if task.status == "optimal" else SolverStatus.STALLED
        found = np.clip(np.asarray(u.value, dtype=np.float64), problem.lower, problem.upper)
        return make_reconstruction(problem, found, A, status, f"cvxpy with {task.solver_stats.solver_name}")


def _one_atom_each(problem: Problem) -> Problem:
    """Every record its own atom, in record order: constraints may then name any record."""
    n = problem.target.n
    return refine_atoms(problem, np.arange(n, dtype=np.int32), np.ones(n, dtype=np.int64), problem.of)
