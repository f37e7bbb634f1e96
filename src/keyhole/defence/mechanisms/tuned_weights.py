"""Private multiplicative weights as the field runs it: a tuned step, a named number of firings, a warm start.

OnlineIC with three things changed (Hardt and Rothblum 2010; Lyu, Su and Li 2017; Kostopoulou and others 2023). The run
is sized for the error bar that is asked for, and not for the number of updates that theory cannot exclude: how often
it may fire is *named* beforehand, a bet that is paid in full and that the data may win or lose. A firing moves the
hypothesis all the way to the answer. It begins at a public distribution: one that is known, or the product of noisy
one-way margins, which are bought with the run: each moves by two people at most, so d of them with Laplace noise of
scale b cost 2 d/b, and what follows is answered about a start that is public by then.

Privacy. A question is whether |f(x) - f(D)| reaches a threshold; one person moves that by at most one, whatever the
public hypothesis D is. For pure epsilon the threshold's noise is drawn once for the whole run: with noise of scale b_t
on it, b_q on each comparison and b_a on each number given out, c firings cost 1/b_t + 2c/b_q + c/b_a (Lyu, Su and Li
2017, algorithm 7). For rho it is drawn anew after each firing: a stretch up to a firing is an AboveThreshold of
epsilon e = 1/b_t + 2/b_q, which is (e^2/2)-zCDP, and the Gaussian number of variance v is 1/(2v): rho = c (e^2/2 +
1/(2v)) (Bun and Steinke 2016). *Adaptive thresholds*: the threshold of a question may be any function T_i of what was
released before. Then |f(x) - f(D)| >= T_i is |f(x) - f(D)| - (T_i - T) >= T, a question of the same sensitivity
against the one threshold T: the proof is the same, and so is the price.

Error. A question that does not fire is off by more than bar only if its comparison's noise less the threshold's is
below T_i - bar, whatever was asked before; T and the scales are chosen so that this has chance beta/2 at most, and
that the number of a firing is off by more than bar has chance beta/2 at most. So each answer is within its bar with
probability 1 - beta; the bar of an answer from the hypothesis is bar - (T - T_i).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Unit, check_positive, check_probability, parse_exact, round_up
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery, Place
from keyhole.defence.mechanisms.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, Release
from keyhole.defence.mechanisms.sparse_vector import Gate, PrepaidFirings
from keyhole.defence.noise import NoiseSource, check_scale, exact_noise
from keyhole.errors import BudgetExhausted, PrivacyParameterError

Masses = NDArray[np.float64]
LARGEST_BAR = 2**40
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # of the threshold's scale in that of a comparison
LEAST_THRESHOLD, MOST_THRESHOLD = 0.35, 0.65  # of the bar
MARGIN_NOISE = 3.5  # so many scales of a bought margin's noise are one bar
MARGIN_SHARE = 10  # a part in so many of a given price buys the margins
EMPTY = 0.01  # of a uniform cell: what a margin's cell has at least, since a mass of 0 would never rise again


@dataclass(frozen=True, slots=True)
class TunedPlan:
    """A run planned from public numbers alone: its price `amount` in `unit`, its bar, and its noise.

    `compare` and `level` are scales of Laplace noise in people; `answer` is the scale of a number's Laplace noise for
    epsilon and the variance of its Gaussian noise for rho. `halves`: from this question on spare firings are spent on
    narrower bars (adaptive thresholds); never where it is as large as `queries`.
    """

    n: int
    cells: int
    queries: int
    firings: int
    beta: float
    unit: Unit
    amount: str
    threshold: int
    bar: int
    level: str
    compare: str
    answer: str
    halves: int
    margins: str = "0"  # epsilon for the one-way margins at whose product the run begins

    def as_dict(self) -> dict[str, Any]:
        """For the book."""
        return asdict(self)

    @property
    def loss(self) -> Loss:
        """The price of the whole run and of its margins, under replace-one neighbours."""
        if self.unit == "rho":
            return Loss.of_rho(self.amount)
        return Loss.of_epsilon(Fraction(self.amount) + Fraction(self.margins))


def bound_gap_tail(distance: float, level: float, compare: float) -> float:
    """P(noise of a comparison - noise of the threshold <= -distance), from above, on any grid of 1/unit people.

    The threshold's noise is summed over the integers to forty scales; the comparison's is bounded on all grids.

    >>> round(bound_gap_tail(20.0, 1.0, 3.0), 6) >= math.exp(-20 / 3) / 2
    True
    """
    step = max(1, math.floor(level / 50))  # integers in blocks, each taken at its worst end
    ends = step * np.arange(-math.ceil(40 * level / step) - 1, math.ceil(40 * level / step) + 2)
    q = math.exp(-1 / level)
    upto = np.where(ends < 0, np.exp(ends / level) / (1 + q), 1 - q * np.exp(-np.maximum(ends, 0) / level) / (1 + q))
    chance, drawn = np.diff(upto), ends[1:]  # of end[k] < noise <= end[k + 1]
    beyond = np.maximum(distance - drawn, 0.0)
    below = np.where(beyond > 0, np.exp(-beyond / compare) / (1 + math.exp(-1 / compare)), 1.0)
    return float(np.sum(chance * below)) * (1 + 1e-12) + 2 * math.exp(-40.0)


def _answer_scale(bar: float, beta: float) -> float:
    """The largest scale of Laplace noise with P(|noise| > bar) <= beta on every grid."""
    low, high = 1e-6, max(2.0, bar)
    for _ in range(80):
        scale = (low + high) / 2
        tail = 2 / (1 + math.exp(-1 / scale)) * math.exp(-bar / scale)
        low, high = (scale, high) if tail <= beta else (low, scale)
    return low


def _answer_variance(bar: float, beta: float) -> float:
    """The largest variance with 2 exp(-bar^2 / (2 variance)) <= beta, the sub-Gaussian tail of the discrete law."""
    return bar * bar / (2 * math.log(2 / beta))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Noise for one bar, and what it costs."""

    threshold: int
    level: float
    compare: float
    answer: float
    price: float


