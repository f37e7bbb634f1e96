"""Compressed sensing: few records differ from 0, so few random sums show which and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import ClassVar

import numpy as np

from keyhole.attacks.base import Target
from keyhole.attacks.design.base import Number, Queries, Secrets, check_records
from keyhole.attacks.methods.sparse import BasisPursuit
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.errors import ModelError


@dataclass(frozen=True, slots=True)
class CompressedSensing:
    """n values of which at most `sparsity` are not 0, from m = 2 s ln(n/s) + 4 random subsets, by basis pursuit.

    Exact recovery with high probability over the subsets (which `seed` draws), not for certain: n = 64, s = 4 needs
    about 20. The factor 2 is measured, not proved. Decoded in floats. Reference: chen1998, candes2006.

    >>> d = CompressedSensing(64, 4)
    >>> x = np.zeros(64)
    >>> x[[3, 17, 40, 41]] = 2.5, -1.0, 4.0, 1.0
    >>> found = d.decode((d.queries @ x).tolist())
    >>> len(d.queries), bool(max(abs(found[i] - x[i]) for i in range(64)) < 1e-6)
    (27, True)
    """

    n: int
    sparsity: int
    seed: int = 0
    needs: ClassVar[Secrets] = Secrets.SPARSE

    def __post_init__(self) -> None:
        check_records(self.n, 2)
        if not 1 <= self.sparsity < self.n:
            raise ModelError(f"{self.sparsity} of {self.n} values: a sparse secret has between 1 and {self.n - 1}")

    @property
    def queries(self) -> Queries:
        """Random halves; never more than n."""
        m = min(self.n, ceil(2 * self.sparsity * log(self.n / self.sparsity)) + 4)
        return np.random.default_rng(self.seed).integers(0, 2, (m, self.n))

    @property
    def exposes(self) -> tuple[int, ...]:
        """Everybody, with high probability."""
        return tuple(range(self.n))

    def decode(self, answers: Sequence[Number]) -> Mapping[int, float]:
        """The values of least absolute sum that give the answers."""
        evidence = from_arrays(self.queries, [float(a) for a in answers])
        attack = BasisPursuit(Target.of(evidence))
        attack.observe(evidence)
        return dict(enumerate(attack.estimate().values.tolist()))
