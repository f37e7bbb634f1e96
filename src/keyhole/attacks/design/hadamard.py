"""Hadamard queries: n sums from which bits can be read although every answer carries noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.design.base import Number, Queries, Secrets, check_records
from keyhole.errors import ModelError


@dataclass(frozen=True, slots=True)
class Hadamard:
    """n bits from N sums, N the power of two above n: the rows of a Hadamard matrix as subsets, H = 2A - 1.

    Column 0 of H is left out, so every query has N/2 of the N places, and the inverse is H'/N: independent noise of
    deviation s on the answers becomes 2 s / sqrt(N) on each value. Bits survive noise up to a share of sqrt(n);
    with errors of at most e, all but 16 e^2 of the bits are right. Cost O(N log N).
    Reference: dwork2008.

    >>> d = Hadamard(7)
    >>> d.queries.sum(axis=1).tolist()
    [7, 3, 3, 3, 3, 3, 3, 3]
    >>> bits = [1, 0, 1, 1, 0, 0, 1]
    >>> [int(b) for b in d.decode((d.queries @ bits + [.3, -.2, .4, 0, -.4, .1, -.3, .2]).tolist()).values()] == bits
    True
    """

    n: int
    needs: ClassVar[Secrets] = Secrets.BITS

    def __post_init__(self) -> None:
        check_records(self.n)

    @property
    def size(self) -> int:
        """N, the number of queries."""
        return 1 << self.n.bit_length()

    @property
    def queries(self) -> Queries:
        """(N, n): entry 1 where row and column have an even number of common ones in binary."""
        rows, columns = np.arange(self.size)[:, None], np.arange(1, self.n + 1)
        found: Queries = 1 - np.bitwise_count(rows & columns).astype(np.int64) % 2
        return found

    @property
    def exposes(self) -> tuple[int, ...]:
        """Everybody; with noise, nearly."""
        return tuple(range(self.n))

    def values(self, answers: Sequence[Number]) -> NDArray[np.float64]:
        """Estimates before they are rounded to bits: H' (2y - y_0) / N."""
        if len(answers) != self.size:
            raise ModelError(f"{self.size} queries need {self.size} answers, not {len(answers)}")
        y = np.array([float(a) for a in answers])
        return walsh_hadamard(2 * y - y[0])[1 : self.n + 1] / self.size

    def decode(self, answers: Sequence[Number]) -> Mapping[int, float]:
        """The nearest bits."""
        return dict(enumerate((self.values(answers) > 0.5).astype(float).tolist()))


def walsh_hadamard(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """H v for the Hadamard matrix (-1)^popcount(r & c), in N log2 N additions.

    >>> walsh_hadamard(np.array([1.0, 2.0, 3.0, 5.0])).tolist()
    [11.0, -3.0, -5.0, 1.0]
    """
    v = vector.copy()
    step = 1
    while step < len(v):
        pairs = v.reshape(-1, 2, step)
        v = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        step *= 2
    return v
