"""The edges of the toolkit: what is refused, what is said beforehand, what is certain without the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from keyhole.errors import ModelError
from keyhole.oracles import (
    Concentrated,
    GaussianNoise,
    OnlineBisection,
    PublishedConstants,
    Scaled,
    SequentialBisection,
    Spread,
    Subspace,
    ThresholdOracle,
    UnaskedWarning,
    UniformNoise,
    play_by_steps,
)
from keyhole.oracles.attack_target import learn_target
from keyhole.oracles.learners import choose_learner
from keyhole.oracles.learners.published_bisection import PublishedBisection
from keyhole.oracles.noise import Floats
from keyhole.oracles.recorded import Recorded
from keyhole.oracles.result import AskingPlan, OracleResult, Questions
from keyhole.oracles.simulate import forecast_error, idle_error, play_games, warn_beforehand

SPACE = Subspace.blocks(4, 2)


class Blind:
    """An oracle whose hidden vector nobody else knows."""

    def __init__(self, inner: ThresholdOracle) -> None:
        self._inner = inner

    @property
    def asked(self) -> int:
        return self._inner.asked

    @asked.setter
    def asked(self, value: int) -> None:
        raise AssertionError("nobody else counts")

    def above(self, q: Floats, threshold: float) -> int:
        return self._inner.above(q, threshold)


@pytest.mark.parametrize(
    ("keep", "margin"), [(1.2, 0.125), (0.75, -1.0), (0.5, 0.1), (0.6, 0.125), (0.9, 0.2), (math.nan, 0.1), (0.75, 0.0)]
)
def test_constants_for_which_the_lemmas_do_not_hold_are_refused(keep: float, margin: float) -> None:
    with pytest.raises(ModelError, match=r"keep|margin"):
        PublishedConstants(keep=keep, margin=margin)


@pytest.mark.parametrize(("keep", "margin"), [(0.75, 0.125), (0.9, 0.05), (0.6, 0.03)])
def test_the_angle_follows_from_what_the_margin_leaves(keep: float, margin: float) -> None:
    constants = PublishedConstants(keep, margin)
    for d in (1, 2, 7):
        assert 8 * math.sin(constants.phi(d) / 2) * math.sqrt(d) == pytest.approx(keep - 0.5 - margin, rel=1e-6)


@pytest.mark.parametrize("keep", [0.65, 0.75, 0.85])
def test_with_other_constants_the_cube_still_holds_w(keep: float) -> None:
    constants = PublishedConstants(keep, min(0.125, 0.4 * (keep - 0.5)))
    stream = Concentrated(SPACE, phi=constants.phi(2))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        attack = OnlineBisection(SPACE, UniformNoise(0.05), horizon=40_000, constants=constants)
        assert attack.run(
            stream.block(40_000, rng), ThresholdOracle(rng.random(4), UniformNoise(0.05), rng=rng)
        ).contained
        assert attack.cuts > 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: OnlineBisection(SPACE, UniformNoise(1.0), horizon=99),
        lambda: PublishedBisection(SPACE, UniformNoise(1.0), 99),
    ],
)
def test_a_query_that_is_too_short_is_not_asked_and_that_is_said(build: Callable[[], OnlineBisection]) -> None:
    with pytest.warns(UnaskedWarning, match="shorter than 1"):
        assert build().threshold(SPACE.basis[0] / 2) is None


def test_short_queries_of_a_stream_are_counted() -> None:
    rng = np.random.default_rng(0)
    attack = OnlineBisection(SPACE, UniformNoise(1.0), horizon=2000)
    with pytest.warns(UnaskedWarning, match=r"1,\d\d\d of 2,000 queries are shorter than 1 and not asked"):
        run = attack.run(
            Scaled(Concentrated(SPACE), 0.5, 1.2).block(2000, rng),
            ThresholdOracle(np.full(4, 0.5), UniformNoise(1.0), rng=rng),
        )
    assert run.asked < 1000


@pytest.mark.parametrize("D", [2, 5])
def test_no_estimate_leaves_the_stated_box(D: int) -> None:
    """Of one dimension a block: entries between lower and upper; in any basis: coordinates that some w has."""
    rng = np.random.default_rng(D)
    lower = rng.uniform(1, 2, D)
    for basis in (np.eye(D), np.linalg.qr(rng.standard_normal((D, D)))[0]):
        space = Subspace(np.ascontiguousarray(basis), lower, lower + 0.5)
        low, high = space.initial_box()
        attack = OnlineBisection(space, UniformNoise(0.05), horizon=3000)
        oracle = ThresholdOracle(rng.uniform(lower, lower + 0.5), UniformNoise(0.05), rng=rng)
        for block in np.split(np.tile(basis, (3000 // D, 1))[:2900], 29):
            attack.run(block, oracle)
            c = space.coordinates(attack.estimate())
            assert np.all(c >= low - 1e-9)
            assert np.all(c <= high + 1e-9)


def test_a_stream_on_which_asking_is_worse_than_not_asking_is_announced() -> None:
    """The forecast is right in sign and within a quarter: against played games, at three lengths."""
    stream, noise, published = Concentrated(SPACE), UniformNoise(1.0), choose_learner("online-bisection")
    never = idle_error(stream)
    for queries in (10_000, 100_000, 300_000):
        played = play_games(published, stream, noise, queries, delta=0.01, seeds=24)[1].average_error
        assert forecast_error(stream, noise, queries) == pytest.approx(played, rel=0.25)
        assert bool(warn_beforehand(published, stream, noise, queries)) == (played > never)
    assert not warn_beforehand(choose_learner("newton"), stream, noise, 10)


def test_queries_may_come_one_by_one() -> None:
    """None is drawn before the one before it was learnt from; the numbers are those of a whole array."""
    rng = np.random.default_rng(1)
    rows, w = Concentrated(SPACE).block(400, rng), rng.random(4)
    whole, single = (SequentialBisection(SPACE, UniformNoise(0.3)) for _ in range(2))
    drawn: list[int] = []

    def one_by_one() -> Iterator[Floats]:
        for q in rows:
            drawn.append(single.queries_seen)
            yield q

    first = whole.run(rows, ThresholdOracle(w, UniformNoise(0.3), rng=np.random.default_rng(2)))
    oracle = ThresholdOracle(w, UniformNoise(0.3), rng=np.random.default_rng(2))
    second = single.run(one_by_one(), oracle)
    assert (second.queries, second.asked) == (first.queries, first.asked)
    assert second.average_error == pytest.approx(first.average_error, rel=1e-12)
    played = play_by_steps(SequentialBisection(SPACE, UniformNoise(0.3)), one_by_one(), Blind(oracle), SPACE)
    assert played.queries == 400


@pytest.mark.parametrize("learner", ["newton", "sequential", "edge", "online-bisection"])
def test_what_is_certified_needs_no_truth(learner: str) -> None:
    """Of an oracle that shows bits alone: the same bound and radius as where the truth is known, and both hold."""
    noise = UniformNoise(0.2)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, w = Spread(SPACE).block(1500, rng), rng.random(4)
        runs, attacks = [], []
        for blind in (False, True):
            attack = choose_learner(learner).make(SPACE, noise, 1500, 0.01)
            oracle = ThresholdOracle(w, noise, rng=np.random.default_rng([seed, 1]))
            runs.append(attack.run(rows, Blind(oracle) if blind else oracle))  # type: ignore[attr-defined]
            attacks.append(attack)
        known, unknown = runs
        assert math.isnan(unknown.average_error)
        assert unknown.contained is None
        assert unknown.trace == ()
        assert unknown.bound == pytest.approx(known.bound, rel=1e-6)
        assert unknown.radius == pytest.approx(known.radius, rel=1e-6)
        off = SPACE.coordinates(attacks[1].estimate() - w)
        assert float(np.linalg.norm(off)) <= unknown.radius
        assert known.average_error <= unknown.bound


def attacked(
    seed: int, learner: str, rows: int = 600, budget: int | None = None, D: int = 3
) -> tuple[OracleResult, Floats]:
    rng = np.random.default_rng(seed)
    w = rng.random(D)
    oracle = ThresholdOracle(w, GaussianNoise(0.3), rng=rng)
    questions = Questions(rng.random((rows, D)), np.zeros(D), np.ones(D))
    plan = AskingPlan("gaussian:0.3", learner, budget=budget)
    with Recorded(oracle, None, budget=budget) as asked:
        return learn_target(asked, questions, plan), w


@pytest.mark.parametrize("learner", ["newton", "sequential"])
def test_estimated_errors_are_calibrated(learner: str) -> None:
    """Of 180 entries, 95 % are within 1.96 estimated standard errors, up to five points and chance."""
    hits = []
    for seed in range(60):
        found, w = attacked(seed, learner, rows=400)
        assert found.largest_error < found.largest_certified
        hits += (np.abs(found.estimate - w) <= 1.96 * np.array(found.errors)).tolist()
    assert 0.9 - 0.02 <= float(np.mean(hits)) <= 1.0


def test_the_budget_is_used_up_and_narrows_both_errors() -> None:
    once, w = attacked(5, "newton", rows=300)
    again, _ = attacked(5, "newton", rows=300, budget=6000)
    assert once.asked < 330
    assert again.asked == 6000
    assert any("asked again, " in note for note in again.notes)
    assert any("with --budget N they are asked again" in note for note in once.notes)
    assert again.largest_error < 0.4 * once.largest_error
    assert again.largest_certified < 0.6 * once.largest_certified
    assert np.all((again.low <= w) & (w <= again.high))


def test_sticky_noise_is_not_asked_again() -> None:
    rng, drawn = np.random.default_rng(0), dict[tuple[float, ...], float]()
    w = np.array([0.3, 0.8])

    class Sticky:
        asked = 0

        def above(self, q: Floats, threshold: float) -> int:
            self.asked += 1
            noise = drawn.setdefault(tuple(q), float(rng.normal(0, 0.3)))
            return int(q @ w + noise > threshold)

    questions = Questions(rng.random((300, 2)), np.zeros(2), np.ones(2))
    with Recorded(Sticky(), None, budget=5000) as asked:
        found = learn_target(asked, questions, AskingPlan("gaussian:0.3", budget=5000))
    assert found.asked < 400
    assert any("asked once although the budget allows more" in note for note in found.notes)
