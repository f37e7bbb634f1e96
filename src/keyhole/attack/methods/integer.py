"""Values on a grid (0/1, integers, a decimal step): exact search for exact answers, the posterior for noisy ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keyhole.attack.base import Floats, Measure, Reconstruction, Target
from keyhole.attack.batch import BatchAttack, culprits, dense_design
from keyhole.attack.decode import decode, likelihood
from keyhole.attack.decoding_problem import NoiseLaw, Problem
from keyhole.attack.standard_errors import standard_errors
from keyhole.errors import CannotHonour, ContradictionError
from keyhole.solve.decode.cpsat import solve_integers
from keyhole.solve.decode.gibbs import (
    ENUMERATED,
    enumerate_feasible,
    enumerate_posterior,
    level_counts,
    sample_posterior,
)
from keyhole.solve.status import SolverStatus

MODEL_LIMIT = 2_000_000  # nonzeros CP-SAT is given
STATES_LIMIT = 257  # totals per atom up to which its posterior is tabulated
WORK_LIMIT = 2e10  # additions Gibbs sampling may take: about half a minute


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Atom totals in grid steps above the smallest value: total_k = size_k * base_k + step * z_k, 0 <= z_k <= top_k."""

    C: Floats  # coefficients on z, in units of the answers
    y: Floats  # answers less the base
    lo: Floats
    hi: Floats
    top: NDArray[np.int64]  # per atom
    levels: NDArray[np.int64]  # per record of the atom
    base: Floats
    step: float


