"""OnlineIC: questions as they come, answered from a public hypothesis that is corrected only when it is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, check_positive, check_probability, parse_exact, round_up
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.base import DISCRETE_LAPLACE, Release
from keyhole.defence.mechanisms.sparse_vector import NumericSparse
from keyhole.defence.mechanisms.theorems import answer_scale, numeric_sparse_alpha, smallest
from keyhole.defence.noise import NoiseSource
from keyhole.defence.updates.base import DatabaseUpdate, State
from keyhole.errors import BudgetExhausted, PrivacyParameterError

Factory = Callable[[int, float], DatabaseUpdate[State]]


@dataclass(frozen=True, slots=True)
class OnlinePlan:
    """A run planned from public numbers alone; bars in whole people.

    With probability 1 - beta no comparison is off by more than A1 people and no number given out by more than A2. The
    hypothesis learns for `alpha` = A/n with A >= A1, A2, so `threshold` = A + A1 + 1: whoever fires is truly wrong by
    A, more than the number's error, and is pushed the right way (the 1 pays for rounding the hypothesis to the grid).
    Hence `bar` = A + 2 A1 + 1 for an answer from the hypothesis and `answer_bar` = A2 for a measured one. For delta =
    0, A = A1: the published 2 alpha and 3 alpha. For delta > 0 the published alpha (theorem 5.15) overlooks the noise
    of the numbers, which is larger than it allows for; A2 then decides.
    """

    n: int
    cells: int
    queries: int
    alpha: float
    beta: float
    epsilon: str
    delta: str
    firings: int
    threshold: int
    bar: int
    answer_bar: int

    def as_dict(self) -> dict[str, Any]:
        """For the book."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Planner:
    """The run that a given epsilon buys."""

    firings: Callable[[float], int]
    n: int
    queries: int
    beta: float
    delta: Fraction

    def bars(self, firings: int, epsilon: float) -> tuple[float, float]:
        """A1 and A2: of the comparisons (theorem 3.28, over 2|Q| of them) and of the numbers given out."""
        slack = float(self.delta)
        compared = numeric_sparse_alpha(epsilon, queries=2 * self.queries, firings=firings, beta=self.beta, delta=slack)
        return compared, answer_scale(firings, epsilon, slack) * math.log(2 * firings / self.beta)

    def alpha(self, epsilon: float) -> float:
        """The smallest alpha with alpha n >= A1, A2."""
        return smallest(
            lambda a: max(self.bars(self.firings(a), epsilon)) / self.n,
            lambda: (
                f"epsilon {epsilon:.4g} reaches no accuracy at all here: even alpha = 1 needs epsilon "
                f"{max(self.bars(self.firings(1.0), 1.0)) / self.n:.4g}"
            ),
        )

    def bar(self, epsilon: float) -> int:
        """The bar of an answer from the hypothesis."""
        alpha = self.alpha(epsilon)
        return math.ceil(alpha * self.n) + 2 * math.ceil(self.bars(self.firings(alpha), epsilon)[0]) + 1

    def epsilon(self, bar: float) -> float:
        """The smallest epsilon whose bar is at most this many people (bisection; the bar falls with epsilon)."""
        low, high = 1e-9, 1e9
        while high / low > 1 + 1e-7:
            middle = math.sqrt(low * high)
            try:
                enough = self.bar(middle) <= bar
            except PrivacyParameterError:
                enough = False
            low, high = (low, middle) if enough else (middle, high)
        return high


