"""OnlineIC: questions as they come, answered from a public hypothesis that is corrected only when it is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from keyhole.defend.base import Release
from keyhole.defend.budget import Budget
from keyhole.defend.histogram import Histogram
from keyhole.defend.linear import LinearQuery
from keyhole.defend.loss import Loss, Number, exact, positive, probability, rounded_up
from keyhole.defend.noise import Noise
from keyhole.defend.numeric_sparse import NumericSparse
from keyhole.defend.theorems import Online
from keyhole.defend.update import DatabaseUpdate, State
from keyhole.errors import BudgetExhausted, PrivacyParameterError

Factory = Callable[[int, float], DatabaseUpdate[State]]


@dataclass(frozen=True, slots=True)
class OnlinePlan:
    """A run planned from public numbers alone. Alpha is a whole number of people over n.

    `threshold` = 2A + 1 and `bar` = 3A + 1 people for A = alpha n: the hypothesis is rounded to the query's grid before
    the comparison, which moves it by half a person at most, and the bar holds for the rounded value that is given out.
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

    def as_dict(self) -> dict[str, Any]:
        """For the ledger."""
        return asdict(self)


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

    Theorems 5.14 and 5.15 (Dwork and Roth 2014): c > T(alpha) firings, threshold 2 alpha, answers within 3 alpha.

    >>> from keyhole.defend.multiplicative_weights import MultiplicativeWeights
    >>> plan = plan_online(MultiplicativeWeights, n=10**6, cells=16, queries=200, beta=0.05, epsilon=1)
    >>> round(plan.alpha, 4), plan.firings
    (0.1194, 778)
    >>> plan_online(MultiplicativeWeights, n=10**6, cells=16, queries=200, beta=0.05, accuracy=0.36).epsilon
    '9843/10000'
    """
    if n < 1 or queries < 1:
        raise PrivacyParameterError(f"a run needs people and questions, not n = {n} and queries = {queries}")
    slack = probability(delta, "delta", zero=True)
    probability(beta, "beta")

    def firings(alpha: float) -> int:
        # The next whole number above T(alpha): while all goes well the run makes T(alpha) updates and never halts.
        return math.floor(factory(cells, alpha).limit(alpha)) + 1

    theorem = Online(firings, n, queries, beta)
    if accuracy is not None:
        if not 0 < accuracy <= 1:
            raise PrivacyParameterError(f"accuracy is a share of n, above 0 and at most 1, not {accuracy}")
        steps = math.floor((accuracy * n - 1) / 3 + 1e-9)
        if steps < 1:
            raise PrivacyParameterError(
                f"accuracy {accuracy} of {n} people is finer than this mechanism's grid: ask for at least {4 / n:.4g}"
            )
        price = rounded_up(theorem.epsilon_for(steps / n, float(slack)))
    else:
        if epsilon is None:
            raise PrivacyParameterError("a run is planned from epsilon or from accuracy: give one")
        price = positive(epsilon, "epsilon")
        steps = math.ceil(theorem.alpha_for(float(price), float(slack)) * n)
        if 3 * steps + 1 >= n:
            raise PrivacyParameterError(
                f"epsilon {float(price):.4g} buys answers within {3 * steps + 1} of {n} people, which says nothing: "
                f"within a tenth of them needs epsilon {theorem.epsilon_for(1 / 30, float(slack)):.4g}. "
                "Use laplace, or ask fewer questions"
            )
    alpha = steps / n
    return OnlinePlan(
        n, cells, queries, alpha, beta, str(price), str(slack), firings(alpha), 2 * steps + 1, 3 * steps + 1
    )


class OnlineIC(Generic[State]):
    """Answers from the hypothesis unless NumericSparse finds it wrong; then gives the noisy answer and learns from it.

    For each query f it asks f - f(D) and, if that stays below, f(D) - f. Guarantee: (epsilon, delta)-differential
    privacy for any number of adaptively chosen linear queries under replace-one neighbours (Dwork and Roth 2014,
    theorem 5.13); with probability 1 - beta all of the planned queries are answered within 3 alpha (5.14, 5.15;
    `OnlinePlan.bar` people). All c firings, the next whole number above T(alpha), are paid when the run starts; it
    halts after the c-th. Cost: two passes over the cells and two draws a question.

    >>> from keyhole.defend.budget import epsilon_budget
    >>> from keyhole.defend.multiplicative_weights import MultiplicativeWeights
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
        noise: Noise | None = None,
    ) -> None:
        self._check(histogram, plan)
        self._sparse = NumericSparse(
            histogram,
            budget,
            threshold=plan.threshold,
            firings=plan.firings,
            epsilon=exact(plan.epsilon),
            delta=exact(plan.delta),
            analyst=analyst,
            noise=noise,
        )
        self._budget, self._analyst = budget, analyst
        self.plan, self.update, self.asked, self.open = plan, update, 0, False
        self.state = update.start()

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
        analyst: str | None = None,
        noise: Noise | None = None,
    ) -> OnlineIC[State]:
        """A run that was paid for earlier, from what was released of it. No charge.

        The noisy threshold of the earlier process is gone. If questions were held against it, a fresh one starts a new
        stretch of AboveThreshold, so the restart uses up one firing: every stretch is paid for, fired or not.
        """
        cls._check(histogram, plan)
        run = cls.__new__(cls)
        run._sparse = NumericSparse.resumed(
            histogram,
            threshold=plan.threshold,
            firings=plan.firings,
            fired=fired + was_open,
            epsilon=exact(plan.epsilon),
            delta=exact(plan.delta),
            noise=noise,
        )
        run._budget, run._analyst = budget, analyst
        run.plan, run.update, run.asked, run.open = plan, update, asked, False
        run.state = update.unpack(state)
        return run

    @staticmethod
    def _check(histogram: Histogram, plan: OnlinePlan) -> None:
        if histogram.public_n != plan.n or histogram.cells != plan.cells:
            raise PrivacyParameterError(
                f"the run was planned for {plan.n} people in {plan.cells} cells, and the data has "
                f"{histogram.public_n} in {histogram.cells}"
            )

    @property
    def cost(self) -> Loss:
        """The price of the whole run, charged when it started."""
        return self._sparse.cost

    @property
    def fired(self) -> int:
        """How often the hypothesis was found wrong (restarts included)."""
        return self._sparse.fired

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
        value, alpha = Fraction(guess, unit) + sign * gap, Fraction(plan.threshold - 1, 2)
        self.state = self.update.update(self.state, query, float(value / n))
        how = self._story("measured")
        return self._released(value, alpha, how, self._sparse.scales.answer)

    def _story(self, origin: str) -> str:
        used = f"{self.fired} of {self.plan.firings} firings used"
        return f"online-ic ({self.update.name}): {origin}, {used}, bars hold for all answers of the run together"

    def _released(self, value: Fraction, alpha: Fraction, how: str, scale: Fraction | None) -> Release:
        left = self._budget.left(self._analyst)
        return Release(value, alpha, self.plan.beta, self.cost, left, self.cost.neighbours, how, scale)

    def packed(self) -> NDArray[np.float64]:
        """The released hypothesis, for the ledger."""
        return self.update.pack(self.state)
