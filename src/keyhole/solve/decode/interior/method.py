"""A primal-dual interior-point method for L1 and least-squares decoding in a box (Mehrotra's predictor-corrector).

    minimise   sum_{j quadratic} w_j/2 (a_j u - y_j)^2  +  sum_{j absolute} w_j |a_j u - y_j|
               + sum_k lasso_k |u_k - centre_k|   or   + sum_k ridge_k/2 (u_k - centre_k)^2
    subject to lo_j <= a_j u <= hi_j for interval rows,  lower <= u <= upper

Textbook linear programs write |r| with an extra variable per answer and hand a solver (n + m) unknowns and 2m rows.
Here the extra variables are eliminated by hand: every Newton step is one p x p Cholesky of A^T D A + diagonal, with D
one number per row, and a dozen steps are enough. Cost: O(m p^2) a step (O(p^3) when all rows are quadratic, since then
A^T W A is formed once).

Each family of terms (absolute, quadratic, interval) is a block that knows its own complementarity pairs. A block
linearises as `new dual = D dv + g` in the change dv of its row values; the blocks then share one Newton system
(sum B^T D B + rho) du = -sum B^T g. rho is a proximal term around the current point: it moves no solution, it keeps
directions nobody asked about where they are.

References: Mehrotra 1992 (predictor-corrector), Carpenter, Lustig, Mulvey, Shanno 1993 (higher-order corrections).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.decode.interior.blocks import AbsoluteRows, Block, IntervalRows, QuadraticRows
from keyhole.solve.decode.interior.newton import Families, Rows, RowTerm, factorise
from keyhole.solve.status import SolverStatus

__all__ = ["RowTerm", "Rows", "Solution", "minimise"]

Floats = NDArray[np.float64]

_DAMPING = 0.995  # share of the longest step inside that is taken
_RUNAWAY = 1e25  # a curvature above this says that a multiplier has no end
_HAIR = 1e-8  # by what intervals are widened, relative to their ends
_CORRECTIONS = 3  # second-order corrections tried a step
_SHORT = 0.5  # a step below this (primal plus dual, at most 2) has the point re-centred


@dataclass(frozen=True, slots=True)
class Solution:
    """Minimiser, dual of every row (its pull on the solution; 0 = the row is slack), objective, steps, outcome."""

    u: Floats
    dual: Floats
    objective: float
    iterations: int
    gap: float
    status: SolverStatus


@dataclass(frozen=True, slots=True, eq=False)
class _Penalty:
    """What pulls on single unknowns: lasso |u - centre|, ridge (u - centre)^2 / 2, or nothing."""

    lasso: Floats | None
    ridge: Floats | None
    centre: Floats | None

    def of(self, free: NDArray[np.bool_]) -> _Penalty:
        """The same on some of the unknowns."""
        return _Penalty(*(None if x is None else x[free] for x in (self.lasso, self.ridge, self.centre)))

    def block(self, u: Floats) -> list[Block]:
        """As a block over the unknowns."""
        middle = np.zeros(u.size) if self.centre is None else self.centre
        if self.lasso is not None and self.ridge is not None:
            raise ValueError("give lasso or ridge, not both")
        if self.lasso is not None:
            return [AbsoluteRows(u, middle, self.lasso)]
        return [QuadraticRows(u, middle, self.ridge)] if self.ridge is not None else []


@dataclass(frozen=True, slots=True, eq=False)
class _Stop:
    """When the iteration ends; `watch` may end it by KeyboardInterrupt."""

    tolerance: float
    iterations: int
    watch: Callable[[int, float], None] | None

    def asked(self, step: int, gap: float) -> bool:
        """Does the watcher want the best so far? Between two steps all is consistent."""
        if self.watch is None:
            return False
        try:
            self.watch(step, gap)
        except KeyboardInterrupt:
            return True
        return False


@dataclass(frozen=True, slots=True, eq=False)
class _Decoding:
    """Rows (intervals a hair wider), box, penalty and start of one solve."""

    rows: Rows
    lower: Floats
    upper: Floats
    start: Floats
    penalty: _Penalty
    gram: Floats | None

    def fixed(self) -> NDArray[np.bool_]:
        """Unknowns that the box holds at one value: they have no interior."""
        upper = self.upper
        size = 1.0 + np.where(np.isfinite(upper), np.abs(upper), 0.0)
        return np.asarray(np.isfinite(upper) & (upper - self.lower <= 1e-12 * size))

    def without(self, fixed: NDArray[np.bool_]) -> _Decoding:
        """The same in the other unknowns."""
        rows, free = self.rows, ~fixed
        shift = rows.A[:, fixed] @ self.lower[fixed]
        less = Rows(rows.A[:, free], rows.y - shift, rows.weight, rows.lo - shift, rows.hi - shift, rows.term)
        gram = None if self.gram is None else self.gram[np.ix_(free, free)]
        return _Decoding(less, self.lower[free], self.upper[free], self.start[free], self.penalty.of(free), gram)


@dataclass(slots=True, eq=False)
class _Point:
    """Where the iteration stands: unknowns, row values by family, and the blocks with their pairs."""

    u: Floats
    v: list[Floats]
    blocks: list[Block]

    @classmethod
    def start(cls, problem: _Decoding, families: Families) -> _Point:
        """Pairs off their ends by the size of the first residuals."""
        rows, kinds = problem.rows, families.kinds
        u = np.array(problem.start, dtype=np.float64)
        v = [B @ u for B in families.parts]
        blocks: list[Block] = [
            AbsoluteRows(v[0], rows.y[kinds[0]], rows.weight[kinds[0]]),
            QuadraticRows(v[1], rows.y[kinds[1]], rows.weight[kinds[1]]),
        ]
        pairs, count = blocks[0].complementarity()
        scale = pairs / count if count else max(1e-6, abs(blocks[1].objective(v[1])) / max(1, u.size))
        blocks.append(IntervalRows(v[2], rows.lo[kinds[2]], rows.hi[kinds[2]], scale))
        blocks.append(IntervalRows(u, problem.lower, problem.upper, scale))
        return cls(u, v, [*blocks, *problem.penalty.block(u)])

    def values(self) -> list[Floats]:
        """What each block's terms are about."""
        return [*self.v, self.u, self.u]

    def linearised(self, mu: float, corrected: bool) -> list[tuple[Floats, Floats]]:
        """Curvature and dual of every block for a step aimed at products `mu`."""
        return [b.linearise(x, mu, corrected) for b, x in zip(self.blocks, self.values(), strict=False)]

    def directed(self, dv: list[Floats]) -> tuple[float, float]:
        """Set the blocks' directions; the longest primal and dual steps that stay inside."""
        steps = [b.direct(d) for b, d in zip(self.blocks, dv, strict=False)]
        return min(s[0] for s in steps), min(s[1] for s in steps)

    def complementarity(self) -> tuple[float, int]:
        """Sum of all pairs' products, and how many there are."""
        total, count = (sum(c) for c in zip(*(b.complementarity() for b in self.blocks), strict=True))
        return total, int(count)

    def objective(self) -> float:
        """The objective here."""
        return sum(b.objective(x) for b, x in zip(self.blocks, self.values(), strict=False))

    def move(self, step: _Step, separate: bool) -> None:
        """Go almost as far as the step allows."""
        self.blocks = step.blocks
        primal, dual = _tied((min(1.0, _DAMPING * s) for s in step.longest), separate)
        for b in self.blocks:
            b.move(primal, dual)
        self.u = self.u + primal * step.du
        self.v = [x + primal * d for x, d in zip(self.v, step.dv, strict=False)]


