"""The perceptron: the hypothesis is any vector over the cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.kernels import dot_floats
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.theorems import perceptron_limit
from keyhole.errors import PrivacyParameterError


@dataclass(frozen=True, slots=True)
class Perceptron:
    """x <- x - (alpha/|X|) f if the hypothesis is too high, x + (alpha/|X|) f if too low; starts at zero.

    In shares of n, so that the algorithm's alpha ||x||_1 step on counts reads alpha here. Guarantee: at most T(alpha)
    = |X| / alpha^2 updates on any update sequence at alpha, with the public ||x||_2 <= ||x||_1 (Dwork and Roth 2014,
    section 5.2). Cost: one pass over the cells, in place.

    >>> p = Perceptron(cells=4, alpha=0.5)
    >>> p.update(p.start(), LinearQuery.of([1, 0, 0, 1]), 1.0).tolist()
    [0.125, 0.0, 0.0, 0.125]
    """

    cells: int
    alpha: float

    name = "perceptron"

    def __post_init__(self) -> None:
        if self.cells < 1 or not 0 < self.alpha <= 1:
            raise PrivacyParameterError(
                f"the perceptron needs cells >= 1 and 0 < alpha <= 1, not {self.cells} and {self.alpha}"
            )

    def start(self) -> NDArray[np.float64]:
        """Nobody anywhere."""
        return np.zeros(self.cells)

    def value(self, state: NDArray[np.float64], query: LinearQuery) -> float:
        """<f, x>."""
        return dot_floats(state, query.weights) / query.unit

    def update(self, state: NDArray[np.float64], query: LinearQuery, answer: float) -> NDArray[np.float64]:
        """One pass; the given state is changed in place."""
        step = self.alpha / (self.cells * query.unit)
        state += query.weights * (-step if self.value(state, query) > answer else step)
        return state

    def limit(self, alpha: float) -> float:
        """|X| / alpha^2."""
        return perceptron_limit(self.cells, alpha)

    def pack(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vector itself."""
        return state

    def unpack(self, array: NDArray[Any]) -> NDArray[np.float64]:
        """The vector itself."""
        return np.array(array, dtype=np.float64)
