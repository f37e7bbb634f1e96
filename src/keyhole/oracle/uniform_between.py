"""Uniform noise whose edge is known only to lie in an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keyhole.errors import ModelError
from keyhole.oracle.noise import NO_TABLE, UniformNoise, pack, positive
from keyhole.oracle.tails import BETWEEN, Floats


@dataclass(frozen=True, slots=True)
class UniformBetween:
    """Uniform on [-a, a], with a known only to lie between `low` and `high`: tests use whichever makes them safe.

    `std`, `density_at_zero`, `cdf` and draws are those of the wider law.

    >>> UniformBetween(0.99, 1.01).edge
    1.01
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        positive("the least half-width", self.low)
        positive("the largest half-width", self.high)
        if self.low > self.high:
            raise ModelError(f"the half-width lies between low <= high, got {self.low!r} and {self.high!r}")

    @property
    def std(self) -> float:
        return self.high / math.sqrt(3)

    @property
    def density_at_zero(self) -> float:
        return 0.5 / self.high

    @property
    def edge(self) -> float | None:
        return self.high

    @property
    def fisher(self) -> float | None:
        return None

    @property
    def law(self) -> Floats:
        return pack(BETWEEN, self.high, 0.5, 0.5 / self.low, self.low, 0.0)

    @property
    def knots(self) -> Floats:
        return NO_TABLE

    @property
    def tails(self) -> Floats:
        return NO_TABLE

    def cdf(self, x: float) -> float:
        return min(1.0, max(0.0, 0.5 + 0.5 * x / self.high))

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        return UniformNoise(self.high).sample(rng, n)
