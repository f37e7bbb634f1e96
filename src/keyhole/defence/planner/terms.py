"""What the planner is told before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

HORIZON = 100  # questions that are expected where nothing is said
SPEND = Fraction(1, 10)  # of what is left, on one file


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """`accuracy` is a share of n (people, under add-remove) for numbers scaled to [0, 1]; None means: share out what
    is left over `horizon` questions, or `spend` of it over the statements of a file. `anyway` sells answers that say
    next to nothing. `delta` is at which a budget in rho is also told as an epsilon.
    """

    beta: float = 0.05
    accuracy: float | None = None
    horizon: int = HORIZON
    spend: Fraction = SPEND
    anyway: bool = False
    delta: Fraction = Fraction(0)
    delta_for_keys: Fraction = Fraction(0)
