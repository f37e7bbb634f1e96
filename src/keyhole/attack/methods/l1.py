"""Linear-program decoding: the sum of absolute errors, which outvotes a share of arbitrarily wrong answers."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keyhole.attack.base import Floats, Reconstruction
from keyhole.attack.batch import BatchAttack, dense_design, reconstruct
from keyhole.attack.decode import Terms, decode, robust
from keyhole.attack.decoding_problem import NOISY, NoiseLaw, Problem
from keyhole.attack.standard_errors import prior_deviation
from keyhole.solve.decode.interior.method import RowTerm
from keyhole.solve.status import SolverStatus

REFITS = 12  # weighted refits for errors: their root mean square is known to a fifth


class L1(BatchAttack):
    """min sum |a_j x - y_j| / scale_j within the bounds.

    Guarantee: the global minimum to a relative gap of 1e-8. Maximum likelihood for Laplace noise; with random 0/1 rows
    it recovers x exactly although a constant share of the answers is arbitrarily wrong. Contradicting answers are
    therefore no error here. Cost: about a dozen Cholesky factorisations. References: dwork2007, candes2005.

    >>> from keyhole.attack.arrays import from_arrays
    >>> from keyhole.attack.base import Target
    >>> e = from_arrays(np.ones((5, 1)), [4.0, 4.0, 4.0, 100.0, -7.0])
    >>> attack = L1(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(6).tolist()
    [4.0]
    """

    name: ClassVar[str] = "l1"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def _solve(self, problem: Problem) -> Reconstruction:
        A = dense_design(problem, self.name)
        term, weight = robust(problem)
        facts = np.array([name.startswith("fact ") for name in problem.numbers], dtype=bool)
        solution = decode(problem, A, term, weight, facts, watch=self.watch)
        missed = np.abs(problem.residuals(A @ solution.u))  # 0 inside an interval
        off = missed > 1e-6 * (1 + np.abs(problem.y))
        note = f"{int(off.sum())} of {problem.m} answers not met"
        # the median of Gaussian noise is less sharp than its mean: the variance is pi / 2 times as large
        blunt = problem.scale.copy()
        if not problem.target.bounded:  # in a range the errors are those of the posterior, whatever the guess
            blunt[problem.law == NoiseLaw.GAUSSIAN] *= np.sqrt(np.pi / 2)
        found = reconstruct(replace(problem, scale=blunt), solution.u, A, solution.status, note)
        wrong = off & ~np.isin(problem.law, NOISY)
        if solution.status is SolverStatus.INTERRUPTED or not wrong.any() or not problem.plain:
            return found
        errors = _refitted(problem, A, term, weight, facts, solution.u)[problem.of]
        errors = np.where(np.isinf(found.confidence), np.inf, np.maximum(errors, found.confidence))
        # answers that contradict one another prove nothing: what every refit agrees on is likely, not certain
        size = problem.target.deviation
        floor = 0.01 * (size if np.isfinite(size) else float(np.std(found.values)))
        return replace(found, confidence=np.maximum(np.minimum(errors, size), floor))


def _refitted(problem: Problem, A: Floats, term: Terms, weight: Floats, facts: NDArray[np.bool_], u: Floats) -> Floats:
    """Standard error per group by the weighted bootstrap: the answers get exponential weights, the fit is repeated.

    It needs no law of the errors, so it holds for wrong answers and for noise of another law than was stated.
    Reference: Barbe and Bertail, The weighted bootstrap (1995).
    """
    rng = np.random.default_rng(problem.m)
    total = np.zeros(problem.p)
    for _ in range(REFITS):
        drawn = np.where(term == RowTerm.ABSOLUTE, rng.exponential(1.0, problem.m) + 1e-3, 1.0)
        total += (decode(problem, A, term, weight * drawn, facts).u - u) ** 2
    spread, prior, touched = np.sqrt(total / REFITS), prior_deviation(problem), A.any(axis=0)
    several = problem.weights() > 1
    within = np.where(several, prior, 0.0) * np.sqrt(1 - 1 / problem.weights())  # about the mean of the group
    return np.where(touched, np.hypot(spread, np.where(several, within, 0.0)), prior)
