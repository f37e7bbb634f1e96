"""What to withhold: the smallest set of answers without which nobody is exposed, by lazy circuits.

Whatever proves an exposure proves it in any larger log. So each proof found is a set (a circuit) that every remedy must
meet: withhold a smallest set that meets all circuits so far, audit the rest, add the circuits of whoever is still
exposed, and again. When nobody is, the set is a remedy, and no smaller one exists, because it is no larger than the
smallest set that meets a part of the circuits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from keyhole.solve.hitting import smallest_hitting_set

Unit = TypeVar("Unit", bound=Hashable)
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Remedy(Generic[Unit]):
    """What to withhold. `enough`: then nobody is exposed; `bound`: no remedy is smaller than so many.

    `hopeless`: a proof rests on nothing that can be withheld.
    """

    units: frozenset[Unit]
    bound: int
    enough: bool
    circuits: int
    rounds: int
    hopeless: bool = False

    @property
    def smallest(self) -> bool:
        """Is it shown that no smaller set does?"""
        return self.enough and len(self.units) <= self.bound


def withhold(
    expose: Callable[[frozenset[Unit]], Sequence[frozenset[Unit]]],
    *,
    seconds: float = SECONDS,
    costs: Mapping[Unit, int] | None = None,
    start: Sequence[frozenset[Unit]] = (),
) -> Remedy[Unit]:
    """The remedy. `expose(units)` are the proofs that hold without these units, as sets of the units they use.

    >>> proofs = [frozenset("ab"), frozenset("bc")]
    >>> found = withhold(lambda gone: [p for p in proofs if not p & gone])
    >>> sorted(found.units), found.smallest
    (['b'], True)
    """
    until = time.monotonic() + seconds
    circuits: dict[frozenset[Unit], None] = dict.fromkeys(start)
    gone: frozenset[Unit] = frozenset()
    bound = rounds = 0
    while True:
        rounds += 1
        left = list(expose(gone))
        if not left:
            return Remedy(gone, bound, True, len(circuits), rounds)
        if any(not each for each in left):
            return Remedy(gone, bound, False, len(circuits), rounds, hopeless=True)
        circuits |= dict.fromkeys(left)
        remaining = until - time.monotonic()
        if remaining <= 0:
            return _by_greed(expose, gone, circuits, bound, rounds)
        found = smallest_hitting_set(circuits, costs or {}, remaining)
        gone, bound = found.chosen, max(bound, found.bound)


def _by_greed(
    expose: Callable[[frozenset[Unit]], Sequence[frozenset[Unit]]],
    gone: frozenset[Unit],
    circuits: Mapping[frozenset[Unit], None],
    bound: int,
    rounds: int,
) -> Remedy[Unit]:
    """The time is up: whatever is still exposed loses an answer each, until nobody is."""
    while True:
        rounds += 1
        left = expose(gone)
        if not left or any(not each for each in left):
            return Remedy(gone, bound, not left, len(circuits), rounds, hopeless=bool(left))
        for each in left:
            if not each & gone:
                gone |= {max(sorted(each, key=str), key=lambda u: sum(u in c for c in left))}
