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

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import MissingExtra
from keyhole.solve.interior_blocks import Absolute, Block, Interval, Quadratic
from keyhole.solve.status import Status

Floats = NDArray[np.float64]


class Term(IntEnum):
    """What a row asks of its value a_j u."""

    QUADRATIC = 0
    ABSOLUTE = 1
    INTERVAL = 2


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a decoding problem: `A u` against `y` (quadratic, absolute) or [lo, hi] (interval)."""

    A: Floats
    y: Floats
    weight: Floats
    lo: Floats
    hi: Floats
    term: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Solution:
    """Minimiser, dual of every row (its pull on the solution; 0 = the row is slack), objective, steps, outcome."""

    u: Floats
    dual: Floats
    objective: float
    iterations: int
    gap: float
    status: Status


# Far from the optimum (gap above _COARSE), while no row is much stiffer than the others (_EVEN), a Newton matrix summed
# in single precision is accurate enough; later steps, summed in double, remove its error of about 1e-6.
_COARSE = 1e-3
_EVEN = 1e3
# Rows whose curvature is this far below that of the p stiffest rows cannot turn a Newton step by more than rounding.
_NEGLIGIBLE = 1e-11
_DAMPING = 0.995
_RUNAWAY = 1e25
_HAIR = 1e-8
_CORRECTIONS = 3
_SHORT = 0.5


def _weighted_gram(A: Floats, single: NDArray[np.float32] | None, D: Floats, p: int) -> Floats:
    """A^T diag(D) A, leaving out rows of negligible curvature."""
    if D.size > p:
        stiff = np.partition(D, D.size - p)[D.size - p]
        keep = stiff * _NEGLIGIBLE < D
        if keep.sum() < 0.8 * D.size:
            A, D = A[keep], D[keep]
            single = single[keep] if single is not None else None
    if single is not None:
        narrow = single * np.sqrt(D).astype(np.float32)[:, None]
        return (narrow.T @ narrow).astype(np.float64)
    scaled = A * np.sqrt(D)[:, None]
    return np.asarray(scaled.T @ scaled)


def _even(curvatures: list[Floats]) -> bool:
    """Is the stiffest row within _EVEN of the tenth-softest?"""
    every = np.concatenate([D[D > 0] for D in curvatures])
    return bool(every.size and every.max() <= _EVEN * np.quantile(every, 0.1))


def _factor(H: Floats) -> Callable[[Floats], Floats]:
    try:
        from scipy.linalg import cho_factor, cho_solve
    except ImportError:
        raise MissingExtra("decoding by interior point", "attack") from None
    diagonal = H.diagonal().copy()
    ridge = 0.0
    for _ in range(12):  # the matrix is positive definite in exact arithmetic; a ridge repairs rounding
        try:
            factor = cho_factor(H, overwrite_a=False, check_finite=False)
        except np.linalg.LinAlgError:
            ridge = max(1e-14, 100 * ridge)
            np.fill_diagonal(H, diagonal * (1 + ridge) + ridge)
            continue
        return lambda rhs: np.asarray(cho_solve(factor, rhs, check_finite=False))
    raise ArithmeticError("the Newton matrix is not positive definite: are the weights finite and positive?")


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

    Guarantee: on `Status.CONVERGED` the duality gap is at most `tolerance` times (1 + |objective|); among many
    minimisers it gives one in the middle of the optimal face (the central path's limit), so equal records get equal
    values. `Status.STALLED` says that the interval rows and the box cannot all be met, or rounding stopped progress.

    >>> r = Rows(np.array([[1.0], [1.0], [1.0]]), np.array([1.0, 2.0, 9.0]), np.ones(3), np.zeros(3), np.zeros(3),
    ...          np.full(3, Term.ABSOLUTE, dtype=np.int8))
    >>> minimise(r, np.array([0.0]), np.array([10.0]), start=np.array([5.0])).u.round(6).tolist()
    [2.0]
    """
    fixed_at = np.isfinite(upper) & (upper - lower <= 1e-12 * (1.0 + np.where(np.isfinite(upper), np.abs(upper), 0.0)))
    if fixed_at.any():  # a known value has no interior: take it out
        return _without_fixed(
            rows, lower, upper, fixed_at, start, lasso, ridge, centre, gram, tolerance, iterations, watch
        )
    m, p = rows.A.shape
    u = np.array(start, dtype=np.float64)
    rows = _widened(rows)
    kinds = [np.flatnonzero(rows.term == t) for t in (Term.ABSOLUTE, Term.QUADRATIC, Term.INTERVAL)]
    parts = [rows.A if k.size == m else rows.A[k] for k in kinds]
    v = [B @ u for B in parts]
    blocks: list[Block] = [
        Absolute(v[0], rows.y[kinds[0]], rows.weight[kinds[0]]),
        Quadratic(v[1], rows.y[kinds[1]], rows.weight[kinds[1]]),
    ]
    pairs, count = blocks[0].complementarity()
    scale = pairs / count if count else max(1e-6, abs(blocks[1].objective(v[1])) / max(1, p))
    blocks.append(Interval(v[2], rows.lo[kinds[2]], rows.hi[kinds[2]], scale))
    blocks.append(Interval(u, lower, upper, scale))
    middle = np.zeros(p) if centre is None else centre
    if lasso is not None and ridge is not None:
        raise ValueError("give lasso or ridge, not both")
    if lasso is not None:
        blocks.append(Absolute(u, middle, lasso))
    if ridge is not None:
        blocks.append(Quadratic(u, middle, ridge))
    fixed = rows.weight[kinds[1]]
    constant = gram if gram is not None else (parts[1].T * fixed) @ parts[1] if kinds[1].size else np.zeros((p, p))
    diagonal = np.einsum("ij,ij->j", rows.A, rows.A) if m else np.zeros(p)
    rho = 1e-12 * (1.0 + float(diagonal.max(initial=0.0)))
    coarse = [B.astype(np.float32) for B in parts]
    separate = kinds[1].size == 0
    status, gap, best, stuck = Status.ITERATION_LIMIT, np.inf, np.inf, 0
    step = 0
    for step in range(1, iterations + 1):
        if watch is not None:
            try:
                watch(step, gap)
            except KeyboardInterrupt:  # between two steps all is consistent: the best so far is the answer
                status = Status.INTERRUPTED
                break
        total, count = (sum(c) for c in zip(*(b.complementarity() for b in blocks), strict=True))
        mu = total / max(1, count)
        values = [*v, u, u]
        terms = [b.linearise(x, 0.0, False) for b, x in zip(blocks, values, strict=False)]
        if max(float(D.max(initial=0.0)) for D, _ in terms) > _RUNAWAY:  # multipliers without end: infeasible
            status = Status.STALLED
            break
        H = constant.copy()
        for k in (0, 2):
            if terms[k][0].size:
                single = coarse[k] if gap > _COARSE and _even([D for D, _ in terms]) else None
                H += _weighted_gram(parts[k], single, terms[k][0], p)
        for D, _ in terms[3:]:
            H[np.diag_indices(p)] += D
        H[np.diag_indices(p)] += rho
        solve = _factor(H)

        def newton(terms: list[tuple[Floats, Floats]]) -> tuple[Floats, list[Floats]]:
            gradient = sum((g for _, g in terms[3:]), np.zeros(p))
            for B, (_, g) in zip(parts, terms, strict=False):
                gradient = gradient + B.T @ g
            du = -solve(gradient)  # noqa: B023 - used at once, within this iteration
            return du, [*(B @ du for B in parts), du, du]

        du, dv = newton(terms)
        if count:
            steps = [b.direct(d) for b, d in zip(blocks, dv, strict=False)]
            primal, dual = (min(1.0, *s) for s in zip(*steps, strict=True))
            if not separate:
                primal = dual = min(primal, dual)
            ahead = sum(b.after(primal, dual) for b in blocks) / count
            target = mu * min(1.0, max(0.0, ahead / mu)) ** 3
            # Several second-order corrections share one factorisation; the one that allows the longest step is taken.
            # Where none goes far, the point is off centre: steps that mostly re-centre are tried as well.
            best_reach, chosen = -1.0, (blocks, du, dv, (0.0, 0.0))
            for aim, corrected in [(target, True)] * _CORRECTIONS + [(0.3 * mu, False), (mu, False)]:
                if not corrected and best_reach > _SHORT:
                    break
                terms = [b.linearise(x, aim, corrected) for b, x in zip(blocks, values, strict=False)]
                du, dv = newton(terms)
                steps = [b.direct(d) for b, d in zip(blocks, dv, strict=False)]
                longest = min(s[0] for s in steps), min(s[1] for s in steps)
                reach = min(1.0, longest[0]) + min(1.0, longest[1])
                if reach > best_reach:
                    best_reach, chosen = reach, ([copy(b) for b in blocks], du, dv, longest)
            blocks, du, dv, longest = chosen
        else:
            for b, d in zip(blocks, dv, strict=False):
                b.direct(d)
            longest = np.inf, np.inf
        primal, dual = (min(1.0, _DAMPING * s) for s in longest)
        if not separate:
            primal = dual = min(primal, dual)
        for b in blocks:
            b.move(primal, dual)
        u = u + primal * du
        v = [x + primal * d for x, d in zip(v, dv, strict=False)]
        total, count = (sum(c) for c in zip(*(b.complementarity() for b in blocks), strict=True))
        value = sum(b.objective(x) for b, x in zip(blocks, [*v, u, u], strict=False))
        pull = sum((b.z for b in blocks[3:]), np.zeros(p))
        for B, b in zip(parts, blocks, strict=False):
            pull = pull + B.T @ b.z
        size = 1.0 + abs(value)
        outside = max(_violation(v[2], rows.lo[kinds[2]], rows.hi[kinds[2]]), _violation(u, lower, upper))
        slope = float(np.abs(pull) @ (1.0 + np.abs(u)))
        gap = total / size + slope / size + outside
        if gap <= tolerance or (count == 0 and step >= 2):
            status = Status.CONVERGED
            break
        stuck = 0 if gap < 0.9 * best else stuck + 1
        best = min(best, gap)
        if stuck >= 20:
            status = Status.STALLED
            break
    dual_values = np.zeros(m)
    for which, b in zip(kinds, blocks, strict=False):
        dual_values[which] = b.z
    value = sum(b.objective(x) for b, x in zip(blocks, [*v, u, u], strict=False))
    return Solution(np.clip(u, lower, upper), dual_values, float(value), step, float(gap), status)