def plan_online(
    factory: Factory[State],
    *,
    n: int,
    cells: int,
    queries: int,
    beta: float,
    delta: Number = 0,
    epsilon: Number | None = None,
    accuracy: float | None = None,
) -> OnlinePlan:
    """The run that `epsilon` buys, or the cheapest run whose every answer is within `accuracy` (a share of n).

    Theorems 5.14 and 5.15 (Dwork and Roth 2014) with a whole number c > T(alpha) of firings, so that while all goes
    well the run never halts; see `OnlinePlan` for what differs where delta > 0.

    >>> from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
    >>> plan = plan_online(MultiplicativeWeights, n=10**6, cells=16, queries=200, beta=0.05, epsilon=1)
    >>> round(plan.alpha, 4), plan.firings
    (0.1194, 778)
    >>> plan_online(MultiplicativeWeights, n=10**6, cells=16, queries=200, beta=0.05, accuracy=0.36).epsilon
    '983/1000'
    """
    if n < 1 or queries < 1:
        raise PrivacyParameterError(f"a run needs people and questions, not n = {n} and queries = {queries}")
    slack = check_probability(delta, "delta", zero=True)
    check_probability(beta, "beta")
    planner = _Planner(lambda a: math.floor(factory(cells, a).limit(a)) + 1, n, queries, beta, slack)
    if accuracy is not None:
        if not 0 < accuracy <= 1:
            raise PrivacyParameterError(f"accuracy is a share of n, above 0 and at most 1, not {accuracy}")
        if accuracy * n < 4:
            raise PrivacyParameterError(
                f"accuracy {accuracy} of {n} people is finer than this mechanism's grid: ask for at least {4 / n:.4g}"
            )
        price = round_up(planner.epsilon(accuracy * n))
    elif epsilon is not None:
        price = check_positive(epsilon, "epsilon")
        if (bar := planner.bar(float(price))) >= n:
            raise PrivacyParameterError(
                f"epsilon {float(price):.4g} buys answers within {bar} of {n} people, which says nothing: "
                f"within a tenth of them needs epsilon {planner.epsilon(n / 10):.4g}. "
                "Use laplace, or ask fewer questions"
            )
    else:
        raise PrivacyParameterError("a run is planned from epsilon or from accuracy: give one")
    steps = math.ceil(planner.alpha(float(price)) * n)
    firings = planner.firings(steps / n)
    compared, given = (math.ceil(a) for a in planner.bars(firings, float(price)))
    threshold, bar = steps + compared + 1, steps + 2 * compared + 1
    return OnlinePlan(n, cells, queries, steps / n, beta, str(price), str(slack), firings, threshold, bar, given)