class _Step(NamedTuple):
    """A direction: of the blocks, of the unknowns and of all values; and how far it may be followed."""

    blocks: list[Block]
    du: Floats
    dv: list[Floats]
    longest: tuple[float, float]


def minimise(
    rows: Rows,
    lower: Floats,
    upper: Floats,
    *,
    start: Floats,
    lasso: Floats | None = None,
    ridge: Floats | None = None,
    centre: Floats | None = None,
    gram: Floats | None = None,
    tolerance: float = 1e-8,
    iterations: int = 100,
    watch: Callable[[int, float], None] | None = None,
) -> Solution:
    """Solve the decoding problem of this module's head. `gram` may carry A^T W A of the quadratic rows, if known.

    Guarantee: on `SolverStatus.CONVERGED` the duality gap is at most `tolerance` times (1 + |objective|); among many
    minimisers it gives one in the middle of the optimal face (the central path's limit), so equal records get equal
    values. `SolverStatus.STALLED` says that the interval rows and the box cannot all be met, or rounding stopped it.

    >>> r = Rows(np.array([[1.0], [1.0], [1.0]]), np.array([1.0, 2.0, 9.0]), np.ones(3), np.zeros(3), np.zeros(3),
    ...          np.full(3, RowTerm.ABSOLUTE, dtype=np.int8))
    >>> minimise(r, np.array([0.0]), np.array([10.0]), start=np.array([5.0])).u.round(6).tolist()
    [2.0]
    """
    problem = _Decoding(rows, lower, upper, start, _Penalty(lasso, ridge, centre), gram)
    stop = _Stop(tolerance, iterations, watch)
    fixed = problem.fixed()
    if not fixed.any():
        return _solve(problem, stop)
    u = np.where(fixed, lower, start)  # a known value has no interior: take it out
    if fixed.all():
        return Solution(u, np.zeros(len(rows.y)), 0.0, 0, 0.0, SolverStatus.CONVERGED)
    found = _solve(problem.without(fixed), stop)
    u[~fixed] = found.u
    return replace(found, u=u)


