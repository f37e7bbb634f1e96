"""Verdicts on frequencies that hold for any sample size: Chernoff's bound, no normal approximation.

One false-alarm rate is stated for the whole suite of statistical checks; each single comparison gets an equal share.
"""

from __future__ import annotations

import math

SUITE_FALSE_ALARM = 1e-5
COMPARISONS = 1000  # an upper bound on the comparisons that the suite makes
LEVEL = SUITE_FALSE_ALARM / COMPARISONS


def divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence of two coins, KL(p || q).

    >>> round(divergence(0.5, 0.25), 4)
    0.1438
    """
    first = p * math.log(p / q) if p > 0 else 0.0
    second = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return first + second


def surprising(hits: int, trials: int, probability: float, level: float = LEVEL) -> bool:
    """True if so many (or few) hits have probability below `level` when each has this probability.

    P(|deviation| as large) <= 2 exp(-trials KL(hits/trials || probability)).

    >>> surprising(500, 1000, 0.5), surprising(700, 1000, 0.5)
    (False, True)
    """
    if probability <= 0:
        return hits > 0
    if probability >= 1:
        return hits < trials
    return trials * divergence(hits / trials, probability) > math.log(2 / level)


def lower_bound(hits: int, trials: int, level: float = LEVEL) -> float:
    """A probability that the true one is not below, except with probability `level`.

    >>> 0.4 < lower_bound(500, 1000) < 0.5
    True
    """
    return _edge(hits / trials, trials, level, 0.0)


def upper_bound(hits: int, trials: int, level: float = LEVEL) -> float:
    """A probability that the true one is not above, except with probability `level`.

    >>> 0.5 < upper_bound(500, 1000) < 0.6
    True
    """
    return _edge(hits / trials, trials, level, 1.0)


def _edge(share: float, trials: int, level: float, end: float) -> float:
    near, far = share, end
    for _ in range(60):
        middle = (near + far) / 2
        if 0 < middle < 1 and trials * divergence(share, middle) <= math.log(1 / level):
            near = middle
        else:
            far = middle
    return far


def epsilon_lower_bound(hits: int, others: int, trials: int, delta: float = 0.0, level: float = LEVEL) -> float:
    """An epsilon that the mechanism surely exceeds or meets, from an event's hits on two neighbours.

    ln((P - delta) / P'), with P bounded from below and P' from above; 0 if nothing is shown.

    >>> epsilon_lower_bound(5000, 1000, 10000) > 1.3
    True
    """
    above = lower_bound(hits, trials, level / 2) - delta
    return max(0.0, math.log(above / upper_bound(others, trials, level / 2))) if above > 0 else 0.0
