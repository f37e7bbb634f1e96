"""From a decoding problem to the interior-point solver: the loss of each answer, exact ones as constraints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Watch
from keyhole.attacks.estimates.standard_errors import carry_bounds, find_midpoint
from keyhole.attacks.problem.cell_constraints import build_cell_rows
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.decode.bitrows import overlaps, transpose
from keyhole.solve.decode.interior.method import Rows, RowTerm, Solution, minimise
from keyhole.solve.status import SolverStatus

Terms = NDArray[np.int8]

_STIFFER = 1e3  # an exact answer weighs this much more than everything that could pull on it
_ROUNDS = 4  # and this many times more again, should it still be missed


def choose_losses(problem: Problem) -> tuple[Terms, Floats]:
    """Loss and weight of every answer under its own law: -log likelihood.

    Laplace |r|/scale, Gaussian r^2/(2 scale^2), interval laws a constraint; exact answers |r|, weight to be chosen.
    """
    noise = np.where(problem.scale > 0, problem.scale, 1.0)
    term = np.array([RowTerm.ABSOLUTE, RowTerm.ABSOLUTE, RowTerm.QUADRATIC, RowTerm.INTERVAL], dtype=np.int8)[
        problem.law
    ]
    weight = np.select(
        [problem.law == NoiseLaw.LAPLACE, problem.law == NoiseLaw.GAUSSIAN], [1 / noise, 1 / noise**2], 1.0
    )
    return term, weight


def choose_absolute_losses(problem: Problem) -> tuple[Terms, Floats]:
    """|r| over its scale for every answer, exact ones included: a share of them may be arbitrarily wrong."""
    noise = np.where(np.isin(problem.law, (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN)), problem.scale, 1.0)
    exact_too = problem.law == NoiseLaw.EXACT
    if exact_too.any() and not exact_too.all():
        noise = np.where(exact_too, float(np.min(noise[~exact_too], initial=1.0)), noise)
    term = np.where(problem.law == NoiseLaw.INTERVAL, RowTerm.INTERVAL, RowTerm.ABSOLUTE).astype(np.int8)
    return term, 1 / noise


def minimise_losses(
    problem: Problem,
    A: Floats,
    term: Terms,
    weight: Floats,
    stiff: NDArray[np.bool_],
    lasso: Floats | None = None,
    common: float = 0.0,
    watch: Watch | None = None,
) -> Solution:
    """Minimise the losses over the bounds. `stiff` rows must be met: |r| with a weight that makes the penalty exact.

    An L1 penalty is exact once its weight exceeds the constraint's multiplier (Nocedal and Wright 2006): it is
    raised until the rows are met or it is clear that they cannot be. Without any noise the point nearest to the prior's
    middle is taken among those that meet everything.
    """
    extra, lo, hi = build_cell_rows(problem)
    m, e = problem.m, len(extra)
    rows = Rows(
        np.concatenate([A, extra]) if e else A,
        np.concatenate([problem.y, np.zeros(e)]),
        np.concatenate([weight, np.ones(e)]),
        np.concatenate([problem.lo, lo]),
        np.concatenate([problem.hi, hi]),
        np.concatenate([term, np.full(e, RowTerm.INTERVAL, dtype=np.int8)]),
    )
    gram = _popcount_gram(problem, term, weight) if not e else None
    noisy = ~stiff & (term != RowTerm.INTERVAL)
    pull = float(np.max(weight[noisy], initial=0.0)) + (0.0 if lasso is None else float(lasso.max()))
    heavy = 1.0 if pull == 0 else _STIFFER * pull
    for _ in range(_ROUNDS):
        rows.weight[:m][stiff] = heavy
        solution = minimise(
            rows, problem.lower, problem.upper, start=find_midpoint(problem), lasso=lasso, gram=gram,
            centre=np.full(problem.p, common), watch=watch,
        )  # fmt: skip
        missed = np.abs(A[stiff] @ solution.u - problem.y[stiff]) > 1e-7 * (1 + np.abs(problem.y[stiff]))
        if solution.status is not SolverStatus.CONVERGED or pull == 0 or not missed.any():
            break
        heavy *= 100
    if (
        pull == 0
        and solution.status is SolverStatus.CONVERGED
        and solution.objective < 1e-6 * (1 + np.abs(problem.y).sum())
    ):
        return _nearest_to_middle(problem, rows, solution)
    return solution


def _nearest_to_middle(problem: Problem, rows: Rows, found: Solution) -> Solution:
    """Of all points that meet exact answers, the one nearest to the middle of what they leave, in the norm of records.

    Without noise they are all equally likely; this one does not hang on the solver's path. Should the second solve not
    meet the answers as well as the first, the first stands.
    """
    lower, upper = carry_bounds(problem, rows.A[: problem.m])
    both = np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)
    centre = find_midpoint(problem)
    centre[both] = (lower[both] + upper[both]) / 2
    size = 1.0 + float(np.max(np.abs(centre), initial=0.0)) + float(np.max(np.abs(problem.y), initial=0.0))
    ridge = problem.weights() / (size * float(problem.weights().max()))  # scaled so that its pull is about 1
    stiffer = replace(rows, weight=np.full(len(rows.weight), _STIFFER))
    near = minimise(stiffer, problem.lower, problem.upper, start=centre, ridge=ridge, centre=centre)
    exact = rows.term == RowTerm.ABSOLUTE
    v = rows.A @ near.u
    ends = np.where(exact, np.abs(v - rows.y), np.maximum(rows.lo - v, v - rows.hi))
    good = near.gap < 1e-5 and bool((ends <= 1e-7 * (1 + np.abs(np.where(exact, rows.y, v)))).all())
    return replace(near, status=SolverStatus.CONVERGED, dual=found.dual, objective=found.objective) if good else found


def _popcount_gram(problem: Problem, term: Terms, weight: Floats) -> Floats | None:
    """A^T W A of equally weighted 0/1 quadratic rows, by counting bits: exact, and far cheaper than multiplying."""
    if problem.bits is None or not problem.m or not (term == RowTerm.QUADRATIC).all() or np.ptp(weight) > 0:
        return None
    counts = overlaps(transpose(problem.bits, problem.K)).astype(np.float64)
    return np.asarray(counts * problem.sizes[:, None] * problem.sizes[None, :] * weight[0])
