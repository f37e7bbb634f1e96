"""Uniform noise whose edge is known only to lie in an interval."""

from __future__ import annotations

from dataclasses import dataclass

from keyhole.errors import ModelError
from keyhole.oracles.certify.tails import BETWEEN, Floats
from keyhole.oracles.noise import EvenNoise, pack, positive


@dataclass(frozen=True, slots=True)
class UniformBetween(EvenNoise):
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
    def edge(self) -> float:
        return self.high

    @property
    def law(self) -> Floats:
        return pack(BETWEEN, self.high, 0.5, 0.5 / self.low, self.low, 0.0)
