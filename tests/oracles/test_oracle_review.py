"""What must be noticed, refused or kept within limits: bits nothing explains, budgets, scales, sizes, shapes."""

from __future__ import annotations

import json
import math
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.commands import run_command
from tests.support.effort import effort

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.base import ModelWarning, ThresholdOracle, UnaskedWarning, train_then_test
from keyhole.oracles.certify.assumptions import calibrate
from keyhole.oracles.database import DatabaseOracle
from keyhole.oracles.learners import LEARNERS, ORACLE_OFF, choose_learner
from keyhole.oracles.learners.bisection import OnlineBisection
from keyhole.oracles.learners.classifier import NoisyScores, measure_angle, steal_classifier
from keyhole.oracles.learners.ellipsoid import EllipsoidBisection
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.oracle_off import OracleOff
from keyhole.oracles.learners.sequential import EdgeBisection, SequentialBisection
from keyhole.oracles.learners.stream_attack import DOUBT
from keyhole.oracles.noise import (
    CustomNoise,
    Floats,
    GaussianNoise,
    LaplaceNoise,
    OracleNoise,
    TriangularNoise,
    UniformNoise,
    parse_noise,
)
from keyhole.oracles.simulate import play_games
from keyhole.oracles.streams import Around, Concentrated, Scaled, Spread, Stream, draw_blocks
from keyhole.oracles.subspace import Subspace

SPACE = Subspace.blocks(4, 2)
R = np.random.default_rng


def invoke(*arguments: str) -> tuple[int, str, str]:
    return run_command("oracle", "simulate", "--seeds", "1", *arguments)


# --- bits that nothing explains ------------------------------------------------------------------------------------
@pytest.mark.parametrize("level", [5.0, 1.4, -0.4])
def test_published_algorithm_doubts_against_the_stated_box(level: float) -> None:
    """The cube reaches to 2 and -2; w in [0,1]^4 does not."""
    attack = OnlineBisection(SPACE, UniformNoise(0.2), horizon=50_000)
    oracle = ThresholdOracle(np.full(4, level), UniformNoise(0.2), rng=R(0))
    with pytest.warns(ModelWarning, match=r"box lost w \(chance <= delta\)"):
        attack.run(Concentrated(SPACE).block(50_000, R(0)), oracle)


@pytest.mark.parametrize("level", [0.0, 0.02, 0.98, 1.0])
def test_published_algorithm_does_not_doubt_the_corners(level: float) -> None:
    for seed in range(4):
        attack = OnlineBisection(SPACE, UniformNoise(0.2), horizon=50_000)
        queries = Scaled(Concentrated(SPACE), -2.0, 2.0).block(50_000, R(seed))
        with pytest.warns(UnaskedWarning, match="shorter than 1"):
            attack.run(queries, ThresholdOracle(np.full(4, level), UniformNoise(0.2), rng=R([seed, 1])))
        assert attack.doubt < DOUBT / 2


@pytest.mark.parametrize("D", [2, 3, 6, 12])
def test_coins_are_no_noise_free_answers(D: int) -> None:
    attack, rng = EllipsoidBisection(np.zeros(D), np.ones(D), resolution=1e-6), R(D)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        for q in rng.random((20 * D + 64, D)):
            threshold = attack.threshold(q)
            if threshold is not None:
                attack.learn(q, threshold, int(rng.integers(2)))
    assert any("noisy or the box is wrong" in str(w.message) for w in caught)


def test_noisy_answers_are_noticed_at_the_end_of_a_run() -> None:
    """Fewer bits than half a window: judged when the run ends."""
    attack = EllipsoidBisection(np.zeros(3), np.ones(3), resolution=1e-6)
    oracle = ThresholdOracle(np.array([0.2, 0.7, 0.4]), GaussianNoise(1.0), rng=R(0))
    with pytest.warns(ModelWarning, match="together"):
        attack.run(R(1).random((30, 3)), oracle)


