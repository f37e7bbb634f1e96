"""Randomised extended Kaczmarz: converges to the least-squares solution although the answers contradict each other."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Reconstruction, Target
from keyhole.attacks.batch import BatchAttack, form_dense_design, make_reconstruction
from keyhole.attacks.estimates.matrix_free import compute_row_noise
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.status import SolverStatus


class ExtendedKaczmarz(BatchAttack):
    """Two projections a step: z loses its part along a random column, x moves onto a random row of A x = y - z.

    z tends to the part of y that no x explains, so x tends to the minimum-norm least-squares solution, in expectation
    at the rate 1 - sigma_min^2/|A|_F^2 per step. It holds rows and columns, so it is a batch attack: O(mK) memory.
    Bounds are refused. Reference: zouzias2013.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> e = from_arrays(np.array([[1, 0], [1, 0], [0, 1]]), [1.0, 3.0, 5.0])
    >>> attack = ExtendedKaczmarz(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(6).tolist()
    [2.0, 5.0]
    """

    name: ClassVar[str] = "extended-kaczmarz"

    def __init__(self, target: Target, *, passes: int = 2000, tolerance: float = 1e-10, seed: int = 0) -> None:
        super().__init__(target)
        self.passes, self.tolerance, self.seed = passes, tolerance, seed

    def _solve(self, problem: Problem) -> Reconstruction:
        A = form_dense_design(problem, self.name)
        noise = compute_row_noise(problem)
        noise = np.where(noise > 0, noise, float(np.min(noise[noise > 0], initial=1.0)))
        root = np.sqrt(problem.weights())
        B = np.ascontiguousarray(A / root / noise[:, None])
        t, z = np.zeros(problem.p), problem.y / noise
        rng = np.random.default_rng(self.seed)
        rows, columns = (B**2).sum(axis=1), (B**2).sum(axis=0)
        status = SolverStatus.ITERATION_LIMIT
        for done in range(1, self.passes + 1):
            count = 4 * sum(B.shape)
            row = rng.choice(len(rows), count, p=rows / rows.sum())
            column = rng.choice(len(columns), count, p=columns / columns.sum())
            _steps(B, np.ascontiguousarray(B.T), problem.y / noise, t, z, row, column, rows, columns)
            gradient = B.T @ (problem.y / noise - B @ t)
            if np.abs(gradient).max() <= self.tolerance * (1 + np.abs(B.T @ (problem.y / noise)).max()):
                status = SolverStatus.CONVERGED
                break
            try:
                if self.watch is not None:
                    self.watch(done, float(np.abs(gradient).max()))
            except KeyboardInterrupt:  # the best so far is the answer
                status = SolverStatus.INTERRUPTED
                break
        return make_reconstruction(_as_far_off(problem, A, A @ (t / root)), t / root, A, status)


def _as_far_off(problem: Problem, A: Floats, fitted: Floats) -> Problem:
    """Exact answers that contradict one another as noisy ones, as far off as the fit shows: they prove nothing.

    The variance is the sum of squares over the degrees of freedom, with what Student's law adds where those are few.
    """
    exact = problem.law == NoiseLaw.EXACT
    missed = np.abs(problem.residuals(fitted))[exact]
    if not missed.size or missed.max() <= 1e-6 * (1 + float(np.abs(problem.y[exact]).max())):
        return problem
    free = max(1, int(exact.sum()) - int(np.linalg.matrix_rank(A[exact])))
    size = float(np.sqrt((missed**2).sum() / free * (1 + 2 / free)))
    law = np.where(exact, NoiseLaw.GAUSSIAN, problem.law).astype(np.int8)
    return replace(problem, law=law, scale=np.where(exact, size, problem.scale))


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, nogil=True)
def _steps(
    A: Floats,
    At: Floats,
    y: Floats,
    x: Floats,
    z: Floats,
    row: NDArray[np.int64],
    column: NDArray[np.int64],
    rows: Floats,
    columns: Floats,
) -> None:
    for step in range(len(row)):
        i, k = row[step], column[step]
        c = At[k]
        if columns[k] > 0.0:
            shrink = np.dot(c, z) / columns[k]
            for j in range(len(c)):
                z[j] -= shrink * c[j]
        a = A[i]
        if rows[i] > 0.0:
            move = (y[i] - z[i] - np.dot(a, x)) / rows[i]
            for j in range(len(a)):
                x[j] += move * a[j]
