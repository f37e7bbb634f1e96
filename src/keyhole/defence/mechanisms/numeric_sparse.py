"""NumericSparse: the sparse vector that also gives a number for every question above the threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, positive, probability
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.above_threshold import Gate, whole
from keyhole.defence.mechanisms.firings import PrepaidFirings
from keyhole.defence.mechanisms.sparse import above, composes
from keyhole.defence.noise import NoiseSource, checked, door
from keyhole.defence.theorems import ROOT512
from keyhole.errors import PrivacyParameterError


@dataclass(frozen=True, slots=True)
class Scales:
    """The three noise scales, in people: of the threshold, of a question's comparison, of a number given out."""

    threshold: Fraction
    query: Fraction
    answer: Fraction


def numeric_sparse_scales(firings: int, epsilon: Number, delta: Number = 0) -> Scales:
    """The calibration of Dwork and Roth 2014, algorithm 3.

    delta = 0: epsilon splits into 8/9 for the comparisons and 1/9 for the numbers: scales (9/4, 9/2, 9) c/epsilon.
    delta > 0: e1 = sqrt512/(sqrt512+1) epsilon, e2 = 2/(sqrt512+1) epsilon, sigma(e) = sqrt(32 c ln(2/delta))/e; scales
    sigma(e1), 2 sigma(e1), sigma(e2). Less noise than delta = 0 only for c > 8 ln(2/delta).

    >>> scales = numeric_sparse_scales(10, 1)
    >>> [float(s) for s in (scales.threshold, scales.query, scales.answer)]
    [22.5, 45.0, 90.0]
    >>> scales = numeric_sparse_scales(10, 1, "1e-6")
    >>> [round(float(s), 3) for s in (scales.threshold, scales.query, scales.answer)]
    [71.149, 142.298, 804.961]
    """
    if firings < 1:
        raise PrivacyParameterError(f"a sparse vector run needs at least one firing, not {firings}")
    price, slack = positive(epsilon, "epsilon"), probability(delta, "delta", zero=True)
    if slack == 0:
        sigma = Fraction(9, 4) * firings / price
        return Scales(sigma, 2 * sigma, 4 * sigma)
    spread = math.sqrt(32 * firings * math.log(2 / slack))
    comparing, answering = float(price) * ROOT512 / (ROOT512 + 1), float(price) * 2 / (ROOT512 + 1)
    sigma, answer = above(spread / comparing), above(spread / answering)
    composes(float(2 / sigma), firings, float(slack) / 2, comparing)
    composes(float(1 / answer), firings, float(slack) / 2, float(price) / (ROOT512 + 1))
    return Scales(sigma, 2 * sigma, answer)


class NumericSparse(PrepaidFirings):
    """A number for each question noisily above the threshold, None (BOT) for the others; halts at the c-th number.

    Guarantee: (epsilon, delta)-differential privacy for any number of adaptively chosen linear queries (Dwork and Roth
    2014, algorithm 3); the number's noise is fresh, never the comparison's. Accuracy: `theorems.numeric_sparse_alpha`.
    All firings are paid when the run starts. Cost: one pass and one draw a question, two more draws for a number.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> run = NumericSparse(Histogram.of([90000, 100]), epsilon_budget(1), threshold=50000, firings=2, epsilon=1)
    >>> run.ask(LinearQuery.of([0, 1])) is None, abs(run.ask(LinearQuery.of([1, 0])) - 90000) < 1000, run.fired
    (True, True, 1)
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
        analyst: str | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        scales = numeric_sparse_scales(firings, epsilon, delta)
        level = whole(threshold)
        self.cost = Loss.of_epsilon(epsilon, delta, histogram.neighbours)
        drawn = noise or door()
        checked(max(scales.query, scales.answer))
        budget.spend(self.cost, analyst=analyst, what=f"numeric sparse vector at {threshold}, {firings} firings")
        self._begin(histogram, scales, level, firings, 0, drawn)

    @classmethod
    def resumed(
        cls,
        histogram: Histogram,
        *,
        threshold: int,
        firings: int,
        fired: int,
        epsilon: Number,
        delta: Number = 0,
        level: int | None = None,
        noise: NoiseSource | None = None,
    ) -> NumericSparse:
        """A run that was paid earlier, with the noisy threshold it had.

        If that is lost (None), a fresh one is drawn: the caller counts the restart as a firing.
        """
        run = cls.__new__(cls)
        run.cost = Loss.of_epsilon(epsilon, delta, histogram.neighbours)
        scales = numeric_sparse_scales(firings, epsilon, delta)
        run._begin(histogram, scales, threshold, firings, fired, noise or door(), level)
        return run

    @property
    def level(self) -> int:
        """The noisy threshold, never shown: for the custodian's sealed state alone."""
        return self._gate.level

    def _begin(
        self,
        histogram: Histogram,
        scales: Scales,
        threshold: int,
        firings: int,
        fired: int,
        noise: NoiseSource,
        level: int | None = None,
    ) -> None:
        self._histogram, self._noise, self.scales = histogram, noise, scales
        self._gate = Gate(threshold, scales.threshold, scales.query, self._noise, level)
        self.firings, self.fired = firings, fired
        self._asked: LinearQuery | None = None
        self._total = 0

    def ask(self, query: LinearQuery, *, sign: int = 1, offset: int = 0) -> Fraction | None:
        """A noisy sign * (answer - offset/unit) if it noisily reaches the threshold, else None. `offset` is public."""
        self._go_on()
        if query is not self._asked:  # OnlineIC asks each query twice, once for each sign
            self._asked, self._total = query, self._histogram.total(query)
        steps = sign * (self._total - offset)
        if not self._gate.passes(steps, query.unit):
            return None
        self.fired += 1
        self._gate.renew()
        return Fraction(steps + self._noise.laplace(self.scales.answer * query.unit), query.unit)
