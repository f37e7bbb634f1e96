"""Least squares of minimum norm: the plainest attack, and the best linear one; with a matrix, and without."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction
from keyhole.attacks.batch import DENSE_LIMIT, BatchAttack, make_reconstruction, refuse_contradiction
from keyhole.attacks.estimates.matrix_free import compute_row_noise, reconstruct_matrix_free, solve_cg
from keyhole.attacks.estimates.sparse_fit import fit_sparse
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.solve.decode.lstsq import minimum_norm
from keyhole.solve.status import SolverStatus


class LeastSquares(BatchAttack):
    """x_hat = pinv(A) y, weighted by the known noise; exact answers are met exactly.

    Guarantee: records that the exact rows determine come out exact; among all fits it is the one of least norm. It is
    the maximum-likelihood estimate for Gaussian noise and the best linear unbiased one for Laplace. Equality facts are
    honoured; bounds are not (refused). Cost: one singular value decomposition, O(m K min(m, K)); large and sparse, LSQR
    with O(entries) a step; above `batch.DENSE_LIMIT` entries conjugate gradients without a matrix. References:
    golub2013, paige1982.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> e = from_arrays(np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 1, 0]]), [32.1, 15.5, 11.4])
    >>> attack = LeastSquares(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(4).tolist()
    [5.7, 5.2, 5.1667, 5.1667, 5.7, 5.1667]
    """

    name: ClassVar[str] = "least-squares"

    def _solve(self, problem: Problem) -> Reconstruction:
        if problem.csr is not None:
            return fit_sparse(problem, self.watch)
        if problem.m * problem.p > DENSE_LIMIT:
            u, status = solve_cg(problem, problem.y, self.watch)
            return reconstruct_matrix_free(problem, u, status, solve_cg)
        A = problem.design()
        u = least_norm_over_records(problem, A, problem.y)
        refuse_contradiction(problem, A, A @ u)
        return make_reconstruction(problem, u, A, SolverStatus.CONVERGED)


class ConjugateGradient(BatchAttack):
    """The minimum-norm weighted least-squares fit, matrix-free: two passes over the bit-packed log per step.

    Guarantee: that of `LeastSquares`, after convergence. Bounds are refused. Memory: the packed log and a few vectors.
    Reference: hestenes1952.

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


def least_norm_over_records(problem: Problem, A: Floats, y: Floats) -> Floats:
    """`minimum_norm` in the norm of records: an atom of s records counts s times."""
    root = np.sqrt(problem.weights())
    return minimum_norm(A / root, y, compute_row_noise(problem)) / root
