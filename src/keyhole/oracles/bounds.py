"""What theory allows: floors, published bounds, a minimax lower bound; printed beside the measured error."""

from __future__ import annotations

import math

import numpy as np

from keyhole.errors import ModelError, PrivacyParameterError
from keyhole.oracles.learners.bisection import PublishedConstants
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.subspace import Subspace


def one_bit_deviation(noise: OracleNoise) -> float:
    """sqrt(F(0)(1-F(0))) / rho(0): one bit at a central threshold is worth a raw answer with this deviation.

    >>> from keyhole.oracles.noise import GaussianNoise, UniformNoise
    >>> one_bit_deviation(UniformNoise(1.0)), round(one_bit_deviation(GaussianNoise(1.0)) ** 2, 4)  # pi/2
    (1.0, 1.5708)
    """
    p = noise.cdf(0.0)
    return math.sqrt(p * (1 - p)) / noise.density_at_zero


def stream_factor(subspace: Subspace, queries: Floats) -> float:
    """E[sqrt(q^T M^-1 q)] with M = E[q q^T] on the subspace, from a sample; sqrt(d) when all directions weigh alike.

    >>> space = Subspace.blocks(4, 2)
    >>> round(stream_factor(space, space.basis), 4) == round(math.sqrt(2), 4)
    True
    """
    return coordinates_factor(queries @ subspace.basis.T)


def coordinates_factor(z: Floats) -> float:
    """The same from subspace coordinates."""
    inverse = np.linalg.pinv(z.T @ z / len(z))
    return float(np.mean(np.sqrt(np.einsum("ij,jk,ik->i", z, inverse, z))))


def average_error_floor(deviation: float, factor: float, queries: int) -> float:
    """Cramer-Rao: 2 sqrt(2/pi) deviation factor / sqrt(T), the mean over t <= T of an efficient estimator's mean error.

    Asymptotic (for short streams the prior box does better), and for central thresholds: noise whose density
    jumps at an edge can be beaten faster, see EdgeBisection.

    >>> round(average_error_floor(1.0, math.sqrt(2), 10**6), 5)
    0.00226
    """
    return 2 * math.sqrt(2 / math.pi) * deviation * factor / math.sqrt(queries)


def minimax_lower_bound(noise: OracleNoise, d: int, queries: int) -> float:
    """Average error that no method can undercut for every w: 3 sqrt(d) / (8 sqrt(I T)), unit queries along a basis.

    Two-point argument [lecam1973]: along one direction, T/d answers about two means 2a apart have Kullback-Leibler
    divergence at most (T/d) I (2a)^2 / 2, with I the Fisher information of a raw noisy answer (a bit says less);
    averaging a (1 - total variation) over the stream and choosing a gives the constant. Condition: I finite and
    the divergence at most quadratic, true for Gaussian and Laplace noise, and w's range at least 3 sqrt(d/(I T)).
    0 for noise without finite information (uniform): there, errors may fall faster than 1/sqrt(T).

    >>> from keyhole.oracles.noise import GaussianNoise, UniformNoise
    >>> round(minimax_lower_bound(GaussianNoise(1.0), 2, 10**6), 6), minimax_lower_bound(UniformNoise(1.0), 2, 10**6)
    (0.00053, 0.0)
    """
    if noise.fisher is None:
        return 0.0
    return 3 * math.sqrt(d) / (8 * math.sqrt(noise.fisher * queries))


def published_average_error(
    noise: OracleNoise,
    subspace: Subspace,
    queries: int,
    hit_chance: float,
    constants: PublishedConstants = PublishedConstants(),  # noqa: B008 - a frozen value
    norm: float = 1.0,
) -> float:
    """The published bound on OnlineBisection's average error, phase by phase instead of in O-notation.

    A phase of side l takes at most k = r N_crit queries, r = 2 / hit_chance^2, with probability as in
    `published_failure`; each costs at most norm * sqrt(d) * l. Phases run until T is used up or the side is
    log(T)/sqrt(T). Summed: O~(sqrt(dD) (r D^2 / (rho(0)^2 margin^2 (1 - keep)) + log T) / sqrt T) [choromanski2015].
    hit_chance is the least chance, over basis vectors, that a query lies within phi of it.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> round(published_average_error(UniformNoise(1.0), Subspace.blocks(4, 2), 10**6, 0.5), 3)
    2.022
    """
    size = math.sqrt(float(np.sum(np.maximum(subspace.lower**2, subspace.upper**2))))
    side, left, total = 2 * size, float(queries), 0.0
    spread = norm * math.sqrt(subspace.d)
    while left > 0 and hit_chance > 0 and side > constants.stop_side(queries):
        dp = constants.rates(noise, side, norm)[1]
        spent = min(left, 2 / hit_chance**2 * constants.n_crit(queries, dp))
        total += spent * side
        left -= spent
        if left > 0:
            side *= constants.keep
    return spread * (total + max(0.0, left) * side) / queries


def published_failure(
    subspace: Subspace,
    queries: int,
    constants: PublishedConstants = PublishedConstants(),  # noqa: B008 - a frozen value
) -> float:
    """Chance that OnlineBisection ever cuts w away: (number of cuts) * T^-6, at most 1 (Chernoff; T^-30 by Hoeffding).

    >>> published_failure(Subspace.blocks(4, 2), 10**6) < 1e-33
    True
    """
    size = math.sqrt(float(np.sum(np.maximum(subspace.lower**2, subspace.upper**2))))
    phases = max(1.0, math.log(2 * size / constants.stop_side(queries)) / math.log(1 / constants.keep))
    return min(1.0, subspace.d * math.ceil(phases) * float(queries) ** -6)


