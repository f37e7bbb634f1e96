"""What the laws do not cover: joint sensitivity, grids, bars, bad parameters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.exact_laws import gaussian_mass, laplace_mass
from tests.support.effort import effort

from keyhole.defence.budget.budget import Budget, Cap, epsilon_budget
from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.histogram import Histogram
from keyhole.defence.linear import LinearQuery, l1_sensitivity, l2_sensitivity_squared
from keyhole.defence.mechanisms import theorems
from keyhole.defence.mechanisms.gaussian import Gaussian, gaussian_quantile, gaussian_rho
from keyhole.defence.mechanisms.iterative import IterativeConstruction, plan_offline
from keyhole.defence.mechanisms.laplace import Laplace, laplace_epsilon, laplace_quantile
from keyhole.defence.mechanisms.online_ic import OnlineIC, plan_online
from keyhole.defence.mechanisms.sparse_vector import AboveThreshold, NumericSparse, Sparse
from keyhole.defence.noise import NoiseSource
from keyhole.defence.simulate.release import SeededNoise
from keyhole.defence.updates.median import Median
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defence.updates.perceptron import Perceptron
from keyhole.errors import DataError, PrivacyParameterError


@st.composite
def stacks(draw: st.DrawFn) -> list[LinearQuery]:
    cells = draw(st.integers(1, 5))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        unit = draw(st.sampled_from([1, 2, 5, 300]))
        made.append(LinearQuery.of(draw(st.lists(st.integers(0, unit), min_size=cells, max_size=cells)), unit))
    return made


@settings(max_examples=effort(200), deadline=None)
@given(queries=stacks())
def test_sensitivities_bound_every_change_of_one_person(queries: list[LinearQuery]) -> None:
    """Brute force over all moves of one person: exact; beyond MOST_PAIRS a bound."""
    columns = [[Fraction(int(q.weights[i]), q.unit) for q in queries] for i in range(queries[0].cells)]
    zero = [Fraction(0)] * len(queries)
    moves: dict[Neighbours, list[tuple[list[Fraction], list[Fraction]]]] = {
        "add-remove": [(c, zero) for c in columns],
        "replace-one": [(a, b) for a in columns for b in columns],
    }
    for neighbours, pairs in moves.items():
        l1 = max(sum(abs(x - y) for x, y in zip(a, b, strict=True)) for a, b in pairs)
        l2 = max(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a, b in pairs)
        assert l1 == l1_sensitivity(queries, neighbours)
        assert l2 == l2_sensitivity_squared(queries, neighbours)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("keyhole.defence.linear.MOST_PAIRS", 0)
            assert l1 <= l1_sensitivity(queries, neighbours)
            assert l2 <= l2_sensitivity_squared(queries, neighbours)


def test_a_histogram_has_sensitivity_two_under_replace_one() -> None:
    cells = [LinearQuery.of(row) for row in np.eye(6, dtype=np.int64)]
    assert l1_sensitivity(cells, "replace-one") == 2
    assert l1_sensitivity(cells, "add-remove") == 1
    assert l2_sensitivity_squared(cells, "replace-one") == 2


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(2), Fraction(37, 2)])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-4])
def test_laplace_bars_are_exact_quantiles(scale: Fraction, beta: float) -> None:
    points, masses = laplace_mass(float(scale))
    t = laplace_quantile(scale, beta)
    assert masses[np.abs(points) > t].sum() <= beta * (1 + 1e-6)
    assert t == 0 or masses[np.abs(points) > t - 1].sum() > beta * (1 - 1e-6)


@pytest.mark.parametrize("variance", [Fraction(1, 5), Fraction(4), Fraction(700)])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-4])
def test_gaussian_bars_hold(variance: Fraction, beta: float) -> None:
    points, masses = gaussian_mass(float(variance))
    assert masses[np.abs(points) > gaussian_quantile(variance, beta)].sum() <= beta


@settings(max_examples=effort(60), deadline=None)
@given(steps=st.integers(0, 5000), sensitivity=st.integers(1, 4), beta=st.floats(1e-6, 0.5))
def test_a_quoted_price_buys_the_bar(steps: int, sensitivity: int, beta: float) -> None:
    epsilon = laplace_epsilon(Fraction(steps), Fraction(sensitivity), beta)
    assert laplace_quantile(sensitivity / epsilon, beta) <= steps
    rho = gaussian_rho(Fraction(steps), Fraction(sensitivity**2), beta)
    assert gaussian_quantile(sensitivity**2 / (2 * rho), beta) <= steps


def test_weighted_answers_lie_on_their_grid() -> None:
    histogram = Histogram.of([30, 20, 10])
    q = LinearQuery.of([0, 3, 10], 10)
    for release in Laplace(histogram, epsilon_budget(1), 1).release([q]):
        assert (release.value * 10).denominator == 1
        assert release.scale == 1
    rho = Budget(Cap(Loss.of_rho(1)))
    (release,) = Gaussian(histogram, rho, 1).release([q])
    assert (release.value * 10).denominator == 1
    run = NumericSparse(histogram, epsilon_budget(100), threshold=-1000, firings=1, epsilon=100)
    assert (run.ask(q) * 10).denominator == 1


def test_a_constant_question_needs_no_noise() -> None:
    histogram = Histogram.of([30, 20])
    (release,) = Laplace(histogram, epsilon_budget(1), 1).release([LinearQuery.of([1, 1])])
    assert (release.value, release.alpha) == (50, 0)


def test_every_answer_carries_its_story() -> None:
    budget = epsilon_budget(2)
    first, second = Laplace(Histogram.of([30, 20]), budget, 1, 0.1).release(
        [LinearQuery.of([1, 0]), LinearQuery.of([0, 1])]
    )
    for release in (first, second):
        assert release.beta == 0.1
        assert release.cost == Loss.of_epsilon(1)
        assert release.left == 1
        assert release.neighbours == "replace-one"
        assert release.how == "discrete Laplace, scale 2"
    assert budget.left() == 1  # one joint charge


@pytest.mark.parametrize(
    ("weights", "unit", "fault"),
    [
        ([1, -1], 1, "not -1"),
        ([2, 0], 1, "not 2"),
        ([0.5, 1.0], 1, "integer weights"),
        ([[1, 0]], 1, "one weight for each cell"),
        ([], 1, "one weight for each cell"),
        ([1, 0], 0, "unit"),
        ([1, 0], 2**40, "unit"),
    ],
)
def test_bad_queries(weights: list[float], unit: int, fault: str) -> None:
    with pytest.raises(PrivacyParameterError, match=fault):
        LinearQuery.of(weights, unit)


def test_bad_histograms_and_shapes() -> None:
    for counts in ([-1, 2], [], [0.5], [2**31, 2**31]):
        with pytest.raises(DataError):
            Histogram.of(counts)
    with pytest.raises(PrivacyParameterError, match="the query has 3 cells and the domain 2"):
        Histogram.of([1, 2]).total(LinearQuery.of([1, 0, 1]))
    assert "1" not in repr(Histogram.of([1, 1]))


def test_bad_parameters_spend_nothing() -> None:
    histogram, budget = Histogram.of([500, 500]), epsilon_budget(10, "1e-3")
    for wrong in (0, -1, "nan"):
        with pytest.raises(PrivacyParameterError, match="epsilon"):
            Laplace(histogram, budget, wrong).release([LinearQuery.of([1, 0])])
        with pytest.raises(PrivacyParameterError, match="epsilon"):
            AboveThreshold(histogram, budget, threshold=3, epsilon=wrong)
        with pytest.raises(PrivacyParameterError, match="epsilon"):
            NumericSparse(histogram, budget, threshold=3, firings=1, epsilon=wrong)
    for firings, delta in ((0, 0), (3, 1), (3, 2)):
        with pytest.raises(PrivacyParameterError):
            Sparse(histogram, budget, threshold=3, firings=firings, epsilon=1, delta=delta)
    with pytest.raises(PrivacyParameterError, match="too large for the calibration"):
        Sparse(histogram, budget, threshold=3, firings=3, epsilon=10, delta="0.5")
    with pytest.raises(PrivacyParameterError, match="too large for the calibration"):
        NumericSparse(histogram, budget, threshold=3, firings=3, epsilon=10, delta="0.5")
    with pytest.raises(PrivacyParameterError, match="beta"):
        Laplace(histogram, budget, 1, beta=0)
    for update in (MultiplicativeWeights, Perceptron, Median):
        for cells, alpha in ((0, 0.5), (2, 0.0), (2, 1.5)):
            with pytest.raises(PrivacyParameterError):
                update(cells, alpha)
    tiny = Fraction(1, 10**30)
    with pytest.raises(PrivacyParameterError, match="noise scale"):
        Laplace(histogram, budget, tiny).release([LinearQuery.of([1, 0])])
    with pytest.raises(PrivacyParameterError, match="noise scale"):
        AboveThreshold(histogram, budget, threshold=3, epsilon=tiny)
    for run in (Sparse, NumericSparse):
        with pytest.raises(PrivacyParameterError, match="noise scale"):
            run(histogram, budget, threshold=3, firings=2, epsilon=tiny)
    assert budget.left() == 10
    rho = Budget(Cap(Loss.of_rho(1)))
    with pytest.raises(PrivacyParameterError, match="noise scale"):
        Gaussian(histogram, rho, tiny).release([LinearQuery.of([1, 0])])
    assert rho.left() == 1


def test_where_no_noise_can_be_drawn_nothing_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> NoiseSource:
        raise ModuleNotFoundError("opendp")

    histogram, budget = Histogram.of([500, 500]), epsilon_budget(10)
    modules = ("laplace", "sparse_vector", "iterative")
    for name in modules:
        monkeypatch.setattr(f"keyhole.defence.mechanisms.{name}.exact_noise", missing)
    plan = plan_offline(MultiplicativeWeights, n=1000, cells=2, queries=1, beta=0.05, accuracy=0.9)
    calls: list[Callable[[], object]] = [
        lambda: Laplace(histogram, budget, 1).release([LinearQuery.of([1, 0])]),
        lambda: AboveThreshold(histogram, budget, threshold=3, epsilon=1),
        lambda: Sparse(histogram, budget, threshold=3, firings=2, epsilon=1),
        lambda: NumericSparse(histogram, budget, threshold=3, firings=2, epsilon=1),
        lambda: IterativeConstruction(histogram, budget, plan, MultiplicativeWeights).construct(
            [LinearQuery.of([1, 0])]
        ),
    ]
    for call in calls:
        with pytest.raises(ModuleNotFoundError):
            call()
    assert budget.left() == 10


def test_an_accuracy_no_budget_reaches_names_its_price() -> None:
    with pytest.raises(PrivacyParameterError, match=r"even alpha = 1 needs epsilon"):
        plan_online(MultiplicativeWeights, n=10, cells=4, queries=10, beta=0.05, epsilon=1)
    with pytest.raises(PrivacyParameterError, match=r"which says nothing: within a tenth of them needs epsilon"):
        plan_online(MultiplicativeWeights, n=20_000, cells=16, queries=100, beta=0.05, epsilon="0.5")
    with pytest.raises(PrivacyParameterError, match="finer than this mechanism's grid"):
        plan_online(MultiplicativeWeights, n=100, cells=4, queries=10, beta=0.05, accuracy=0.01)
    with pytest.raises(PrivacyParameterError, match=r"even alpha = 1 needs epsilon|says nothing"):
        plan_offline(MultiplicativeWeights, n=100, cells=4, queries=10, beta=0.05, epsilon=1)
    for plan in (plan_online, plan_offline):
        with pytest.raises(PrivacyParameterError, match="give one"):
            plan(MultiplicativeWeights, n=100, cells=4, queries=10, beta=0.05)
        with pytest.raises(PrivacyParameterError, match="share of n"):
            plan(MultiplicativeWeights, n=100, cells=4, queries=10, beta=0.05, accuracy=2.0)
        with pytest.raises(PrivacyParameterError, match="people and questions"):
            plan(MultiplicativeWeights, n=0, cells=4, queries=10, beta=0.05, epsilon=1)


def test_a_net_too_large_is_refused_before_the_charge() -> None:
    plan = plan_online(Median, n=10**6, cells=4, queries=10, beta=0.05, epsilon=3)
    budget = epsilon_budget(3)
    with pytest.raises(PrivacyParameterError, match="use multiplicative weights"):
        OnlineIC(Histogram.of([250_000] * 4), budget, plan, Median(4, plan.alpha))
    assert budget.left() == 3


@settings(max_examples=effort(60), deadline=None)
@given(
    unit=st.sampled_from([1, 3, 255, 300, 70_000]),
    seed=st.integers(0, 1000),
    answer=st.sampled_from([0.0, 1.0]),
)
def test_one_pass_update_equals_the_textbook(unit: int, seed: int, answer: float) -> None:
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 40))
    mw = MultiplicativeWeights(cells, 0.3)
    state = mw.start()
    x = np.full(cells, 1 / cells)
    for _ in range(5):
        q = LinearQuery.of(rng.integers(0, unit + 1, cells), unit)
        f = q.dense()
        assert mw.value(state, q) == pytest.approx(f @ x, rel=1e-12)
        r = f if answer < f @ x else 1 - f
        state = mw.update(state, q, answer)
        x = x * np.exp(-0.15 * r)
        x /= x.sum()
        assert state.distribution() == pytest.approx(x, rel=1e-9)


def test_ten_thousand_updates_neither_underflow_nor_overflow() -> None:
    mw = MultiplicativeWeights(3, 1.0)
    state = mw.start()
    up, down = LinearQuery.of([1, 0, 0]), LinearQuery.of([0, 1, 0])
    for _ in range(5000):
        state = mw.update(mw.update(state, up, 2.0), down, -1.0)
    shares = state.distribution()
    assert np.isfinite(shares).all()
    assert shares[1] > 0
    for _ in range(3000):
        state = mw.update(state, down, 2.0)
    assert state.distribution()[1] > 0.5  # a cell that was driven down comes back


def test_seeded_noise_is_repeatable() -> None:
    a, b = (SeededNoise(np.random.default_rng(3)) for _ in range(2))
    assert [a.gaussian(Fraction(9)) for _ in range(50)] == [b.gaussian(Fraction(9)) for _ in range(50)]


@pytest.mark.parametrize("start", [AboveThreshold, Sparse, NumericSparse])
def test_a_threshold_off_the_grid_is_refused_before_the_charge(start: Callable[..., object]) -> None:
    budget = epsilon_budget(1)
    firings = {} if start is AboveThreshold else {"firings": 2}
    with pytest.raises(PrivacyParameterError, match=r"a whole number of people, not 1\.5"):
        start(Histogram.of([3, 4]), budget, threshold=1.5, epsilon=1, **firings)
    assert budget.spent() == 0
    start(Histogram.of([3, 4]), budget, threshold=np.int64(2), epsilon=1, **firings)
    assert budget.spent() == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: theorems.multiplicative_weights_limit(0, 0.1),
        lambda: theorems.multiplicative_weights_limit(4, 0),
        lambda: theorems.multiplicative_weights_limit(4, -0.5),
        lambda: theorems.multiplicative_weights_limit(4, float("nan")),
        lambda: theorems.perceptron_limit(0, 0.1),
        lambda: theorems.perceptron_limit(4, 1e-200),
        lambda: theorems.median_limit(0),
        lambda: theorems.above_threshold_alpha(1, queries=0, beta=0.05),
        lambda: theorems.sparse_alpha(1, queries=3, firings=0, beta=0.05),
        lambda: theorems.numeric_sparse_alpha(1, queries=0, firings=1, beta=0.05),
        lambda: theorems.answer_scale(0, 1),
        lambda: theorems.answer_scale(1, 0),
        lambda: theorems.advanced_composition(0.1, 0, 1e-6),
        lambda: theorems.advanced_composition(0.1, 3, 0),
        lambda: theorems.OnlineAccuracy(lambda a: 3, n=0, queries=1, beta=0.05),
        lambda: theorems.OnlineAccuracy(lambda a: 3, n=9, queries=0, beta=0.05),
        lambda: theorems.Offline(lambda a: 3, n=9, queries=0, beta=0.05),
        lambda: theorems.Offline(lambda a: 3, n=9, queries=1, beta=0.05).rounds(0),
        lambda: theorems.OnlineAccuracy(lambda a: 3, n=9, queries=1, beta=0.05).needed(0, 1),
    ],
)
def test_theorems_refuse_what_they_do_not_speak_of(call: Callable[[], object]) -> None:
    with pytest.raises(PrivacyParameterError):
        call()
