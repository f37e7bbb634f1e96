"""Do the answers fit what was stated: noise that is tested or estimated, sticky or clamped answers, a declared range.

A box least-squares fit leaves residuals whose mean square over the degrees of freedom estimates the variance; rounding
to whole numbers is part of it. Noise that was stated is tested against the same residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.special import ndtri

from keyhole.attacks.base import Floats
from keyhole.attacks.batch import DENSE_LIMIT
from keyhole.attacks.estimates.matrix_free import build_plain_operator, compute_row_noise, solve_cg
from keyhole.attacks.estimates.maximum_likelihood import minimise_losses
from keyhole.attacks.estimates.sparse_fit import fit_sparse_rows
from keyhole.attacks.problem.cell_constraints import build_cell_rows
from keyhole.attacks.problem.decoding_problem import BETWEEN, NOISY, NoiseLaw, Problem, choose_rows, clamp_noise
from keyhole.basis.atoms.sparse import group_columns
from keyhole.errors import ConfigError
from keyhole.solve.decode.interior.method import RowTerm

FEWEST = 8  # degrees of freedom below which nothing is estimated or tested
SURE = 4.0  # standard deviations off which a stated scale is called wrong
UNLIKELY = 1e-4  # chance of what is called a misfit of few answers
TABLES = 20_000  # tables up to which every one is looked at
STEPS = 30  # of expectation maximisation
TIED = 3_000  # unknowns up to which ties of private cells are taken off the degrees of freedom that a fit uses up
_NEAR = 1e-4  # a tie of shares that holds
_CLAMPED = 3.0  # negative answers that must have been expected before their absence means clamping
RANGE_UNKNOWNS = 400  # unknowns up to which it is looked at
RANGE_ENTRIES = 2_000_000
OUTSIDE_CHANCE = 1e-3  # that somebody of all is so far out by noise alone
_STIFF = 1e-3  # an exact answer among noisy ones, in the least noise


@dataclass(frozen=True, slots=True, eq=False)
class NoiseFit:
    """A problem whose noise laws fit its answers, and what was found, in words."""

    problem: Problem
    messages: tuple[str, ...]


def fit_noise(problem: Problem, unstated: NDArray[np.bool_]) -> NoiseFit:
    """Estimate the noise of the rows marked `unstated` (their scale then means a unit), test that of the others.

    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> from keyhole.attacks.problem.assembly import assemble
    >>> from keyhole.model.transcript import Noise
    >>> from fractions import Fraction
    >>> rng = np.random.default_rng(0)
    >>> A = rng.integers(0, 2, (400, 6))
    >>> e = from_arrays(A, (A @ np.arange(6) + rng.normal(0, 2, 400)).tolist(), noise=Noise("gaussian", Fraction(1)))
    >>> p = assemble(Target.of(e), e)
    >>> float(fit_noise(p, np.ones(400, dtype=bool)).problem.scale[0].round(1))
    2.0
    """
    problem, unstated, messages = _once(problem, unstated)
    if unstated.any():
        problem, found = _estimated(problem, unstated)
        return NoiseFit(problem, (*messages, *found))
    problem, found = _tested(problem)
    return NoiseFit(problem, (*messages, *found))


def _once(problem: Problem, unstated: NDArray[np.bool_]) -> tuple[Problem, NDArray[np.bool_], tuple[str, ...]]:
    """Sticky noise: where a repeated question mostly gets the same noisy answer again, repeats are left out."""
    noisy = np.isin(problem.law, NOISY)
    if not noisy.any():
        return problem, unstated, ()
    if problem.csr is not None:
        question = group_columns(problem.csr.starts, problem.csr.columns, problem.csr.values)[0].astype(np.int64)
    else:
        matrix = problem.bits if problem.bits is not None else problem.totals()
        lines = np.ascontiguousarray(matrix).view(np.uint8).reshape(problem.m, -1)
        question = np.unique(lines, axis=0, return_inverse=True)[1].ravel()
    both = np.stack([question, np.unique(problem.y, return_inverse=True)[1].ravel()], axis=1)
    seen_question: set[int] = set()
    seen: set[tuple[int, int]] = set()
    again = same = 0
    repeat = np.zeros(problem.m, dtype=bool)
    for j in np.flatnonzero(noisy):
        key = (int(both[j, 0]), int(both[j, 1]))
        if key[0] in seen_question:
            again += 1
            if key in seen:
                same += 1
                repeat[j] = True
        seen_question.add(key[0])
        seen.add(key)
    if same < 0.5 * again or not same:
        return problem, unstated, ()
    message = f"{same} repeated question(s) got the same noisy answer again (sticky noise): each is used once"
    return choose_rows(problem, ~repeat), unstated[~repeat], (message,)


def _fit(problem: Problem, used: NDArray[np.bool_]) -> tuple[Floats, int]:
    """Fitted values of every row after least squares (in the box) on the rows `used`, and the degrees of freedom."""
    part = choose_rows(problem, used)
    calm = replace(part, law=np.where(np.isin(part.law, NOISY), NoiseLaw.GAUSSIAN, part.law).astype(np.int8))
    calm = clamp_noise(calm)
    if calm.csr is not None:
        fitted, unknowns = fit_sparse_rows(calm, problem)
        return fitted, int(used.sum()) - unknowns
    if calm.m * calm.p > DENSE_LIMIT:
        u, _ = solve_cg(calm, calm.y)
        return build_plain_operator(problem).apply(u), int(used.sum()) - calm.p
    A = calm.design()
    term = np.array([RowTerm.ABSOLUTE, RowTerm.ABSOLUTE, RowTerm.QUADRATIC, RowTerm.INTERVAL], dtype=np.int8)[calm.law]
    weight = np.where(term == RowTerm.QUADRATIC, 1 / np.where(calm.scale > 0, calm.scale, 1.0) ** 2, 1.0)
    stiff, touched = np.asarray(calm.law == NoiseLaw.EXACT), np.asarray(A.any(axis=0), dtype=np.bool_)
    if len(calm.features) > 1:  # private cells tie several unknowns to an atom
        u = minimise_losses(calm, A, term, weight, stiff).u
    else:
        u = np.zeros(calm.p)
        u[touched] = minimise_losses(
            _columns(calm, touched), np.ascontiguousarray(A[:, touched]), term, weight, stiff
        ).u
    noisy = np.isin(calm.law, NOISY)
    return np.asarray(problem.design() @ u), int(noisy.sum()) - _used_up(calm, A[noisy], u, touched)


def _used_up(problem: Problem, A: Floats, u: Floats, touched: NDArray[np.bool_]) -> int:
    """Directions in which a fit in the box may still move: unknowns inside it, less those that ties of cells hold."""
    near = 1e-4 * (1 + np.abs(u))
    inside = touched & (u > problem.lower + near) & (u < problem.upper - near)
    C, (ties, low, high) = A[:, inside], build_cell_rows(problem)
    if not inside.any():
        return 0
    at = ties @ u
    held = ties[(at < low + _NEAR) | (at > high - _NEAR)][:, inside]
    if held.any() and held.shape[1] <= TIED:
        C = C @ null_space(held)
    return int(np.linalg.matrix_rank(C.T @ C, hermitian=True)) if C.shape[1] else 0


def _columns(problem: Problem, touched: NDArray[np.bool_]) -> Problem:
    """The problem over touched atoms alone, where it has one unknown for each."""
    return replace(
        problem, sizes=problem.sizes[touched], bits=None, dense=problem.totals()[:, touched],
        lower=problem.lower[touched], upper=problem.upper[touched], absent=problem.absent[touched],
        least=None if problem.least is None else problem.least[touched],
        most=None if problem.most is None else problem.most[touched],
    )  # fmt: skip


def _estimated(problem: Problem, unstated: NDArray[np.bool_]) -> tuple[Problem, tuple[str, ...]]:
    rows = unstated & np.isin(problem.law, NOISY)
    if not rows.any():
        return problem, ()
    fitted, free = _fit(problem, np.ones(problem.m, dtype=bool))
    if free < FEWEST:
        raise ConfigError(
            f"--noise auto cannot tell noise from values: {problem.m} answers leave {max(free, 0)} degrees of freedom "
            f"about {problem.K} groups of records; state it (--noise gaussian:3), or collect more answers"
        )
    unit = problem.scale
    residual = np.where(rows, (problem.y - fitted) / unit, 0.0)
    deviation = float(np.sqrt((residual**2).sum() / free))
    size = 1 + float(np.abs(problem.y[rows]).max())
    if deviation < 1e-5 * size:
        return _exact(problem, rows), ("the answers fit without any noise: they are taken as exact",)
    whole = bool((problem.y[rows] == np.round(problem.y[rows])).all()) and bool((unit[rows] == 1).all())
    shown = problem.y[rows] / unit[rows]
    clamped = rows & (problem.y == 0)
    expected = float(_below_zero(fitted[rows] / unit[rows], deviation).sum())
    is_clamped = bool((shown >= 0).all()) and expected > _CLAMPED and bool(clamped.any())
    half = 0.5 if whole else 0.0
    hidden = np.isin(problem.law, tuple(BETWEEN.values())) & unstated
    held = hidden | (clamped if is_clamped else False)
    if held.any():
        lo, hi = _hidden_ends(problem, hidden, half)
        lo, hi = np.where(clamped & ~hidden, -np.inf, lo), np.where(clamped & ~hidden, half, hi)
        problem = replace(problem, lo=np.where(hidden, lo, problem.lo), hi=np.where(hidden, hi, problem.hi))
        fitted, deviation = _tobit(problem, rows | hidden, held, (lo, hi), deviation)
        residual = np.where(rows & ~held, (problem.y - fitted) / unit, 0.0)
    kept = residual[rows & ~clamped] if is_clamped else residual[rows]
    law, scale = _law(kept, deviation)
    scale *= _surplus(free, 5.0 if law == NoiseLaw.LAPLACE else 2.0)
    made = replace(
        problem,
        law=np.where(rows, law, problem.law).astype(np.int8),
        scale=np.where(rows, scale * unit, problem.scale),
    )
    made = replace(made, scale=np.where(hidden, scale * unit, made.scale))
    if is_clamped:
        made = replace(
            made,
            law=np.where(clamped, BETWEEN[law], made.law).astype(np.int8),
            lo=np.where(clamped, -np.inf, made.lo),
            hi=np.where(clamped, half, made.hi),
        )
    name = "gaussian" if law == NoiseLaw.GAUSSIAN else "laplace"
    said = (
        f"noise estimated from the answers: {name}:{scale:.3g} ({int(rows.sum())} answers, {free} degrees of freedom)"
    )
    said += ", rounded to whole numbers" if whole else ""
    said += f", never below 0 ({int(clamped.sum())} answers clamped)" if is_clamped else ""
    return made, (said,)


def _hidden_ends(problem: Problem, hidden: NDArray[np.bool_], half: float) -> tuple[Floats, Floats]:
    """Between what the noisy numbers behind suppressed answers lie: half a unit more where numbers are whole.

    A range that begins at 0 says that nothing is fewer than nobody, which is true of people and not of noisy numbers.
    """
    lo = np.where(problem.lo <= 0, -np.inf, problem.lo - half * problem.scale)
    return np.where(hidden, lo, -np.inf), np.where(hidden, problem.hi + half * problem.scale, np.inf)


def _tobit(
    problem: Problem, rows: NDArray[np.bool_], held: NDArray[np.bool_], ends: tuple[Floats, Floats], deviation: float
) -> tuple[Floats, float]:
    """Fit and standard deviation where answers were only shown to lie between ends, by expectation maximisation.

    Each such answer is replaced by its mean given that it lies there, and its variance there is added.
    References: Tobin (1958), Dempster, Laird and Rubin (1977).
    """
    unit, law = problem.scale, np.where(held, NoiseLaw.GAUSSIAN, problem.law).astype(np.int8)
    fitted, _ = _fit(problem, np.ones(problem.m, dtype=bool))
    for _ in range(STEPS):
        shift, left = _truncated((ends[0] - fitted) / (unit * deviation), (ends[1] - fitted) / (unit * deviation))
        shown = np.where(held, fitted + unit * deviation * shift, problem.y)
        fitted, free = _fit(replace(problem, y=shown, law=law), np.ones(problem.m, dtype=bool))
        inside = np.where(held, left, 0.0) * deviation**2
        square = np.where(rows, ((shown - fitted) / unit) ** 2 + inside, 0.0).sum()
        before, deviation = deviation, float(np.sqrt(square / max(free, FEWEST)))
        if abs(before - deviation) < 1e-3 * deviation:
            break
    return fitted, deviation


def _truncated(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a standard normal number between a and b.

    >>> [float(x[0].round(4)) for x in _truncated(np.array([-np.inf]), np.array([0.0]))]
    [-0.7979, 0.3634]
    """
    from scipy.special import log_ndtr

    right = a > 0  # a tail on the right is that on the left, turned
    a, b = np.where(right, -b, a), np.where(right, -a, b)
    a, b = np.clip(a, -40.0, 40.0), np.clip(np.maximum(b, a + 1e-6), -40.0, 40.0)
    size = log_ndtr(b) + np.log(np.maximum(-np.expm1(log_ndtr(a) - log_ndtr(b)), 1e-300))
    at_a, at_b = (np.exp(-0.5 * end**2 - 0.5 * np.log(2 * np.pi) - size) for end in (a, b))
    mean = np.clip(at_a - at_b, a, b)
    variance = np.clip(1 + a * at_a - b * at_b - mean**2, 0.0, 1.0)
    return np.where(right, -mean, mean), variance


