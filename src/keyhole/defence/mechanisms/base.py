"""What every private answer carries, and what every mechanism promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.linear import LinearQuery

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


def half_of_everybody(n: int | None, *, anyway: bool) -> Fraction | None:
    """The widest error bar, in people, that is sold without being asked to; None: any.

    A linear query over n people lies between 0 and n whatever the data are, so a wider bar says next to nothing; a sum
    or an average is such a query times the declared range. Where n is a secret (add-remove neighbours, several rows a
    person) no range is known. Every mechanism is held against this, before it charges.

    >>> half_of_everybody(60, anyway=False), half_of_everybody(60, anyway=True)
    (Fraction(30, 1), None)
    """
    return None if n is None or anyway else Fraction(n, 2)


class Mechanism(Protocol):
    """A question in, a noisy answer out, at a price known before the data is touched.

    The price depends on the questions alone. `release` charges first, then reads the data once; if the charge is
    refused, nothing happened.
    """

    def cost(self, queries: Sequence[LinearQuery]) -> Loss:
        """The price of answering these questions together; spends nothing."""

    def release(self, queries: Sequence[LinearQuery]) -> list[Release]:
        """Charge, then answer all of them jointly."""
