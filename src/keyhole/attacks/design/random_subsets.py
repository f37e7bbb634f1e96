"""Random subsets: what Dinur and Nissim ask, where the questions cannot be designed more cleverly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, log2
from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Target
from keyhole.attacks.design.base import Number, Queries, Secrets, check_records
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.model.prior import Prior

BIT = Prior(Decimal(0), Decimal(1))


@dataclass(frozen=True, slots=True)
class RandomSubsets:
    """n bits from m random subsets (default 2 n log2 n), decoded by the L1 fit in [0, 1] and rounded.

    With errors of o(sqrt n) in every answer O(n log^2 n) of them give all but o(n) bits; without noise about 0.6 n are
    enough (measured). A constant share of the answers may be arbitrarily wrong. Reference: dinur2003, dwork2007.

    >>> d = RandomSubsets(10, 60)
    >>> bits = [1, 0, 0, 1, 1, 0, 1, 0, 1, 1]
    >>> noise = np.random.default_rng(5).uniform(-0.5, 0.5, 60)
    >>> [int(b) for b in d.decode((d.queries @ bits + noise).tolist()).values()] == bits
    True
    """

    n: int
    m: int = 0
    seed: int = 0
    needs: ClassVar[Secrets] = Secrets.BITS

    def __post_init__(self) -> None:
        check_records(self.n)

    @property
    def queries(self) -> Queries:
        """Each record in each subset with probability 1/2, as `seed` draws."""
        m = self.m or max(self.n, ceil(2 * self.n * log2(max(2, self.n))))
        return np.random.default_rng(self.seed).integers(0, 2, (m, self.n))

    @property
    def exposes(self) -> tuple[int, ...]:
        """Everybody; with noise, nearly."""
        return tuple(range(self.n))

    def decode(self, answers: Sequence[Number]) -> Mapping[int, float]:
        """The nearest bits to the L1 fit."""
        evidence = from_arrays(self.queries, [float(a) for a in answers], prior=BIT)
        attack = L1(Target.of(evidence))
        attack.observe(evidence)
        return dict(enumerate((attack.estimate().values > 0.5).astype(float).tolist()))
