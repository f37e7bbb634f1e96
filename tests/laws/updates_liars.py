"""Planted bad updates: each must be caught by the law it is listed under, in some world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.linear import LinearQuery
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights, Weighted
from keyhole.defence.updates.perceptron import Perceptron


@dataclass(frozen=True, slots=True)
class Timid(MultiplicativeWeights):
    """Learns at a fiftieth of the rate."""

    name = "timid"

    def update(self, state: Weighted, query: LinearQuery, answer: float) -> Weighted:
        """A step that is too small."""
        return MultiplicativeWeights(self.cells, self.alpha / 50).update(state, query, answer)


@dataclass(frozen=True, slots=True)
class Contrary(Perceptron):
    """Steps away from the answer."""

    name = "contrary"

    def update(self, state: NDArray[np.float64], query: LinearQuery, answer: float) -> NDArray[np.float64]:
        """The step of the opposite answer."""
        return Perceptron.update(self, state, query, 2 * self.value(state, query) - answer)


@dataclass(frozen=True, slots=True)
class ForgetsTheLedger(MultiplicativeWeights):
    """Comes back from the ledger as if nothing had been learned."""

    name = "forgetful"

    def unpack(self, array: NDArray[Any]) -> Weighted:
        """The uniform distribution, whatever was packed."""
        return self.start()
