"""The compiled certified step against a plain twin, and its geometry against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.errors import ModelError
from keyhole.oracles.base import ModelWarning, ThresholdOracle
from keyhole.oracles.bounds import average_error_floor, one_bit_deviation
from keyhole.oracles.learners.newton import OneBitNewton
from keyhole.oracles.learners.sequential import SequentialBisection
from keyhole.oracles.noise import (
    CustomNoise,
    GaussianNoise,
    LaplaceNoise,
    OracleNoise,
    TriangularNoise,
    UniformNoise,
)
from keyhole.oracles.streams import Concentrated, Scaled, Spread
from keyhole.oracles.subspace import Subspace

NOISES: list[OracleNoise] = [
    UniformNoise(0.6),
    GaussianNoise(0.5),
    LaplaceNoise(0.4),
    TriangularNoise(0.9),
    CustomNoise(lambda x: (1 + math.tanh(2 * x)) / 2, scale=0.5),
]


class Twin:
    """SequentialBisection again, with exact tails, logarithms and no cleverness."""

    def __init__(self, space: Subspace, noise: OracleNoise, delta: float, keep: float) -> None:
        self.noise, self.delta, self.keep = noise, delta, keep
        self.x, self.y = space.initial_box()
        self.score, self.cuts = [0.0] * space.d, [0] * space.d

    def learn(self, z: np.ndarray, threshold: float, bit: int) -> None:
        d = len(z)
        sides = self.y - self.x
        j = int(np.argmax(np.abs(z) * sides))
        low = [(self.x[i], self.y[i]) for i in range(d)]
        high = list(low)
        share = (1 - self.keep) * sides[j]
        low[j], high[j] = (self.x[j], self.x[j] + share), (self.y[j] - share, self.y[j])
        if z[j] < 0:  # the end that makes q.w small is the upper one
            low[j], high[j] = high[j], low[j]
        most = max(float(z @ np.array(corner)) for corner in itertools.product(*low))
        least = min(float(z @ np.array(corner)) for corner in itertools.product(*high))
        if least <= most:
            return
        p0, p1 = 1 - self.noise.cdf(threshold - most), 1 - self.noise.cdf(threshold - least)
        if p1 <= p0:
            return
        if bit:
            gain = math.log(p1 / p0) if p0 > 0 else math.inf
        else:
            gain = math.log((1 - p1) / (1 - p0)) if p1 < 1 else -math.inf
        self.score[j] += gain if z[j] > 0 else -gain
        bar = math.log(d * (self.cuts[j] + 1) * (self.cuts[j] + 2) / self.delta)
        if abs(self.score[j]) < bar:
            return
        if self.score[j] > 0:
            self.x[j] = self.y[j] - self.keep * sides[j]
        else:
            self.y[j] = self.x[j] + self.keep * sides[j]
        self.score[j] = 0.0
        self.cuts[j] += 1


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: type(n).__name__)
def test_box_follows_its_twin(noise: OracleNoise) -> None:
    """Any norms, signs and imposed thresholds. Rounding outwards may delay a cut but never makes another one."""
    space = Subspace.blocks(6, 3)
    rng = np.random.default_rng(5)
    attack, twin = SequentialBisection(space, noise, delta=0.3, keep=0.8), Twin(space, noise, 0.3, 0.8)
    oracle = ThresholdOracle(rng.random(6), noise, rng=rng)
    exact = isinstance(noise, UniformNoise | TriangularNoise)
    for q in Scaled(Spread(space), -3.0, 3.0).block(1500, rng):
        threshold = attack.answer(q) + float(rng.normal(0, 0.1))
        bit = oracle.above(q, threshold)
        attack.learn(q, threshold, bit)
        if exact:
            twin.learn(space.coordinates(q), threshold, bit)
    assert attack.cuts > 10
    assert attack.holds(oracle.hidden)
    if exact:
        assert np.allclose(attack.box()[0], twin.x)
        assert np.allclose(attack.box()[1], twin.y)


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: type(n).__name__)
def test_evidence_is_never_more_than_exact_evidence(noise: OracleNoise) -> None:
    """One bit moves the odds towards, never beyond, the exact likelihood ratio."""
    space = Subspace(np.eye(1), np.zeros(1), np.ones(1))
    for gap_scale in (1.0, 0.1, 0.01):
        for bit in (0, 1):
            for shift in (-0.03, 0.0, 0.02):
                attack = SequentialBisection(space, noise, delta=1e-9, keep=0.9)
                attack.learn(np.array([gap_scale]), 0.5 * gap_scale + shift, bit)
                low, high = 0.1 * gap_scale, 0.9 * gap_scale
                p0 = 1 - noise.cdf(0.5 * gap_scale + shift - low)
                p1 = 1 - noise.cdf(0.5 * gap_scale + shift - high)
                exact = math.log(p1 / p0) if bit else math.log((1 - p1) / (1 - p0))
                got = math.log(float(attack._odds[0, 0] / attack._odds[0, 1]))
                assert abs(got) <= abs(exact) * (1 + 1e-9)
                assert abs(got) >= 0.9 * abs(exact) - 1e-3
                assert got == 0 or (got > 0) == (bit == 1)


def test_threshold_is_the_middle_of_the_range() -> None:
    """Known answer: box [0,1] x [2,4], z = (.6, -.8): range -3.2 to -1.0, threshold -2.1."""
    space = Subspace(np.eye(2), np.array([0.0, 2.0]), np.array([1.0, 4.0]))
    attack = SequentialBisection(space, UniformNoise(1.0), keep=0.9)
    z = np.array([0.6, -0.8])
    assert math.isclose(attack.answer(z), -2.1)
    corners = [float(z @ np.array(c)) for c in itertools.product((0, 1), (2, 4))]
    assert (min(corners), max(corners)) == pytest.approx((-3.2, -1.0))
    assert attack.threshold(z) == pytest.approx(-2.1)


@given(seed=st.integers(0, 10_000), keep=st.floats(0.55, 0.95))
@settings(max_examples=effort(60), deadline=None)
def test_a_query_is_asked_exactly_when_the_ends_are_apart(seed: int, keep: float) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    space = Subspace(np.eye(d), np.zeros(d), rng.uniform(0.1, 2, d))
    attack = SequentialBisection(space, UniformNoise(1.0), keep=keep)
    z = rng.standard_normal(d)
    sides = space.upper
    apart = False
    for j in range(d):
        rest = sum(abs(z[i]) * sides[i] for i in range(d) if i != j)
        gap = abs(z[j]) * sides[j] * (keep - 0.5) - 0.5 * rest
        if abs(gap) < 1e-12:
            return
        apart = apart or gap > 0
    assert (attack.threshold(z) is not None) == apart


def test_an_impossible_bit_is_doubted_at_once() -> None:
    space = Subspace(np.eye(1), np.zeros(1), np.ones(1))
    attack = SequentialBisection(space, UniformNoise(0.1))
    with pytest.warns(ModelWarning, match="do not trust"):
        attack.learn(np.array([1.0]), 5.0, 1)
    assert attack.doubt == math.inf


def test_newton_learns_from_thresholds_chosen_by_others() -> None:
    space, noise = Subspace.blocks(4, 2), GaussianNoise(0.5)
    rng = np.random.default_rng(3)
    oracle = ThresholdOracle(rng.random(4), noise, rng=rng)
    attack = OneBitNewton(space, noise)
    for q in Spread(space).block(4000, rng):
        threshold = 0.7 + float(rng.normal(0, 0.3))
        attack.learn(q, threshold, oracle.above(q, threshold))
    assert np.linalg.norm(space.coordinates(attack.estimate() - oracle.hidden)) < 0.08


def test_wrong_settings_are_refused() -> None:
    space = Subspace.blocks(4, 2)
    for delta in (0.0, 1.0, -1.0):
        with pytest.raises(ModelError, match="delta"):
            SequentialBisection(space, UniformNoise(1.0), delta=delta)
    for keep in (0.5, 1.0):
        with pytest.raises(ModelError, match="keep"):
            SequentialBisection(space, UniformNoise(1.0), keep=keep)


def test_noise_that_leans_to_one_side_is_no_trouble() -> None:
    """Exponential noise shifted so that Pr(noise > 0) = .37: not symmetric, median not 0."""
    noise = CustomNoise(lambda x: 1 - math.exp(-(x + 1)) if x > -1 else 0.0, scale=1.0)
    assert math.isclose(1 - noise.cdf(0.0), math.exp(-1))
    space, lost, errors = Subspace.blocks(4, 2), 0, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        w = rng.random(4)
        box = SequentialBisection(space, noise, delta=0.2)
        box.run(Concentrated(space).block(3000, rng), ThresholdOracle(w, noise, rng=rng))
        lost += not box.holds(w)
        newton = OneBitNewton(space, noise, delta=0.2)
        run = newton.run(Concentrated(space).block(10_000, rng), ThresholdOracle(w, noise, rng=rng))
        lost += not run.contained
        errors.append(run.average_error)
    assert lost <= 16
    floor = average_error_floor(one_bit_deviation(noise), math.sqrt(2), 10_000)
    assert np.mean(errors) <= 1.2 * floor
