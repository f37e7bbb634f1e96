"""Lindström's detecting matrix: n bits from about 2n / log2 n sums, the fewest there can be asymptotically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from keyhole.attacks.design.base import Number, Queries, Secrets, as_fractions, check_records, refuse_inconsistent
from keyhole.errors import ContradictionError


@dataclass(frozen=True, slots=True)
class Lindstrom:
    """n bits from the least m sums with popcount(1) + ... + popcount(m) >= n.

    Row R and column (S, j), 0 <= j < |S|, are about sets in binary: the entry is 1 iff R & S is among the first 2^j
    subsets of S of odd size. As it depends on R & S alone, the sum over R in S of (-1)^|R| A[R, (S', j)] is 0 unless S
    is in S', and -2^j for S' = S: from the largest S on, v_S = -sum of (-1)^|R| (y_R less what is decoded) has the
    bits of S as its binary digits. m = 2^k - 1 gives n = k 2^(k-1). Any n: the columns of the first m sets, m rows.
    Cost of decoding: 3^k additions. Reference: lindstrom1965.

    >>> d = Lindstrom(4)
    >>> d.queries.tolist()
    [[1, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]]
    >>> d.decode(d.queries @ [1, 0, 1, 1])
    {0: Fraction(1, 1), 1: Fraction(0, 1), 2: Fraction(1, 1), 3: Fraction(1, 1)}
    >>> [len(Lindstrom(n).queries) for n in (1, 2, 3, 4, 5, 12, 32, 80)]
    [1, 2, 3, 3, 4, 7, 15, 31]
    """

    n: int
    needs: ClassVar[Secrets] = Secrets.BITS

    def __post_init__(self) -> None:
        check_records(self.n)

    def _columns(self) -> list[tuple[int, int]]:
        """(S, j) of each column, by S."""
        found: list[tuple[int, int]] = []
        S = 0
        while len(found) < self.n:
            S += 1
            found += [(S, j) for j in range(S.bit_count())]
        return found[: self.n]

    @property
    def queries(self) -> Queries:
        """Rows 1 .. m, m the largest S that is needed."""
        columns = self._columns()
        m = columns[-1][0]
        A = np.zeros((m, self.n), dtype=np.int64)
        for at, (S, j) in enumerate(columns):
            chosen = set(_odd_subsets(S)[: 1 << j])
            A[:, at] = [R & S in chosen for R in range(1, m + 1)]
        return A

    @property
    def exposes(self) -> tuple[int, ...]:
        """Everybody."""
        return tuple(range(self.n))

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Fraction]:
        """All bits, from the largest set to the smallest."""
        A, columns = self.queries, self._columns()
        told = as_fractions(answers, len(A))
        rest = [Fraction(0), *told]
        bits = [Fraction(0)] * self.n
        for S in range(len(A), 0, -1):
            places = [at for at, column in enumerate(columns) if column[0] == S]
            v = -sum((-1) ** R.bit_count() * rest[R] for R in _subsets(S))
            if v.denominator != 1 or not 0 <= v < 1 << len(places):
                raise ContradictionError("no bits give these answers")
            for at in places:
                if int(v) >> columns[at][1] & 1:
                    bits[at] = Fraction(1)
                    for R in range(1, len(rest)):
                        rest[R] -= int(A[R - 1, at])
        refuse_inconsistent(A, bits, told)
        return dict(enumerate(bits))


def _subsets(S: int) -> list[int]:
    """All subsets of S, in the order of their numbers."""
    found = [0]
    while found[-1] != S:
        found.append((found[-1] - S) & S)
    return found


def _odd_subsets(S: int) -> list[int]:
    return [R for R in _subsets(S) if R.bit_count() % 2]