def _below_zero(fitted: Floats, deviation: float) -> Floats:
    """How likely each answer was to be negative (at most -1 once rounded)."""
    from scipy.special import ndtr

    return np.asarray(ndtr((-0.5 - np.maximum(fitted, 0.0)) / deviation))


def _exact(problem: Problem, rows: NDArray[np.bool_]) -> Problem:
    return replace(
        problem, law=np.where(rows, NoiseLaw.EXACT, problem.law).astype(np.int8),
        lo=np.where(rows, problem.y, problem.lo), hi=np.where(rows, problem.y, problem.hi),
        scale=np.where(rows, 0.0, problem.scale),
    )  # fmt: skip


def _law(residual: Floats, deviation: float) -> tuple[NoiseLaw, float]:
    """The law under which the residuals are likelier, with its scale: Gaussian unless Laplace is clearly so."""
    spread = float(np.sqrt(np.mean(residual**2)))
    mean = float(np.mean(np.abs(residual)))
    gaussian = np.log(spread) + 0.5 * np.log(2 * np.pi) + 0.5
    laplace = np.log(2 * mean) + 1
    if (gaussian - laplace) * len(residual) > 3:
        return NoiseLaw.LAPLACE, mean * deviation / spread
    return NoiseLaw.GAUSSIAN, deviation


