"""What the attacks must show, in short: rates, floors, certificates, high dimension, neighbourhoods, outputs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import MonotoneOracle, NoisyOutputOracle, ThresholdOracle, UnaskedWarning
from keyhole.oracles.bounds import private_laplace_scale
from keyhole.oracles.learners import LearnerChoice, choose_learner
from keyhole.oracles.learners.bisection import OnlineBisection, PublishedConstants
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.oracle_off import OracleOff
from keyhole.oracles.learners.sequential import EdgeBisection, SequentialBisection
from keyhole.oracles.noise import (
    Floats,
    GaussianNoise,
    LaplaceNoise,
    SteepNoise,
    TriangularNoise,
    UniformNoise,
    noise_by_kind,
)
from keyhole.oracles.simulate import error_floor, play_game, play_games
from keyhole.oracles.streams import Around, Concentrated, Scaled, Spread, Stream
from keyhole.oracles.subspace import Subspace

SPACE = Subspace.blocks(4, 2)
STREAMS: dict[str, Stream] = {"concentrated": Concentrated(SPACE), "spread": Spread(SPACE)}


def ratio(method: LearnerChoice, stream: Stream, kind: str, queries: int, seeds: int) -> float:
    noise = noise_by_kind(kind, 0.25, 4)
    _, summary, said = play_games(method, stream, noise, queries, delta=0.01, seeds=seeds)
    assert summary.contained in (True, None)
    assert not said
    return summary.average_error / summary.floor


def test_published_constants() -> None:
    """Known answers: N_crit and phi."""
    constants = PublishedConstants()
    for u, dp, n in ((1.0, 1 / 8, 53_052), (0.25, 1 / 2, 3_316)):
        assert math.isclose(constants.rates(UniformNoise(4 * u), 4.0, 1.0)[1], dp)
        assert math.ceil(constants.n_crit(10**6, dp)) == n
    assert math.isclose(constants.phi(2), 0.0220975, abs_tol=1e-7)
    assert math.isclose(math.sin(constants.phi(2) / 2), 1 / (64 * math.sqrt(2)))


def test_online_bisection_reproduces_its_table() -> None:
    """Average error and cuts: nothing learnt at 1e3, about .43 (1 cut) at 1e4, .16 (4 cuts) at 1e5."""
    for queries, error, room, cuts in ((1_000, 0.707, 0.2, 0), (10_000, 0.431, 0.12, 1), (100_000, 0.161, 0.03, 4)):
        found, done = [], set()
        for seed in range(12):
            rng = np.random.default_rng([seed, 1])
            attack = OnlineBisection(SPACE, UniformNoise(1.0), horizon=queries)
            oracle = ThresholdOracle(rng.random(4), UniformNoise(1.0), rng=rng)
            run = attack.run(Concentrated(SPACE).block(queries, rng), oracle)
            assert run.contained
            found.append(run.average_error)
            done.add(attack.cuts)
        assert abs(np.mean(found) - error) < room, (queries, np.mean(found))
        assert done <= {cuts - 1, cuts, cuts + 1}


def test_online_bisection_follows_a_plain_twin() -> None:
    """Counters, decisions and boxes, phase by phase, in the words of the paper."""
    T, noise = 20_000, UniformNoise(0.1)
    rng = np.random.default_rng(2)
    w, queries = rng.random(4), Scaled(Concentrated(SPACE), -1.5, 1.5).block(T, rng)
    attack = OnlineBisection(SPACE, noise, horizon=T, min_norm=0.5)
    with pytest.warns(UnaskedWarning, match=r"of 20,000 queries are shorter than 0\.5 and not asked"):
        attack.run(queries, ThresholdOracle(w, noise, rng=np.random.default_rng(9)))
    twin = ThresholdOracle(w, noise, rng=np.random.default_rng(9))
    x, y, hits, yes, cuts = np.full(2, -2.0), np.full(2, 2.0), np.zeros(2), np.zeros(2), 0
    for q in queries:
        z = SPACE.coordinates(q)
        norm = float(np.linalg.norm(z))
        near = np.abs(z) >= (1 - 1 / 4096) * norm
        if not near.any() or norm < 0.5:
            continue
        j = int(np.argmax(near))
        bit = twin.above(q, float(z @ (x + y) / 2))
        hits[j] += 1
        yes[j] += bit if z[j] > 0 else 1 - bit
        step = (y[0] - x[0]) / 8 * 0.5
        low, high = 1 - noise.cdf(step), 1 - noise.cdf(-step)
        if min(hits) >= 60 * math.log(T) / (high - low) ** 2:
            side = 0.75 * (y - x)
            upper = yes > hits * (low + high) / 2
            x, y = np.where(upper, y - side, x), np.where(upper, y, x + side)
            hits[:], yes[:] = 0, 0
            cuts += 1
    assert cuts == attack.cuts > 3
    assert np.allclose(attack.box()[0], x)
    assert np.allclose(attack.box()[1], y)


def test_online_bisection_refuses_what_it_was_not_made_for() -> None:
    attack = OnlineBisection(SPACE, UniformNoise(1.0), horizon=1000)
    with pytest.raises(ModelError, match="middle of the range"):
        attack.learn(SPACE.basis[0], 1.0, 1)
    with pytest.raises(ModelError, match="horizon"):
        OnlineBisection(SPACE, UniformNoise(1.0), horizon=1)
    with pytest.raises(ModelError, match="SequentialBisection"):
        OnlineBisection(Subspace(SPACE.basis, np.zeros(4), np.ones(4), 0.1), UniformNoise(1.0), horizon=100)


@pytest.mark.parametrize(("stream", "limit"), [("concentrated", 2.0), ("spread", 2.5)])
def test_sequential_stays_near_the_floor(stream: str, limit: float) -> None:
    assert ratio(choose_learner("sequential"), STREAMS[stream], "uniform", 100_000, 8) <= limit


def test_sequential_keeps_its_promise_where_it_is_hardest() -> None:
    """1,000 short runs at delta = .2, axis queries, w just inside what a wrong first cut removes."""
    noise, lost = UniformNoise(1.0), 0
    for seed in range(1000):
        rng = np.random.default_rng([seed, 7])
        attack = SequentialBisection(SPACE, noise, delta=0.2)
        x, y = attack.box()
        inside = (1 - attack.keep) * 0.999
        share = np.where(rng.random(2) < 0.5, inside, 1 - inside)
        w = (x + share * (y - x)) @ SPACE.basis
        attack.run(Concentrated(SPACE, phi=0.0).block(400, rng), ThresholdOracle(w, noise, rng=rng))
        lost += not attack.holds(w)
    assert 0 < lost <= 200, f"lost in {lost} of 1000: a promise of .2 is neither broken nor idle"


@pytest.mark.parametrize("kind", ["uniform", "gaussian", "laplace"])
@pytest.mark.parametrize("stream", STREAMS)
def test_newton_reaches_the_floor(kind: str, stream: str) -> None:
    """20,000 queries, 60 seeds; the standard error of the ratio is about 4 %."""
    assert ratio(choose_learner("newton"), STREAMS[stream], kind, 20_000, 60) <= 1.1


def test_edges_beat_the_centred_floor() -> None:
    assert ratio(choose_learner("edge"), STREAMS["concentrated"], "uniform", 200_000, 4) < 0.7
    for noise in (GaussianNoise(1.0), LaplaceNoise(1.0), TriangularNoise(1.0)):
        with pytest.raises(ModelError, match="edge"):
            EdgeBisection(SPACE, noise)


def test_edge_sides_shrink_like_one_over_t() -> None:
    sides = []
    for queries in (5_000, 50_000):
        rng = np.random.default_rng(4)
        attack = EdgeBisection(SPACE, UniformNoise(1.0))
        attack.run(Concentrated(SPACE).block(queries, rng), ThresholdOracle(rng.random(4), UniformNoise(1.0), rng=rng))
        low, high = attack.box()
        sides.append(float(np.mean(high - low)))
    assert sides[0] / sides[1] > 5  # ten times the queries; 1/sqrt(t) would give 3.2


def test_newton_works_in_sixteen_dimensions_where_boxes_stall() -> None:
    space = Subspace.blocks(32, 16)
    stream, noise = Spread(space), UniformNoise(1.0)
    newton = play_game(choose_learner("newton"), stream, noise, 60_000, delta=0.01, seed=1)
    boxes = play_game(choose_learner("sequential"), stream, noise, 60_000, delta=0.01, seed=1)
    assert newton.average_error <= 1.2 * error_floor(choose_learner("newton"), stream, noise, 60_000)
    assert boxes.asked < 100
    assert boxes.average_error > 5 * newton.average_error


def test_little_noise_is_no_trouble_for_newton() -> None:
    """Noise a hundredth of the box: the start is far from w in units of the noise."""
    found = [
        play_game(choose_learner("newton"), Spread(SPACE), LaplaceNoise(0.01), 5_000, delta=0.01, seed=seed).final_error
        for seed in range(10)
    ]
    assert np.mean(found) < 0.003


@pytest.mark.parametrize("method", [SequentialBisection, OneBitNewton])
def test_certificates_hold_near_the_subspace(method: type[SequentialBisection]) -> None:
    """Queries five per cent off the subspace, once it is declared; refused while it is not."""
    space = Subspace(SPACE.basis, SPACE.lower, SPACE.upper, 0.05)
    stream, lost = Around(Concentrated(SPACE), 0.05), 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        attack = method(space, UniformNoise(0.5), delta=0.2)
        oracle = ThresholdOracle(rng.random(4), UniformNoise(0.5), rng=rng)
        run = attack.run(stream.block(4_000, rng), oracle)
        lost += not run.contained
        assert run.average_error < 0.2
        assert run.average_error <= run.bound
    assert lost <= 6
    with pytest.raises(ModelError, match="away"):
        method(SPACE, UniformNoise(0.5)).run(stream.block(10, np.random.default_rng(0)), oracle)


def test_an_increasing_output_changes_nothing() -> None:
    rng = np.random.default_rng(6)
    w, queries = rng.random(4), Concentrated(SPACE).block(3_000, rng)
    plain, bent = (SequentialBisection(SPACE, UniformNoise(0.5)) for _ in range(2))
    plain.run(queries, ThresholdOracle(w, UniformNoise(0.5), rng=np.random.default_rng(1)))
    inner = ThresholdOracle(w, UniformNoise(0.5), rng=np.random.default_rng(1))
    bent.run(queries, MonotoneOracle(lambda q, t: int(math.exp(inner.noisy(q)) > t), math.exp))
    assert np.allclose(plain.box(), bent.box())


def test_noise_after_the_output_keeps_the_certificate() -> None:
    """A logistic output with slopes between .2 and .5 here, Gaussian noise added to it."""

    def logistic(a: float) -> float:
        return 2 / (1 + math.exp(-a))

    noise = GaussianNoise(0.2)
    slopes = [logistic(a) * (1 - logistic(a) / 2) for a in np.linspace(0, math.sqrt(2) * 1.02, 200)]
    lost = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        w = rng.random(4)
        attack = SequentialBisection(SPACE, SteepNoise(noise, min(slopes), max(slopes)), delta=0.2)
        attack.run(Concentrated(SPACE).block(3_000, rng), NoisyOutputOracle(w, logistic, noise, rng=rng))
        lost += not attack.holds(w)
        assert attack.cuts > 4
    assert lost <= 3


def ridge(queries: Floats, values: Floats, variance: float) -> Floats:
    z = queries @ SPACE.basis.T
    prior = np.linalg.inv(SPACE.initial_covariance())
    centre = SPACE.coordinates(SPACE.middle)
    right = z.T @ values / variance + prior @ centre
    return np.asarray(np.linalg.solve(z.T @ z / variance + prior, right), dtype=np.float64)


def test_oracle_off_is_regularised_least_squares() -> None:
    rng = np.random.default_rng(8)
    noise = LaplaceNoise(0.5)
    queries = Spread(SPACE).block(500, rng)
    oracle, twin = (ThresholdOracle(np.full(4, 0.3), noise, rng=np.random.default_rng(1)) for _ in range(2))
    fast, slow = OracleOff(SPACE, noise), OracleOff(SPACE, noise)
    run = fast.run(queries, oracle)
    values = []
    for q in queries:
        values.append(twin.noisy(q))
        slow.learn(q, values[-1])
    expected = ridge(queries, np.array(values), noise.std**2)
    assert np.allclose(SPACE.coordinates(fast.estimate()), expected)
    assert np.allclose(fast.estimate(), slow.estimate())
    assert run.asked == 500
    assert math.isclose(fast.answer(queries[0]), slow.answer(queries[0]))
    with pytest.raises(ModelError, match="finite"):
        fast.learn(queries[0], math.nan)


def test_one_bit_costs_what_theory_says() -> None:
    """Gaussian noise: sqrt(pi/2) = 1.25 times the error of raw answers."""
    stream, noise = STREAMS["spread"], GaussianNoise(1.0)
    bits = play_games(choose_learner("newton"), stream, noise, 20_000, delta=0.01, seeds=40)[1]
    raw = play_games(choose_learner("oracle-off"), stream, noise, 20_000, delta=0.01, seeds=40)[1]
    assert math.isclose(bits.floor / raw.floor, math.sqrt(math.pi / 2), rel_tol=1e-6)
    assert 1.0 < bits.average_error / raw.average_error < 1.5


def test_private_noise_and_a_cap_keep_the_error_near_the_prior() -> None:
    cap = 1000
    prior = np.mean([abs(w @ SPACE.basis[0] - math.sqrt(2) / 2) for w in np.random.default_rng(0).random((4000, 4))])
    errors = {}
    for epsilon in (1.0, 1e5):
        noise = LaplaceNoise(private_laplace_scale(epsilon, cap, 1 / math.sqrt(2)))
        errors[epsilon] = play_games(
            choose_learner("newton"), STREAMS["concentrated"], noise, cap, delta=0.01, seeds=40
        )[1]
    assert errors[1.0].average_error > 0.8 * prior
    assert errors[1e5].average_error < 0.1 * prior


def test_saved_states_are_checked(tmp_path: Path) -> None:
    one = SequentialBisection(SPACE, UniformNoise(1.0))
    one.save(tmp_path / "state.npz")
    for other in (
        SequentialBisection(SPACE, UniformNoise(2.0)),
        SequentialBisection(SPACE, UniformNoise(1.0), delta=0.5),
        OneBitNewton(SPACE, UniformNoise(1.0)),
        SequentialBisection(Subspace.blocks(4, 1), UniformNoise(1.0)),
    ):
        with pytest.raises(ConfigError, match="another"):
            other.restore(tmp_path / "state.npz")
    (tmp_path / "junk.npz").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="not a saved attack"):
        one.restore(tmp_path / "junk.npz")
    with pytest.raises(ConfigError, match="not a saved attack"):
        one.restore(tmp_path / "absent.npz")


def test_streams_stay_where_they_say() -> None:
    rng = np.random.default_rng(0)
    space = Subspace.blocks(7, 3)
    near = Concentrated(space, phi=0.3).block(500, rng)
    z = near @ space.basis.T
    assert np.all(z.max(axis=1) >= math.cos(0.3) - 1e-12)
    assert np.allclose(np.linalg.norm(near, axis=1), 1)
    around = Around(Spread(space), 0.1).block(500, rng)
    off = np.linalg.norm(around - (around @ space.basis.T) @ space.basis, axis=1)
    assert np.allclose(off, 0.1)
    norms = np.linalg.norm(Scaled(Spread(space), 0.5, 2.0).block(500, rng), axis=1)
    assert norms.min() >= 0.5
    assert norms.max() <= 2.0
    with pytest.raises(ModelError, match="share"):
        Around(Spread(space), 1.5)


def test_oracles_and_games_refuse_nonsense() -> None:
    with pytest.raises(ModelError, match="hidden"):
        ThresholdOracle(np.array([math.nan]), UniformNoise(1.0), rng=np.random.default_rng(0))
    oracle = ThresholdOracle(np.ones(3), UniformNoise(1.0), rng=np.random.default_rng(0))
    with pytest.raises(ModelError, match="length 3"):
        oracle.above(np.ones(4), 0.0)
    with pytest.raises(ConfigError, match="at least one"):
        play_game(choose_learner("newton"), STREAMS["spread"], UniformNoise(1.0), 0, delta=0.1, seed=0)
    with pytest.raises(ModelError, match="per row"):
        SequentialBisection(SPACE, UniformNoise(1.0)).run(np.ones(4), oracle)
