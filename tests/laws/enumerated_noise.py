"""Every way that a mechanism's noise can fall, with its probability: the exact law of what it shows, by running it.

No formula of the mechanism is written twice: the implementation itself is played once for each way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from tests.laws.exact_laws import gaussian_mass, laplace_mass

from keyhole.defence.budget.budget import Budget
from keyhole.defence.histogram import Histogram
from keyhole.defence.noise import NoiseSource

Play = Callable[[Histogram, Budget, NoiseSource], Hashable]
Ways = list[tuple[int, float]]
LEAST = 1e-9  # of one draw


class Branch(Exception):
    """A draw that the script does not have: the run is played again for each of its ways."""

    def __init__(self, ways: Ways) -> None:
        super().__init__()
        self.ways = ways


@dataclass(slots=True)
class ScriptedNoise:
    """Hands out the draws of a script, and branches when it ends. `factor` is what a liar multiplies scales by."""

    script: Sequence[int]
    factor: float = 1.0
    used: int = 0

    def laplace(self, scale: Fraction) -> int:
        """The next draw, or all of them."""
        return self._next(lambda: _listed(*laplace_mass(float(scale) * self.factor)))

    def gaussian(self, variance: Fraction) -> int:
        """The next draw, or all of them."""
        return self._next(lambda: _listed(*gaussian_mass(float(variance) * self.factor**2)))

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        """The next choice, or all of them."""

        def ways() -> Ways:
            odds = np.array(scores, dtype=np.float64) / (float(scale) * self.factor)
            masses = np.exp(odds - odds.max())
            return _listed(np.arange(len(scores), dtype=np.int64), masses / masses.sum())

        return self._next(ways)

    def _next(self, ways: Callable[[], Ways]) -> int:
        if self.used == len(self.script):
            raise Branch(ways())
        self.used += 1
        return self.script[self.used - 1]


def _listed(points: NDArray[np.int64], masses: NDArray[np.float64]) -> Ways:
    return [(int(p), float(m)) for p, m in zip(points, masses, strict=True) if m > LEAST]


@dataclass(slots=True)
class EnumeratedLaw:
    """The probability of each outcome; `lost` is that of all ways that were too unlikely to play."""

    chances: dict[Hashable, float] = field(default_factory=dict)
    lost: float = 0.0

    def excess(self, other: EnumeratedLaw, epsilon: float) -> float:
        """The delta at which two laws are told apart beyond epsilon, at least: sum of max(0, P - e^epsilon P'), less
        what the ways that were not played could take of it (`slack`).
        """
        seen = ((p, other.chances.get(o, 0.0)) for o, p in self.chances.items())
        return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in seen) - other.slack(epsilon)

    def slack(self, epsilon: float) -> float:
        """What the ways that were not played could add, at most."""
        return math.exp(epsilon) * self.lost


def enumerated(
    play: Play, histogram: Histogram, purse: Callable[[], Budget], *, factor: float = 1.0, least: float = 1e-7
) -> EnumeratedLaw:
    """Play every way whose probability is at least `least`. Cost: one run for each draw of each way."""
    law = EnumeratedLaw()
    waiting: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while waiting:
        script, chance = waiting.pop()
        try:
            outcome = play(histogram, purse(), ScriptedNoise(script, factor))
        except Branch as branch:
            kept = [(point, chance * mass) for point, mass in branch.ways if chance * mass >= least]
            law.lost += chance - sum(p for _, p in kept)
            waiting += [((*script, point), p) for point, p in kept]
            continue
        law.chances[outcome] = law.chances.get(outcome, 0.0) + chance
    return law