def _size(bar: int, queries: int, firings: int, beta: float, unit: Unit) -> _Sizes | None:
    """The cheapest noise that keeps this bar; None where the grid is too coarse for it."""
    if bar < 4:
        return None
    answer = _answer_scale(bar, beta / 2) if unit == "epsilon" else _answer_variance(bar, beta / 2)
    best: _Sizes | None = None
    for share in SHARES:
        low, high = 1e-3, float(bar)
        for _ in range(50):
            compare = (low + high) / 2
            threshold = _choose_threshold(bar, queries, compare)
            kept = bound_gap_tail(bar - threshold, share * compare, compare) <= beta / 2
            low, high = (compare, high) if kept else (low, compare)
        compare = low
        level, threshold = share * compare, _choose_threshold(bar, queries, low)
        if bound_gap_tail(bar - threshold, level, compare) > beta / 2:
            continue
        if unit == "epsilon":
            price = 1 / level + 2 * firings / compare + firings / answer
        else:
            price = firings * ((1 / level + 2 / compare) ** 2 / 2 + 1 / (2 * answer))
        if best is None or price < best.price:
            best = _Sizes(threshold, level, compare, answer, price)
    return best


def _choose_threshold(bar: int, queries: int, compare: float) -> int:
    """So high that about one comparison in all fires although the hypothesis is right; a share of the bar."""
    right = compare * math.log(max(2.0, queries / 2))
    return max(1, math.floor(min(max(right, LEAST_THRESHOLD * bar), MOST_THRESHOLD * bar)))


