"""What every private answer carries, and what every mechanism promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from keyhole.defend.linear import LinearQuery
from keyhole.defend.loss import Loss, Neighbours

NoiseName = Literal["discrete-laplace", "discrete-gaussian"]
DISCRETE_LAPLACE: NoiseName = "discrete-laplace"
DISCRETE_GAUSSIAN: NoiseName = "discrete-gaussian"


@dataclass(frozen=True, slots=True)
class Release:
    """One noisy number with its error bar, its price and its story.

    With probability 1 - `beta` (for this answer alone, unless `how` says more) the truth lies within `alpha` of
    `value`; both are in people, or in the weighted sum that was asked for. `cost` is the charge of the whole joint
    release, `left` what the budget then had left, `law` and `scale` the noise (None: an answer made from a hypothesis).
    """

    value: Fraction
    alpha: Fraction
    beta: float
    cost: Loss
    left: Fraction
    neighbours: Neighbours
    how: str
    scale: Fraction | None = None
    law: NoiseName | None = None


class Mechanism(Protocol):
    """A question in, a noisy answer out, at a price known before the data is touched.

    The price depends on the questions alone. `release` charges first, then reads the data once; if the charge is
    refused, nothing happened.
    """

    def cost(self, queries: Sequence[LinearQuery]) -> Loss:
        """The price of answering these questions together; spends nothing."""

    def release(self, queries: Sequence[LinearQuery]) -> list[Release]:
        """Charge, then answer all of them jointly."""
