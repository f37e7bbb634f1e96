"""Basis pursuit: few records differ from the common value, so far fewer questions than records are enough."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction, Target
from keyhole.attacks.batch import BatchAttack, form_dense_design, make_reconstruction, refuse_contradiction
from keyhole.attacks.estimates.approximate_marginals import FINEST
from keyhole.attacks.estimates.maximum_likelihood import choose_losses, minimise_losses
from keyhole.attacks.estimates.standard_errors import SPREAD_LIMIT, bound_feasible_width, compute_posterior_mean
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.status import SolverStatus


class BasisPursuit(BatchAttack):
    """min |x - common|_1 subject to the answers (basis pursuit); with noise, the likelihood plus a lasso penalty.

    Guarantee: without bounds in its way the solution is a vertex: at most rank(A) classes of records differ from
    `common`; records that no question tells apart share one value. For k records that differ and m >= C k log(n/k)
    random 0/1 questions, exact recovery with high probability. The noisy penalty is the universal threshold
    sqrt(2 log K) times the typical column norm over noise. Honours bounds and facts. Reference: chen1998, candes2006.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> rng = np.random.default_rng(2)
    >>> A, x = rng.integers(0, 2, (24, 64)), np.zeros(64)
    >>> x[[3, 17, 40]] = 2.5, -1.0, 4.0
    >>> e = from_arrays(A, A @ x)
    >>> attack = BasisPursuit(Target.of(e))
    >>> attack.observe(e)
    >>> bool(np.abs(attack.estimate().values - x).max() < 1e-6)
    True
    """

    name: ClassVar[str] = "sparse"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def __init__(self, target: Target, *, common: float = 0.0) -> None:
        super().__init__(target)
        self.common = float(np.clip(common, target.lower, target.upper))

    def _solve(self, problem: Problem) -> Reconstruction:
        A = form_dense_design(problem, self.name)
        term, weight = choose_losses(problem)
        noisy = np.isin(problem.law, (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN))
        penalty = 1.0
        if noisy.any():
            pulls = np.sqrt(((A[noisy] / problem.scale[noisy][:, None]) ** 2).sum(axis=0)) / problem.weights()
            penalty = float(np.sqrt(2 * np.log(max(2, problem.p))) * np.median(pulls))
        solution = minimise_losses(
            problem, A, term, weight, np.asarray(problem.law == NoiseLaw.EXACT), penalty * problem.weights(),
            self.common, self.watch,
        )  # fmt: skip
        if solution.status is not SolverStatus.INTERRUPTED:
            refuse_contradiction(problem, A, A @ solution.u)
            solution = replace(solution, u=move_to_vertex(problem, A, solution.u, self.common))
        found = make_reconstruction(problem, solution.u, A, solution.status, rest=solution.u)  # the common value
        if problem.p > SPREAD_LIMIT or not np.isfinite(problem.target.deviation) or not problem.plain:
            return found
        if noisy.any() or 0 < (problem.target.levels or 0) <= FINEST:
            return found  # the distance from the posterior's mean is in the errors already
        # The pull towards `common` is a bias: the formula is about the middle of what the answers leave.
        bias = np.abs(solution.u - compute_posterior_mean(problem, A))[problem.of]
        width = bound_feasible_width(problem, A)[problem.of]
        return replace(found, confidence=np.minimum(np.hypot(found.confidence, bias), width))


def move_to_vertex(problem: Problem, A: Floats, u: Floats, common: float) -> Floats:
    """As good a solution with as few differences from `common` as its rows allow: dependent ones are moved away.

    Along a null vector of the columns in use every answer stays as it is and the distance does not grow; the first
    record to meet `common` or a bound leaves. Cost: one singular value decomposition.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> e = from_arrays(np.array([[1, 2, 3, 4]]), [4.0])
    >>> attack = BasisPursuit(Target.of(e))
    >>> attack.observe(e)
    >>> int((np.abs(attack.estimate().values) > 1e-9).sum())
    1
    """
    lower, upper, weights = problem.lower, problem.upper, problem.weights()
    size = 1e-7 * (1 + float(np.abs(u - common).max(initial=0.0)))
    u = np.where(np.abs(u - common) <= size, common, u)
    free = np.flatnonzero((u != common) & (u > lower + size) & (u < upper - size))
    if not len(free) or len(free) > SPREAD_LIMIT:
        return u
    _, s, V = np.linalg.svd(A[:, free], full_matrices=True)
    rank = int((s > 1e-9 * max(1.0, float(s.max(initial=0.0)))).sum())
    N = V[rank:].T.copy()
    while N.shape[1]:
        z = N[:, 0]
        slope = float((np.sign(u[free] - common) * weights[free]) @ z)
        z = -z if slope > 0 else z
        ends = np.where(z > 0, upper[free], lower[free])
        nearer = np.where(z < 0, np.maximum(ends, common), np.minimum(ends, common))
        ends = np.where((u[free] - common) * z < 0, nearer, ends)
        moving = np.abs(z) > 1e-9
        steps = np.full(len(free), np.inf)
        steps[moving] = (ends[moving] - u[free][moving]) / z[moving]
        first = int(np.argmin(steps))
        if not np.isfinite(steps[first]):
            return u
        u[free] += steps[first] * z
        u[free[first]] = ends[first]
        pivot = int(np.argmax(np.abs(N[first])))
        N = np.delete(N - np.outer(N[:, pivot], N[first] / N[first, pivot]), pivot, axis=1)
        free, N = np.delete(free, first), np.delete(N, first, axis=0)
    return u
