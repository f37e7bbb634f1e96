"""How much of each candidate table to buy, so that as many answers as possible are as precise as they need to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
ROUNDS, INNER = 150, 3
TINY = 1e-150  # its square is still a number


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """A planning problem over public numbers and released guesses.

    `matters[q, r]` is how much the variance of residual r adds to the variance of answer q, `says[r, t]` the precision
    of residual r per unit of precision of candidate table t, `costs[t]` the price of that unit (its square root under
    Laplace noise: `linear`), `within[q]` the error that answer q may have, `weights[q]` how much it matters.
    """

    matters: Floats
    says: Floats
    costs: Floats
    within: Floats
    weights: Floats
    linear: bool = False

    def deviations(self, precision: Floats) -> Floats:
        """The standard deviation of every answer."""
        info = np.maximum(self.says @ precision, TINY)
        found: Floats = np.sqrt(self.matters @ (1 / info))
        return found

    def missed(self, precision: Floats) -> float:
        """The weighted share of answers outside what they may be, by the normal law."""
        return float(self.weights @ (2 * ndtr(-self.within / np.maximum(self.deviations(precision), 1e-300))))

    def scaled(self, precision: Floats, budget: float) -> Floats:
        """The same proportions at the whole price."""
        if self.linear:
            return precision * (budget / float(self.costs @ np.sqrt(precision))) ** 2
        return precision * (budget / float(self.costs @ precision))

    def step(self, precision: Floats, weights: Floats, budget: float) -> Floats:
        """Towards the least sum of weights * variance at this price: multiplicative, by the marginal gain a table has.

        The fixed point has equal gain per price for all tables bought: p g = s p for Gaussian noise (cost s p), and
        g p^(1/2) = s for Laplace noise (cost s p^(1/2)).
        """
        info = np.maximum(self.says @ precision, TINY)
        gain = self.says.T @ ((self.matters.T @ weights) / info**2)
        if self.linear:
            moved = precision * (gain * np.sqrt(precision) / self.costs) ** (2 / 3)
        else:
            moved = precision * np.sqrt(gain / self.costs)
        return self.scaled(np.maximum(moved, TINY), budget)

    def solve(self, budget: float, rounds: int = ROUNDS) -> Floats:
        """The precisions that miss least, of all that the iteration passes.

        Weights follow how much an answer would gain from a little less variance, so that those which nothing can save
        are given up by themselves: new = a phi(T/sd) T/sd^3. Cost: rounds x answers x residuals.
        """
        precision = self.scaled(np.ones(len(self.costs)), budget)
        if not len(self.weights):
            return precision  # nothing is known of what is needed: equal parts
        weights = self.weights / self.within**2
        best, least = precision, self.missed(precision)
        for _ in range(rounds):
            for _ in range(INNER):
                precision = self.step(precision, weights, budget)
            sd = np.maximum(self.deviations(precision), 1e-300)
            ratio = np.minimum(self.within / sd, 1e3)  # beyond that nothing is gained
            gains = self.weights * np.exp(-(ratio**2) / 2) * ratio / np.maximum(sd, 1e-100) ** 2
            if gains.sum() > 0:
                weights = 0.7 * weights / weights.sum() + 0.3 * gains / gains.sum()
            if (now := self.missed(precision)) < least:
                best, least = precision, now
        return best
