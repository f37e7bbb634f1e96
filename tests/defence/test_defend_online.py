"""OnlineIC and IterativeConstruction: accuracy over seeds, halting, restarts, and one against the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.laws.updates import Factory, all_counting_queries, weighted_queries

from keyhole.defence.budget.budget import epsilon_budget
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.iterative import IterativeConstruction, plan_offline
from keyhole.defence.mechanisms.online_ic import OnlineIC, plan_online
from keyhole.defence.simulate.release import SeededNoise
from keyhole.defence.updates.median import Median
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights, Weighted
from keyhole.defence.updates.perceptron import Perceptron
from keyhole.errors import BudgetExhausted, PrivacyParameterError

CELLS, N = 4, 200_000
SIZES = {MultiplicativeWeights: N, Perceptron: N, Median: 5_000}  # a finer median has too many candidates


def people(seed: int, n: int = N, cells: int = CELLS) -> Histogram:
    rng = np.random.default_rng(seed)
    return Histogram.of(rng.multinomial(n, rng.dirichlet(np.full(cells, 0.4))))


@pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "delta"])
@pytest.mark.parametrize("factory", [MultiplicativeWeights, Median, Perceptron], ids=lambda f: f.__name__)
def test_within_three_alpha_over_200_seeds(factory: Factory, delta: int | str) -> None:
    rng = np.random.default_rng(0)
    queries = [*all_counting_queries(CELLS), *weighted_queries(CELLS, 10, rng, 16)]
    n = SIZES[factory]
    plan = plan_online(factory, n=n, cells=CELLS, queries=len(queries), beta=0.05, epsilon=3, delta=delta)
    assert plan.bar < n  # the promise says something
    failures = 0
    updates = 0
    for seed in range(200):
        histogram = people(seed, n)
        noise = SeededNoise(np.random.default_rng(seed))
        budget = epsilon_budget(3, delta)
        run = OnlineIC(histogram, budget, plan, factory(CELLS, plan.alpha), noise=noise)
        order = np.random.default_rng(seed).permutation(len(queries))
        answers = [(queries[i], run.answer(queries[i])) for i in order]
        wrong = [a for q, a in answers if abs(a.value - Fraction(histogram.total(q), q.unit)) > a.alpha]
        assert all(a.alpha <= plan.bar for _, a in answers)
        failures += bool(wrong)
        updates += run.fired
        assert not run.halted
        assert budget.left() == 0  # charged once, in full
    assert failures <= 10  # beta = 0.05 of 200; Chernoff leaves far less in practice
    assert updates > 0  # the hypothesis was corrected: the test is not about silence


@dataclass(frozen=True, slots=True)
class Stubborn(MultiplicativeWeights):
    """Never learns: every wrong answer stays wrong."""

    name = "stubborn"

    def update(self, state: Weighted, query: LinearQuery, answer: float) -> Weighted:
        """Nothing."""
        return state


def test_halts_exactly_after_its_firings() -> None:
    plan = plan_online(Stubborn, n=10**6, cells=2, queries=2000, beta=0.05, epsilon=1)
    histogram = Histogram.of([10**6, 0])
    run = OnlineIC(
        histogram, epsilon_budget(1), plan, Stubborn(2, plan.alpha), noise=SeededNoise(np.random.default_rng(1))
    )
    q = LinearQuery.of([1, 0])
    asked = 0
    while not run.halted:
        run.answer(q)
        asked += 1
        assert asked <= plan.firings
    assert run.fired == plan.firings == asked  # every question fired, and the c-th was the last
    with pytest.raises(BudgetExhausted, match="halted"):
        run.answer(q)
    assert run.fired == plan.firings


def test_answers_no_more_than_it_was_planned_for() -> None:
    plan = plan_online(MultiplicativeWeights, n=10**6, cells=4, queries=3, beta=0.05, epsilon=1)
    run = OnlineIC(people(1, 10**6), epsilon_budget(1), plan, MultiplicativeWeights(4, plan.alpha))
    for _ in range(3):
        run.answer(LinearQuery.of([1, 0, 0, 0]))
    with pytest.raises(BudgetExhausted, match="planned for 3 questions"):
        run.answer(LinearQuery.of([1, 0, 0, 0]))


@pytest.mark.parametrize("factory", [MultiplicativeWeights, Median, Perceptron], ids=lambda f: f.__name__)
def test_a_resumed_run_goes_on_and_an_open_one_pays_a_firing(factory: Factory) -> None:
    n = SIZES[factory]
    histogram = people(3, n)
    queries = all_counting_queries(CELLS)
    plan = plan_online(factory, n=n, cells=CELLS, queries=50, beta=0.05, epsilon=3)
    budget = epsilon_budget(3)
    run = OnlineIC(histogram, budget, plan, factory(CELLS, plan.alpha), noise=SeededNoise(np.random.default_rng(4)))
    for q in queries:
        run.answer(q)
    for was_open in (False, True):
        again: OnlineIC[Any] = OnlineIC.resumed(
            histogram,
            budget,
            plan,
            factory(CELLS, plan.alpha),
            fired=run.fired,
            asked=run.asked,
            was_open=was_open,
            state=run.packed(),
            noise=SeededNoise(np.random.default_rng(5)),
        )
        assert again.fired == run.fired + was_open
        assert again.asked == run.asked
        for q in queries:
            here, there = run.update.value(run.state, q), again.update.value(again.state, q)
            assert there == pytest.approx(here, abs=1e-9)
    assert budget.left() == 0


def test_planned_for_other_data_is_refused() -> None:
    plan = plan_online(MultiplicativeWeights, n=10**6, cells=4, queries=3, beta=0.05, epsilon=1)
    budget = epsilon_budget(1)
    with pytest.raises(PrivacyParameterError, match="planned for 1000000 people in 4 cells"):
        OnlineIC(people(1, 999_999), budget, plan, MultiplicativeWeights(4, plan.alpha))
    with pytest.raises(PrivacyParameterError, match="public number of people"):
        OnlineIC(replace(people(1, 10**6), neighbours="add-remove"), budget, plan, MultiplicativeWeights(4, plan.alpha))
    assert budget.left() == 1


@pytest.mark.parametrize("factory", [MultiplicativeWeights, Median, Perceptron], ids=lambda f: f.__name__)
@pytest.mark.parametrize("delta", [0, "1e-6"], ids=["pure", "delta"])
def test_offline_keeps_its_bar(factory: Factory, delta: int | str) -> None:
    queries = all_counting_queries(CELLS)
    n = 5 * SIZES[factory]
    plan = plan_offline(factory, n=n, cells=CELLS, queries=len(queries), beta=0.05, epsilon=3, delta=delta)
    failures = 0
    for seed in range(40):
        histogram = people(seed, n)
        noise = SeededNoise(np.random.default_rng(seed))
        made = IterativeConstruction(histogram, epsilon_budget(3, delta), plan, factory, None, noise).construct(queries)
        assert made.rounds <= plan.rounds
        failures += any(abs(made.value(q) - histogram.total(q)) > plan.bar for q in queries)
    assert failures <= 4


def test_online_costs_no_accuracy() -> None:
    """Same queries, same epsilon: the online bar is at most the offline one, and so is the observed error within it."""
    queries = all_counting_queries(CELLS)
    online = plan_online(MultiplicativeWeights, n=10**6, cells=CELLS, queries=len(queries), beta=0.05, epsilon=1)
    offline = plan_offline(MultiplicativeWeights, n=10**6, cells=CELLS, queries=len(queries), beta=0.05, epsilon=1)
    assert online.bar <= 2 * offline.bar
    errors: dict[str, list[float]] = {"online": [], "offline": []}
    for seed in range(20):
        histogram = people(seed, 10**6)
        noise = SeededNoise(np.random.default_rng(seed))
        run = OnlineIC(histogram, epsilon_budget(1), online, MultiplicativeWeights(CELLS, online.alpha), noise=noise)
        errors["online"].append(max(abs(float(run.answer(q).value) - histogram.total(q)) for q in queries))
        made = IterativeConstruction(histogram, epsilon_budget(1), offline, MultiplicativeWeights, None, noise)
        built = made.construct(queries)
        errors["offline"].append(max(abs(float(built.value(q)) - histogram.total(q)) for q in queries))
    assert np.median(errors["online"]) <= 2 * np.median(errors["offline"])