class OnlineIC(Generic[State]):
    """Answers from the hypothesis unless NumericSparse finds it wrong; then gives the noisy answer and learns from it.

    For each query f it asks f - f(D) and, if that stays below, f(D) - f. Guarantee: (epsilon, delta)-differential
    privacy for any number of adaptively chosen linear queries under replace-one neighbours (Dwork and Roth 2014,
    theorem 5.13); with probability 1 - beta all of the planned queries are answered within 3 alpha (5.14, 5.15;
    `OnlinePlan.bar` people). All c firings, the next whole number above T(alpha), are paid when the run starts; it
    halts after the c-th. Cost: two passes over the cells and two draws a question.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
    >>> people = Histogram.of([400_000, 100_000, 300_000, 200_000])
    >>> plan = plan_online(MultiplicativeWeights, n=10**6, cells=4, queries=10, beta=1e-9, epsilon=1)
    >>> run = OnlineIC(people, epsilon_budget(1), plan, MultiplicativeWeights(4, plan.alpha))
    >>> answer = run.answer(LinearQuery.of([1, 0, 0, 1]))
    >>> abs(answer.value - 600_000) <= answer.alpha <= plan.bar
    True
    """

    def __init__(
        self,
        histogram: Histogram,
        budget: Budget,
        plan: OnlinePlan,
        update: DatabaseUpdate[State],
        *,
        analyst: str | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        histogram.require(plan.n, plan.cells)
        self.state = update.start()  # may refuse (a net too large), and must before the charge
        self._sparse = NumericSparse(
            histogram,
            budget,
            threshold=plan.threshold,
            firings=plan.firings,
            epsilon=parse_exact(plan.epsilon),
            delta=parse_exact(plan.delta),
            analyst=analyst,
            noise=noise,
        )
        self._budget, self._analyst = budget, analyst
        self.plan, self.update, self.asked, self.open = plan, update, 0, False

    @classmethod
    def resumed(
        cls,
        histogram: Histogram,
        budget: Budget,
        plan: OnlinePlan,
        update: DatabaseUpdate[State],
        *,
        fired: int,
        asked: int,
        was_open: bool,
        state: NDArray[np.float64],
        level: int | None = None,
        analyst: str | None = None,
        noise: NoiseSource | None = None,
    ) -> OnlineIC[State]:
        """A run that was paid for earlier, from what was released of it and its noisy threshold (`level`). No charge.

        If the threshold is lost (None) and questions were held against it, a fresh one starts a new stretch of
        AboveThreshold, so the restart uses up one firing: every stretch is paid for, fired or not.
        """
        histogram.require(plan.n, plan.cells)
        run = cls.__new__(cls)
        run._sparse = NumericSparse.resumed(
            histogram,
            threshold=plan.threshold,
            firings=plan.firings,
            fired=fired + (was_open and level is None),
            epsilon=parse_exact(plan.epsilon),
            delta=parse_exact(plan.delta),
            level=level,
            noise=noise,
        )
        run._budget, run._analyst = budget, analyst
        run.plan, run.update, run.asked, run.open = plan, update, asked, was_open and level is not None
        run.state = update.unpack(state)
        return run

    @property
    def cost(self) -> Loss:
        """The price of the whole run, charged when it started."""
        return self._sparse.cost

    @property
    def fired(self) -> int:
        """How often the hypothesis was found wrong (restarts included)."""
        return self._sparse.fired

    @property
    def level(self) -> int:
        """The noisy threshold, never shown: for the custodian's sealed state alone."""
        return self._sparse.level

    @property
    def halted(self) -> bool:
        """True once all firings are used."""
        return self._sparse.halted

    def answer(self, query: LinearQuery) -> Release:
        """One answer, in people; no further charge. `beta` of the answer is for all answers of the run together."""
        if self.asked >= self.plan.queries:
            raise BudgetExhausted(
                f"this run was planned for {self.plan.queries} questions and its accuracy is promised no further: "
                "plan another run",
                remaining=0,
                requested=1,
            )
        n, unit = self.plan.n, query.unit
        guess = round(self.update.value(self.state, query) * n * unit)  # public, on the public grid
        sign = 1
        gap = self._sparse.ask(query, sign=1, offset=guess)
        self.open = gap is None
        if gap is None:
            sign, gap = -1, self._sparse.ask(query, sign=-1, offset=guess)
            self.open = gap is None
        self.asked += 1
        plan = self.plan
        if gap is None:
            value, alpha = Fraction(guess, unit), Fraction(plan.bar)
            return self._released(value, alpha, self._story("from the hypothesis"), None)
        value, alpha = Fraction(guess, unit) + sign * gap, Fraction(plan.answer_bar)
        self.state = self.update.update(self.state, query, float(value / n))
        how = self._story("measured")
        return self._released(value, alpha, how, self._sparse.scales.answer)

    def _story(self, origin: str) -> str:
        used = f"{self.fired} of {self.plan.firings} firings used"
        return f"online-ic ({self.update.name}): {origin}, {used}, bars hold for all answers of the run together"

    def _released(self, value: Fraction, alpha: Fraction, how: str, scale: Fraction | None) -> Release:
        left = self._budget.left(self._analyst)
        law = DISCRETE_LAPLACE if scale is not None else None
        return Release(value, alpha, self.plan.beta, self.cost, left, self.cost.neighbours, how, scale, law)

    def packed(self) -> NDArray[np.float64]:
        """The released hypothesis, for the book."""
        return self.update.pack(self.state)