@given(seed=st.integers(0, 10_000), D=st.integers(1, 6))
@settings(max_examples=effort(15), deadline=None)
def test_exact_answers_are_always_explained(seed: int, D: int) -> None:
    rng = R(seed)
    w = rng.integers(0, 2, D).astype(float) if seed % 2 else rng.random(D)
    attack = EllipsoidBisection(np.zeros(D), np.ones(D), resolution=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        for q in rng.standard_normal((300, D)) * 10.0 ** rng.integers(-3, 4):
            threshold = attack.threshold(q)
            if threshold is not None:
                attack.learn(q, threshold, int(w @ q > threshold))
        assert attack.explained()


# --- a misstated scale ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", [SequentialBisection, OneBitNewton, EdgeBisection])
@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0, 2.0, 10.0])
def test_calibration_notices_a_misstated_scale(method: type[SequentialBisection], factor: float) -> None:
    for seed in range(3):
        stream, stated, true = Concentrated(SPACE), UniformNoise(0.2), UniformNoise(0.2 * factor)
        attack, oracle = method(SPACE, stated), ThresholdOracle(R([seed, 1]).random(4), true, rng=R([seed, 2]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            attack.run(stream.block(20_000, R(seed)), oracle)
        doubted = bool(caught)
        assert not (doubted and factor == 1.0)
        box, asked = attack.box(), oracle.asked
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            probes = calibrate(attack, stream.block(6000, R([seed, 3])), oracle)
        assert all(probe.believable for probe in probes) == (not caught)
        assert (bool(caught) or (doubted and method is EdgeBisection)) == (factor != 1.0)  # its box stays wide
        assert oracle.asked == asked + 6000 == asked + sum(probe.answers for probe in probes)
        assert np.array_equal(box, attack.box())
    with pytest.raises(ModelError, match="at least 5"):
        calibrate(attack, SPACE.basis, oracle)


def test_calibration_trusts_honest_noise_of_every_kind() -> None:
    for noise in (
        UniformNoise(1.0),
        GaussianNoise(0.5),
        LaplaceNoise(0.4),
        TriangularNoise(1.0),
        CustomNoise(lambda x: (1 + math.tanh(x)) / 2, 1),
    ):
        space = Subspace(SPACE.basis, np.zeros(4), np.ones(4), neighbourhood=0.2)
        stream = Scaled(Around(Spread(space), 0.1), -2.0, 2.0)
        for seed in range(5):
            attack, oracle = OneBitNewton(space, noise), ThresholdOracle(R([seed, 1]).random(4), noise, rng=R(seed))
            for queries in (30, 3000):  # a wide box, and a narrow one
                attack.run(stream.block(queries, R([seed, queries])), oracle)
                assert all(p.believable for p in calibrate(attack, stream.block(600, R([seed, 3])), oracle))


# --- the classifier's budget ---------------------------------------------------------------------------------------
WEIGHTS = np.array([1.0, -2.0, 0.5])
INPUTS = R(5).standard_normal((200, 3))


class Counting:
    """A label service that counts, with noise if asked for."""

    def __init__(self, std: float) -> None:
        self.asked = 0
        self._server = NoisyScores(WEIGHTS, 0.1, std, rng=R(1))

    def __call__(self, x: Floats) -> int:
        self.asked += 1
        return int(self._server.predict(x[None, :])[0])


@pytest.mark.parametrize("std", [0.0, 0.5])
@pytest.mark.parametrize("queries", [0, 7, 8, 30, 300, 2000])
def test_a_theft_never_exceeds_its_budget(std: float, queries: int) -> None:
    label = Counting(std)
    try:
        stolen = steal_classifier(label, INPUTS, queries=queries, noise_std=std or None, rng=R(0), checkpoints=1)
    except ModelError:
        assert queries < 30
    else:
        assert stolen.queries == label.asked
        assert np.any(stolen.weights != 0)
        assert stolen.trace
        if queries == 2000:
            assert measure_angle(stolen.weights, WEIGHTS) < 15
    assert label.asked <= queries


def test_a_theft_says_the_least_it_needs_and_that_suffices() -> None:
    with pytest.raises(ModelError, match=r"at least 8"):
        steal_classifier(Counting(0.0), INPUTS, queries=7, noise_std=None, rng=R(0))
    assert steal_classifier(Counting(0.0), INPUTS, queries=8, noise_std=None, rng=R(0)).queries <= 8
    one_sided = np.tile([-2.0, 2.0, 0.0], (80, 1)) + 0.01 * INPUTS[:80]
    with pytest.raises(ModelError, match="got the same label"):
        steal_classifier(label := Counting(0.0), one_sided, queries=100, noise_std=None, rng=R(0))
    assert label.asked <= 100


@pytest.mark.parametrize(
    ("noise_std", "checkpoints", "words"),
    [
        (-1.0, 12, "noise_std"),
        (0.0, 12, "noise_std"),
        (math.nan, 12, "noise_std"),
        (None, 0, "checkpoints"),
    ],
)
def test_a_theft_refuses_nonsense(noise_std: float | None, checkpoints: int, words: str) -> None:
    label = Counting(0.0)
    with pytest.raises(ModelError, match=words):
        steal_classifier(label, INPUTS, queries=900, noise_std=noise_std, rng=R(0), checkpoints=checkpoints)
    assert label.asked == 0


def test_a_theft_says_why_it_claims_no_length() -> None:
    def steal(std: float, noise_std: float | None) -> tuple[float | None, str]:
        stolen = steal_classifier(Counting(std), INPUTS, queries=900, noise_std=noise_std, rng=R(0))
        return stolen.scale, stolen.no_scale

    assert "not given" in steal(0.5, None)[1]
    assert "no noise was seen" in steal(0.0, 1.0)[1]
    scale, why = steal(0.5, 0.5)
    assert scale is not None
    assert why == ""


# --- scales of noise -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stream", [Concentrated(SPACE), Spread(SPACE)], ids=["concentrated", "spread"])
@pytest.mark.parametrize("law", [UniformNoise, GaussianNoise, LaplaceNoise])
@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-12, 1e-20, 1e-99])
def test_newton_finds_w_through_next_to_no_noise(stream: Stream, law: type, scale: float) -> None:
    noise: OracleNoise = law(scale)
    for seed in range(3):
        attack, oracle = OneBitNewton(SPACE, noise), ThresholdOracle(R(seed).random(4), noise, rng=R(1))
        run = attack.run(stream.block(4000, R([seed, 2])), oracle)
        assert run.contained
        assert run.final_error < max(scale, 1e-14)