def plan_tuned(
    *,
    n: int,
    cells: int,
    queries: int,
    firings: int,
    beta: float,
    unit: Unit = "epsilon",
    amount: Fraction | None = None,
    bar: int | None = None,
    adaptive: bool = True,
    columns: int = 0,
) -> TunedPlan:
    """The run of `firings` firings that keeps `bar`, or the smallest bar that `amount` buys.

    `columns`: it begins at the product of so many one-way margins, whose noise is a share of the bar; of an `amount`
    they take a tenth.

    >>> plan = plan_tuned(n=10**6, cells=2**20, queries=9000, firings=60, beta=0.001, bar=50_000)
    >>> round(float(Fraction(plan.amount)) * 50_000), plan.threshold
    (2355, 27138)
    >>> paid = Fraction(plan.amount)
    >>> plan_tuned(n=10**6, cells=2**20, queries=9000, firings=60, beta=0.001, amount=paid).bar <= 50_000
    True
    """
    if n < 1 or queries < 1 or firings < 1 or cells < 1:
        raise PrivacyParameterError(
            f"a run needs people, cells, questions and firings, not n = {n}, {cells}, {queries} and {firings}"
        )
    check_probability(beta, "beta")
    if columns and unit == "rho":
        raise PrivacyParameterError("margins are bought in epsilon: take a budget in epsilon, or a start that is known")
    margins = Fraction(0)
    if amount is not None:
        margins = parse_exact(amount) / MARGIN_SHARE if columns else margins
        amount = parse_exact(amount) - margins
        bar = _smallest_bar(check_positive(amount, unit), queries, firings, beta, unit)
    if bar is None:
        raise PrivacyParameterError("a run is planned from its price or from its bar: give one")
    sizes = _size(bar, queries, firings, beta, unit)
    if sizes is None:
        raise PrivacyParameterError(f"a bar of {bar} people is finer than this mechanism's grid: ask for at least 4")
    level, compare, answer = Fraction(sizes.level), Fraction(sizes.compare), Fraction(sizes.answer)
    # the price of the noise as it is drawn, in fractions
    if unit == "epsilon":
        exact = 1 / level + 2 * firings / compare + firings / answer
    else:
        exact = firings * ((1 / level + 2 / compare) ** 2 / 2 + 1 / (2 * answer))
    price = round_up(float(exact) * (1 + 1e-12)) if amount is None else parse_exact(amount)
    if price < exact:
        raise PrivacyParameterError("the noise of this plan costs more than its price")
    if columns and not margins:
        margins = round_up(2 * columns * MARGIN_NOISE / bar)
    return TunedPlan(
        n, cells, queries, firings, beta, unit, str(price), sizes.threshold, bar, str(level), str(compare), str(answer),
        queries // 2 if adaptive else queries, str(margins),
    )  # fmt: skip


def _smallest_bar(amount: Fraction, queries: int, firings: int, beta: float, unit: Unit) -> int:
    """By bisection: the price falls as the bar grows."""

    def enough(bar: int) -> bool:
        sizes = _size(bar, queries, firings, beta, unit)
        return sizes is not None and sizes.price * (1 + 1e-9) <= float(amount)

    low, high = 3, 4
    while not enough(high):
        low, high = high, 2 * high
        if high > LARGEST_BAR:
            raise PrivacyParameterError(f"{unit} {float(amount):.4g} buys no bar at all for {firings} firings")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def start_from_margins(shape: tuple[int, ...], margins: dict[int, NDArray[Any]]) -> Masses:
    """The product of margins, one an axis at most: what is known when columns are taken to be independent.

    Margins are public or were paid for: noisy counts may be negative, and are cut at a hundredth of a uniform cell.

    >>> start_from_margins((2, 2), {0: np.array([3, 1])}).tolist()
    [0.375, 0.375, 0.125, 0.125]
    """
    start = np.ones((1,) * len(shape))
    for axis, size in enumerate(shape):
        margin = np.asarray(margins.get(axis, np.ones(size)), dtype=np.float64)
        total = float(np.maximum(margin, 0).sum())
        share = np.maximum(margin / total if total > 0 else np.full(size, 1 / size), EMPTY / size)
        start = start * (share / share.sum()).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return np.ascontiguousarray(start).ravel()


def _noisy_margins(
    histogram: Histogram, shape: tuple[int, ...], scale: Fraction, noise: NoiseSource
) -> dict[int, NDArray[np.int64]]:
    """How many people have each value of each column, each number with Laplace noise of this scale."""
    margins = {}
    for axis, size in enumerate(shape):
        cells = (LinearQuery.of([1], place=Place(shape, (), ((axis, cell),))) for cell in range(size))
        margins[axis] = np.array([histogram.total(cell) + noise.laplace(scale) for cell in cells])
    return margins


