"""Linear-program decoding: the sum of absolute errors, which outvotes a share of arbitrarily wrong answers."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Measure, Reconstruction
from keyhole.attacks.batch import BatchAttack, form_dense_design, make_reconstruction
from keyhole.attacks.estimates.guess_errors import average_errors_in_box, read_guess
from keyhole.attacks.estimates.maximum_likelihood import choose_absolute_losses, minimise_losses
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.status import SolverStatus


class L1(BatchAttack):
    """min sum |a_j x - y_j| / scale_j within the bounds.

    Guarantee: the global minimum to a relative gap of 1e-8. Maximum likelihood for Laplace noise; with random 0/1 rows
    it recovers x exactly although a constant share of the answers is arbitrarily wrong. Contradicting answers are
    therefore no error here. Cost: about a dozen Cholesky factorisations. References: dwork2007, candes2005.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> e = from_arrays(np.ones((5, 1)), [4.0, 4.0, 4.0, 100.0, -7.0])
    >>> attack = L1(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(6).tolist()
    [4.0]
    """

    name: ClassVar[str] = "l1"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def _solve(self, problem: Problem) -> Reconstruction:
        A = form_dense_design(problem, self.name)
        term, weight = choose_absolute_losses(problem)
        facts = np.array([name.startswith("fact ") for name in problem.numbers], dtype=bool)
        solution = minimise_losses(problem, A, term, weight, facts, watch=self.watch)
        missed = np.abs(problem.residuals(A @ solution.u))  # 0 inside an interval
        off = missed > 1e-6 * (1 + np.abs(problem.y))
        note = f"{int(off.sum())} of {problem.m} answers not met"
        # the median of Gaussian noise is less sharp than its mean: the variance is pi / 2 times as large
        blunt = problem.scale.copy()
        if not problem.target.bounded and problem.target.categories is None:  # else errors are those of the posterior
            blunt[problem.law == NoiseLaw.GAUSSIAN] *= np.sqrt(np.pi / 2)
        found = make_reconstruction(replace(problem, scale=blunt), solution.u, A, solution.status, note)
        right = np.asarray((problem.law == NoiseLaw.EXACT) & ~facts)
        if solution.status is SolverStatus.INTERRUPTED or not (off & right).any():
            return found
        return replace(found, confidence=_outvoted(problem, solution.u, right, missed))


def _outvoted(problem: Problem, u: Floats, right: NDArray[np.bool_], missed: Floats) -> Floats:
    """What the guess is worth where exact answers contradict: each is right, or off by a Gaussian of the misses' size.

    Answers that contradict one another prove nothing: what the others confirm is likely, not certain, so no error is
    below a hundredth of the spread.
    """
    size = float(np.sqrt(np.mean(missed[right & (missed > 1e-6 * (1 + np.abs(problem.y)))] ** 2)))
    gross = replace(
        problem,
        law=np.where(right, NoiseLaw.GROSS, problem.law).astype(np.int8),
        scale=np.where(right, size, problem.scale),
    )
    spread = problem.target.deviation
    if problem.plain and not np.isfinite(problem.upper - problem.lower).all():  # an open range: a very wide one
        spread = float(np.std(u)) + size
        wide = replace(
            gross, lower=np.maximum(u - 100 * spread, problem.lower), upper=np.minimum(u + 100 * spread, problem.upper)
        )
        errors = average_errors_in_box(wide, u)[problem.of]
        return np.where(errors > 5 * spread, np.inf, np.maximum(errors, 0.01 * float(np.std(u))))
    _, confidence, measure = read_guess(gross, u, np.full(problem.p, spread))
    if measure is Measure.PROBABILITY:
        return np.minimum(confidence, 0.999)
    return np.asarray(np.maximum(confidence, 0.01 * spread))
