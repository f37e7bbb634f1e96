"""Tuned private multiplicative weights: bars that hold, prices fixed beforehand, where they pay and who says so."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.laws.mechanism_games import WARM_PLAN, warm_law

from keyhole.cli.simulate.release import release
from keyhole.defence.budget.budget import Budget, Cap, epsilon_budget
from keyhole.defence.budget.loss import Loss
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.judge import judge_bars, say_better
from keyhole.defence.mechanisms.tuned_weights import TunedWeights, bound_gap_tail, plan_tuned, start_from_margins
from keyhole.defence.noise import NoiseSource
from keyhole.defence.simulate import rule_planner
from keyhole.defence.simulate.release import (
    MECHANISMS,
    NEARLY,
    SeededNoise,
    Setup,
    draw_map,
    planner,
    price_announced,
)
from keyhole.defence.simulate.rule_planner import declared_tables
from keyhole.defence.simulate.workloads import make_workload
from keyhole.defence.updates.median import Median, largest_domain
from keyhole.errors import BudgetExhausted, PrivacyParameterError


@pytest.mark.parametrize(
    ("distance", "level", "compare"), [(20, 1, 3), (30, 8, 5), (10, 2, 2), (15, 0.4, 4), (3, 6, 1)]
)
@pytest.mark.parametrize("unit", [1, 3])
def test_the_tail_of_a_missed_gap_is_bounded_from_above(distance: int, level: float, compare: float, unit: int) -> None:
    """Against the sum over both laws, on the integers and on a finer grid."""
    reach = np.arange(-600, 601)
    first = np.exp(-np.abs(reach) / level)
    second = np.exp(-np.abs(reach) / (compare * unit))
    first, second = first / first.sum(), second / second.sum()
    upto = np.cumsum(second)
    edges = (reach - distance) * unit  # comparison <= threshold's noise - distance
    exact = float(np.sum(first * np.where(edges < -600, 0.0, upto[np.clip(edges + 600, 0, 1200)])))
    bound = bound_gap_tail(float(distance), level, compare)
    assert exact * (1 - 1e-12) <= bound <= 1.35 * exact


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_each_answer_is_within_its_bar_as_often_as_promised(unit: str) -> None:
    """Adversarial for the bar: the hypothesis is off by just more than the bar, or by just less than the threshold."""
    beta, missed, asked = 0.2, 0, 0
    noise: NoiseSource = SeededNoise(np.random.default_rng(1))
    plan = plan_tuned(n=1000, cells=2, queries=4, firings=2, beta=beta, unit=unit, bar=60)  # type: ignore[arg-type]
    for off in (61, 75, 30, 0):
        for _ in range(700):
            purse = Budget(Cap(Loss(plan.unit, Fraction(10**6))))
            run = TunedWeights(Histogram.of([500 + off, 500 - off]), purse, plan, noise=noise)
            release_made = run.answer(LinearQuery.of([1, 0]))
            missed += abs(release_made.value - (500 + off)) > release_made.alpha
            asked += 1
            assert purse.spent() == plan.loss.amount
    assert missed <= beta * asked + 4 * (asked * beta * (1 - beta)) ** 0.5


def test_adaptive_thresholds_give_narrower_bars_and_only_in_the_second_half() -> None:
    plan = plan_tuned(n=10**6, cells=4, queries=100, firings=40, beta=0.01, bar=20_000)
    people = Histogram.of([250_000] * 4)
    run = TunedWeights(people, epsilon_budget(10), plan, noise=SeededNoise(np.random.default_rng(0)))
    bars = [float(run.answer(LinearQuery.of([1, 0, 0, 1])).alpha) for _ in range(100)]
    assert set(bars[:50]) == {20_000.0}
    assert min(bars[50:]) < 0.8 * 20_000
    with pytest.raises(BudgetExhausted, match="planned for 100 questions"):
        run.answer(LinearQuery.of([1, 0, 0, 0]))


def test_a_run_halts_when_its_named_firings_are_used_up() -> None:
    plan = plan_tuned(n=10**6, cells=4, queries=100, firings=1, beta=0.01, bar=20_000)
    run = TunedWeights(
        Histogram.of([10**6, 0, 0, 0]), epsilon_budget(1), plan, noise=SeededNoise(np.random.default_rng(0))
    )
    assert run.answer(LinearQuery.of([1, 0, 0, 0])).how.startswith("pmw-tuned: measured, 1 of 1")
    with pytest.raises(BudgetExhausted, match="has halted"):
        run.answer(LinearQuery.of([0, 1, 0, 0]))


def test_a_saved_run_goes_on_with_the_threshold_it_had() -> None:
    plan = plan_tuned(n=1000, cells=2, queries=9, firings=3, beta=0.1, bar=100)
    people, noise = Histogram.of([900, 100]), SeededNoise(np.random.default_rng(3))
    run = TunedWeights(people, epsilon_budget(10), plan, noise=noise)
    run.answer(LinearQuery.of([1, 0]))
    again = TunedWeights.resumed(
        people, epsilon_budget(10), plan, fired=run.fired, asked=run.asked, level=run.level, state=run.packed()
    )
    assert (again.fired, again.asked, again.level) == (run.fired, run.asked, run.level)
    assert np.allclose(again.state, run.state)


@pytest.mark.parametrize("start", [np.array([1.0, -0.1]), np.array([1.0]), np.array([0.0, 0.0]), np.array([np.nan, 1])])
def test_what_is_no_distribution_is_refused_before_the_charge(start: np.ndarray) -> None:
    plan, purse = plan_tuned(n=10, cells=2, queries=9, firings=1, beta=0.1, bar=8), epsilon_budget(100)
    with pytest.raises(PrivacyParameterError, match="distribution"):
        TunedWeights(Histogram.of([5, 5]), purse, plan, start=start)
    assert purse.spent() == 0


def test_a_warm_start_is_the_product_of_its_margins() -> None:
    start = start_from_margins((2, 3), {0: np.array([30, 10]), 1: np.array([1, 1, 2])})
    assert np.allclose(start.reshape(2, 3), np.outer([0.75, 0.25], [0.25, 0.25, 0.5]))
    assert np.all(start_from_margins((2,), {0: np.array([50, -3])}) > 0)


def test_margins_are_bought_with_the_run_and_priced_by_their_noise() -> None:
    """Two columns of 2 and 3 values: the start is the product of noisy margins, and the price is that of both."""
    plan = plan_tuned(n=600, cells=6, queries=9, firings=2, beta=0.1, bar=60, columns=2)
    alone = plan_tuned(n=600, cells=6, queries=9, firings=2, beta=0.1, bar=60)
    assert Fraction(plan.margins) >= 2 * 2 / (Fraction(60) / Fraction("3.5"))
    assert plan.loss.amount == alone.loss.amount + Fraction(plan.margins)
    people, purse = Histogram.of([60, 120, 120, 60, 120, 120]), epsilon_budget(100)
    run = TunedWeights(people, purse, plan, shape=(2, 3), noise=SeededNoise(np.random.default_rng(0)))
    assert purse.spent() == plan.loss.amount
    sides = run.state.reshape(2, 3)
    assert np.allclose(sides, np.outer(sides.sum(axis=1), sides.sum(axis=0)))
    assert np.abs(sides.sum(axis=0) * 600 - [120, 240, 240]).max() < 100
    given = plan_tuned(n=600, cells=6, queries=9, firings=2, beta=0.1, amount=Fraction(3), columns=2)
    assert given.loss.amount == 3
    with pytest.raises(PrivacyParameterError, match="margins of columns"):
        TunedWeights(people, purse, plan, shape=(5,))
    with pytest.raises(PrivacyParameterError, match="bought in epsilon"):
        plan_tuned(n=600, cells=6, queries=9, firings=2, beta=0.1, unit="rho", bar=60, columns=2)
    assert purse.spent() == plan.loss.amount


def test_no_start_and_answer_tell_more_than_the_price_on_any_neighbours() -> None:
    """The exact law of a run that buys its margin, of all pairs of neighbours of 20 people; too little noise shows."""

    def worst(factor: float) -> float:
        laws = [warm_law((k, 20 - k), factor) for k in range(21)]
        return max(
            abs(math.log(a[o] / b[o])) for a, b in pairwise(laws) for o in a.keys() & b.keys() if min(a[o], b[o]) > 1e-9
        )

    paid = float(WARM_PLAN.loss.amount)
    assert paid / 3 < worst(1.0) <= paid
    assert worst(0.25) > paid


def test_on_nearly_independent_columns_it_beats_every_other_way_at_one_bar() -> None:
    """17 columns, 300 three-way questions: cheaper than Laplace with a cache and than the whole histogram."""
    work, setup = make_workload("near:17", 300, 0.0, 0, people=150_000), Setup(0.05, 0.001, 0.0, 0)
    paid = {name: MECHANISMS[name](work, setup) for name in ("pmw-warm", "cache", "laplace", "histogram")}
    assert paid["pmw-warm"].epsilon < 0.9 * min(paid[name].epsilon for name in ("cache", "laplace", "histogram"))
    assert all(one.within_alpha is not None and one.within_alpha > 0.985 for one in paid.values())


def test_prices_only_scale_with_the_number_of_people() -> None:
    one, ten = (
        draw_map((6,), (40,), Setup(0.05, 0.001, 0.0, 0), people=people, kinds=(NEARLY,)).cells[0]
        for people in (20_000, 200_000)
    )
    assert ten.other == one.other
    assert ten.other_epsilon * 10 == pytest.approx(one.other_epsilon, rel=0.02)
    assert not one.ratio > 1


def test_planners_on_many_columns_are_priced_as_they_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of announced tables is what a run pays, with and without the shortcut for columns that are all alike;
    and the other planner stops as soon as it has paid more than is asked.
    """
    work, setup = make_workload("near:7", 60, 0.0, 0, people=50_000), Setup(0.05, 0.001, 0.0, 0)
    priced = price_announced(work, setup)
    assert priced == MECHANISMS["planner-declared"](work, setup).epsilon
    triples = sorted({question.names for question in work.shapes()})
    short = declared_tables(list(work.shapes()), triples, setup.rule(work), work.sizes)
    monkeypatch.setattr(rule_planner, "_is_symmetric", lambda *_: False)
    assert price_announced(work, setup) == pytest.approx(priced)
    long = declared_tables(list(work.shapes()), triples, setup.rule(work), work.sizes)
    assert short.keys() == long.keys() == set(triples)
    assert all(float(short[names]) == pytest.approx(float(long[names])) for names in triples)
    whole = planner(work, setup)
    part = planner(work, setup, whole.epsilon / 2)
    assert whole.epsilon / 2 < part.epsilon <= whole.epsilon
    assert part.answered < whole.answered == 60


