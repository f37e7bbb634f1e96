"""The seeded twin of the noise door, for checks and simulations only: fast, repeatable, and not private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

WIDE = 10**6  # variance beyond which the discrete Gaussian is drawn as a rounded normal


class SeededNoise:
    """Draws from the same laws as `keyhole.defence.noise.ExactNoise`, from a seeded generator, in blocks.

    Not for releases: the laws are evaluated in floating point and the seed repeats them.

    >>> one, two = (SeededNoise(np.random.default_rng(1)) for _ in range(2))
    >>> [one.laplace(Fraction(3)) for _ in range(9)] == [two.laplace(Fraction(3)) for _ in range(9)]
    True
    """

    BLOCK = 4096

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._blocks: dict[tuple[str, Fraction], list[int]] = {}

    def laplace(self, scale: Fraction) -> int:
        """The difference of two geometric variables."""
        block = self._blocks.setdefault(("laplace", scale), [])
        if not block:
            p = -math.expm1(-1 / float(scale))
            block.extend((self._rng.geometric(p, self.BLOCK) - self._rng.geometric(p, self.BLOCK)).tolist())
        return block.pop()

    def gaussian(self, variance: Fraction) -> int:
        """By the inverse of the distribution function, tabulated to ten deviations; a wide law is a rounded normal one,
        from which it differs by less than a double can tell.
        """
        block = self._blocks.setdefault(("gaussian", variance), [])
        if not block and variance > WIDE:
            block.extend(np.rint(self._rng.normal(0, math.sqrt(variance), 64)).astype(np.int64).tolist())
        if not block:
            reach = math.ceil(10 * math.sqrt(variance)) + 1
            points = np.arange(-reach, reach + 1)
            masses = np.exp(-(points**2) / (2 * float(variance)))
            upto = np.cumsum(masses / masses.sum())
            block.extend(points[np.searchsorted(upto, self._rng.random(self.BLOCK))].tolist())
        return block.pop()

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        """The largest score after Gumbel noise."""
        return int(np.argmax(np.asarray(scores) / float(scale) + self._rng.gumbel(size=len(scores))))


class ScaledNoise:
    """A door whose every scale is off by a factor: the liar that the noise laws must catch."""

    def __init__(self, inner: SeededNoise, factor: Fraction) -> None:
        self._inner, self._factor = inner, factor

    def laplace(self, scale: Fraction) -> int:
        """Laplace noise of the wrong scale."""
        return self._inner.laplace(scale * self._factor)

    def gaussian(self, variance: Fraction) -> int:
        """Gaussian noise of the wrong deviation."""
        return self._inner.gaussian(variance * self._factor**2)

    def choose(self, scores: Sequence[int], scale: Fraction) -> int:
        """A choice at the wrong scale."""
        return self._inner.choose(scores, scale * self._factor)
