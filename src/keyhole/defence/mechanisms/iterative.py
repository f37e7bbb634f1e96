"""IterativeConstruction: all questions known beforehand; find the worst answered, measure it, learn, repeat."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyhole.defence.budget.budget import Budget
from keyhole.defence.budget.loss import Loss, Number, check_positive, check_probability, round_up
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.sparse_vector import check_composition
from keyhole.defence.mechanisms.theorems import Offline
from keyhole.defence.noise import NoiseSource, check_scale, exact_noise
from keyhole.defence.updates.base import DatabaseUpdate
from keyhole.errors import PrivacyParameterError

Factory = Callable[[int, float], DatabaseUpdate[Any]]


@dataclass(frozen=True, slots=True)
class OfflinePlan:
    """A construction planned from public numbers alone: `rounds` = T(alpha/2), each spending epsilon0 twice."""

    n: int
    cells: int
    queries: int
    alpha: float
    beta: float
    epsilon: Fraction
    delta: Fraction
    rounds: int
    epsilon0: Fraction
    bar: int


def plan_offline(
    factory: Factory,
    *,
    n: int,
    cells: int,
    queries: int,
    beta: float,
    delta: Number = 0,
    epsilon: Number | None = None,
    accuracy: float | None = None,
) -> OfflinePlan:
    """The construction that `epsilon` buys, or the cheapest whose every answer is within `accuracy` (a share of n).

    Theorems 5.3 and 5.4 (Dwork and Roth 2014), with the constants that follow from them.

    >>> from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
    >>> plan = plan_offline(MultiplicativeWeights, n=10**6, cells=16, queries=200, beta=0.05, epsilon=1)
    >>> round(plan.alpha, 4), plan.rounds
    (0.2791, 569)
    """
    if n < 1 or queries < 1:
        raise PrivacyParameterError(f"a construction needs people and questions, not n = {n} and queries = {queries}")
    slack = check_probability(delta, "delta", zero=True)
    check_probability(beta, "beta")
    theorem = Offline(lambda a: factory(cells, a).limit(a), n, queries, beta)
    if accuracy is not None:
        if not 0 < accuracy <= 1:
            raise PrivacyParameterError(f"accuracy is a share of n, above 0 and at most 1, not {accuracy}")
        alpha = (accuracy * n - 1) / n
        if alpha <= 0:
            raise PrivacyParameterError(
                f"accuracy {accuracy} of {n} people is finer than this mechanism's grid: ask for at least {2 / n:.4g}"
            )
        price = round_up(theorem.epsilon_for(alpha, float(slack)))
    else:
        if epsilon is None:
            raise PrivacyParameterError("a construction is planned from epsilon or from accuracy: give one")
        price = check_positive(epsilon, "epsilon")
        alpha = theorem.alpha_for(float(price), float(slack))
        if alpha * n + 1 >= n:
            raise PrivacyParameterError(
                f"epsilon {float(price):.4g} buys answers within {alpha * n:.0f} of {n} people, which says nothing: "
                f"within a tenth of them needs epsilon {theorem.epsilon_for(0.1, float(slack)):.4g}. Use laplace"
            )
    rounds = theorem.rounds(alpha)
    if slack == 0:
        epsilon0 = price / (2 * rounds)
    else:
        epsilon0 = Fraction(theorem.epsilon0(alpha, float(price), float(slack)) * (1 - 1e-12))
        check_composition(float(epsilon0), 2 * rounds, float(slack), float(price))
    bar = math.ceil(alpha * n) + 1  # one person more: the hypothesis is rounded to the grid, twice by half a person
    return OfflinePlan(n, cells, queries, alpha, beta, price, slack, rounds, epsilon0, bar)


@dataclass(frozen=True, slots=True)
class Construction:
    """A released hypothesis: answers in people, all within `bar` with probability 1 - beta; free to use for ever."""

    update: DatabaseUpdate[Any]
    state: Any
    plan: OfflinePlan
    rounds: int

    def value(self, query: LinearQuery) -> Fraction:
        """The hypothesis' answer, in people, on the query's grid."""
        return Fraction(round(self.update.value(self.state, query) * self.plan.n * query.unit), query.unit)


@dataclass(frozen=True, slots=True)
class IterativeConstruction:
    """The offline framework: exponential mechanism as distinguisher, Laplace measurement, database update.

    Guarantee: (epsilon, delta)-differential privacy under replace-one neighbours and, with probability 1 - beta, every
    query of the list within alpha (Dwork and Roth 2014, algorithm 8, theorems 5.3, 5.4). Paid in full at the start.
    Cost: one value per query and round, at most T(alpha/2) rounds.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
    >>> people = Histogram.of([400_000, 100_000, 300_000, 200_000])
    >>> queries = [LinearQuery.of([1, 0, 0, 1]), LinearQuery.of([1, 1, 0, 0])]
    >>> plan = plan_offline(MultiplicativeWeights, n=10**6, cells=4, queries=2, beta=1e-9, epsilon=1)
    >>> made = IterativeConstruction(people, epsilon_budget(1), plan, MultiplicativeWeights).construct(queries)
    >>> abs(made.value(queries[0]) - 600_000) <= plan.bar
    True
    """

    histogram: Histogram
    budget: Budget
    plan: OfflinePlan
    factory: Factory
    analyst: str | None = None
    noise: NoiseSource | None = None

    @property
    def cost(self) -> Loss:
        """The price of the whole construction."""
        return Loss.of_epsilon(self.plan.epsilon, self.plan.delta, self.histogram.neighbours)

    def construct(self, queries: Sequence[LinearQuery]) -> Construction:
        """Charge, then build the hypothesis."""
        plan, noise = self.plan, self.noise or exact_noise()
        if self.histogram.public_n != plan.n or self.histogram.cells != plan.cells or len(queries) > plan.queries:
            raise PrivacyParameterError(
                f"the construction was planned for {plan.n} people, {plan.cells} cells and {plan.queries} questions"
            )
        common = math.lcm(*(q.unit for q in queries))
        if common * plan.n >= 2**62:
            raise PrivacyParameterError("these weights have no common grid within 62 bits: use a coarser step")
        update = self.factory(plan.cells, plan.alpha / 2)
        state = update.start()  # may refuse (a net too large), and must before the charge
        check_scale(2 * common / plan.epsilon0)
        self.budget.spend(self.cost, analyst=self.analyst, what=f"iterative construction, {len(queries)} questions")
        truths = [self.histogram.total(q) for q in queries]
        for done in range(plan.rounds):
            guesses = [round(update.value(state, q) * plan.n * q.unit) for q in queries]
            scores = [abs(t - g) * (common // q.unit) for t, g, q in zip(truths, guesses, queries, strict=True)]
            worst = noise.choose(scores, 2 * common / plan.epsilon0)
            q = queries[worst]
            measured = truths[worst] + noise.laplace(q.unit / plan.epsilon0)
            if abs(measured - guesses[worst]) < 3 * plan.alpha * plan.n * q.unit / 4:
                return Construction(update, state, plan, done)
            state = update.update(state, q, measured / (q.unit * plan.n))
        return Construction(update, state, plan, plan.rounds)
