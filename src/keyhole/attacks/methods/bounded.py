"""Maximum likelihood inside the bounds: the attack that uses all that a convex method can."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Reconstruction
from keyhole.attacks.batch import BatchAttack, form_dense_design, make_reconstruction, refuse_contradiction
from keyhole.attacks.estimates.maximum_likelihood import choose_losses, minimise_losses
from keyhole.attacks.estimates.sparse_fit import fit_sparse
from keyhole.attacks.methods.lbfgs import maximise_likelihood
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.status import SolverStatus


class Bounded(BatchAttack):
    """The most likely values within the bounds: box least squares for Gaussian noise, box L1 for Laplace, per answer.

    Exact answers are met exactly, rounded, uniform and one-sided ones as intervals. Guarantee: the global maximum of a
    concave likelihood, to a relative gap of 1e-8; without noise the values nearest to the prior's middle among all that
    meet the answers, with noise one in the middle of those equally likely. Honours bounds, facts and private cells.
    Cost: about a dozen Cholesky factorisations of a K x K matrix; large and sparse, LSQR, then bounds where it violates
    them, O(entries) a step (of Laplace noise and intervals by L-BFGS-B). "Plain box least squares" is this attack told
    that the noise is Gaussian. References: dinur2003, cohen2018, paige1982, dostal2005.

    >>> from decimal import Decimal
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> from keyhole.model.prior import Prior
    >>> e = from_arrays(np.array([[1, 1, 0], [0, 1, 1]]), [2.0, 1.0], prior=Prior(Decimal(0), Decimal(1)))
    >>> attack = Bounded(Target.of(e))
    >>> attack.observe(e)
    >>> attack.estimate().values.round(6).tolist()
    [1.0, 1.0, 0.0]
    """

    name: ClassVar[str] = "bounded"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def _solve(self, problem: Problem) -> Reconstruction:
        if problem.csr is not None:
            return fit_sparse(problem, self.watch, maximise_likelihood)
        A = form_dense_design(problem, self.name)
        term, weight = choose_losses(problem)
        solution = minimise_losses(
            problem, A, term, weight, np.asarray(problem.law == NoiseLaw.EXACT), watch=self.watch
        )
        if solution.status is not SolverStatus.INTERRUPTED:
            refuse_contradiction(problem, A, A @ solution.u)
        return make_reconstruction(problem, solution.u, A, solution.status)
