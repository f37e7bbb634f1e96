"""Basis pursuit: few records differ from the common value, so far fewer questions than records are enough."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Reconstruction, Target
from keyhole.attacks.batch import BatchAttack, form_dense_design, make_reconstruction, refuse_contradiction
from keyhole.attacks.estimates.approximate_marginals import FINEST
from keyhole.attacks.estimates.maximum_likelihood import choose_losses, minimise_losses
from keyhole.attacks.estimates.standard_errors import SPREAD_LIMIT, bound_feasible_width, compute_posterior_mean
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.status import SolverStatus


class BasisPursuit(BatchAttack):
    """min |x - common|_1 subject to the answers (basis pursuit); with noise, the likelihood plus a lasso penalty.

    Guarantee: for k records that differ from `common` and m >= C k log(n/k) random 0/1 questions, exact recovery with
    high probability. The noisy penalty is the universal threshold sqrt(2 log K) times the typical column norm over
    noise. Honours bounds and facts. Reference: chen1998, candes2006.

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
        found = make_reconstruction(problem, solution.u, A, solution.status, rest=solution.u)  # the common value
        if problem.p > SPREAD_LIMIT or not np.isfinite(problem.target.deviation) or not problem.plain:
            return found
        if noisy.any() or 0 < (problem.target.levels or 0) <= FINEST:
            return found  # the distance from the posterior's mean is in the errors already
        # The pull towards `common` is a bias: the formula is about the middle of what the answers leave.
        bias = np.abs(solution.u - compute_posterior_mean(problem, A))[problem.of]
        width = bound_feasible_width(problem, A)[problem.of]
        return replace(found, confidence=np.minimum(np.hypot(found.confidence, bias), width))
