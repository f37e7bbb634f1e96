"""Projected Jacobi: every unknown moves at once by its own share of the gradient, inside its bounds."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction, Watch
from keyhole.attacks.batch import BatchAttack
from keyhole.attacks.estimates.matrix_free import build_weighted_operator, reconstruct_in_box, weigh_ends
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.solve.decode.jacobi import projected_jacobi
from keyhole.solve.status import SolverStatus


class Jacobi(BatchAttack):
    """Box least squares without a matrix: x <- clip(x + omega D^-1 A^T W (y - A x)), accelerated.

    Guarantee: converges to a minimiser of the weighted squared error over the bounds (intervals and one-sided answers
    by squared distance). Honours bounds and single-record facts. Cost: two passes over the log per step.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> e = from_arrays(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), [3.0, 5.0, 4.0])
    >>> attack = Jacobi(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(6).tolist()
    [1.0, 2.0, 3.0]
    """

    name: ClassVar[str] = "jacobi"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def _solve(self, problem: Problem) -> Reconstruction:
        return reconstruct_in_box(problem, _solve, self.watch)


def _solve(
    problem: Problem, y: Floats, lower: Floats, upper: Floats, start: Floats, watch: Watch | None
) -> tuple[Floats, SolverStatus]:
    op, root = build_weighted_operator(problem), np.sqrt(problem.weights())
    lo, hi = weigh_ends(problem, y, op)
    t, status, _ = projected_jacobi(op, lo, hi, lower * root, upper * root, start * root, watch=watch)
    return t / root, status