def _solve(problem: _Decoding, stop: _Stop) -> Solution:
    """Newton steps until the gap is closed, or no longer closes."""
    problem = replace(problem, rows=_widened(problem.rows))
    families = Families.of(problem.rows, problem.gram)
    point = _Point.start(problem, families)
    status, gap, best, stuck = SolverStatus.ITERATION_LIMIT, np.inf, np.inf, 0
    step = 0
    for step in range(1, stop.iterations + 1):
        if stop.asked(step, gap):
            status = SolverStatus.INTERRUPTED
            break
        found = _step(families, point, gap)
        if found is None:
            status = SolverStatus.STALLED
            break
        point.move(found, families.separate)
        total, count = point.complementarity()
        gap = _gap(problem, families, point, total)
        if gap <= stop.tolerance or (count == 0 and step >= 2):
            status = SolverStatus.CONVERGED
            break
        stuck = 0 if gap < 0.9 * best else stuck + 1
        best = min(best, gap)
        if stuck >= 20:
            status = SolverStatus.STALLED
            break
    dual = np.zeros(len(problem.rows.y))
    for which, b in zip(families.kinds, point.blocks, strict=False):
        dual[which] = b.z
    u = np.clip(point.u, problem.lower, problem.upper)
    return Solution(u, dual, float(point.objective()), step, float(gap), status)


def _step(families: Families, point: _Point, gap: float) -> _Step | None:
    """One predictor-corrector step; None where multipliers grow without end: infeasible."""
    terms = point.linearised(0.0, False)
    if max(float(D.max(initial=0.0)) for D, _ in terms) > _RUNAWAY:
        return None
    solve = factorise(families.matrix([D for D, _ in terms], gap))

    def newton(terms: list[tuple[Floats, Floats]]) -> tuple[Floats, list[Floats]]:
        du = -solve(families.pulled([g for _, g in terms]))
        return du, families.changes(du)

    total, count = point.complementarity()
    du, dv = newton(terms)
    longest = point.directed(dv)
    if not count:
        return _Step(point.blocks, du, dv, (np.inf, np.inf))
    mu = total / count
    primal, dual = _tied((min(1.0, s) for s in longest), families.separate)
    ahead = sum(b.after(primal, dual) for b in point.blocks) / count
    target = mu * min(1.0, max(0.0, ahead / mu)) ** 3
    # Several second-order corrections share one factorisation; the one that allows the longest step is taken.
    # Where none goes far, the point is off centre: steps that mostly re-centre are tried as well.
    best_reach, chosen = -1.0, _Step(point.blocks, du, dv, (0.0, 0.0))
    for aim, corrected in [(target, True)] * _CORRECTIONS + [(0.3 * mu, False), (mu, False)]:
        if not corrected and best_reach > _SHORT:
            break
        du, dv = newton(point.linearised(aim, corrected))
        longest = point.directed(dv)
        reach = min(1.0, longest[0]) + min(1.0, longest[1])
        if reach > best_reach:
            best_reach, chosen = reach, _Step([copy(b) for b in point.blocks], du, dv, longest)
    return chosen


def _tied(lengths: Iterable[float], separate: bool) -> tuple[float, float]:
    """Primal and dual step, the same where they must be."""
    primal, dual = lengths
    return (primal, dual) if separate else (min(primal, dual),) * 2


def _gap(problem: _Decoding, families: Families, point: _Point, pairs: float) -> float:
    """How far from optimal, relative to the objective: pairs' products, slope of the Lagrangian, constraints missed."""
    rows, interval = problem.rows, families.kinds[2]
    size = 1.0 + abs(point.objective())
    slope = float(np.abs(families.pulled([b.z for b in point.blocks])) @ (1.0 + np.abs(point.u)))
    outside = max(
        _violation(point.v[2], rows.lo[interval], rows.hi[interval]),
        _violation(point.u, problem.lower, problem.upper),
    )
    return pairs / size + slope / size + outside


def _widened(rows: Rows) -> Rows:
    """Intervals a hair wider: constraints that leave a single point (a share of 0) then still have an interior."""
    hair = _HAIR * (
        1.0 + np.where(np.isfinite(rows.lo), np.abs(rows.lo), 0) + np.where(np.isfinite(rows.hi), np.abs(rows.hi), 0)
    )
    inside = rows.term == RowTerm.INTERVAL
    return replace(rows, lo=np.where(inside, rows.lo - hair, rows.lo), hi=np.where(inside, rows.hi + hair, rows.hi))


def _violation(v: Floats, lo: Floats, hi: Floats) -> float:
    return float(max(np.max(lo - v, initial=0.0), np.max(v - hi, initial=0.0)))
