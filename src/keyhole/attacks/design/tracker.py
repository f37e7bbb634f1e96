"""Trackers: the sum of a group too small to be asked about, from groups that are large enough.

Individual (Schlörer): C = A and B is too small, but A and (A and not B) are not: q(C) = q(A) - q(A and not B). Of j
conditions any d may be padded so, at 2^d queries. General (Denning, Denning and Schwartz): one T, found once, for every
C whatever its size: q(C) = q(C or T) + q(C or not T) - q(T) - q(not T).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.design.base import Number, Queries, Secrets, as_fractions
from keyhole.errors import ModelError

Mask = NDArray[np.bool_]
Name = TypeVar("Name")


@dataclass(frozen=True, slots=True, eq=False)
class IndividualTracker:
    """The total of C = conditions[0] and conditions[1] and ...: the first ones as they are, the last `padded` ones not.

    q(C) = sum over subsets T of the padded ones of (-1)^|T| q(the others and, for c in T, not c): 2^padded queries.
    Exposes somebody if C is one record. Reference: schlorer1975,
    denning1979.

    >>> old, clerk = np.array([1, 1, 0, 1], bool), np.array([1, 0, 1, 0], bool)
    >>> t = IndividualTracker((old, clerk), padded=1)
    >>> t.queries.tolist(), t.exposes, t.decode([30, 20])
    ([[1, 1, 0, 1], [0, 1, 0, 1]], (0,), {0: Fraction(10, 1)})
    """

    conditions: tuple[Mask, ...]
    padded: int
    needs: ClassVar[Secrets] = Secrets.REALS

    def __post_init__(self) -> None:
        if not 1 <= self.padded <= len(self.conditions):
            raise ModelError(f"{self.padded} of {len(self.conditions)} conditions cannot be padded")

    def _terms(self) -> list[tuple[int, Mask]]:
        split = len(self.conditions) - self.padded
        fixed = np.ones(len(self.conditions[0]), dtype=np.bool_)
        for condition in self.conditions[:split]:
            fixed = fixed & condition
        found = []
        for size in range(self.padded + 1):
            for chosen in combinations(self.conditions[split:], size):
                mask = fixed.copy()
                for condition in chosen:
                    mask &= ~condition
                found.append(((-1) ** size, mask))
        return found

    @property
    def queries(self) -> Queries:
        """2^padded groups."""
        return np.array([mask for _, mask in self._terms()], dtype=np.int64)

    @property
    def exposes(self) -> tuple[int, ...]:
        """The one record that all conditions hold for; nobody if there are more."""
        hit = np.flatnonzero(np.logical_and.reduce(self.conditions))
        return (int(hit[0]),) if len(hit) == 1 else ()

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Fraction]:
        """The total of C, under the record that it is of."""
        told = as_fractions(answers, 2**self.padded)
        total = sum((sign * a for (sign, _), a in zip(self._terms(), told, strict=True)), Fraction(0))
        return dict.fromkeys(self.exposes, total)


@dataclass(frozen=True, slots=True, eq=False)
class GeneralTracker:
    """The total of any C from a tracker T: q(C or T) + q(C or not T) - q(T) - q(not T), four queries of any size >= k.

    Works for every C where k <= |T| <= n - k (with an upper limit n - k on groups as well: 2k <= |T| <= n - 2k; then
    it always exists unless k is above n/4). Reference: denning1979.

    >>> c, t = np.array([1, 0, 0, 0], bool), np.array([0, 1, 1, 0], bool)
    >>> g = GeneralTracker(c, t)
    >>> g.queries.sum(axis=1).tolist(), g.decode([23, 24, 13, 24])
    ([3, 2, 2, 2], {0: Fraction(10, 1)})
    """

    group: Mask
    tracker: Mask
    needs: ClassVar[Secrets] = Secrets.REALS

    @property
    def queries(self) -> Queries:
        """C or T; C or not T; T; not T."""
        C, T = self.group, self.tracker
        return np.array([C | T, C | ~T, T, ~T], dtype=np.int64)

    @property
    def exposes(self) -> tuple[int, ...]:
        """The one record of C; nobody if there are more."""
        hit = np.flatnonzero(self.group)
        return (int(hit[0]),) if len(hit) == 1 else ()

    def decode(self, answers: Sequence[Number]) -> Mapping[int, Fraction]:
        """The total of C, under the record that it is of."""
        with_it, without, inside, outside = as_fractions(answers, 4)
        return dict.fromkeys(self.exposes, with_it + without - inside - outside)


def find_general_tracker(sizes: Iterable[tuple[Name, int]], n: int, k: int) -> Name | None:
    """The named group whose size is nearest to n/2 among those with k <= size <= n - k; None if there is none.

    >>> find_general_tracker([("sex = 'F'", 40), ("age = 90", 2)], n=100, k=10), find_general_tracker([], 10, 2)
    ("sex = 'F'", None)
    """
    fit = [(abs(2 * size - n), i, name) for i, (name, size) in enumerate(sizes) if k <= size <= n - k]
    return min(fit, key=lambda entry: entry[:2])[2] if fit else None
