"""Oracles whose output is a known increasing function of the answer: same attack, threshold sent through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracles.base import ThresholdOracle, YesNoOracle
from keyhole.oracles.certify.tails import Floats
from keyhole.oracles.noise import OracleNoise


class MonotoneOracle:
    """A database that compares output(w.q + noise) with a threshold, seen by an attack as the linear one.

    For an increasing output, output(a) > output(t) is a > t: the attack asks with output(t) and nothing is lost.

    >>> import math
    >>> from keyhole.oracles.noise import UniformNoise
    >>> inner = ThresholdOracle(np.array([0.2, 0.9]), UniformNoise(0.1), rng=np.random.default_rng(1))
    >>> oracle = MonotoneOracle(lambda q, t: int(math.exp(inner.noisy(q)) > t), math.exp)
    >>> oracle.above(np.array([1.0, 1.0]), 0.5), oracle.asked
    (1, 1)
    """

    def __init__(self, above: Callable[[Floats, float], int], output: Callable[[float], float]) -> None:
        self._above, self._output = above, output
        self.asked = 0

    def above(self, q: Floats, threshold: float) -> int:
        """Ask whether the output is above output(threshold)."""
        self.asked += 1
        return self._above(q, self._output(threshold))


class NoisyOutputOracle:
    """A simulated database that compares output(w.q) + noise with output(threshold): noise after the output.

    Attack it with `SteepNoise(noise, least, most)`, the slopes of `output` over the possible answers.
    """

    def __init__(
        self, hidden: Floats, output: Callable[[float], float], noise: OracleNoise, *, rng: np.random.Generator
    ) -> None:
        self._inner = ThresholdOracle(np.zeros_like(hidden), noise, rng=rng)
        self._hidden, self._output = hidden, output

    @property
    def asked(self) -> int:
        return self._inner.asked

    @asked.setter
    def asked(self, value: int) -> None:
        self._inner.asked = value

    def above(self, q: Floats, threshold: float) -> int:
        """1 if output(hidden.q) + noise > output(threshold)."""
        return int(self._output(float(self._hidden @ q)) + self._inner.noisy(q) > self._output(threshold))


@dataclass(frozen=True, slots=True)
class SteepNoise:
    """The noise as the linear attack should see it when it is added after an output with slopes in [least, most].

    |output(a) - output(t)| >= least |a - t|, so at a central threshold the bits say at least what bits with the
    noise / least would say: SequentialBisection's certificate stays true with that law. The test of the model
    allows the steeper slope too. This holds for thresholds between the two ends of the side that is tested: others are
    a ModelError in SequentialBisection.learn, and OneBitNewton's box does not learn from its own that lie further off.

    >>> from keyhole.oracles.noise import UniformNoise
    >>> SteepNoise(UniformNoise(1.0), 0.5, 1.0).std == UniformNoise(2.0).std
    True
    """

    noise: OracleNoise
    least: float
    most: float

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ModelError(f"slopes need 0 < least <= most, got {self.least!r} and {self.most!r}")

    @property
    def std(self) -> float:
        return self.noise.std / self.least

    @property
    def density_at_zero(self) -> float:
        return self.noise.density_at_zero * self.least

    @property
    def edge(self) -> float | None:
        return None

    @property
    def fisher(self) -> float | None:
        return None

    @property
    def law(self) -> Floats:
        kind, scale, tail0, rho_max, rho_near, near, stretch = self.noise.law
        s = self.least
        steep = stretch * self.most / s
        return np.array([kind, scale / s, tail0, rho_max * s, rho_near * s, near / s, steep])

    @property
    def knots(self) -> Floats:
        return self.noise.knots / self.least

    @property
    def tails(self) -> Floats:
        return self.noise.tails

    def cdf(self, x: float) -> float:
        return self.noise.cdf(x * self.least)

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        return self.noise.sample(rng, n) / self.least


def through(oracle: YesNoOracle, output: Callable[[float], float]) -> MonotoneOracle:
    """Adapter for an existing oracle whose thresholds live on the output's scale."""
    return MonotoneOracle(oracle.above, output)