class Integer(BatchAttack):
    """The column's values lie on a grid, and the attack knows it.

    - Exact and interval answers: every table that meets them all is counted, each as likely as the others, where there
      are few enough to list (by looking at all, or by CP-SAT); otherwise the shares are over a sample of different
      tables that CP-SAT finds (a heuristic, and the note says so).
    - Noisy answers: the marginal posterior of every record under the known noise and a uniform prior on the grid,
      enumerated when small and by Gibbs sampling otherwise; each record's median, with its probability. No attack has a
      smaller mean absolute error under that prior; on 0/1 none is right for more records.
    - Too large, or exact and noisy answers mixed: the maximum-likelihood relaxation (`Bounded`) rounded to the grid.

    `status` and `note` say which of these ran. Needs min, max and step (or 0/1). Honours bounds and facts.
    References: cohen2018, garfinkel2019, geman1984.

    >>> from decimal import Decimal
    >>> from keyhole.attack.arrays import from_arrays
    >>> from keyhole.knowledge import Prior
    >>> e = from_arrays(np.array([[1, 1, 0], [0, 1, 1]]), [2, 1], prior=Prior(Decimal(0), Decimal(1), Decimal(1)))
    >>> attack = Integer(Target.of(e))
    >>> attack.observe(e)
    >>> found = attack.estimate()
    >>> found.values.tolist(), found.confidence.tolist(), found.status.value
    ([1.0, 1.0, 0.0], [1.0, 1.0, 1.0], 'optimal')
    """

    name: ClassVar[str] = "integer"
    honours: ClassVar[frozenset[str]] = frozenset({"bounds", "facts", "one-sided answers"})

    def __init__(self, target: Target, *, seconds: float = 20.0, sweeps: int = 2000) -> None:
        super().__init__(target)
        if target.categories is None and target.levels is None:
            raise CannotHonour(
                f"integer needs the grid of {target.column!r}: give min, max and step (0, 1 and 1 for yes/no), "
                "or take bounded"
            )
        self.seconds, self.sweeps = seconds, sweeps

    def _solve(self, problem: Problem) -> Reconstruction:
        if not problem.plain:
            from keyhole.attack.methods.integer_cells import solve_cells  # one algorithm, one file: private cells

            return solve_cells(problem, self.seconds)
        A = dense_design(problem, self.name)
        grid = _grid(problem)
        noisy = np.isin(problem.law, (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN))
        if not noisy.any():
            found = self._search(problem, A, grid)
            if found is not None:
                return found
            return self._rounded(problem, A, f"the exact search did not end (limit {self.seconds:g} s)")
        if not noisy.all():
            return self._rounded(problem, A, "exact and noisy answers are mixed")
        states = grid.top + 1
        if int(states.max()) > STATES_LIMIT or self.sweeps * problem.m * float(states.sum()) > WORK_LIMIT:
            return self._rounded(problem, A, "too large to sample the posterior")
        return self._posterior(problem, A, grid)

    def _posterior(self, problem: Problem, A: Floats, grid: _Grid) -> Reconstruction:
        prior = [level_counts(int(s), int(v)) for s, v in zip(problem.sizes, grid.levels, strict=True)]
        law, scale = problem.law, problem.scale
        if float(np.sum(np.log(grid.top + 1.0))) <= np.log(ENUMERATED):
            totals = enumerate_posterior(grid.C, grid.y, law, scale, grid.top, prior)
            status, note = SolverStatus.OPTIMAL, "marginal posterior, enumerated"
        else:
            term, weight = likelihood(problem)
            relaxed = decode(problem, A, term, weight, np.zeros(problem.m, dtype=bool)).u
            start = np.clip(np.round((relaxed - grid.base) * problem.sizes / grid.step), 0, grid.top).astype(np.int64)
            totals = sample_posterior(
                grid.C, grid.y, law, scale, grid.top, prior, start,
                rng=np.random.default_rng(problem.m), sweeps=self.sweeps, burn=self.sweeps // 4,
            )  # fmt: skip
            status, note = SolverStatus.SAMPLED, f"marginal posterior, {self.sweeps} Gibbs sweeps"
        return _read(problem, A, grid, totals, status, note)

    def _search(self, problem: Problem, A: Floats, grid: _Grid) -> Reconstruction | None:
        if np.count_nonzero(grid.C) > MODEL_LIMIT:
            return None
        C, lo, hi = _integral(grid)
        if float(np.sum(np.log(grid.top + 1.0))) <= np.log(ENUMERATED):
            tables = enumerate_feasible(C, lo, hi, grid.top)
            status, complete = SolverStatus.OPTIMAL if len(tables) else SolverStatus.INFEASIBLE, True
        else:
            try:
                found = solve_integers(C, lo, hi, grid.top, seconds=self.seconds)
            except KeyboardInterrupt:  # the search is stopped; the rounded relaxation is the best so far
                return None
            tables, status, complete = found.solutions, found.status, found.complete
        if status is SolverStatus.INFEASIBLE:
            names = culprits(problem, A)
            raise ContradictionError(
                f"no values on the grid explain the answers to {', '.join(names) or 'the log'}: "
                "one is wrong, noise was added (state it: --noise laplace:2), or the grid is not the right one"
            )
        if not len(tables):
            return None
        note = (
            f"shares over a sample of {len(tables)} different tables, not of all: a heuristic"
            if not complete
            else "the only group totals that meet every answer"
            if len(tables) == 1
            else f"shares over all {len(tables)} group totals that meet every answer"
        )
        return _read(
            problem, A, grid, _shares(problem, grid, tables), status if complete else SolverStatus.SAMPLED, note
        )

    def _rounded(self, problem: Problem, A: Floats, why: str) -> Reconstruction:
        term, weight = likelihood(problem)
        u = decode(problem, A, term, weight, np.asarray(problem.law == NoiseLaw.EXACT)).u
        values = self.target.snap(u)
        half = float(self.target.prior.step or 1) / 2
        error = np.maximum(standard_errors(problem, A), 1e-12)
        sure = np.array([_within(half, e) for e in error])
        return Reconstruction(
            values[problem.of], sure[problem.of], problem.residual(A @ values), SolverStatus.ROUNDED,
            Measure.PROBABILITY,
            f"maximum likelihood, rounded to the grid: {why}",
        )  # fmt: skip


