"""Sparse: up to c questions above a threshold, found for the price of c."""

from __future__ import annotations

import math
from fractions import Fraction

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, positive, probability
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.above_threshold import Gate, whole
from keyhole.defence.mechanisms.firings import PrepaidFirings
from keyhole.defence.noise import NoiseSource, checked, door
from keyhole.defence.theorems import advanced_composition
from keyhole.errors import PrivacyParameterError


def above(number: float) -> Fraction:
    """An irrational scale as a rational that is surely not below it."""
    return Fraction(number * (1 + 1e-12))


def composes(epsilon: float, k: int, delta: float, target: float) -> None:
    """Refuse a calibration for delta > 0 where epsilon is too large for its theorem (book: epsilon <= 1)."""
    if advanced_composition(epsilon, k, delta) > target:
        raise PrivacyParameterError(
            f"epsilon {target:.4g} is too large for the calibration with delta {delta:g}, which needs about "
            "epsilon <= 4 ln(1/delta) (advanced composition): use delta = 0"
        )


def sparse_scale(firings: int, epsilon: Number, delta: Number = 0) -> Fraction:
    """The threshold's scale: 2c/epsilon, or sqrt(32 c ln(1/delta))/epsilon for delta > 0; a query's is twice it.

    >>> sparse_scale(10, 1), round(float(sparse_scale(10, 1, 1e-6)), 3)
    (Fraction(20, 1), 66.49)
    """
    if firings < 1:
        raise PrivacyParameterError(f"a sparse vector run needs at least one firing, not {firings}")
    price, slack = positive(epsilon, "epsilon"), probability(delta, "delta", zero=True)
    if slack == 0:
        return 2 * firings / price
    sigma = above(math.sqrt(32 * firings * math.log(1 / slack)) / float(price))
    composes(float(2 / sigma), firings, float(slack), float(price))
    return sigma


class Sparse(PrepaidFirings):
    """TOP or BOT for each question, halting at the c-th TOP; the threshold's noise is drawn afresh after each TOP.

    Guarantee: (epsilon, delta)-differential privacy for any number of adaptively chosen linear queries (Dwork and
    Roth 2014, algorithm 2). Accuracy: `theorems.sparse_alpha`. All c firings are paid when the run starts, so the
    price never depends on the data; a BOT costs nothing more. Cost: one pass and one draw a question.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> run = Sparse(Histogram.of([9000, 100]), epsilon_budget(1), threshold=5000, firings=2, epsilon=1)
    >>> small, large = LinearQuery.of([0, 1]), LinearQuery.of([1, 0])
    >>> run.ask(small), run.ask(large), run.ask(small), run.ask(large), run.halted
    (False, True, False, True, True)
    """

    def __init__(
        self,
        histogram: Histogram,
        budget: Budget,
        *,
        threshold: int,
        firings: int,
        epsilon: Number,
        delta: Number = 0,
        noise: NoiseSource | None = None,
        analyst: str | None = None,
    ) -> None:
        scale = sparse_scale(firings, epsilon, delta)
        level = whole(threshold)
        self.cost = Loss.of_epsilon(epsilon, delta, histogram.neighbours)
        drawn = noise or door()
        checked(2 * scale)
        budget.spend(self.cost, analyst=analyst, what=f"sparse vector at {threshold}, {firings} firings")
        self._histogram = histogram
        self._gate = Gate(level, scale, 2 * scale, drawn)
        self.firings, self.fired = firings, 0

    def ask(self, query: LinearQuery) -> bool:
        """TOP or BOT for one question; no further charge."""
        self._go_on()
        top = self._gate.passes(self._histogram.total(query), query.unit)
        if top:
            self.fired += 1
            self._gate.renew()
        return top