def published_final_error(d: int, queries: int) -> float:
    """sqrt(d) log(T) / sqrt(T): how near the projection of w is once the published stop side is reached.

    >>> round(published_final_error(2, 10**6), 4)
    0.0195
    """
    return math.sqrt(d) * math.log(queries) / math.sqrt(queries)


def published_least_queries(
    noise: OracleNoise,
    subspace: Subspace,
    queries: int,
    constants: PublishedConstants = PublishedConstants(),  # noqa: B008 - a frozen value
    norm: float = 1.0,
) -> float:
    """Queries that OnlineBisection needs at the least to reach its stop side: d N_crit a phase, if every one counts.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> published_least_queries(UniformNoise(1.0), Subspace.blocks(4, 2), 10**6) > 10**7
    True
    """
    side = 2 * math.sqrt(float(np.sum(np.maximum(subspace.lower**2, subspace.upper**2))))
    total = 0.0
    while side > constants.stop_side(queries):
        total += subspace.d * math.ceil(min(1e300, constants.n_crit(queries, constants.rates(noise, side, norm)[1])))
        side *= constants.keep
    return total


def published_reach(
    noise: OracleNoise,
    d: int,
    constants: PublishedConstants = PublishedConstants(),  # noqa: B008 - a frozen value
) -> float:
    """log10 of the shortest stream on which OnlineBisection reaches its stop side, if every query counts.

    The last phases cost d 60 log(T) / dp^2 each, dp = 2 rho(0) margin side, a geometric series; at the side
    log(T)/sqrt(T) they fit into T only if log T >= 15 d / (rho(0)^2 margin^2 (1 - keep^2)).

    >>> from keyhole.oracles.noise import UniformNoise
    >>> round(published_reach(UniformNoise(1.0), 2))
    7624
    """
    rate = noise.density_at_zero * constants.margin
    return 15 * d / (rate**2 * (1 - constants.keep**2)) / math.log(10)


def private_laplace_scale(epsilon: float, answers: int, sensitivity: float) -> float:
    """Laplace scale that makes `answers` yes/no answers epsilon-differentially private together.

    Each answer is a function of one Laplace-noised value, so basic composition [dwork2006] asks for
    answers * sensitivity / epsilon; a larger number of answers is refused (the cap).

    >>> private_laplace_scale(1.0, 1000, 0.5)
    500.0
    """
    if not (epsilon > 0 and math.isfinite(epsilon)) or answers < 1 or sensitivity <= 0:
        raise PrivacyParameterError(
            f"need epsilon > 0, at least one answer and a positive sensitivity; got {epsilon}, {answers}, {sensitivity}"
        )
    return answers * sensitivity / epsilon


def phase_level_error(
    noise: OracleNoise,
    subspace: Subspace,
    horizon: int,
    *,
    rng: np.random.Generator,
    hit_chance: float | None = None,
    constants: PublishedConstants = PublishedConstants(),  # noqa: B008 - a frozen value
) -> float:
    """The average error of one run of T unit queries along the axes, each as often.

    In a phase every direction gets its N_crit answers: their yeses are one binomial draw, and N_crit / `hit_chance`
    queries pass (the least share of queries that count for a direction; 1/d unless said; waiting for the slowest adds a
    share of 1/sqrt(N_crit)). The rest is as in `OnlineBisection`. Time O(d log T) in all, so T may be 10^16.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> space = Subspace.blocks(4, 2)
    >>> round(phase_level_error(UniformNoise(1.0), space, 10**6, rng=np.random.default_rng(0)), 2)
    0.05
    """
    if not 3 <= horizon <= 10**17:
        raise ModelError(f"the horizon is from 3 to 10^17, where binomial draws still fit a word; got {horizon}")
    w = subspace.coordinates(rng.uniform(subspace.lower, subspace.upper))
    size = math.sqrt(float(np.sum(np.maximum(subspace.lower**2, subspace.upper**2))))
    x, y = np.full(subspace.d, -size), np.full(subspace.d, size)
    least, most = subspace.initial_box()
    left, total, hits = float(horizon), 0.0, 1 / subspace.d if hit_chance is None else hit_chance
    while left > 0:
        side, middle = float(y[0] - x[0]), (x + y) / 2
        centre = np.clip(middle, np.maximum(x, least), np.maximum(x, np.minimum(y, most)))  # what answers
        low, dp = constants.rates(noise, side, 1.0)
        needed = math.ceil(min(1e18, constants.n_crit(horizon, dp)))
        spent = min(left, needed / hits if hits > 0 else math.inf)
        total += spent * float(np.mean(np.abs(centre - w)))
        left -= spent
        if left <= 0 or side <= constants.stop_side(horizon):
            total += max(left, 0.0) * float(np.mean(np.abs(centre - w)))
            break
        chance = np.array([1 - noise.cdf(float(v)) for v in middle - w])
        upper = rng.binomial(needed, chance) > needed * (low + dp / 2)
        x, y = np.where(upper, y - constants.keep * side, x), np.where(upper, y, x + constants.keep * side)
    return total / horizon