class TunedWeights(PrepaidFirings):
    """Answers from the hypothesis until a comparison fires; then gives a fresh noisy number and moves to it.

    Guarantee: `plan.loss` for any number of adaptively chosen linear queries under replace-one neighbours, by the
    proof above; each answer is within its `alpha` with probability 1 - beta. The whole run is paid when it starts, by
    a price that does not depend on the data. Nothing is promised of how many questions it answers before its firings
    are used up: then it halts. Cost: one pass over the cells and one draw a question.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> people = Histogram.of([400_000, 100_000, 300_000, 200_000])
    >>> plan = plan_tuned(n=10**6, cells=4, queries=10, firings=3, beta=1e-9, bar=10_000)
    >>> run = TunedWeights(people, epsilon_budget(1), plan)
    >>> answer = run.answer(LinearQuery.of([1, 0, 0, 1]))
    >>> abs(answer.value - 600_000) <= answer.alpha <= plan.bar, run.fired
    (True, 1)
    """

    def __init__(
        self,
        histogram: Histogram,
        budget: Budget,
        plan: TunedPlan,
        *,
        start: Masses | None = None,
        shape: tuple[int, ...] = (),
        analyst: str | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        """`start`: a public distribution over the cells, uniform unless said. `shape`: of the columns whose margins the
        plan buys.
        """
        drawn = noise or exact_noise()
        masses, margins = self._check(histogram, plan, start), Fraction(plan.margins)
        if margins and (start is not None or math.prod(shape) != plan.cells):
            raise PrivacyParameterError(f"margins of columns of {shape} do not make the {plan.cells} cells of the plan")
        scale = 2 * len(shape) / margins if margins else Fraction(0)
        check_scale(max(2 * Fraction(plan.compare), scale))
        self.cost = plan.loss
        what = f"tuned weights, {plan.firings} firings within {plan.bar} people"
        budget.spend(self.cost, analyst=analyst, what=what)
        if margins:
            masses = start_from_margins(shape, _noisy_margins(histogram, shape, scale, drawn))
        self._begin(histogram, budget, plan, masses, analyst, drawn, None)
        self.fired = self.asked = 0

    @classmethod
    def resumed(
        cls,
        histogram: Histogram,
        budget: Budget,
        plan: TunedPlan,
        *,
        fired: int,
        asked: int,
        level: int,
        state: Masses,
        analyst: str | None = None,
        noise: NoiseSource | None = None,
    ) -> TunedWeights:
        """A run that was paid for earlier, with the noisy threshold it had; without that it cannot go on. No charge."""
        run = cls.__new__(cls)
        run.cost = plan.loss
        run._begin(histogram, budget, plan, cls._check(histogram, plan, state), analyst, noise or exact_noise(), level)
        run.fired, run.asked = fired, asked
        return run

    @staticmethod
    def _check(histogram: Histogram, plan: TunedPlan, start: Masses | None) -> Masses:
        histogram.require(plan.n, plan.cells)
        masses = np.full(plan.cells, 1 / plan.cells) if start is None else np.array(start, dtype=np.float64)
        if masses.shape != (plan.cells,) or not np.all(np.isfinite(masses)) or masses.min() < 0 or masses.sum() <= 0:
            raise PrivacyParameterError(f"a start is a distribution over the {plan.cells} cells, none below 0")
        return np.asarray(masses / masses.sum(), dtype=np.float64)

    def _begin(
        self, histogram: Histogram, budget: Budget, plan: TunedPlan, masses: Masses, analyst: str | None,
        noise: NoiseSource, level: int | None,
    ) -> None:  # fmt: skip
        self._histogram, self._budget, self._analyst, self._noise = histogram, budget, analyst, noise
        self.plan, self.state, self.firings = plan, masses, plan.firings
        self._gate = Gate(plan.threshold, Fraction(plan.level), Fraction(plan.compare), noise, level)

    @property
    def level(self) -> int:
        """The noisy threshold, never shown: for the custodian's sealed state alone."""
        return self._gate.level

    @property
    def open(self) -> bool:
        """Were questions held against the present noisy threshold? One that is kept for a whole run always is."""
        return self.asked > 0

    def threshold_now(self) -> int:
        """T_i, from the questions asked and the firings used: lower, where half of what is left is not needed.

        In the second half of a run so low that chance alone would use up half of the firings left.
        """
        plan = self.plan
        left, questions = plan.firings - self.fired, plan.queries - self.asked
        if self.asked < plan.halves or questions < 1:
            return plan.threshold
        pace = min(0.5, left / (2 * questions))
        compare = float(Fraction(plan.compare))
        return min(plan.threshold, max(plan.threshold // 4, math.ceil(compare * math.log(1 / (2 * pace)))))

    def answer(self, query: LinearQuery) -> Release:
        """One answer, in people; no further charge."""
        self._go_on()
        plan, unit = self.plan, query.unit
        if self.asked >= plan.queries:
            raise BudgetExhausted(
                f"this run was planned for {plan.queries} questions: plan another run", remaining=0, requested=1
            )
        weights = query.weights
        share = float(self.state @ weights) / unit
        guess = round(share * plan.n * unit)  # public, on the public grid
        threshold = self.threshold_now()
        self.asked += 1
        total = self._histogram.total(query)
        lowered = (plan.threshold - threshold) * unit
        if not self._gate.passes(abs(total - guess) + lowered, unit):
            bar = Fraction(plan.bar - (plan.threshold - threshold))
            return self._released(Fraction(guess, unit), bar, "from the hypothesis", None)
        self.fired += 1
        if plan.unit == "rho":
            self._gate.renew()
            noise = self._noise.gaussian(Fraction(plan.answer) * unit * unit)
        else:
            noise = self._noise.laplace(Fraction(plan.answer) * unit)
        value = Fraction(total + noise, unit)
        self._move(weights, unit, share, float(value) / plan.n)
        return self._released(value, Fraction(plan.bar), "measured", Fraction(plan.answer))

    def measure(self, query: LinearQuery, scale: Fraction, budget: Budget) -> Release:
        """A number by itself, charged now, from which the hypothesis learns; for budgets in epsilon."""
        price = Loss.of_epsilon(1 / scale)
        check_scale(scale * query.unit)
        budget.spend(price, analyst=self._analyst, what="one number")
        unit, weights = query.unit, query.weights
        value = Fraction(self._histogram.total(query) + self._noise.laplace(scale * unit), unit)
        self._move(weights, unit, float(self.state @ weights) / unit, float(value) / self.plan.n)
        left = budget.left(self._analyst)
        how = "pmw-tuned: measured by itself"
        bar = Fraction(self.plan.bar)
        return Release(value, bar, self.plan.beta, price, left, price.neighbours, how, scale, DISCRETE_LAPLACE)

    def _move(self, weights: NDArray[Any], unit: int, share: float, answer: float) -> None:
        """Scale the cells by exp(rate f): for a counting query the hypothesis then gives the answer itself."""
        room = 0.5 / self.plan.n
        goal, now = (min(max(v, room), 1 - room) for v in (answer, share))
        rate = math.log(goal / (1 - goal)) - math.log(now / (1 - now))
        self.state = self.state * np.exp(weights * (rate / unit))
        self.state /= self.state.sum()

    def _released(self, value: Fraction, bar: Fraction, origin: str, scale: Fraction | None) -> Release:
        plan = self.plan
        how = f"pmw-tuned: {origin}, {self.fired} of {plan.firings} firings used"
        law = None if scale is None else DISCRETE_LAPLACE if plan.unit == "epsilon" else DISCRETE_GAUSSIAN
        left = self._budget.left(self._analyst)
        return Release(value, bar, plan.beta, self.cost, left, self.cost.neighbours, how, scale, law)

    def packed(self) -> Masses:
        """The released hypothesis, for the book."""
        return self.state


class BypassedWeights:
    """TunedWeights that answers directly, by Laplace noise, what the hypothesis cannot know yet.

    A question some of whose cells were corrected fewer than `visits` times is not compared: it is measured at once,
    which costs less than a firing, and the hypothesis learns from it. Which questions these are follows from what was
    asked and released before, so prices tell nothing. Each is charged before the data are read; the run is prepaid as
    ever. For budgets in epsilon (the bypass of Kostopoulou and others 2023).

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> plan = plan_tuned(n=10**6, cells=2, queries=10, firings=1, beta=1e-6, bar=10_000)
    >>> budget = epsilon_budget(1)
    >>> run = BypassedWeights(TunedWeights(Histogram.of([700_000, 300_000]), budget, plan), budget, visits=1)
    >>> first, second = (run.answer(LinearQuery.of([1, 0])) for _ in range(2))
    >>> run.bypassed, abs(first.value - 700_000) < 10_000, second.how
    (1, True, 'pmw-tuned: from the hypothesis, 0 of 1 firings used')
    """

    def __init__(self, run: TunedWeights, budget: Budget, *, visits: int) -> None:
        if run.plan.unit != "epsilon" or visits < 1:
            raise PrivacyParameterError("the bypass is for budgets in epsilon, and for at least one visit of each cell")
        self.run, self.bypassed, self._budget = run, 0, budget
        self._least, self._visits = visits, np.zeros(run.plan.cells, dtype=np.uint16)
        self.scale = Fraction(_answer_scale(float(run.plan.bar), run.plan.beta))

    def answer(self, query: LinearQuery) -> Release:
        """One answer: by itself where the hypothesis was not corrected often enough, else from the run."""
        weights = query.weights
        touched = weights > 0
        if not touched.any() or int(self._visits[touched].min()) >= self._least:
            return self.run.answer(query)
        release = self.run.measure(query, self.scale, self._budget)
        self._visits[touched] += 1
        self.bypassed += 1
        return release
