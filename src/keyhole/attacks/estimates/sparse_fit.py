"""Least squares on sparse rows: LSQR first, bounds where it violates them, errors from made-up secrets in the same run.

Beside the real answers LSQR carries answers to secrets drawn from the prior, with drawn noise, through the same
questions. What it misses of those secrets is what it misses of the real one: the standard errors are this simulation,
moderated over records that are asked about equally often, never a formula that reads 0 unproved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction, Watch
from keyhole.attacks.estimates.approximate_marginals import compute_linear_prior
from keyhole.attacks.estimates.guess_errors import read_approximate_guess
from keyhole.attacks.estimates.matrix_free import (
    build_plain_operator,
    build_weighted_operator,
    compute_row_noise,
    refuse_misfit,
)
from keyhole.attacks.estimates.record_values import read_values
from keyhole.attacks.estimates.standard_errors import moderate_variances
from keyhole.attacks.problem.decoding_problem import NOISY, Problem
from keyhole.solve.decode.box import box_least_squares
from keyhole.solve.decode.csr import Csr
from keyhole.solve.decode.lsqr import LANES, lsqr
from keyhole.solve.status import SolverStatus

Refine = Callable[[Problem, Floats, SolverStatus, Watch | None], tuple[Floats, SolverStatus]]

QUICK = 1_000  # steps of LSQR up to which a second run draws more secrets
OPEN = 100.0  # an unknown spread is taken as so many times the size of what was found
_LEAST = 1e-9  # of the spread: what was not proved is not called certain


@dataclass(frozen=True, slots=True, eq=False)
class SparseSystem:
    """|A t - y| over t = sqrt(size) * (mean - middle), each row over its noise.

    Where answers are noisy and the prior has a spread, the prior is a row for each unknown: t / spread = 0. The fit is
    then the mean of the linear-Gaussian posterior; without noise it is the fit of least norm.
    """

    problem: Problem
    A: Csr
    y: Floats
    prior: Floats
    root: Floats
    middle: Floats

    @classmethod
    def of(cls, problem: Problem) -> SparseSystem:
        """The system of a decoding problem."""
        op, root, (middle, prior) = (
            build_weighted_operator(problem),
            np.sqrt(problem.weights()),
            compute_linear_prior(problem),
        )
        A = problem.matrix().scaled(op.rows, op.columns)
        y = op.rows * problem.y - A.apply(middle * root)
        held = np.flatnonzero(np.isfinite(prior))
        if not np.isin(problem.law, NOISY).any() or not held.size:
            return cls(problem, A, y, prior, root, middle)
        least = 1e-6 * max(float(prior[held].max()), 1e-300)
        each = np.arange(len(held) + 1, dtype=np.int64)
        rows = Csr(each, held.astype(np.int32), 1 / np.maximum(prior[held], least), problem.p)
        return cls(problem, A.stacked(rows), np.concatenate([y, np.zeros(len(held))]), prior, root, middle)

    def means(self, t: Floats) -> Floats:
        """From t to means."""
        return self.middle + t / self.root

    def in_box(self, u: Floats, status: SolverStatus, watch: Watch | None) -> tuple[Floats, SolverStatus]:
        """Box least squares from a fit that may violate the bounds; the fit itself where it does not."""
        lower, upper = self.problem.lower, self.problem.upper
        off = np.abs(u - np.clip(u, lower, upper)).max(initial=0.0)
        if off <= 1e-9 * (1 + np.abs(u).max(initial=0.0)):
            return u, status
        low, high, start = ((end - self.middle) * self.root for end in (lower, upper, u))
        t, ended = box_least_squares(self.A, self.y, low, high, start, watch=watch)
        return self.means(t), ended


def fit_sparse(problem: Problem, watch: Watch | None = None, refine: Refine | None = None) -> Reconstruction:
    """Least squares about the middle of the bounds, within them; errors by simulation (3 to 7 secrets).

    Guarantee: after convergence the fit of least norm, or the posterior mean of `SparseSystem`; in the box that of box
    least squares, or what `refine` makes of it. Cost: O(entries) a step.
    """
    system, rng = SparseSystem.of(problem), np.random.default_rng(problem.m)
    drawn = _Secrets(system, rng)
    fits = lsqr(system.A, drawn.beside(system.y), watch=watch)
    found, status = system.means(fits.x[:, 0]), fits.status
    linear = found
    errors = [fits.x[:, 1:] - drawn.secrets[:, 1:]]
    if fits.steps <= QUICK and status is SolverStatus.CONVERGED:
        more = _Secrets(system, rng)
        errors.append(lsqr(system.A, more.beside(None), iterations=max(1, fits.steps)).x - more.secrets)
    if status is not SolverStatus.INTERRUPTED:
        found, status = system.in_box(found, status, watch)
        found, status = (found, status) if refine is None else refine(problem, found, status, watch)
    u = np.clip(np.where(problem.touched(), found, system.middle), problem.lower, problem.upper)
    fitted = build_plain_operator(problem).apply(u)
    if status is SolverStatus.CONVERGED:
        refuse_misfit(problem, fitted)
    interrupted = status is SolverStatus.INTERRUPTED
    error = system.prior if interrupted else drawn.standard_errors(np.hstack(errors) / system.root[:, None])
    values, confidence, measure = read_approximate_guess(problem, read_values(problem, u, error), linear, error)
    shadows = sum(e.shape[1] for e in errors)
    note = f"LSQR, {fits.steps} steps; standard errors simulated with {shadows} made-up secrets"
    return Reconstruction(values, confidence, problem.residual(fitted), status, measure, note)


def fit_sparse_rows(problem: Problem, whole: Problem) -> tuple[Floats, int]:
    """Row values of `whole` after least squares in the box on `problem`, and how many unknowns that has at most."""
    system = SparseSystem.of(replace(problem, law=np.zeros(problem.m, dtype=np.int8)))  # no prior: residuals of a fit
    Y = np.zeros((system.A.m, LANES))
    Y[:, 0] = system.y
    fits = lsqr(system.A, Y)
    u, _ = system.in_box(system.means(fits.x[:, 0]), fits.status, None)
    return build_plain_operator(whole).apply(u), int(problem.touched().sum())


class _Secrets:
    """Secrets drawn from the prior, and how sure an attack on them says that the real one is."""

    def __init__(self, system: SparseSystem, rng: np.random.Generator) -> None:
        self.system = system
        A, m = system.A, system.problem.m
        # an unknown spread stands far above the answers' size, so that noise is not taken for ignorance
        norms = float(np.sqrt(np.mean(A.squared().apply(np.ones(A.p))[:m]))) if m else 1.0
        size = float(np.sqrt(np.mean(system.y[:m] ** 2))) if m else 1.0
        noise = compute_row_noise(system.problem)
        unit = OPEN * max(size / max(norms, 1e-300), float(noise.max(initial=0.0)), 1e-300)
        self._spread = np.where(np.isfinite(system.prior), system.prior, unit)
        # normal, not signs: signs may cancel exactly, and an error of 0 would be read as "determined"
        self.secrets = rng.standard_normal((A.p, LANES)) * self._spread[:, None]
        self._noise = (noise * build_weighted_operator(system.problem).rows)[:, None] * rng.standard_normal((m, LANES))

    def beside(self, y: Floats | None) -> Floats:
        """Answers to the secrets, with noise; the real ones, if given, take the first place."""
        m = len(self._noise)
        Y = np.stack([self.system.A.apply(self.secrets[:, v]) for v in range(LANES)], axis=1)
        Y[:m] += self._noise
        Y[m:] = 0.0  # the prior's rows
        if y is not None:
            Y[:, 0] = y
        return Y

    def standard_errors(self, errors: Floats) -> Floats:
        """Standard error of one record behind every unknown, from errors (p, secrets) of its mean."""
        problem, prior = self.system.problem, self.system.prior
        asked = np.bincount(problem.matrix().columns, minlength=problem.p)
        variance = moderate_variances(np.mean(errors**2, axis=1), asked, np.full(problem.p, float(errors.shape[1])))
        error = np.sqrt(variance + self._spread**2 * (1 - 1 / problem.weights()))
        error = np.maximum(error, _LEAST * self._spread)
        open_ = ~np.isfinite(prior) & (error > 0.05 * self._spread)
        return np.asarray(np.where(open_, np.inf, np.minimum(error, prior)))
