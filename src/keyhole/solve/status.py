"""How a solver ended: a value, not an exception, whose text says what it means and what to do."""

from __future__ import annotations

from enum import Enum


class SolverStatus(Enum):
    """Outcome of a numerical solver.

    >>> SolverStatus.CONVERGED.value
    'converged'
    >>> SolverStatus.ITERATION_LIMIT.cure
    'allow more iterations or passes, or take a direct method'
    """

    PRIOR = "prior"
    CONVERGED = "converged"
    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    APPROXIMATED = "approximated"
    SAMPLED = "sampled"
    STREAMING = "streaming"
    ITERATION_LIMIT = "iteration limit"
    STALLED = "stalled"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"

    @property
    def cure(self) -> str:
        """What the outcome means for the reader, in one line."""
        return _CURES[self]


_CURES = {
    SolverStatus.PRIOR: "nothing was observed: the values are the known range",
    SolverStatus.CONVERGED: "the solver met its tolerance",
    SolverStatus.OPTIMAL: "the solver proved that no better answer exists",
    SolverStatus.FEASIBLE: "every answer is met, but another table may meet them too",
    SolverStatus.APPROXIMATED: "too large to look at tables: probabilities of a Gaussian approximation",
    SolverStatus.SAMPLED: "values and probabilities come from a seeded sample of the posterior",
    SolverStatus.STREAMING: "one pass so far: replay the log to converge",
    SolverStatus.ITERATION_LIMIT: "allow more iterations or passes, or take a direct method",
    SolverStatus.STALLED: "the residual stopped falling above the tolerance: the answers may be noisy or contradict",
    SolverStatus.INTERRUPTED: "stopped by the user: the values are the best so far",
    SolverStatus.INFEASIBLE: "no table meets all the answers: state the noise, or find the wrong answer",
}