def test_the_picture_of_the_map_has_both_kinds(tmp_path: Path) -> None:
    out = tmp_path / "map.svg"
    more = ["--map-queries", "20", "--people", "10000", "--format", "html", "--out", str(out)]
    assert CliRunner().invoke(release, ["--map", "5", *more]).exit_code == 0
    text = out.read_text()
    assert text.startswith("<svg")
    assert "5 columns, correlated" in text
    assert "5 columns, nearly independent" in text


def test_the_map_is_printed_and_drawn() -> None:
    shown = CliRunner().invoke(release, ["--map", "5,6", "--map-queries", "20", "--people", "10000"])
    assert shown.exit_code == 0, shown.exception
    assert "an online construction is the cheapest in 0 of 4 squares" in shown.stdout
    page = CliRunner().invoke(
        release, ["--map", "5", "--map-queries", "20,30", "--people", "10000", "--format", "html"]
    )
    assert "Where it pays: nearly independent" in page.stdout
    refused = CliRunner().invoke(release, ["--map", "2,50"]).exception
    assert "--map '2,50'" in str(refused)


def test_the_judge_says_beforehand_who_is_closer() -> None:
    """Each bar against a plan or an exact tail of its own."""
    bars = {b.mechanism: b for b in judge_bars(Fraction(1), n=10**6, cells=64, queries=500, beta=0.01, firings=20)}
    plan = plan_tuned(n=10**6, cells=64, queries=500, firings=20, beta=0.01, amount=Fraction(1))
    assert bars["pmw-tuned"].bar == plan.bar
    noise = SeededNoise(np.random.default_rng(0))
    laplace = [abs(noise.laplace(Fraction(500))) for _ in range(20_000)]
    assert float(np.mean(np.array(laplace) > bars["laplace"].bar)) == pytest.approx(0.01, abs=0.003)
    cells = np.array([[noise.laplace(Fraction(2)) for _ in range(64)] for _ in range(4000)])
    off = np.abs(cells[:, :32].sum(axis=1) * 0.5 - cells[:, 32:].sum(axis=1) * 0.5)
    assert float(np.mean(off > bars["histogram"].bar)) <= 0.014
    assert say_better(10.0, Fraction(1), n=10**6, cells=64, queries=500, beta=0.01) == ""


def test_a_median_over_many_cells_is_refused_with_what_would_fit() -> None:
    with pytest.raises(PrivacyParameterError, match=r"at most 7 cells fit\. A sample of them would hold none"):
        Median(20, 0.1).start()
    assert len(Median(largest_domain(0.1), 0.1).start()) > 1000