def _surplus(free: int, kurtosis: float) -> float:
    """What an estimated scale is multiplied by before it is relied on: half a standard error of its square is added.

    A fit in a box lies nearer to the answers than its dimension says, so the estimate is a little too small; and one
    that is too small by chance makes errors too small by more than one too large makes them too large.

    >>> round(_surplus(100, 2.0), 3), round(_surplus(10_000, 2.0), 3)
    (1.035, 1.004)
    """
    return float(np.sqrt(1 + 0.5 * np.sqrt(kurtosis / max(free, 1))))


def bound_misfit(gaussian: int, laplace: int) -> float:
    """Sum of squares of so many answers' noise, in standard deviations, that is passed with probability 1e-4 at most.

    No fit misses the answers by more than the truth does, so this is valid however few they are: a chi-square quantile,
    and for Laplace noise a bound by its greatest, since P(|noise| > x scales) = exp(-x).

    >>> round(bound_misfit(9, 0), 1), round(bound_misfit(0, 1), 1)
    (35.4, 49.0)
    """
    from scipy.stats import chi2

    normal = float(chi2.isf(UNLIKELY / 2, gaussian)) if gaussian else 0.0
    return normal + (laplace * float(np.log(2 * laplace / UNLIKELY)) ** 2 / 2 if laplace else 0.0)