def test_halving_steps_are_the_compiled_run() -> None:
    noise, queries = UniformNoise(1e-3), Spread(SPACE).block(500, R(0))
    compiled, stepped = OneBitNewton(SPACE, noise), OneBitNewton(SPACE, noise)
    one, two = (ThresholdOracle(np.array([0.2, 0.9, 0.4, 0.1]), noise, rng=R(1)) for _ in range(2))
    compiled.run(queries, one)
    for q in queries:
        threshold = stepped.threshold(q)
        assert threshold is not None
        stepped.learn(q, threshold, two.above(q, threshold))
    assert np.allclose(compiled.estimate(), stepped.estimate(), atol=1e-9)
    assert np.allclose(compiled.box(), stepped.box(), atol=1e-9)


@pytest.mark.parametrize("law", [UniformNoise, GaussianNoise, LaplaceNoise, TriangularNoise])
@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e-101])
def test_noise_beyond_floats_is_refused(law: type, scale: float) -> None:
    with pytest.raises(ModelError, match=r"from 1e-100 to 1e\+100"):
        law(scale)


def test_a_law_whose_density_vanishes_at_zero_is_refused() -> None:
    """Pr(noise <= x) = (1 + sign(x) x^2) / 2 and its like: rho(0) = 0, though the cdf is not flat."""
    for power in (2, 3):
        with pytest.raises(ModelError, match="no density at 0"):
            CustomNoise(lambda x, p=power: 0.5 * (1 + math.copysign(min(1.0, abs(x)) ** p, x)), scale=1.0)  # type: ignore[misc]
    CustomNoise(lambda x: 0.5 * (1 + math.erf(x)), scale=1.0)


