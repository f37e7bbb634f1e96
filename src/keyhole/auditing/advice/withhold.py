"""What to withhold: the smallest set of answers without which nobody is exposed, by lazy circuits.

Whatever proves an exposure proves it in any larger log. So each proof found is a set (a circuit) that every remedy must
meet: withhold a smallest set that meets all circuits so far, audit the rest, add the circuits of whoever is still
exposed, and again. When nobody is, the set is a remedy, and no smaller one exists, because it is no larger than the
smallest set that meets a part of the circuits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

from keyhole.solve.hitting import smallest_hitting_set

Unit = TypeVar("Unit", bound=Hashable)
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Remedy(Generic[Unit]):
    """What to withhold. `enough`: then nobody is exposed; `bound`: no remedy is smaller than so many.

    `hopeless`: a proof rests on nothing that can be withheld. `stopped`: Ctrl-C ended the search; `units` meet every
    proof that was found until then.
    """

    units: frozenset[Unit]
    bound: int
    enough: bool
    circuits: int
    rounds: int
    hopeless: bool = False
    stopped: bool = False

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
    ringing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Remedy[Unit]:
    """The remedy. `expose(units)` are the proofs that hold without these units, as sets of the units they use.
    `ringing` may end the search as Ctrl-C does.

    >>> proofs = [frozenset("ab"), frozenset("bc")]
    >>> found = withhold(lambda gone: [p for p in proofs if not p & gone])
    >>> sorted(found.units), found.smallest
    (['b'], True)
    """
    search = _Search(expose, costs or {}, dict.fromkeys(start))
    try:
        with ringing():
            search.run(time.monotonic() + seconds)
    except KeyboardInterrupt:  # the best so far is the answer
        return search.remedy(enough=False, stopped=True)
    return search.remedy(enough=not search.left, hopeless=bool(search.left))


class _Search(Generic[Unit]):
    """The search, with what it knows so far."""

    def __init__(
        self,
        expose: Callable[[frozenset[Unit]], Sequence[frozenset[Unit]]],
        costs: Mapping[Unit, int],
        circuits: dict[frozenset[Unit], None],
    ) -> None:
        self.expose, self.costs, self.circuits = expose, costs, circuits
        self.gone: frozenset[Unit] = frozenset()
        self.left: list[frozenset[Unit]] = []
        self.bound = self.rounds = 0

    def run(self, until: float) -> None:
        """Smallest sets that meet all circuits so far, until nobody is exposed or a proof cannot be met."""
        while self._exposed():
            remaining = until - time.monotonic()
            if remaining <= 0:
                self._by_greed()
                return
            found = smallest_hitting_set(self.circuits, self.costs, remaining)
            self.gone, self.bound = found.chosen, max(self.bound, found.bound)

    def _exposed(self) -> bool:
        """Is there a proof left, and can all of them be met?"""
        self.rounds += 1
        self.left = list(self.expose(self.gone))
        self.circuits |= dict.fromkeys(each for each in self.left if each)
        return bool(self.left) and all(self.left)

    def _by_greed(self) -> None:
        """The time is up: whatever is still exposed loses an answer each, until nobody is."""
        more = True
        while more:
            for each in self.left:
                if not each & self.gone:
                    self.gone |= {max(sorted(each, key=str), key=lambda u: sum(u in c for c in self.left))}
            more = self._exposed()

    def remedy(self, *, enough: bool, hopeless: bool = False, stopped: bool = False) -> Remedy[Unit]:
        """What came of it."""
        return Remedy(self.gone, self.bound, enough, len(self.circuits), self.rounds, hopeless, stopped)