def _without_fixed(
    rows: Rows,
    lower: Floats,
    upper: Floats,
    fixed: NDArray[np.bool_],
    start: Floats,
    lasso: Floats | None,
    ridge: Floats | None,
    centre: Floats | None,
    gram: Floats | None,
    tolerance: float,
    iterations: int,
    watch: Callable[[int, float], None] | None,
) -> Solution:
    free = ~fixed
    shift = rows.A[:, fixed] @ lower[fixed]
    less = Rows(rows.A[:, free], rows.y - shift, rows.weight, rows.lo - shift, rows.hi - shift, rows.term)
    u = np.where(fixed, lower, start)
    if not free.any():
        return Solution(u, np.zeros(len(shift)), 0.0, 0, 0.0, Status.CONVERGED)
    found = minimise(
        less, lower[free], upper[free], start=start[free], lasso=None if lasso is None else lasso[free],
        ridge=None if ridge is None else ridge[free], centre=None if centre is None else centre[free],
        gram=None if gram is None else gram[np.ix_(free, free)],
        tolerance=tolerance, iterations=iterations, watch=watch,
    )  # fmt: skip
    u[free] = found.u
    return replace(found, u=u)


def _widened(rows: Rows) -> Rows:
    """Intervals a hair wider: constraints that leave a single point (a share of 0) then still have an interior."""
    hair = _HAIR * (
        1.0 + np.where(np.isfinite(rows.lo), np.abs(rows.lo), 0) + np.where(np.isfinite(rows.hi), np.abs(rows.hi), 0)
    )
    inside = rows.term == Term.INTERVAL
    return replace(rows, lo=np.where(inside, rows.lo - hair, rows.lo), hi=np.where(inside, rows.hi + hair, rows.hi))


def _violation(v: Floats, lo: Floats, hi: Floats) -> float:
    return float(max(np.max(lo - v, initial=0.0), np.max(v - hi, initial=0.0)))
