"""The sparse vector: questions above a threshold, found for the price of those that are.

`AboveThreshold` finds the first, `Sparse` up to c of them, `NumericSparse` also gives a number for each (Dwork and Roth
2014, algorithms 1 to 3). All firings are paid when a run starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, check_positive, check_probability
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.theorems import ROOT512, advanced_composition
from keyhole.defence.noise import NoiseSource, check_scale, exact_noise
from keyhole.errors import BudgetExhausted, PrivacyParameterError


def read_threshold(threshold: int) -> int:
    """A threshold on the grid of whole people; another is refused before anything is charged.

    >>> read_threshold(3)
    3
    >>> read_threshold(1.5)
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
        price = check_positive(epsilon, "epsilon")
        level = read_threshold(threshold)
        self.cost = Loss.of_epsilon(price, 0, histogram.neighbours)
        drawn = noise or exact_noise()
        check_scale(4 / price)
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


class PrepaidFirings:
    """A run of `firings` firings, all paid when it started; `fired` of them are used."""

    firings: int
    fired: int

    @property
    def halted(self) -> bool:
        """True once all firings are used."""
        return self.fired >= self.firings

    def _go_on(self) -> None:
        """Refuse a question to a run that has halted."""
        if self.halted:
            raise BudgetExhausted(
                f"this run has halted: its {self.firings} firings are used up; start another run",
                remaining=0,
                requested=1,
            )


def rational_above(number: float) -> Fraction:
    """An irrational scale as a rational that is surely not below it."""
    return Fraction(number * (1 + 1e-12))


def check_composition(epsilon: float, k: int, delta: float, target: float) -> None:
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
    price, slack = check_positive(epsilon, "epsilon"), check_probability(delta, "delta", zero=True)
    if slack == 0:
        return 2 * firings / price
    sigma = rational_above(math.sqrt(32 * firings * math.log(1 / slack)) / float(price))
    check_composition(float(2 / sigma), firings, float(slack), float(price))
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
        level = read_threshold(threshold)
        self.cost = Loss.of_epsilon(epsilon, delta, histogram.neighbours)
        drawn = noise or exact_noise()
        check_scale(2 * scale)
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
    price, slack = check_positive(epsilon, "epsilon"), check_probability(delta, "delta", zero=True)
    if slack == 0:
        sigma = Fraction(9, 4) * firings / price
        return Scales(sigma, 2 * sigma, 4 * sigma)
    spread = math.sqrt(32 * firings * math.log(2 / slack))
    comparing, answering = float(price) * ROOT512 / (ROOT512 + 1), float(price) * 2 / (ROOT512 + 1)
    sigma, answer = rational_above(spread / comparing), rational_above(spread / answering)
    check_composition(float(2 / sigma), firings, float(slack) / 2, comparing)
    check_composition(float(1 / answer), firings, float(slack) / 2, float(price) / (ROOT512 + 1))
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
        level = read_threshold(threshold)
        self.cost = Loss.of_epsilon(epsilon, delta, histogram.neighbours)
        drawn = noise or exact_noise()
        check_scale(max(scales.query, scales.answer))
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
        run._begin(histogram, scales, threshold, firings, fired, noise or exact_noise(), level)
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
