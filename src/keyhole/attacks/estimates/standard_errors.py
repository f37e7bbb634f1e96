"""Standard errors of decoded values: the linear-Gaussian posterior with the prior's spread, or simulated, moderated.

Of many records with 8 simulated errors each the surest tenth is mostly the luckiest: its variances are too small. How
much of the differences within a class is luck follows from the draws themselves. Reference: Smyth (2004).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from keyhole.attacks.base import Floats
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.solve.decode.lstsq import posterior_deviation
from keyhole.solve.status import SolverStatus

_SURE = 1e8  # information of an exact answer in units of the prior's; errors below 1e-3 of the spread read 0
SPREAD_LIMIT = 3_000  # unknowns up to which standard errors come from one dense inverse
CARRIED = 4_000_000  # entries of the hard rows up to which bounds are carried through them
ALONE = 1e-3  # share of its class's variance below which a record is known better than its class
FEW = 10  # records below which a class does not tell how different they are
_FIRST = 3.0  # what a class counts then, in draws


def compute_information(problem: Problem, unit: float, excess: float = 2.0) -> Floats:
    """Information of every answer about its row value; 0 for one-sided answers, large for exact ones.

    A Laplace answer has the variance 2 scale^2 by itself; only the median of many of them comes down to the Fisher
    bound scale^2. `excess`, between the two, is what the log allows (see `_excess`).
    """
    noisy = np.isin(problem.law, (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN)) & (problem.scale > 0)
    found = 1 / np.where(noisy, problem.scale, np.inf) ** 2  # the dust of an exact 0 is too small to be squared
    found = np.where(problem.law == NoiseLaw.LAPLACE, found / excess, found)
    finite = (problem.law == NoiseLaw.INTERVAL) & np.isfinite(problem.scale) & (problem.scale > 0)
    found = np.where(finite, 12 / np.where(finite, problem.scale, 1.0) ** 2, found)
    return np.asarray(
        np.where(problem.law == NoiseLaw.EXACT, _SURE / (unit**2 * float(np.mean(problem.weights()))), found)
    )


def find_midpoint(problem: Problem) -> Floats:
    """A start inside the bounds: the middle where both ends are known, the nearest to 0 otherwise, a little inside."""
    both = np.isfinite(problem.lower) & np.isfinite(problem.upper)
    with np.errstate(invalid="ignore"):
        return np.where(both, (problem.lower + problem.upper) / 2, np.clip(0.0, problem.lower, problem.upper))


def compute_prior_deviation(problem: Problem) -> Floats:
    """Standard deviation of one record behind every unknown beforehand: even over its grid or range; inf if open.

    A bit has 1/2, an indicator too: the even law over two values is as wide as any on [0, 1].
    """
    width, step = problem.upper - problem.lower, np.zeros(problem.p)
    for f, feature in enumerate(problem.features):
        part = slice(f * problem.K, (f + 1) * problem.K)
        if feature.column is None:
            step[part] = 1.0
        elif problem.plain and problem.target.prior.step is not None:
            step[part] = float(problem.target.prior.step)
    even = np.where(np.isfinite(width), np.sqrt(np.maximum(width * (width + 2 * step), 0.0) / 12), np.inf)
    return np.minimum(even, problem.target.deviation) if problem.plain else np.asarray(even)


def compute_standard_errors(problem: Problem, A: Floats) -> Floats:
    """A standard error per unknown, as that of one record behind it; inf where nothing bounds it.

    The linear-Gaussian posterior with the prior's spread; an unknown spread is taken as 100 times the largest known
    one, and what stays near it is called infinite.
    """
    weights = problem.weights()
    if problem.p > SPREAD_LIMIT:
        return np.full(problem.p, problem.target.deviation)
    deviation = compute_prior_deviation(problem)
    noisy = np.isin(problem.law, (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN))
    known = np.isfinite(deviation)
    largest = max(float(np.max(deviation[known], initial=0.0)), float(np.max(problem.scale[noisy], initial=0.0)))
    spread = largest if known.all() and largest > 0 else 100 * (largest or 1.0)
    prior = np.where(known, np.maximum(deviation, 1e-4 * spread), spread)
    unit = float(prior.min())
    precision = weights / prior**2
    found = posterior_deviation(A, compute_information(problem, unit), precision)
    laplace = int((problem.law == NoiseLaw.LAPLACE).sum())
    if laplace:
        free = float(np.sum(1 - np.minimum(1.0, precision * found**2)))  # unknowns that the answers hold
        found = posterior_deviation(
            A, compute_information(problem, unit, _excess(laplace / max(free, 1e-9))), precision
        )
    total = np.sqrt(found**2 + prior**2 * (1 - 1 / weights))  # a record varies about its atom's mean
    if not noisy.any():
        total = np.where(total < 10 * unit / np.sqrt(_SURE), 0.0, total)
    total = np.where(known, np.minimum(total, deviation), total)
    total = np.where(~known & (total > 0.05 * spread), np.inf, total)
    half = bound_feasible_width(problem, A) / 2
    pinned = half < 1e-8 * (1 + float(np.max(np.abs(problem.y), initial=0.0)))
    total = np.where(pinned, 0.0, np.where(np.isfinite(total), np.minimum(total, half), total))
    return np.asarray(total)


def compute_errors_after(problem: Problem, A: Floats, status: SolverStatus) -> Floats:
    """`standard_errors` of a solver that has arrived; of one that was stopped on its way, at least the prior's."""
    found = compute_standard_errors(problem, A)
    return np.maximum(found, compute_prior_deviation(problem)) if status is SolverStatus.INTERRUPTED else found


