"""L-BFGS-B: quasi-Newton on the log likelihood inside the bounds, for large logs."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction, Watch
from keyhole.attacks.batch import BatchAttack
from keyhole.attacks.estimates.matrix_free import (
    build_plain_operator,
    build_weighted_operator,
    reconstruct_in_box,
    weigh_ends,
)
from keyhole.attacks.estimates.sparse_fit import fit_sparse
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.status import SolverStatus

_ROUND_CORNER = 0.02  # Laplace losses are rounded off within this share of the noise scale: sqrt(r^2 + d^2) - d


class LBFGS(BatchAttack):
    """Maximum likelihood over the bounds, matrix-free, by limited-memory quasi-Newton steps.

    Guarantee: a stationary point of a convex loss is its minimum; Laplace losses are smoothed by `_ROUND_CORNER`.
    Honours bounds and single-record facts; one-sided answers enter by squared distance. A large sparse log is first
    fitted by LSQR. Cost: two passes over the log per step. References: byrd1995, paige1982, dostal2005.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> e = from_arrays(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), [3.0, 5.0, 4.0])
    >>> attack = LBFGS(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(6).tolist()
    [1.0, 2.0, 3.0]
    """

    name: ClassVar[str] = "lbfgs"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def _solve(self, problem: Problem) -> Reconstruction:
        if problem.csr is not None:
            return fit_sparse(problem, self.watch, maximise_likelihood)
        return reconstruct_in_box(problem, _minimise, self.watch)


def maximise_likelihood(
    problem: Problem, u: Floats, status: SolverStatus, watch: Watch | None
) -> tuple[Floats, SolverStatus]:
    """From a least-squares fit in the box to the most likely values there, where the laws of the answers ask for it.

    Intervals that the fit misses do; so does Laplace noise, but only with two answers to an unknown: with fewer the
    best linear fit, with its prior, is nearer.
    """
    laplace = int((problem.law == NoiseLaw.LAPLACE).sum()) >= 2 * int(problem.touched().sum())
    interval = problem.law == NoiseLaw.INTERVAL
    missed = np.abs(problem.residuals(build_plain_operator(problem).apply(u)))[interval]
    if not laplace and not (missed > 1e-7 * (1 + np.abs(problem.y[interval]))).any():
        return u, status
    start = np.clip(u, problem.lower, problem.upper)
    return _minimise(problem, problem.y, problem.lower, problem.upper, start, watch)


def _minimise(
    problem: Problem, y: Floats, lower: Floats, upper: Floats, start: Floats, watch: Watch | None
) -> tuple[Floats, SolverStatus]:
    optimize: Any = import_module("scipy.optimize")  # slow to import, and typed beyond what is used here
    op, root = build_weighted_operator(problem), np.sqrt(problem.weights())
    lo, hi = weigh_ends(problem, y, op)
    laplace, corner = problem.law == NoiseLaw.LAPLACE, _ROUND_CORNER

    def loss(t: Floats) -> tuple[float, Floats]:
        v = op.apply(t)
        r = np.minimum(v - lo, 0.0) + np.maximum(v - hi, 0.0)
        soft = np.sqrt(r**2 + corner**2)
        value = np.where(laplace, soft - corner, r**2 / 2)
        return float(value.sum()), op.adjoint(np.where(laplace, r / soft, r))

    latest, steps = start * root, 0

    def seen(t: Floats) -> None:
        nonlocal latest, steps
        latest, steps = t.copy(), steps + 1
        if watch is not None:
            watch(steps, problem.residual(op.apply(t) / op.rows))

    try:
        found = optimize.minimize(
        loss, start * root, jac=True, method="L-BFGS-B", callback=seen,
            bounds=optimize.Bounds(lower * root, upper * root),
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-11, "maxcor": 20},
    )  # fmt: skip
    except KeyboardInterrupt:  # the best so far is the answer
        return np.clip(latest / root, lower, upper), SolverStatus.INTERRUPTED
    status = SolverStatus.ITERATION_LIMIT if found.status == 1 else SolverStatus.CONVERGED
    return np.clip(found.x / root, lower, upper), status
