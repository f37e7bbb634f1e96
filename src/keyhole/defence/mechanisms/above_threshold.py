"""AboveThreshold: the first question whose answer passes a threshold, for the price of one (the sparse vector core)."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, positive
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.noise import NoiseSource, checked, door
from keyhole.errors import BudgetExhausted, PrivacyParameterError


def whole(threshold: int) -> int:
    """A threshold on the grid of whole people; another is refused before anything is charged.

    >>> whole(3)
    3
    >>> whole(1.5)
    Traceback (most recent call last):
    keyhole.errors.PrivacyParameterError: a threshold is a whole number of people, not 1.5: round it to the grid
    """
    if isinstance(threshold, bool) or not isinstance(threshold, Integral):
        raise PrivacyParameterError(f"a threshold is a whole number of people, not {threshold}: round it to the grid")
    return int(threshold)


class Gate:
    """A noisy threshold against which noisy values are held, both on integer grids.

    The threshold's noise is drawn on whole people; a query's noise on the query's own grid of 1/unit. One person
    moves a value by at most `unit` steps, so the proof's shifts (the threshold by one person, the query by two) are
    whole steps on both grids and the discrete law bears them exactly as the continuous one does. The noisy threshold
    is never shown.

    >>> from keyhole.defence.noise import ExactNoise
    >>> gate = Gate(0, Fraction(1), Fraction(2), ExactNoise())
    >>> gate.passes(1000, 1), gate.passes(-1000, 1)
    (True, False)
    """

    __slots__ = ("_level", "_noise", "_query_scale", "_threshold_scale", "threshold")

    def __init__(
        self,
        threshold: int,
        threshold_scale: Fraction,
        query_scale: Fraction,
        noise: NoiseSource,
        level: int | None = None,
    ) -> None:
        self.threshold = threshold
        self._threshold_scale, self._query_scale, self._noise = threshold_scale, query_scale, noise
        if level is None:
            self.renew()
        else:
            self._level = level  # drawn earlier, and kept a secret since

    @property
    def level(self) -> int:
        """The noisy threshold: for the custodian's sealed state alone."""
        return self._level

    def renew(self) -> None:
        """Draw fresh noise for the threshold: after every firing, never otherwise."""
        self._level = self.threshold + self._noise.laplace(self._threshold_scale)

    def passes(self, steps: int, unit: int) -> bool:
        """Is steps/unit plus fresh noise at least the noisy threshold?"""
        return steps + self._noise.laplace(self._query_scale * unit) >= self._level * unit


class AboveThreshold:
    """Says BOT (False) to each question until one noisily reaches the threshold, says TOP (True), and halts.

    Guarantee: (epsilon, 0)-differential privacy for any number of adaptively chosen linear queries (Dwork and Roth
    2014, algorithm 1): threshold noise of scale 2/epsilon, query noise of scale 4/epsilon. Accuracy:
    `theorems.above_threshold_alpha`. The whole run is paid when it starts. Cost: one pass and one draw a question.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> run = AboveThreshold(Histogram.of([900, 100]), epsilon_budget(1), threshold=500, epsilon=1)
    >>> run.ask(LinearQuery.of([0, 1])), run.ask(LinearQuery.of([1, 0])), run.halted
    (False, True, True)
    >>> run.ask(LinearQuery.of([0, 1]))
    Traceback (most recent call last):
    keyhole.errors.BudgetExhausted: this run has halted: its one firing is used up; start another run
    """

    def __init__(
        self,
        histogram: Histogram,
        budget: Budget,
        *,
        threshold: int,
        epsilon: Number,
        analyst: str | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        price = positive(epsilon, "epsilon")
        level = whole(threshold)
        self.cost = Loss.of_epsilon(price, 0, histogram.neighbours)
        drawn = noise or door()
        checked(4 / price)
        budget.spend(self.cost, analyst=analyst, what=f"above-threshold at {threshold}")
        self._histogram = histogram
        self._gate = Gate(level, 2 / price, 4 / price, drawn)
        self.halted = False

    def ask(self, query: LinearQuery) -> bool:
        """TOP or BOT for one question; no further charge."""
        if self.halted:
            raise BudgetExhausted(
                "this run has halted: its one firing is used up; start another run", remaining=0, requested=1
            )
        self.halted = self._gate.passes(self._histogram.total(query), query.unit)
        return self.halted