def compute_posterior_mean(problem: Problem, A: Floats) -> Floats:
    """Mean of the linear-Gaussian posterior whose deviations `standard_errors` gives, for a column with a range."""
    prior = np.maximum(compute_prior_deviation(problem), 1e-9)
    precision, middle = problem.weights() / prior**2, (problem.lower + problem.upper) / 2
    sure = compute_information(problem, float(prior.min()))
    H = (A * sure[:, None]).T @ A
    H[np.diag_indices(len(H))] += precision
    return np.asarray(middle + np.linalg.solve(H, A.T @ (sure * (problem.y - A @ middle))))


def _excess(answers: float) -> float:
    """Variance of the median of k Laplace answers over the Fisher bound scale^2/k: 2 for one, 1 for very many.

    1 + 1.8/sqrt(k), at most 2, lies within 10 % of the exact variance of the sample median for odd k.
    """
    return float(np.clip(1 + 1.8 / np.sqrt(max(answers, 1e-9)), 1.0, 2.0))


def carry_bounds(problem: Problem, A: Floats, *, rounds: int = 8) -> tuple[Floats, Floats]:
    """Bounds of every unknown (a mean over its records) that exact and interval answers leave; never too narrow.

    Bounds are carried through the rows: in lo <= a u <= hi what the other unknowns can add at most is the least that is
    left for one. Cost: O(m p) a round.
    """
    hard = np.isin(problem.law, (NoiseLaw.EXACT, NoiseLaw.INTERVAL))
    lower, upper = problem.lower.copy(), problem.upper.copy()
    slack = 1e-9 * (1 + np.abs(problem.y[hard]))
    exact = problem.law[hard] == NoiseLaw.EXACT
    radius = slack + np.where(exact, problem.scale[hard], 0.0)
    lo, hi, B = problem.lo[hard] - radius, problem.hi[hard] + radius, A[hard]
    bounded = np.isfinite(lower).any() or np.isfinite(upper).any()
    for _ in range(rounds if bounded and 0 < B.size <= CARRIED else 0):
        before = lower.copy(), upper.copy()
        lower, upper = _carry(B, lo, hi, lower, upper)
        if np.allclose(before[0], lower, atol=0) and np.allclose(before[1], upper, atol=0):
            break
    return lower, upper


def bound_feasible_width(problem: Problem, A: Floats) -> Floats:
    """Width of the range that exact and interval answers and bounds leave one record of every unknown; never too small.

    With s records behind a mean between l and h, one of them lies above s l less the most the others can have.
    """
    lower, upper = carry_bounds(problem, A)
    size, least, most = problem.weights(), problem.lower, problem.upper
    with np.errstate(invalid="ignore"):
        low = np.where(size > 1, size * lower - (size - 1) * most, lower)
        high = np.where(size > 1, size * upper - (size - 1) * least, upper)
    low = np.maximum(np.where(np.isnan(low), -np.inf, low), least)
    high = np.minimum(np.where(np.isnan(high), np.inf, high), most)
    return np.asarray(np.maximum(high - low, 0.0))


