"""The Laplace mechanism on integer grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, check_positive, check_probability, round_up
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery, l1_sensitivity
from keyhole.defence.mechanisms.base import DISCRETE_LAPLACE, Release
from keyhole.defence.noise import NoiseSource, check_scale, exact_noise


@dataclass(frozen=True, slots=True)
class Laplace:
    """Answers with discrete Laplace noise: epsilon buys a scale of (joint L1 sensitivity) / epsilon.

    Guarantee: (epsilon, 0)-differential privacy for a joint release of any number of linear queries (Dwork, McSherry,
    Nissim and Smith 2006; the discrete law of Ghosh, Roughgarden and Sundararajan 2009). Each answer is within
    alpha = scale * ln(1/beta) + 1/2 step with probability 1 - beta. Cost: one pass and one draw a query.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> budget = epsilon_budget(1)
    >>> laplace = Laplace(Histogram.of([600, 400]), budget, epsilon=Fraction(1, 2), beta=0.05)
    >>> answer = laplace.release([LinearQuery.of([1, 0])])[0]
    >>> abs(answer.value - 600) < 100, float(answer.alpha), str(answer.cost), budget.left()
    (True, 6.0, 'epsilon 0.5', Fraction(1, 2))
    """

    histogram: Histogram
    budget: Budget
    epsilon: Number
    beta: float = 0.05
    analyst: str | None = None
    noise: NoiseSource | None = None

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "epsilon")
        check_probability(self.beta, "beta")

    def cost(self, queries: Sequence[LinearQuery]) -> Loss:
        """epsilon, whatever is asked: the scale follows the sensitivity."""
        return Loss.of_epsilon(self.epsilon, 0, self.histogram.neighbours)

    def release(self, queries: Sequence[LinearQuery]) -> list[Release]:
        """All answers together, for one epsilon."""
        epsilon, noise = check_positive(self.epsilon, "epsilon"), self.noise or exact_noise()
        scale = l1_sensitivity(queries, self.histogram.neighbours) / epsilon
        cost = self.cost(queries)
        if scale:
            check_scale(scale * max(q.unit for q in queries))
        self.budget.spend(cost, analyst=self.analyst, what=f"laplace: {'; '.join(q.name for q in queries)}")
        left = self.budget.left(self.analyst)
        released = []
        for q in queries:
            # A constant query moves nobody: it needs no noise and gets none.
            steps = noise.laplace(scale * q.unit) if scale else 0
            alpha = Fraction(laplace_quantile(scale * q.unit, self.beta), q.unit)
            value = Fraction(self.histogram.total(q) + steps, q.unit)
            how = f"discrete Laplace, scale {float(scale):.6g}"
            neighbours, law = self.histogram.neighbours, DISCRETE_LAPLACE
            released.append(Release(value, alpha, self.beta, cost, left, neighbours, how, scale, law))
        return released


def laplace_quantile(scale: Fraction, beta: float) -> int:
    """The smallest whole t with P(|z| > t) <= beta for discrete Laplace noise of this scale.

    P(|z| > t) = 2 exp(-(t+1)/scale) / (1 + exp(-1/scale)), exactly.

    >>> laplace_quantile(Fraction(2), 0.05)
    6
    """
    if scale == 0:
        return 0
    u = float(1 / scale)
    t = (math.log(2 / beta) - math.log1p(math.exp(-u))) / u - 1
    return max(0, math.ceil(t - 1e-9 * max(1.0, abs(t))))


def laplace_epsilon(steps: Fraction, sensitivity: Fraction, beta: float) -> Fraction:
    """A price that holds: the epsilon for which |noise| <= steps with probability 1 - beta, rounded up.

    Uses P(|z| > t) <= exp(-(t + 1/2)/scale) for whole t: epsilon = sensitivity ln(1/beta) / (floor(steps) + 1/2).

    >>> laplace_epsilon(Fraction(10), Fraction(1), 0.05)
    Fraction(1427, 5000)
    """
    whole = math.floor(steps)
    return round_up(float(sensitivity) * math.log(1 / beta) / (whole + 0.5))
