"""Many pure releases whose epsilons are fixed beforehand: the privacy loss distribution of all together.

The worst mechanism of a pure epsilon is randomised response: its privacy loss is epsilon or -epsilon. So the loss of k
of them has a binomial law, and (epsilon, delta) of the whole follows from it in closed form: no smaller pair holds for
all such mechanisms (Kairouz, Oh and Viswanath 2015, optimal composition, adaptively chosen mechanisms included).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

SLACK = 1 + 1e-6  # more than what is lost in double arithmetic
STEPS = 200
GRID = 50_000  # cells over which unequal losses are added up
NEGLIGIBLE = 1e-25  # masses below are counted as if they gave everything away


def bundle_delta(each: float, times: int, epsilon: float) -> float:
    """The delta at which `times` releases of pure epsilon `each` are epsilon-private, rounded up.

    delta = sum over j of C(k, j) e^(j e) / (1 + e^e)^k max(0, 1 - e^(epsilon - (2j - k) e)); computed in logarithms.

    >>> bundle_delta(0.01, 1000, 1.37) < 1e-6 < bundle_delta(0.01, 1000, 1.35)
    True
    """
    j = np.arange(times + 1, dtype=np.float64)
    log_mass = _log_choose(times) + j * each - times * math.log1p(math.exp(each))
    beyond = (2 * j - times) * each - epsilon
    kept = beyond > 0
    parts = np.exp(log_mass[kept]) * -np.expm1(-beyond[kept])
    return min(1.0, float(parts.sum()) * SLACK + 1e-18)


def _log_choose(times: int) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, times + 1, dtype=np.float64)))])
    found: NDArray[np.float64] = logs[-1] - logs - logs[::-1]
    return found


def bundle_epsilon(each: Fraction, times: int, delta: Fraction) -> Fraction:
    """The smallest epsilon of the whole at this delta, rounded up; never above the sum.

    >>> float(bundle_epsilon(Fraction(1, 100), 1000, Fraction(1, 10**6)))
    1.36545
    """
    return _least(lambda middle: bundle_delta(float(each), times, middle), each * times, delta)


def _least(delta_of: Callable[[float], float], total: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon whose delta is within, rounded up; never above the sum."""
    low, high = 0.0, float(total)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= float(delta) else (middle, high)
    step = Fraction(10) ** (math.floor(math.log10(high)) - 5)
    return min(total, step * math.ceil(Fraction(high) * Fraction(SLACK) / step))


@dataclass(frozen=True, slots=True, eq=False)
class LossDistribution:
    """The privacy loss of releases of any pure epsilons, fixed beforehand: sums of +-epsilon_i, rounded up to a grid.

    A release of epsilon is also one of every larger epsilon, so rounding each up is outward; all masses are positive,
    so sums in doubles are off by a relative error far below the slack; what is left out counts as delta. Cost: for
    each different epsilon its number of releases times the cells of the grid.

    >>> LossDistribution.of([Fraction(1, 100)] * 500 + [Fraction(1, 50)] * 200).epsilon(Fraction(1, 10**6)) < 2
    True
    """

    step: float
    masses: NDArray[np.float64]  # of 0, 1, 2, ... steps upward, beside all downward
    lost: float

    @classmethod
    def of(cls, epsilons: Sequence[Fraction]) -> LossDistribution:
        """Equal ones have a binomial law; groups of them are added up one by one."""
        step = sum(epsilons, Fraction(0)) / GRID
        masses, lost = np.ones(1), 0.0
        for cells, times in Counter(math.ceil(e / step) for e in epsilons).items():
            each = float(cells * step)
            j = np.arange(times + 1, dtype=np.float64)
            part = np.exp(_log_choose(times) + j * each - times * math.log1p(math.exp(each)))
            kept = np.flatnonzero(part >= NEGLIGIBLE)
            lost += NEGLIGIBLE * (times + 1)
            found = np.zeros(len(masses) + cells * times)
            for k in kept.tolist():
                found[k * cells : k * cells + len(masses)] += part[k] * masses
            masses = found
        return cls(float(step), masses, lost)

    def delta(self, epsilon: float) -> float:
        """At which all together are epsilon-private, rounded up."""
        top = len(self.masses) - 1
        beyond = (2 * np.arange(top + 1, dtype=np.float64) - top) * self.step * SLACK - epsilon
        kept = beyond > 0
        return min(1.0, float((self.masses[kept] * -np.expm1(-beyond[kept])).sum()) * SLACK + self.lost + 1e-18)

    def epsilon(self, delta: Fraction) -> Fraction:
        """The smallest at this delta, rounded up; never above the sum (of what was rounded up)."""
        return _least(self.delta, Fraction(self.step) * (len(self.masses) - 1), delta)


def bundle_share(times: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest epsilon each with which all together stay within (epsilon, delta), rounded down.

    >>> share = bundle_share(1000, Fraction(1), Fraction(1, 10**6))
    >>> float(share), bundle_epsilon(share, 1000, Fraction(1, 10**6)) <= 1
    (0.00749, True)
    """
    low, high = epsilon / times, epsilon
    if delta <= 0 or times < 2:
        return low
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if bundle_epsilon(middle, times, delta) <= epsilon else (low, middle)
    step = Fraction(10) ** (math.floor(math.log10(low)) - 2)
    found = step * math.floor(low / step)
    return found if found > epsilon / times and bundle_epsilon(found, times, delta) <= epsilon else epsilon / times
