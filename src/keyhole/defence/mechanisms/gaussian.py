"""The Gaussian mechanism on integer grids, priced in zero-concentrated differential privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, check_positive, check_probability, round_up
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery, l2_sensitivity_squared
from keyhole.defence.mechanisms.base import DISCRETE_GAUSSIAN, Release
from keyhole.defence.noise import NoiseSource, check_scale, exact_noise


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Answers with discrete Gaussian noise: rho buys a variance of (joint L2 sensitivity)^2 / (2 rho).

    Guarantee: rho-zCDP for a joint release of any number of linear queries, each on its own grid (Canonne, Kamath and
    Steinke 2020). Each answer is within alpha = sqrt(2 variance ln(2/beta)) with probability 1 - beta. Cost: one pass
    and one draw a query.

    >>> from keyhole.defence.budget.budget import Budget, Cap
    >>> budget = Budget(Cap(Loss.of_rho("0.5")))
    >>> gaussian = Gaussian(Histogram.of([600, 400]), budget, rho="0.125", beta=0.05)
    >>> answer = gaussian.release([LinearQuery.of([1, 0])])[0]
    >>> abs(answer.value - 600) < 30, float(answer.alpha), budget.left()
    (True, 5.0, Fraction(3, 8))
    """

    histogram: Histogram
    budget: Budget
    rho: Number
    beta: float = 0.05
    analyst: str | None = None
    noise: NoiseSource | None = None

    def __post_init__(self) -> None:
        check_positive(self.rho, "rho")
        check_probability(self.beta, "beta")

    def cost(self, queries: Sequence[LinearQuery]) -> Loss:
        """rho, whatever is asked: the variance follows the sensitivity."""
        return Loss.of_rho(self.rho, self.histogram.neighbours)

    def release(self, queries: Sequence[LinearQuery]) -> list[Release]:
        """All answers together, for one rho."""
        rho, noise = check_positive(self.rho, "rho"), self.noise or exact_noise()
        variance = l2_sensitivity_squared(queries, self.histogram.neighbours) / (2 * rho)
        cost = self.cost(queries)
        if variance:
            check_scale(variance * max(q.unit for q in queries) ** 2)
        self.budget.spend(cost, analyst=self.analyst, what=f"gaussian: {'; '.join(q.name for q in queries)}")
        left = self.budget.left(self.analyst)
        deviation = Fraction(math.sqrt(variance))
        released = []
        for q in queries:
            steps = noise.gaussian(variance * q.unit**2) if variance else 0
            alpha = Fraction(gaussian_quantile(variance * q.unit**2, self.beta), q.unit)
            value = Fraction(self.histogram.total(q) + steps, q.unit)
            how = f"discrete Gaussian, standard deviation {float(deviation):.6g}"
            neighbours, law = self.histogram.neighbours, DISCRETE_GAUSSIAN
            released.append(Release(value, alpha, self.beta, cost, left, neighbours, how, deviation, law))
        return released


def gaussian_quantile(variance: Fraction, beta: float) -> int:
    """A whole t with P(|z| > t) <= beta for discrete Gaussian noise: its tails are below the continuous bound.

    P(z >= t) <= exp(-t^2 / (2 variance)) on each side, and |z| > t is |z| >= t + 1 (Canonne, Kamath and Steinke 2020,
    sub-Gaussian tails).

    >>> gaussian_quantile(Fraction(4), 0.05)
    5
    """
    if variance == 0:
        return 0
    return max(0, math.ceil(math.sqrt(2 * float(variance) * math.log(2 / beta))) - 1)


def gaussian_rho(steps: Fraction, sensitivity_squared: Fraction, beta: float) -> Fraction:
    """A price that holds: the rho for which |noise| <= steps with probability 1 - beta, rounded up.

    >>> gaussian_rho(Fraction(10), Fraction(1), 0.05)
    Fraction(3049, 100000)
    """
    whole = math.floor(steps) + 1  # |noise| > steps means |noise| >= whole
    return round_up(float(sensitivity_squared) * math.log(2 / beta) / whole**2)
