"""The one door to randomness: exact discrete noise from OS entropy, drawn by OpenDP's proved samplers.

Floating-point noise leaks through the gaps between doubles (Mironov 2012), so nothing here returns a float:
every noisy quantity is an integer on a public grid, and every scale is rounded up, never down.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Protocol

from keyhole.errors import PrivacyParameterError

LARGEST_SCALE = Fraction(2**55)  # 120 scales from the edge of 64 bits: saturation has probability exp(-120)


class NoiseSource(Protocol):
    """Where a mechanism gets its randomness."""

    def laplace(self, scale: Fraction) -> int:
        """An integer z with probability proportional to exp(-|z| / scale)."""

    def gaussian(self, variance: Fraction) -> int:
        """An integer z with probability proportional to exp(-z^2 / (2 variance))."""

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        """An index i with probability proportional to exp(scores[i] / scale): the exponential mechanism."""


def float_above(number: Fraction) -> float:
    """The smallest double that is not below `number`.

    >>> Fraction(float_above(Fraction(1, 10))) >= Fraction(1, 10) > Fraction(math.nextafter(0.1, 0))
    True
    """
    value = float(number)
    return value if Fraction(value) >= number else math.nextafter(value, math.inf)


def root_above(number: Fraction) -> float:
    """A double whose exact square is not below `number`, and at most two steps above the root.

    >>> Fraction(root_above(Fraction(2))) ** 2 >= 2
    True
    """
    value = math.sqrt(number)
    while Fraction(value) ** 2 < number:
        value = math.nextafter(value, math.inf)
    return value


def check_scale(scale: Fraction) -> Fraction:
    """A scale that can be drawn from; mechanisms ask before they charge.

    >>> check_scale(Fraction(9, 2))
    Fraction(9, 2)
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise PrivacyParameterError(
            f"a noise scale of {float(scale):.3g} grid steps is outside (0, 2^55]: "
            "use a coarser grid or a larger epsilon"
        )
    return scale


@cache
def _opendp() -> Any:
    """The parts of OpenDP that are used; its prelude would load scikit-learn too, which takes seconds."""
    from opendp import domains, measurements, measures, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return SimpleNamespace(
        m=measurements,
        vector_domain=domains.vector_domain,
        atom_domain=domains.atom_domain,
        l1_distance=metrics.l1_distance,
        l2_distance=metrics.l2_distance,
        linf_distance=metrics.linf_distance,
        zero_concentrated_divergence=measures.zero_concentrated_divergence,
    )


@lru_cache(maxsize=16)
def _noisy_max(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    # This measure selects Gumbel noise, whose argmax is the exponential mechanism itself.
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)


class ExactNoise:
    """OpenDP's samplers behind the three verbs, with draws made in blocks (10 times faster than one by one).

    A block belongs to one scale; each draw is handed out once. A forked child starts with empty blocks, so
    that parent and child never share noise. Threads may share one object. The samplers are those of Canonne,
    Kamath and Steinke (2020) and the exponential mechanism by exact Gumbel comparisons.

    >>> noise = ExactNoise()
    >>> isinstance(noise.laplace(Fraction(9, 2)), int)
    True
    """

    BLOCK = 256
    SCALES = 64

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[str, float], tuple[Callable[[list[int]], list[int]], list[int]]]
        self._blocks = OrderedDict()
        self._wanted: dict[tuple[str, float], int] = {}
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._blocks = OrderedDict()
        self._wanted = {}

    def laplace(self, scale: Fraction) -> int:
        """Discrete Laplace noise; an integer sensitivity s then costs epsilon = s / scale."""
        return self._draw("laplace", float_above(check_scale(scale)))

    def gaussian(self, variance: Fraction) -> int:
        """Discrete Gaussian noise; a sensitivity s then costs rho = s^2 / (2 variance)."""
        root = root_above(variance)
        check_scale(Fraction(root))
        return self._draw("gaussian", root)

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        """The exponential mechanism; scores of sensitivity s then cost epsilon = 2 s / scale."""
        return int(_noisy_max(float_above(check_scale(scale)))(list(scores)))

    def _draw(self, kind: str, scale: float) -> int:
        key = (kind, scale)
        with self._lock:
            if key not in self._blocks:
                self._blocks[key] = (self._sampler(kind, scale), [])
                self._wanted[key] = 1
                if len(self._blocks) > self.SCALES:
                    old, _ = self._blocks.popitem(last=False)
                    del self._wanted[old]
            sampler, block = self._blocks[key]
            if not block:
                # Blocks double: a scale that is used once is not worth 256 draws.
                block.extend(sampler([0] * self._wanted[key]))
                self._wanted[key] = min(self.BLOCK, 2 * self._wanted[key])
            return block.pop()

    @staticmethod
    def _sampler(kind: str, scale: float) -> Callable[[list[int]], list[int]]:
        dp = _opendp()
        vector = dp.vector_domain(dp.atom_domain(T="i64"))
        if kind == "laplace":
            sampler = dp.m.make_laplace(vector, dp.l1_distance(T="i64"), scale=scale)
        else:
            sampler = dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=scale)
        return lambda zeros: [int(z) for z in sampler(zeros)]


@cache
def exact_noise() -> NoiseSource:
    """The door everybody goes through: one `ExactNoise` for the process. Refuses at once where OpenDP is missing."""
    _opendp()
    return ExactNoise()
