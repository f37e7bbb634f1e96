"""Noise laws: cdf against samples, the compiled tails against the cdf, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.errors import ConfigError, ModelError
from keyhole.oracles.learners.newton import smoothed_density
from keyhole.oracles.noise import (
    CustomNoise,
    GaussianNoise,
    LaplaceNoise,
    OracleNoise,
    TriangularNoise,
    UniformNoise,
    noise_by_kind,
    parse_noise,
    tail,
)


def skew(x: float) -> float:
    """Two half-normals of different widths, median at 0 but not symmetric."""
    return 0.5 * math.erfc(-x / math.sqrt(2)) if x < 0 else 0.5 + 0.5 * math.erf(x / (3 * math.sqrt(2)))


LAWS: dict[str, OracleNoise] = {
    "uniform": UniformNoise(0.7),
    "gaussian": GaussianNoise(0.4),
    "laplace": LaplaceNoise(0.3),
    "triangular": TriangularNoise(1.1),
    "custom": CustomNoise(lambda x: (1 + math.tanh(x)) / 2, scale=1.0),
    "skew": CustomNoise(skew, scale=2.0),
}


@pytest.mark.parametrize("name", LAWS)
def test_samples_follow_the_cdf(name: str) -> None:
    noise = LAWS[name]
    draws = np.sort(noise.sample(np.random.default_rng(0), 40_000))
    gap = np.max(np.abs(np.array([noise.cdf(float(x)) for x in draws]) - (np.arange(40_000) + 0.5) / 40_000))
    assert gap < 1.63 / math.sqrt(40_000)  # Kolmogorov-Smirnov, 1 %
    assert abs(draws.std() / noise.std - 1) < 0.03


@pytest.mark.parametrize("name", LAWS)
def test_density_at_zero_is_the_slope_of_the_cdf(name: str) -> None:
    noise = LAWS[name]
    h = 1e-5 * noise.std
    assert math.isclose((noise.cdf(h) - noise.cdf(-h)) / (2 * h), noise.density_at_zero, rel_tol=1e-3)


@pytest.mark.parametrize("name", LAWS)
@given(x=st.floats(-5, 5) | st.floats(-0.05, 0.05))
@settings(max_examples=effort(60), deadline=None)
def test_compiled_tail_brackets_the_true_one(name: str, x: float) -> None:
    noise = LAWS[name]
    lower, upper = tail(noise.law, noise.knots, noise.tails, x)
    true = 1 - noise.cdf(x)
    assert lower - 1e-12 <= true <= upper + 1e-12
    assert upper - lower <= 0.05 * min(1.0, abs(x) * noise.density_at_zero * 2) + 1e-7


def test_noise_kinds_share_their_deviation() -> None:
    for kind in ("uniform", "gaussian", "laplace", "triangular"):
        assert math.isclose(noise_by_kind(kind, 0.25, 4).std, 1 / math.sqrt(3))
    assert parse_noise("uniform:0.25", 4) == UniformNoise(1.0)


@pytest.mark.parametrize("text", ["uniform", "uniform:", "uniform:-1", "uniform:nan", "cauchy:1", ":1"])
def test_bad_noise_text_is_explained(text: str) -> None:
    with pytest.raises(ConfigError, match="uniform"):
        parse_noise(text, 4)


def test_noise_outside_the_model_is_refused() -> None:
    with pytest.raises(ModelError, match="no density at 0"):
        UniformNoise(0.0)
    with pytest.raises(ModelError, match="no density at 0"):  # two bumps, nothing between
        CustomNoise(lambda x: 0.0 if x < -1 else 0.5 if x < 1 else 1.0, scale=1.0)
    with pytest.raises(ModelError, match="point mass at 0"):
        CustomNoise(lambda x: 0.25 * (1 + math.tanh(x)) + (0.5 if x >= 0 else 0.0), scale=1.0)
    with pytest.raises(ModelError, match="rise"):
        CustomNoise(lambda x: (1 - math.tanh(x)) / 2, scale=1.0)
    with pytest.raises(ModelError, match="too small"):
        CustomNoise(lambda x: (1 + math.tanh(x / 1e6)) / 2, scale=1.0)


def test_smoothed_density_matches_the_closed_form() -> None:
    noise = GaussianNoise(2.0)
    grid, table = smoothed_density(noise)
    for k in range(0, len(table), 7):
        s2 = math.exp(grid[0] + k * grid[1])
        assert math.isclose(table[k, 0], 1 / math.sqrt(2 * math.pi * (4 + s2)), rel_tol=6e-3)
        assert math.isclose(table[k, 1], 0.5, abs_tol=1e-9)