def _shares(problem: Problem, grid: _Grid, tables: NDArray[np.int64]) -> list[Floats]:
    """P(total of atom k = v) over tables of totals, each weighed by the number of ways records can make it up."""
    ways = np.zeros(len(tables))
    for k, (size, levels) in enumerate(zip(problem.sizes, grid.levels, strict=True)):
        if size > 1:
            ways += level_counts(int(size), int(levels))[tables[:, k]]
    weight = np.exp(ways - ways.max())
    weight /= weight.sum()
    return [
        np.bincount(column, weights=weight, minlength=int(t) + 1).astype(np.float64)
        for column, t in zip(tables.T, grid.top, strict=True)
    ]


def _within(half: float, deviation: float) -> float:
    """P(|normal| < half)."""
    from math import erf, sqrt

    return 0.0 if np.isinf(deviation) else erf(half / (deviation * sqrt(2)))


def _grid(problem: Problem) -> _Grid:
    target = problem.target
    step, base = float(target.prior.step or 1), target.lower
    first = np.ceil((problem.lower - base) / step - 1e-9)
    last = np.floor((problem.upper - base) / step + 1e-9)
    if (last < first).any():
        raise ContradictionError(f"the facts leave no grid value of {target.column!r} for some record")
    bottom = base + step * first
    B = problem.totals()
    shift = B @ (problem.sizes * bottom)
    levels = (last - first).astype(np.int64)
    return _Grid(
        B * step, problem.y - shift, problem.lo - shift, problem.hi - shift,
        levels * problem.sizes.astype(np.int64), levels, bottom, step,
    )  # fmt: skip


def _integral(grid: _Grid) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows with integer coefficients and ends, scaled by what makes each row integral."""
    C = np.zeros(grid.C.shape, dtype=np.int64)
    lo, hi = np.zeros(len(C), dtype=np.int64), np.zeros(len(C), dtype=np.int64)
    reach = grid.top.astype(np.float64)
    for j, row in enumerate(grid.C):
        parts = [Fraction(float(c)).limit_denominator(10**6) for c in np.unique(row)]
        factor = lcm(*(p.denominator for p in parts))
        scaled = np.round(row * factor).astype(np.int64)
        divisor = int(np.gcd.reduce(scaled)) or 1
        C[j] = scaled // divisor
        per = factor / divisor
        least = float(np.minimum(C[j], 0) @ reach)
        most = float(np.maximum(C[j], 0) @ reach)
        lo[j] = int(max(np.ceil(grid.lo[j] * per - 1e-6), least - 1))
        hi[j] = int(min(np.floor(grid.hi[j] * per + 1e-6), most + 1))
    return C, lo, hi


def _read(
    problem: Problem, A: Floats, grid: _Grid, totals: list[Floats], status: SolverStatus, note: str
) -> Reconstruction:
    """Distribution of each atom's total to the median of one of its records (the most probable value, if above 1/2)."""
    values, sure = np.zeros(problem.K), np.zeros(problem.K)
    for k, share in enumerate(totals):
        size, levels = int(problem.sizes[k]), int(grid.levels[k])
        one = share
        if size > 1:  # P(x = v | total) = ways(size - 1, total - v) / ways(size, total)
            rest, whole = level_counts(size - 1, levels), level_counts(size, levels)
            one = np.zeros(levels + 1)
            for v in range(levels + 1):
                ratio = np.exp(rest - whole[v : v + len(rest)])
                one[v] = float(share[v : v + len(rest)] @ ratio)
        one = one / one.sum()
        best = int(np.searchsorted(np.cumsum(one), 0.5 - 1e-12))  # the median
        values[k], sure[k] = grid.base[k] + grid.step * best, float(one[best])
    values = problem.target.snap(values)
    residual = problem.residual(A @ values)
    if residual > 1e-9:
        note += "; each guess is the best for its own record, together they need not meet the answers"
    return Reconstruction(values[problem.of], sure[problem.of], residual, status, Measure.PROBABILITY, note)
