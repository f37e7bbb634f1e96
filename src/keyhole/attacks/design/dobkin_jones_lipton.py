"""Dobkin, Jones and Lipton: one value although every group has k people and any two groups share at most one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from keyhole.attacks.design.base import Number, Queries, Secrets, as_fractions, check_records


@dataclass(frozen=True, slots=True)
class DobkinJonesLipton:
    """x_0 from 2k - 1 groups of size k, any two with at most one record in common, over n = 1 + k (k-1) records.

    R_i = {0, g_i1 .. g_i,k-1} (i = 1..k), C_j = {g_1j .. g_kj} (j < k): every g is in one R and one C, so x_0 = (sum of
    R - sum of C) / k. Fewest for this size and overlap: (2k - (l+1)) / r queries are needed with overlap r and l values
    known. Reference: dobkin1979.

    >>> d = DobkinJonesLipton(3)
    >>> len(d.queries), d.n, d.decode(d.queries @ [5, 1, 2, 3, 4, 6, 7])
    (5, 7, {0: Fraction(5, 1)})
    """

    k: int
    needs: ClassVar[Secrets] = Secrets.REALS

    def __post_init__(self) -> None:
        check_records(self.k, 2)

    @property
    def n(self) -> int:
        """How many records it needs."""
        return 1 + self.k * (self.k - 1)

    @property
    def queries(self) -> Queries:
        """R_1 .. R_k, then C_1 .. C_(k-1)."""
        k = self.k
        grid = 1 + np.arange(k * (k - 1)).reshape(k, k - 1)
        A = np.zeros((2 * k - 1, self.n), dtype=np.int64)
        A[:k, 0] = 1
        for i in range(k):
            A[i, grid[i]] = 1
        for j in range(k - 1):
            A[k + j, grid[:, j]] = 1
        return A

    @property
    def exposes(self) -> tuple[int, ...]:
        """The record in all R; with k = 2 the groups are {0,1}, {0,2}, {1,2}, which give everybody away."""
        return (0, 1, 2) if self.k == 2 else (0,)

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Fraction]:
        """The sum of the first k answers less the others, divided by k."""
        told = as_fractions(answers, 2 * self.k - 1)
        z = (sum(told[: self.k], Fraction(0)) - sum(told[self.k :], Fraction(0))) / self.k
        return {0: z} if self.k > 2 else {0: z, 1: told[0] - z, 2: told[1] - z}