# --- the command line ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--learner", "online-bisection", "--queries", "1"], "at least 3"),
        (["--learner", "online-bisection", "--queries", "2"], "at least 3"),
        (["--noise", "gaussian:1e300"], "from 1e-12 to 1e+12"),
        (["--noise", "gaussian:1e-300"], "from 1e-12 to 1e+12"),
        (["--noise", "uniform:1e200"], "from 1e-12 to 1e+12"),
        (["--dimension", "100000", "--subspace", "50000"], "at most 50,000,000"),
        (["--learner", "edge", "--noise", "gaussian:1"], "learn with newton"),
    ],
)
def test_out_of_range_is_2_and_says_the_range(arguments: list[str], words: str) -> None:
    code, out, err = invoke(*(["--queries", "100"] if "--queries" not in arguments else []), *arguments)
    assert code == 2
    assert words in err
    assert "internal error" not in err
    assert not out


@pytest.mark.parametrize("method", [*LEARNERS, ORACLE_OFF])
@pytest.mark.parametrize("noise", ["uniform:1e-12", "uniform:1e12"])
@pytest.mark.parametrize("queries", ["3", "50"])
def test_the_ends_of_the_range_run(method: str, noise: str, queries: str) -> None:
    code, _, err = invoke("--learner", method, "--noise", noise, "--queries", queries)
    assert code == 0
    assert ("never asking by" in err) if method == "online-bisection" else not err


def test_json_says_what_was_played_and_what_a_bound_is() -> None:
    code, out, _ = invoke("--learner", "online-bisection", "--queries", "5000", "--format", "json", "--seeds", "2")
    assert code == 0
    found = json.loads(out)
    assert found["settings"] == {
        "dimension": 4, "subspace": 2, "noise": "uniform:0.25", "queries": 5000, "stream": "concentrated",
        "method": "online-bisection", "seeds": 2, "delta": 0.01,
    }  # fmt: skip
    (beforehand,) = found["warnings"]
    assert beforehand.startswith("over 5,000 queries online-bisection is expected to err by 0.")
    assert math.isclose(found["summary"]["bound"], sum(run["bound"] for run in found["runs"]) / 2)
    assert found["summary"]["published_bound"] > found["summary"]["average_error"]
    assert json.loads(invoke("--queries", "500", "--format", "json")[1])["summary"]["published_bound"] is None


def test_the_trace_ends_with_the_stream() -> None:
    for method in map(choose_learner, (*LEARNERS, ORACLE_OFF)):
        for queries in (1, 3000, 10_000):
            if method.name == "online-bisection" and queries < 3:
                continue
            run = play_games(method, Concentrated(SPACE), UniformNoise(1.0), queries, delta=0.01, seeds=1)[0][0]
            assert run.trace[-1][0] == queries
            assert math.isclose(run.trace[-1][1], run.average_error)
            assert len({t for t, _ in run.trace}) == len(run.trace)
    assert (
        OracleOff(SPACE, UniformNoise(1.0))
        .run(np.zeros((0, 4)), ThresholdOracle(np.ones(4), UniformNoise(1.0), rng=R(0)))
        .trace
        == ()
    )


