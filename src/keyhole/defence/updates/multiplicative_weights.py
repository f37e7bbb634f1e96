"""Multiplicative weights: the hypothesis is a distribution over the cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.kernels import FLOOR, dot_floats, scale_by_bit, scale_by_table
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.theorems import multiplicative_weights_limit
from keyhole.errors import PrivacyParameterError

LARGEST_TABLE = 2**16
COMFORT = 1e15  # the total stays within 1/COMFORT..COMFORT: a floored cell over it is still a normal double


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """A distribution that is normalised lazily: cell i has mass cells[i] / total."""

    cells: NDArray[np.float64]
    total: float

    def distribution(self) -> NDArray[np.float64]:
        """The masses, adding up to one."""
        return self.cells / self.total


@dataclass(frozen=True, slots=True)
class MultiplicativeWeights:
    """x_i <- x_i exp(-eta r_i), normalised; r = f if the hypothesis is too high, else 1 - f; eta = alpha/2.

    Guarantee: at most T(alpha) = 4 ln|X| / alpha^2 updates on any update sequence at alpha (Hardt and Rothblum 2010;
    Dwork and Roth 2014, section 4.2). Cost: one pass over the cells, in place: 1 - f and f differ by a factor that
    normalising removes, so a 0/1 query scales its own cells only, and a weighted one looks its factors up in a table.

    >>> mw = MultiplicativeWeights(cells=4, alpha=0.2)
    >>> f = LinearQuery.of([1, 0, 0, 1])
    >>> mw.update(mw.start(), f, 0.2).distribution().round(8).tolist()
    [0.23751041, 0.26248959, 0.26248959, 0.23751041]
    >>> mw.update(mw.start(), f, 0.9).distribution().round(8).tolist()
    [0.26248959, 0.23751041, 0.23751041, 0.26248959]
    """

    cells: int
    alpha: float

    name = "multiplicative-weights"

    def __post_init__(self) -> None:
        if self.cells < 1 or not 0 < self.alpha <= 1:
            raise PrivacyParameterError(
                f"multiplicative weights needs cells >= 1 and 0 < alpha <= 1, not {self.cells} and {self.alpha}"
            )

    def start(self) -> Weighted:
        """The uniform distribution."""
        return Weighted(np.ones(self.cells), float(self.cells))

    def value(self, state: Weighted, query: LinearQuery) -> float:
        """<f, x>."""
        return dot_floats(state.cells, query.weights) / (query.unit * state.total)

    def update(self, state: Weighted, query: LinearQuery, answer: float) -> Weighted:
        """One pass; the given state's array is scaled in place."""
        eta = self.alpha / 2
        rate = -eta if answer < self.value(state, query) else eta
        cells = state.cells
        if query.counting:
            total = scale_by_bit(cells, query.weights, math.exp(rate))
        elif query.unit <= LARGEST_TABLE:
            table = np.exp(np.arange(query.unit + 1) * (rate / query.unit))
            total = scale_by_table(cells, query.weights, table)
        else:
            np.multiply(cells, np.exp(query.weights * (rate / query.unit)), out=cells)
            total = float(np.maximum(cells, FLOOR, out=cells).sum())
        if not 1 / COMFORT < total < COMFORT:
            cells /= total
            total = float(np.maximum(cells, FLOOR, out=cells).sum())
        return Weighted(cells, total)

    def limit(self, alpha: float) -> float:
        """4 ln|X| / alpha^2."""
        return multiplicative_weights_limit(self.cells, alpha)

    def pack(self, state: Weighted) -> NDArray[np.float64]:
        """The masses."""
        return state.distribution()

    def unpack(self, array: NDArray[Any]) -> Weighted:
        """From masses; scaled so that the smallest cells stay far from zero."""
        cells = np.array(array, dtype=np.float64) * self.cells
        return Weighted(cells, float(cells.sum()))
