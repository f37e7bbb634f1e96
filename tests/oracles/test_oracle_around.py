"""Bounds, basis, levels, no noise, databases, and the classifier."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tests.support.effort import effort

from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import load
from keyhole.errors import ModelError, PrivacyParameterError
from keyhole.oracles.base import ModelWarning, ThresholdOracle
from keyhole.oracles.bounds import (
    average_error_floor,
    minimax_lower_bound,
    one_bit_deviation,
    private_laplace_scale,
    published_average_error,
    published_failure,
    stream_factor,
)
from keyhole.oracles.database import DatabaseOracle, NoisyDatabaseOracle, asking
from keyhole.oracles.learners import choose_learner
from keyhole.oracles.learners.classifier import (
    NoisyScores,
    measure_angle,
    steal_classifier,
)
from keyhole.oracles.learners.ellipsoid import EllipsoidBisection
from keyhole.oracles.learners.level_newton import LevelNewton
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.sequential import SequentialBisection
from keyhole.oracles.noise import Floats, GaussianNoise, LaplaceNoise, UniformNoise, quantile
from keyhole.oracles.simulate import hit_chance, play_games
from keyhole.oracles.streams import Around, Concentrated, Spread
from keyhole.oracles.subspace import Subspace, principal_basis

SPACE = Subspace.blocks(4, 2)


# --- bounds ------------------------------------------------------------------------------------------------------
def test_floor_for_axis_queries_is_the_textbook_one() -> None:
    """d directions in turn, T/d answers each: mean |N(0, s^2 d/t)| averaged over t."""
    factor = stream_factor(SPACE, SPACE.basis)
    by_hand = np.mean([math.sqrt(2 / math.pi) * math.sqrt(2 / t) for t in range(1, 100_001)])
    assert math.isclose(average_error_floor(1.0, factor, 100_000), by_hand, rel_tol=0.01)


def test_measured_error_lies_between_the_bounds() -> None:
    for noise in (GaussianNoise(1.0), LaplaceNoise(1.0)):
        summary = play_games(choose_learner("newton"), Concentrated(SPACE), noise, 20_000, delta=0.01, seeds=8)[1]
        lower = minimax_lower_bound(noise, 2, 20_000)
        assert 0 < lower < summary.floor
        assert lower < summary.average_error < summary.bound
    published = play_games(
        choose_learner("online-bisection"), Concentrated(SPACE), UniformNoise(1.0), 20_000, delta=0.01, seeds=4
    )[1]
    assert published.average_error < published.bound


def test_published_bound_falls_towards_one_over_sqrt_t() -> None:
    """Far out, four times the queries halve it (with a drag of sqrt(log T))."""
    values = [published_average_error(UniformNoise(1.0), SPACE, T, 0.5) for T in (10**16, 4 * 10**16)]
    assert 1.8 < values[0] / values[1] < 2.1
    assert published_average_error(UniformNoise(1.0), SPACE, 10**6, 0.0) == pytest.approx(4 * math.sqrt(2))
    assert published_failure(SPACE, 10) < 1e-3
    assert math.isclose(hit_chance(Concentrated(SPACE)), 0.5, abs_tol=0.02)
    assert hit_chance(Spread(Subspace.blocks(10, 5))) == 0
    assert one_bit_deviation(LaplaceNoise(1.0)) == 1.0


def test_privacy_parameters_are_checked() -> None:
    for wrong in ((0.0, 10, 1.0), (1.0, 0, 1.0), (1.0, 10, 0.0), (math.inf, 1, 1.0)):
        with pytest.raises(PrivacyParameterError):
            private_laplace_scale(*wrong)


# --- basis -------------------------------------------------------------------------------------------------------
@given(seed=st.integers(0, 10_000), d=st.integers(1, 4))
@settings(max_examples=effort(25), deadline=None)
def test_basis_is_found_with_its_dimension(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    space = Subspace(np.linalg.qr(rng.standard_normal((8, d)))[0].T, np.zeros(8), np.ones(8))
    sample = Around(Spread(space), 0.001).block(200, rng)
    found = principal_basis(sample)
    assert found.basis.shape == (d, 8)
    assert np.linalg.norm(found.basis - (found.basis @ space.basis.T) @ space.basis) < 0.02
    assert found.distance < 0.02


def test_attack_runs_on_a_basis_from_earlier_queries() -> None:
    rng = np.random.default_rng(4)
    hidden_space = Subspace(np.linalg.qr(rng.standard_normal((10, 3)))[0].T, np.zeros(10), np.ones(10))
    sample = Spread(hidden_space).block(100, rng)
    found = principal_basis(sample)
    space = Subspace(found.basis, np.zeros(10), np.ones(10), found.distance * 2)
    oracle = ThresholdOracle(rng.random(10), GaussianNoise(0.5), rng=rng)
    run = OneBitNewton(space, GaussianNoise(0.5)).run(Spread(hidden_space).block(20_000, rng), oracle)
    assert run.contained
    assert run.final_error < 0.05


def test_a_sample_without_low_dimension_is_refused() -> None:
    sample = np.random.default_rng(0).standard_normal((500, 6))
    with pytest.raises(ModelError, match="no low dimension"):
        principal_basis(sample)
    assert principal_basis(sample, d=4).basis.shape == (4, 6)
    with pytest.raises(ModelError, match="spans"):
        principal_basis(np.outer(np.arange(1.0, 5.0), np.ones(3)), d=2)
    with pytest.raises(ModelError, match="at least two"):
        principal_basis(np.zeros((3, 2)))


# --- levels ------------------------------------------------------------------------------------------------------
def test_two_levels_are_one_bit_and_more_levels_say_more() -> None:
    noise = GaussianNoise(0.5)
    worth = [LevelNewton(SPACE, noise, levels=k).information for k in (2, 3, 4, 8, 32)]
    assert math.isclose(worth[0], 1 / one_bit_deviation(noise) ** 2, rel_tol=1e-3)
    assert worth == sorted(worth)
    assert noise.fisher is not None
    assert 0.98 * noise.fisher < worth[-1] <= noise.fisher
    assert math.isclose(quantile(LaplaceNoise(1.0), 0.9), math.log(5), rel_tol=1e-9)


def test_levels_are_learnt_from() -> None:
    noise, errors = GaussianNoise(0.5), {}
    for levels in (2, 8):
        runs = []
        for seed in range(16):
            rng = np.random.default_rng(seed)
            attack = LevelNewton(SPACE, noise, levels=levels)
            oracle = ThresholdOracle(rng.random(4), noise, rng=np.random.default_rng([seed, 1]))
            runs.append(attack.run(Spread(SPACE).block(800, rng), oracle).average_error)
            assert oracle.asked == 800
        errors[levels] = np.mean(runs)
    assert errors[8] < errors[2] < 0.06
    with pytest.raises(ModelError, match=r"level 0\.\.7"):
        attack.learn(SPACE.basis[0], 8)
    with pytest.raises(ModelError, match="at least 2"):
        LevelNewton(SPACE, noise, levels=1)


# --- no noise ----------------------------------------------------------------------------------------------------
@given(seed=st.integers(0, 10_000), D=st.integers(1, 6))
@settings(max_examples=effort(25), deadline=None)
def test_ellipsoid_always_holds_the_truth(seed: int, D: int) -> None:
    """Any directions, any thresholds: (w - c)^T A^-1 (w - c) <= 1 throughout."""
    rng = np.random.default_rng(seed)
    w = rng.uniform(-1, 1, D)
    attack = EllipsoidBisection(np.full(D, -1.0), np.ones(D), resolution=1e-3)
    for _ in range(60):
        q = rng.standard_normal(D)
        threshold = attack.answer(q) + float(rng.normal(0, 0.2)) * attack.width(q)
        if abs(threshold - attack.answer(q)) < 0.49 * attack.width(q):
            attack.learn(q, threshold, int(w @ q > threshold))
        away = w - attack.estimate()
        assert away @ np.linalg.solve(attack._A, away) <= 1 + 1e-6


def test_ellipsoid_learns_every_coordinate_in_few_questions() -> None:
    rng = np.random.default_rng(1)
    w = rng.random(8)
    attack = EllipsoidBisection(np.zeros(8), np.ones(8), resolution=1e-3)
    asked = 0
    queries = np.concatenate([(rng.random((4_000, 8)) < 0.5).astype(float), np.eye(8)])
    for q in queries[queries.any(axis=1)]:
        threshold = attack.threshold(q)
        if threshold is not None:
            attack.learn(q, threshold, int(w @ q > threshold))
            asked += 1
        else:
            assert abs(attack.answer(q) - w @ q) <= 1e-3 / 2
    assert asked < 2 * 64 * math.log(20 * math.sqrt(8) * 9 / 1e-3)
    with pytest.warns(ModelWarning, match="noisy or the box is wrong"):
        attack.learn(np.ones(8), 9.0, 1)
    for wrong in (np.zeros(8), np.ones(7), np.full(8, math.nan)):
        with pytest.raises(ModelError):
            attack.answer(wrong)
    with pytest.raises(ModelError, match="0 or 1"):
        attack.learn(np.ones(8), 1.0, 3)
    with pytest.raises(ModelError, match="lower < upper"):
        EllipsoidBisection(np.ones(2), np.zeros(2), resolution=0.1)
    with pytest.raises(ModelError, match="resolution"):
        EllipsoidBisection(np.zeros(2), np.ones(2), resolution=0.0)


# --- databases ---------------------------------------------------------------------------------------------------
PAY = [4.3, 5.2, 6.1, 3.2, 7.1, 6.2]
NAMES = [f"P'{i}" for i in range(6)]


def test_a_database_gives_everybody_away_by_yes_and_no() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE staff (name TEXT, pay DOUBLE)")
    connection.executemany("INSERT INTO staff VALUES (?, ?)", list(zip(NAMES, PAY, strict=True)))

    def ask(sql: str) -> object:
        row = connection.execute(sql).fetchone()
        return row[0] if row else None

    oracle = DatabaseOracle(ask, table="staff", column="pay", key="name", ids=NAMES)
    attack = EllipsoidBisection(np.full(6, 3.0), np.full(6, 10.0), resolution=0.02)
    rng = np.random.default_rng(0)
    queries = (rng.random((1_500, 6)) < 0.5).astype(float)
    run = attack.run(queries[queries.any(axis=1)], oracle)
    assert run.asked == oracle.asked < 800
    assert float(np.linalg.norm(attack.estimate() - PAY)) <= run.radius  # certified without the truth
    assert np.allclose(attack.estimate(), PAY, atol=0.02)
    # weights inside the sum mean what they say
    q = np.array([0.5, 0.0, -1.0, 2.0, 0.0, 0.0])
    truth = float(q @ PAY)
    assert (oracle.above(q, truth - 0.01), oracle.above(q, truth + 0.01)) == (1, 0)
    q = np.array([0.5, 0.0, 0.5, 0.0, 0.0, 0.0])
    assert (oracle.above(q, 5.19), oracle.above(q, 5.21)) == (1, 0)
    with pytest.raises(ModelError, match="one entry per record"):
        oracle.above(np.ones(5), 1.0)
    with pytest.raises(ModelError, match="not all zero"):
        oracle.above(np.zeros(6), 1.0)
    stranger = DatabaseOracle(ask, table="staff", column="pay", key="name", ids=["nobody"])
    with pytest.raises(ModelError, match="not true or false"):
        stranger.above(np.ones(1), 1.0)
    with pytest.raises(ModelError, match="ids"):
        DatabaseOracle(ask, table="staff", column="pay", key="name", ids=[])


def test_a_noisy_source_gives_its_groups_away(tmp_path: Path) -> None:
    """Department totals of a Source, noise on every sum, through the SQL that an analyst would send."""
    rng = np.random.default_rng(1)
    pay = np.round(rng.uniform(0, 1, 8), 3)
    path = tmp_path / "staff.csv"
    path.write_text("id,pay\n" + "".join(f"{i},{v}\n" for i, v in enumerate(pay)))
    source = load(str(path), Columns(id=("id",), private={"pay": PrivateColumn(min=0, max=1)}))
    oracle = NoisyDatabaseOracle(
        asking(source), UniformNoise(0.3), table="staff", column="pay", key="id", ids=list(range(8)), rng=rng
    )
    space = Subspace.blocks(8, 2)
    attack = SequentialBisection(space, UniformNoise(0.3), delta=0.01)
    departments = (space.basis > 0).astype(float)
    run = attack.run(np.tile(departments, (150, 1)), oracle)
    assert run.asked == oracle.asked == 300
    assert math.isnan(run.average_error)
    assert attack.holds(pay)
    for department in departments:
        assert abs(attack.answer(department) - float(department @ pay)) < 0.15


# --- classifier --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def served() -> tuple[Floats, Floats, float]:
    inputs, classes = load_breast_cancer(return_X_y=True)
    inputs = StandardScaler().fit_transform(inputs)
    model = LogisticRegression(max_iter=1000).fit(inputs[:400], classes[:400])
    return inputs, model.coef_[0], float(model.intercept_[0])


@pytest.mark.parametrize(("std", "degrees"), [(0.0, 0.5), (2.0, 10.0)])
def test_a_classifier_is_stolen_through_labels(
    served: tuple[Floats, Floats, float], std: float, degrees: float
) -> None:
    inputs, w, b = served
    server = NoisyScores(w, b, std, rng=np.random.default_rng(1))
    stolen = steal_classifier(
        lambda x: int(server.predict(x[None, :])[0]),
        inputs[400:],
        queries=5_000,
        noise_std=std or None,
        rng=np.random.default_rng(0),
    )
    assert measure_angle(stolen.weights, w) < degrees
    assert np.mean(stolen.predict(inputs) == (inputs @ w + b > 0)) > 0.97
    assert stolen.queries <= 5_000
    assert stolen.method == ("probit" if std else "line search")
    first, last = stolen.trace[0], stolen.trace[-1]
    assert not std or measure_angle(first[1], w) > measure_angle(last[1], w)
    if std:
        assert stolen.scale is not None
        assert abs(stolen.scale * np.linalg.norm(stolen.weights) / np.linalg.norm(w) - 1) < 0.2
    else:
        assert stolen.scale is None


def test_scale_is_claimed_only_when_the_noise_is_known(served: tuple[Floats, Floats, float]) -> None:
    inputs, w, b = served
    server = NoisyScores(w, b, 2.0, rng=np.random.default_rng(1))
    stolen = steal_classifier(
        lambda x: int(server.predict(x[None, :])[0]),
        inputs,
        queries=1_500,
        noise_std=None,
        rng=np.random.default_rng(0),
    )
    assert stolen.scale is None