# --- long queries --------------------------------------------------------------------------------------------------
def test_long_queries_come_in_blocks_that_fit() -> None:
    space = Subspace.blocks(20_000, 2)
    tracemalloc.start()
    play_games(choose_learner("newton"), Concentrated(space), UniformNoise(5000.0), 1000, delta=0.01, seeds=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6, f"{peak / 1e6:.0f} MB for 160 MB of queries"
    assert sum(len(part) for part in draw_blocks(Spread(space), 1000, R(0))) == 1000


def test_rounding_of_long_queries_is_no_distance() -> None:
    space = Subspace.blocks(3_000_000, 2)
    queries = Concentrated(space).block(2, R(0))
    z, _, _ = space.project(queries)
    assert np.allclose(np.linalg.norm(z, axis=1), 1)
    queries[0, 0] += 1e-3
    with pytest.raises(ModelError, match="away"):
        space.project(queries)


def test_coordinates_are_those_of_the_queries() -> None:
    for stream in (Concentrated(SPACE), Spread(SPACE), Scaled(Spread(SPACE), -2, 2), Around(Spread(SPACE), 0.3)):
        whole, part = stream.block(50, R(3)) @ SPACE.basis.T, stream.coordinates(50, R(3))
        assert np.allclose(whole, part, atol=1e-12)


# --- shapes and files ----------------------------------------------------------------------------------------------
def test_wrong_shapes_are_model_errors() -> None:
    for lower, upper in ((np.zeros(3), np.ones(4)), (np.zeros(4), np.ones((4, 1))), (np.zeros(0), np.ones(4))):
        with pytest.raises(ModelError, match="length D = 4"):
            Subspace(SPACE.basis, lower, upper)
    oracle = ThresholdOracle(np.ones(4), UniformNoise(1.0), rng=R(0))
    with pytest.raises(ModelError, match="test set"):
        train_then_test(OneBitNewton(SPACE, UniformNoise(1.0)), SPACE.basis, np.zeros((0, 4)), oracle)
    assert oracle.asked == 0
    for phi in (-1.0, 2.0, math.nan):
        with pytest.raises(ModelError, match="angle"):
            Concentrated(SPACE, phi)
    for low, high in ((2.0, 1.0), (0.0, 0.0), (math.nan, 1.0), (0.0, math.inf)):
        with pytest.raises(ModelError, match="norms"):
            Scaled(Spread(SPACE), low, high)
    with pytest.raises(ModelError, match="nan"):
        oracle.above(np.ones(4), math.nan)
    assert oracle.asked == 0
    with pytest.raises(ModelError, match="'Ann' is named twice"):
        DatabaseOracle(lambda _: True, table="t", column="x", key="k", ids=["Ann", "Bob", "Ann"])
    with pytest.raises(ModelError, match="finite"):
        EllipsoidBisection(np.zeros(2), np.ones(2), resolution=0.1).learn(np.ones(2), math.inf, 1)


def test_files_that_are_no_saved_attack(tmp_path: Path) -> None:
    attack = SequentialBisection(SPACE, UniformNoise(1.0))
    with pytest.raises(ConfigError, match="cannot save"):
        attack.save(tmp_path / "missing" / "state.npz")
    good, before = tmp_path / "state.npz", attack.box()
    attack.save(good)
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "torn").write_bytes(good.read_bytes()[:200])
    (tmp_path / "zip").write_bytes(b"PK\x03\x04 and nothing more")
    np.save(tmp_path / "one.npy", np.ones(3))
    with np.load(good) as saved:
        np.savez(tmp_path / "part.npz", **{name: saved[name] for name in saved.files if name != "odds"})
    for name in ("junk", "empty", "torn", "zip", "one.npy", "part.npz", "absent"):
        with pytest.raises(ConfigError, match="not a"):
            attack.restore(tmp_path / name)
    assert np.array_equal(before, attack.box())


def test_parse_noise_names_its_range() -> None:
    assert parse_noise("gaussian:1e12", 4).std > 0
    with pytest.raises(ConfigError, match="from 1e-12"):
        parse_noise("laplace:1e13", 4)
