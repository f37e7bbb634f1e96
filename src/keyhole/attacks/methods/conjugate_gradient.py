"""Conjugate gradients on the normal equations: least squares for logs too large for a matrix."""

from __future__ import annotations

from typing import ClassVar

from keyhole.attacks.base import Reconstruction
from keyhole.attacks.batch import BatchAttack
from keyhole.attacks.estimates.matrix_free import reconstruct_matrix_free, solve_cg
from keyhole.attacks.problem.decoding_problem import Problem


class ConjugateGradient(BatchAttack):
    """The minimum-norm weighted least-squares fit, matrix-free: two passes over the bit-packed log per step.

    Guarantee: that of `LeastSquares`, after convergence. Bounds are refused. Memory: the packed log and a few vectors.
    Reference: hestenes1952.

    >>> import numpy as np
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> e = from_arrays(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), [3.0, 5.0, 4.0])
    >>> attack = ConjugateGradient(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(9).tolist()
    [1.0, 2.0, 3.0]
    """

    name: ClassVar[str] = "conjugate-gradient"

    def _solve(self, problem: Problem) -> Reconstruction:
        u, status = solve_cg(problem, problem.y, self.watch)
        return reconstruct_matrix_free(problem, u, status, solve_cg)