def measure_best_table(problem: Problem, rows: NDArray[np.bool_], deviation: Floats) -> float:
    """The least sum of squares by which a table of declared values misses the answers; 0 where there are too many."""
    at, grid = np.flatnonzero(problem.touched()), problem.target.grid
    if not problem.plain or grid is None or len(grid) ** len(at) > TABLES or (problem.sizes[at] != 1).any():
        return 0.0
    values = np.array(grid)
    tables = values[np.indices((len(grid),) * len(at)).reshape(len(at), -1)]
    missed = problem.y[rows, None] - problem.design()[np.ix_(np.flatnonzero(rows), at)] @ tables
    return float(((missed / deviation[rows, None]) ** 2).sum(axis=0).min(initial=np.inf))


def _tested(problem: Problem) -> tuple[Problem, tuple[str, ...]]:
    """Stated noise against the residuals; a scale that is too small is replaced by the one they show."""
    rows = np.isin(problem.law, NOISY)
    if not rows.any() or problem.m * problem.p > DENSE_LIMIT // 4:
        return problem, ()
    fitted, free = _fit(problem, np.ones(problem.m, dtype=bool))
    laplace = problem.law == NoiseLaw.LAPLACE
    stated = np.where(laplace, np.sqrt(2), 1.0) * problem.scale
    standard = ((problem.y - fitted) / np.where(rows, stated, 1.0))[rows]
    square, few, free = float((standard**2).sum()), free < FEWEST, max(free, 1)
    square = max(square, measure_best_table(problem, rows, stated)) if few else square
    ratio = float(np.sqrt(square / free))
    kurtosis = 5.0 if laplace[rows].any() else 2.0
    off = (ratio**2 - 1) / np.sqrt(kurtosis / free)
    far = square > bound_misfit(int((rows & ~laplace).sum()), int(laplace[rows].sum()))
    if far if few else off > SURE and ratio > 1.15:
        used = ratio * _surplus(free, kurtosis)
        said = (
            f"THE STATED NOISE DOES NOT FIT: the answers miss every table by {ratio:.3g} times its scale. "
            f"{used:.3g} times the stated scale is used instead; --noise auto estimates scale and law"
        )
        return replace(problem, scale=np.where(rows, problem.scale * used, problem.scale)), (said,)
    if not few and off < -SURE and ratio < 0.85:
        said = (
            f"the answers lie nearer to a table than the stated noise allows ({ratio:.3g} times its scale): stated "
            "errors are too wide; --noise auto estimates scale and law"
        )
        return problem, (said,)
    return problem, ()