def _carry(B: Floats, lo: Floats, hi: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """One round: the bounds that follow for every unknown from each row and the bounds of the others."""
    there = B != 0
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = np.where(there, B * lower, 0.0), np.where(there, B * upper, 0.0)
        least, most = np.minimum(*ends), np.maximum(*ends)
        low = (lo[:, None] - _others(most)) / B
        high = (hi[:, None] - _others(least)) / B
    below, above = np.where(B > 0, low, high), np.where(B > 0, high, low)
    below = np.where(there & ~np.isnan(below), below, -np.inf).max(axis=0, initial=-np.inf)
    above = np.where(there & ~np.isnan(above), above, np.inf).min(axis=0, initial=np.inf)
    return np.maximum(lower, below), np.minimum(upper, above)


def _others(part: Floats) -> Floats:
    """Sum of every row without each of its entries, infinite as soon as one of the others is."""
    finite = np.isfinite(part)
    total = np.where(finite, part, 0.0).sum(axis=1, keepdims=True)
    open_ = (~finite).sum(axis=1, keepdims=True) - ~finite
    sign = np.sign(np.where(finite, 0.0, part).sum(axis=1, keepdims=True))
    return np.asarray(np.where(open_ > 0, sign * np.inf, total - np.where(finite, part, 0.0)))


def moderate_variances(variance: Floats, classes: NDArray[Any], drawn: Floats) -> Floats:
    """Variances from `drawn` normal draws each, moved towards the mean of their class as far as their spread is luck.

    With s^2 of d draws about a variance that varies like an inverse chi-square of d0 draws about s0^2 the mean is
    (d0 s0^2 + d s^2) / (d0 + d); d0 and s0 are those that the mean and variance of log s^2 show. One that lies below a
    thousandth of its class's mean is no chance (below 1e-4): it stays alone. Cost: O(n log n).

    >>> moderate_variances(np.array([1.0, 3.0, 1e-9]), np.array([2, 2, 2]), np.full(3, 3.0)).round(3).tolist()
    [1.5, 2.5, 0.0]
    >>> drawn = np.random.default_rng(0).chisquare(8, 1000) / 8
    >>> bool(moderate_variances(drawn, np.zeros(1000), np.full(1000, 8.0)).std() < 0.1)
    True
    """
    _, of = np.unique(classes, return_inverse=True)
    of = of.ravel()
    count = np.bincount(of)
    mean = (np.bincount(of, weights=variance) / count)[of]
    alike = variance > ALONE * mean
    found = variance.copy()
    for members in np.split(np.argsort(of, kind="stable"), np.cumsum(count)[:-1]):
        some = members[alike[members]]
        if len(some):
            strength, common = _shared(variance[some], drawn[some])
            share = 1.0 if np.isinf(strength) else strength / (strength + drawn[some])
            found[some] = share * common + (1 - share) * variance[some]
    return found


def _shared(variance: Floats, drawn: Floats) -> tuple[float, float]:
    """What a class counts (in draws, infinite if all that differs is luck), and its common variance."""
    pooled = float((variance * drawn).sum() / drawn.sum())
    if len(variance) < FEW:
        return _FIRST, float(variance.mean())
    half = drawn / 2
    logs = np.log(variance) - digamma(half) + np.log(half)
    more = float(logs.var(ddof=1) - polygamma(1, half).mean())
    if more <= 0:
        return np.inf, pooled
    strength = 2 * _inverse_trigamma(more)
    return strength, float(np.exp(logs.mean() + digamma(strength / 2) - np.log(strength / 2)))


def _inverse_trigamma(x: float) -> float:
    """y with trigamma(y) = x, by Newton's method on 1/trigamma.

    >>> round(_inverse_trigamma(float(polygamma(1, 2.5))), 6)
    2.5
    """
    if x > 1e7:
        return float(1 / np.sqrt(x))
    y = 0.5 + 1 / x
    for _ in range(50):
        tri = float(polygamma(1, y))
        step = tri * (1 - tri / x) / float(polygamma(2, y))
        y += step
        if -step / y < 1e-8:
            break
    return y
