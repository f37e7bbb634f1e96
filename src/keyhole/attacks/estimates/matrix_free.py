"""Solving without a matrix: the operator of a problem, conjugate gradients on it, and standard errors by simulation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyhole.attacks.base import Floats, Reconstruction, Watch
from keyhole.attacks.estimates.guess_errors import read_approximate_guess, read_guess
from keyhole.attacks.estimates.record_values import read_values
from keyhole.attacks.estimates.standard_errors import SPREAD_LIMIT, compute_errors_after, find_midpoint
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.errors import ContradictionError
from keyhole.solve.decode.lstsq import cgls
from keyhole.solve.decode.operator import Operator
from keyhole.solve.status import SolverStatus

SHADOWS = 8
SMALL = 4_000_000  # entries up to which the dense formula for standard errors is cheaper than simulation
_STIFF = 1e-4  # an exact answer among noisy ones is given this share of the least noise

Solve = Callable[[Problem, Floats], tuple[Floats, SolverStatus]]  # (problem, answers) -> means, status
# (problem, answers, lower, upper, start, watch) -> means, status
BoxSolve = Callable[[Problem, Floats, Floats, Floats, Floats, Watch | None], tuple[Floats, SolverStatus]]


def compute_row_noise(problem: Problem) -> Floats:
    """Standard deviation of every answer: sqrt(2) scale for Laplace, width/sqrt(12) for intervals, 0 for exact ones."""
    noise = np.zeros(problem.m)
    noise[problem.law == NoiseLaw.LAPLACE] = np.sqrt(2) * problem.scale[problem.law == NoiseLaw.LAPLACE]
    noise[problem.law == NoiseLaw.GAUSSIAN] = problem.scale[problem.law == NoiseLaw.GAUSSIAN]
    interval = (problem.law == NoiseLaw.INTERVAL) & np.isfinite(problem.scale)
    noise[interval] = problem.scale[interval] / np.sqrt(12)
    return noise


def build_weighted_operator(problem: Problem) -> Operator:
    """The problem's rows over t = sqrt(size) * mean (so that norms are norms over records), each over its noise."""
    noise = compute_row_noise(problem)
    least = float(np.min(noise[noise > 0], initial=np.inf))
    noise = np.where(noise > 0, noise, _STIFF * least if np.isfinite(least) else 1.0)
    return Operator(problem.bits, problem.dense, np.sqrt(problem.weights()), 1 / noise, problem.csr)


def build_plain_operator(problem: Problem) -> Operator:
    """The problem's rows over means."""
    return Operator(problem.bits, problem.dense, problem.weights(), np.ones(problem.m), problem.csr)


def solve_cg(problem: Problem, y: Floats, watch: Watch | None = None) -> tuple[Floats, SolverStatus]:
    """Minimum-norm weighted least squares by conjugate gradients."""
    op = build_weighted_operator(problem)
    t, status, _ = cgls(op, op.rows * y, watch=watch)
    return t / np.sqrt(problem.weights()), status


def weigh_ends(problem: Problem, y: Floats, op: Operator) -> tuple[Floats, Floats]:
    """Between what every answer lies if `y` was answered, in the units of the weighted operator."""
    interval, shift = problem.law == NoiseLaw.INTERVAL, y - problem.y
    lo = np.where(interval, problem.lo + shift, y) * op.rows
    return lo, np.where(interval, problem.hi + shift, y) * op.rows


def refuse_misfit(problem: Problem, fitted: Floats) -> None:
    """Raise `ContradictionError` if exact answers are missed after convergence, naming the worst missed."""
    missed = np.where(problem.law == NoiseLaw.EXACT, np.abs(problem.y - fitted) - problem.scale, 0.0)
    worst = int(np.argmax(missed)) if missed.size else 0
    if missed.size and missed[worst] > 1e-5 * (1 + np.abs(problem.y).max()):
        raise ContradictionError(
            f"no values explain all answers: query {problem.numbers[worst]} is missed by {missed[worst]:.6g} in the "
            "best fit. One answer is wrong, or noise was added; state it (--noise laplace:2) or take l1"
        )


def simulate_errors(problem: Problem, solve: Solve, *, rng: np.random.Generator) -> Floats:
    """Standard error per unknown by simulation: attack known secrets drawn from the prior through the same questions.

    Each shadow draws a secret and noise, answers the log, attacks it, and looks at its own error; the root mean square
    over the shadows estimates the attack's error on each record. Cost: `SHADOWS` solves.
    """
    target, weights = problem.target, problem.weights()
    spread = target.deviation if np.isfinite(target.deviation) else 1.0
    op = build_plain_operator(problem)
    noise = compute_row_noise(problem)
    total = np.zeros(problem.p)
    for _ in range(SHADOWS):
        secret = rng.standard_normal(problem.p) * spread / np.sqrt(weights)  # signs may cancel, and would read 0
        answers = op.apply(secret) + noise * rng.standard_normal(problem.m)
        total += (solve(problem, answers)[0] - secret) ** 2
    error = np.sqrt(total / SHADOWS + spread**2 * (1 - 1 / weights))
    if not np.isfinite(target.deviation):
        error = np.where(error > 0.05 * spread, np.inf, error)
    return np.asarray(error)


def reconstruct_matrix_free(problem: Problem, u: Floats, status: SolverStatus, solve: Solve) -> Reconstruction:
    """Values per record; standard errors by formula while the matrix is small, simulated (seeded: pure) when not."""
    fitted = build_plain_operator(problem).apply(u)
    if status is SolverStatus.CONVERGED:
        refuse_misfit(problem, fitted)
    errors = np.full(problem.p, problem.target.deviation)
    if problem.csr is None and problem.m * problem.p <= SMALL and problem.p <= SPREAD_LIMIT:
        values, confidence, measure = read_guess(problem, u, compute_errors_after(problem, problem.design(), status))
    else:
        if status is not SolverStatus.INTERRUPTED:
            errors = simulate_errors(problem, solve, rng=np.random.default_rng(problem.m))
        values, confidence, measure = read_approximate_guess(problem, read_values(problem, u, errors), u, errors)
    return Reconstruction(values, confidence, problem.residual(fitted), status, measure)


def reconstruct_in_box(problem: Problem, solve: BoxSolve, watch: Watch | None) -> Reconstruction:
    """The same by a solver that knows bounds; shadows, whose secrets are centred on 0, are solved without them."""
    u, status = solve(problem, problem.y, problem.lower, problem.upper, find_midpoint(problem), watch)
    free = np.full(problem.p, np.inf)
    return reconstruct_matrix_free(
        problem, u, status, lambda shadow, y: solve(shadow, y, -free, free, np.zeros(shadow.p), None)
    )