def warn_of_values_outside_range(problem: Problem) -> tuple[str, ...]:
    """A warning if least squares without the range puts somebody outside it by more than noise does; else nothing.

    Only where the answers determine every unknown they touch. Cost: m p^2, below a second.

    >>> from decimal import Decimal
    >>> from fractions import Fraction
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.attacks.base import Target
    >>> from keyhole.attacks.problem.assembly import assemble
    >>> from keyhole.model.prior import Prior
    >>> from keyhole.model.transcript import Noise
    >>> law, bit = Noise("gaussian", Fraction(1, 10)), Prior(Decimal(0), Decimal(1))
    >>> e = from_arrays(np.eye(2), [0.5, 1.6], noise=law, prior=bit)
    >>> print(*warn_of_values_outside_range(assemble(Target.of(e), e)))
    THE DECLARED RANGE OF 'x' DOES NOT FIT: the answers put 1 record(s) outside it, by up to 6 standard errors. \
Errors and probabilities hold only if it is right
    """
    rows = np.flatnonzero(np.isin(problem.law, (*NOISY, NoiseLaw.EXACT)))
    bounded = np.isfinite(problem.lower).any() or np.isfinite(problem.upper).any()
    if not problem.plain or not bounded or problem.csr is not None or problem.m * problem.p > RANGE_ENTRIES:
        return ()
    at = np.flatnonzero(problem.touched())
    if not np.isin(problem.law[rows], NOISY).any() or not 0 < len(at) <= min(RANGE_UNKNOWNS, len(rows)):
        return ()
    noise = compute_row_noise(problem)[rows]
    noise = np.where(noise > 0, noise, _STIFF * float(noise[noise > 0].min()))
    B = problem.design()[np.ix_(rows, at)] / noise[:, None]
    size, turned = np.linalg.eigh(B.T @ B)
    if size[0] <= 1e-9 * size[-1]:
        return ()
    found = turned @ ((turned.T @ (B.T @ (problem.y[rows] / noise))) / size)
    error = np.sqrt((turned**2 / size).sum(axis=1))
    off = np.maximum(problem.lower[at] - found, found - problem.upper[at]) / error
    far = off > float(-ndtri(OUTSIDE_CHANCE / len(at)))
    if not far.any():
        return ()
    column, who = problem.target.column, int(problem.sizes[at[far]].sum())
    said = f"THE DECLARED RANGE OF {column!r} DOES NOT FIT: the answers put {who} record(s) outside it, by up to "
    return (said + f"{off.max():.2g} standard errors. Errors and probabilities hold only if it is right",)
