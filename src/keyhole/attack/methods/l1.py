"""Linear-program decoding: the sum of absolute errors, which outvotes a share of arbitrarily wrong answers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from keyhole.attack.base import Reconstruction
from keyhole.attack.batch import BatchAttack, dense_design, reconstruct
from keyhole.attack.decode import decode, robust
from keyhole.attack.decoding_problem import Problem


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
        wrong = int((missed > 1e-6 * (1 + np.abs(problem.y))).sum())
        note = f"{wrong} of {problem.m} answers not met"
        return reconstruct(problem, solution.u, A, solution.status, note)
