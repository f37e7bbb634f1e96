"""Differencing: the sum of a group with and without one person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from keyhole.attacks.design.base import Number, Queries, Secrets, as_fractions, subset_row
from keyhole.errors import ModelError


@dataclass(frozen=True, slots=True)
class Differencing:
    """x_i = SUM(group with i) - SUM(group without i): two queries, whatever the values are.

    Two are fewest where a group of one may not be asked: two 0/1 rows A, B combine to e_i only if A = B off i.
    Reference: dobkin1979.

    >>> d = Differencing(5, 2, (0, 1, 4))
    >>> d.queries.tolist()
    [[1, 1, 1, 0, 1], [1, 1, 0, 0, 1]]
    >>> d.decode([10, 7])
    {2: Fraction(3, 1)}
    """

    n: int
    target: int
    others: tuple[int, ...]
    needs: ClassVar[Secrets] = Secrets.REALS

    def __post_init__(self) -> None:
        if self.target in self.others:
            raise ModelError("the group without the target must not hold the target")
        subset_row(self.n, (self.target, *self.others))

    @property
    def queries(self) -> Queries:
        """The group with the target, and without."""
        return np.stack([subset_row(self.n, (self.target, *self.others)), subset_row(self.n, self.others)])

    @property
    def exposes(self) -> tuple[int, ...]:
        """The target."""
        return (self.target,)

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Fraction]:
        """The difference."""
        whole, rest = as_fractions(answers, 2)
        return {self.target: whole - rest}
