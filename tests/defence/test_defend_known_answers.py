"""The published numbers: scales, thresholds, updates, limits, and the corrected theorems."""

from __future__ import annotations

import math

import numpy as np
import pytest

from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.online_ic import plan_online
from keyhole.defence.mechanisms.sparse_vector import numeric_sparse_scales, sparse_scale
from keyhole.defence.mechanisms.theorems import (
    Offline,
    OnlineAccuracy,
    advanced_composition,
    multiplicative_weights_limit,
    numeric_sparse_alpha,
    perceptron_limit,
    sparse_alpha,
)
from keyhole.defence.updates.median import Median, net, net_rows
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defence.updates.perceptron import Perceptron

F = LinearQuery.of([1, 0, 0, 1])


@pytest.mark.parametrize(
    ("firings", "delta", "scales"),
    [(1, 0, (2.25, 4.5, 9)), (10, 0, (22.5, 45, 90)), (10, "1e-6", (71.149, 142.298, 804.961))],
)
def test_numeric_sparse_scales(firings: int, delta: str | int, scales: tuple[float, ...]) -> None:
    found = numeric_sparse_scales(firings, 1, delta)
    assert [round(float(s), 3) for s in (found.threshold, found.query, found.answer)] == list(scales)


def test_the_scale_is_never_below_the_real_number() -> None:
    exact = math.sqrt(32 * 10 * math.log(1e6))
    assert exact <= float(sparse_scale(10, 1, "1e-6")) < exact * (1 + 1e-11)


@pytest.mark.parametrize(("delta", "threshold"), [(0.0, 2.1569272), (1e-6, 6.8206042)])
def test_online_threshold(delta: float, threshold: float) -> None:
    alpha = numeric_sparse_alpha(1.0, queries=2 * 100, firings=10, beta=0.05, delta=delta)
    assert round(2 * alpha / 1000, 7) == threshold


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(0.2, (0.23751041, 0.26248959, 0.26248959, 0.23751041)), (0.9, (0.26248959, 0.23751041, 0.23751041, 0.26248959))],
)
def test_multiplicative_weights_step(answer: float, expected: tuple[float, ...]) -> None:
    mw = MultiplicativeWeights(4, 0.2)
    assert mw.update(mw.start(), F, answer).distribution() == pytest.approx(expected, abs=5e-9)


def test_limits() -> None:
    assert round(multiplicative_weights_limit(16, 0.5), 4) == 44.3614
    assert round(multiplicative_weights_limit(8, 0.2), 4) == 207.9442
    assert perceptron_limit(4, 0.5) == 16
    assert Median(4, 0.3).limit(0.3) == math.log2(math.comb(4 + 3, 3))


def test_perceptron_step() -> None:
    p = Perceptron(4, 0.5)
    assert p.update(p.start(), F, 1.0).tolist() == [0.125, 0, 0, 0.125]


def test_theorems_5_14_and_5_15() -> None:
    plan = OnlineAccuracy(lambda a: multiplicative_weights_limit(16, a), 10**6, 200, 0.05)
    assert round(plan.alpha_for(1.0), 4) == 0.1193
    assert round(plan.alpha_for(1.0, delta=1e-6), 4) == 0.0735
    for delta in (0.0, 1e-6):
        alpha = plan.alpha_for(1.0, delta)
        assert plan.needed(alpha, 1.0, delta) <= alpha
        assert plan.needed(alpha * 0.999, 1.0, delta) > alpha * 0.999
        assert plan.epsilon_for(alpha, delta) == pytest.approx(1.0, abs=1e-9)


def test_theorem_5_7_has_the_derived_constants() -> None:
    plan = Offline(lambda a: multiplicative_weights_limit(16, a), 10**6, 200, 0.05)
    rounds = plan.rounds(0.3)
    spread = math.log(200 * 2 * rounds / 0.05)
    assert plan.needed(0.3, 1.0) == pytest.approx(32 * rounds * spread / 10**6)
    expected = 64 * math.sqrt(rounds * math.log(1e6)) * spread / 10**6
    assert plan.needed(0.3, 1.0, 1e-6) == pytest.approx(expected)


def test_what_the_constants_cost_on_the_covid_like_stream() -> None:
    plan = plan_online(MultiplicativeWeights, n=1_008_532, cells=128, queries=70_000, beta=0.001, accuracy=0.05)
    assert plan.epsilon == "1172"  # where a noisy histogram needs 0.0023
    assert plan.firings == 69_910


def test_the_plan_keeps_theorem_3_28_with_its_whole_number_of_firings() -> None:
    for epsilon in (1, 4, "0.7"):
        plan = plan_online(MultiplicativeWeights, n=10**6, cells=16, queries=200, beta=0.05, epsilon=epsilon)
        assert plan.firings > multiplicative_weights_limit(16, plan.alpha)
        needed = numeric_sparse_alpha(float(epsilon), queries=400, firings=plan.firings, beta=0.05)
        assert needed <= plan.alpha * plan.n < needed * 1.01
        steps, compared = round(plan.alpha * plan.n), math.ceil(needed)
        assert (plan.threshold, plan.bar) == (steps + compared + 1, steps + 2 * compared + 1)
        assert plan.bar <= 3 * steps + 1
        assert plan.answer_bar <= steps


def test_advanced_composition_and_sparse_accuracy() -> None:
    assert round(advanced_composition(0.01, 1000, 1e-6), 2) == 1.76
    assert sparse_alpha(1.0, queries=10, firings=3, beta=0.1) == pytest.approx(24 * math.log(10 * 60))


def test_the_net_covers_every_distribution() -> None:
    rng = np.random.default_rng(3)
    for cells, alpha in ((2, 0.3), (3, 0.2), (4, 0.3)):
        points = net(cells, alpha)
        assert len(points) == math.comb(net_rows(cells, alpha) + cells - 1, cells - 1)
        assert np.allclose(points.sum(axis=1), 1)
        for x in rng.dirichlet(np.full(cells, 0.5), size=200):
            nearest = min(np.abs(points - x).sum(axis=1)) / 2  # total variation bounds every query
            assert nearest < alpha
