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
from typing import Generic, TypeAlias, TypeVar

from keyhole.solve.disclosure_control import Circuit, find_smallest_cover

Unit = TypeVar("Unit", bound=Hashable)
Proof: TypeAlias = frozenset[Unit] | Circuit[Unit]
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
    relaxed: float  # no remedy is smaller than this, by linear programming over the proofs alone
    hopeless: bool = False
    stopped: bool = False

    @property
    def smallest(self) -> bool:
        """Is it shown that no smaller set does?"""
        return self.enough and len(self.units) <= self.bound


def withhold(
    expose: Callable[[frozenset[Unit]], Sequence[Proof[Unit]]],
    *,
    seconds: float = SECONDS,
    costs: Mapping[Unit, int] | None = None,
    start: Sequence[Proof[Unit]] = (),
    ringing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Remedy[Unit]:
    """The remedy. `expose(units)` are the proofs that hold without these units, as sets of the units they use, each of
    which breaks them, or as circuits with weights. `ringing` may end the search as Ctrl-C does.

    >>> proofs = [frozenset("ab"), frozenset("bc")]
    >>> found = withhold(lambda gone: [p for p in proofs if not p & gone])
    >>> sorted(found.units), found.smallest
    (['b'], True)
    """
    search = _Search(expose, costs or {}, dict.fromkeys(map(_as_circuit, start)))
    try:
        with ringing():
            search.run(time.monotonic() + seconds)
    except KeyboardInterrupt:  # the best so far is the answer
        return search.remedy(enough=False, stopped=True)
    return search.remedy(enough=not search.left, hopeless=bool(search.left))


def _as_circuit(proof: Proof[Unit]) -> Circuit[Unit]:
    return proof if isinstance(proof, Circuit) else Circuit.of(proof)


class _Search(Generic[Unit]):
    """The search, with what it knows so far."""

    def __init__(
        self,
        expose: Callable[[frozenset[Unit]], Sequence[Proof[Unit]]],
        costs: Mapping[Unit, int],
        circuits: dict[Circuit[Unit], None],
    ) -> None:
        self.expose, self.costs, self.circuits = expose, costs, circuits
        self.gone: frozenset[Unit] = frozenset()
        self.left: list[Circuit[Unit]] = []
        self.bound = self.rounds = 0
        self.relaxed = 0.0

    def run(self, until: float) -> None:
        """Smallest sets that meet all circuits so far, until nobody is exposed or a proof cannot be met."""
        while self._exposed():
            remaining = until - time.monotonic()
            if remaining <= 0:
                self._by_greed()
                return
            found = find_smallest_cover(self.circuits, self.costs, remaining)
            self.gone, self.bound = found.chosen, max(self.bound, found.bound)
            self.relaxed = max(self.relaxed, found.relaxed)

    def _exposed(self) -> bool:
        """Is there a proof left, and can all of them be met?"""
        self.rounds += 1
        self.left = list(map(_as_circuit, self.expose(self.gone)))
        self.circuits |= dict.fromkeys(each for each in self.left if each.breakable)
        return bool(self.left) and all(each.breakable for each in self.left)

    def _by_greed(self) -> None:
        """The time is up: proofs that still hold are broken by as few further units as they need, until none holds.

        Then units are given back that no known proof needs any more.
        """
        self._break_what_is_left()
        for unit in sorted(self.gone, key=str):
            fewer = self.gone - {unit}
            if all(each.broken(fewer) for each in self.circuits):
                self.gone = fewer
        if self._exposed():
            self._break_what_is_left()

    def _break_what_is_left(self) -> None:
        while self.left and all(each.breakable for each in self.left):
            free = {**self.costs, **dict.fromkeys(self.gone, 0)}
            self.gone |= find_smallest_cover(self.left, free, 1.0).chosen
            self._exposed()

    def remedy(self, *, enough: bool, hopeless: bool = False, stopped: bool = False) -> Remedy[Unit]:
        """What came of it."""
        return Remedy(self.gone, self.bound, enough, len(self.circuits), self.rounds, self.relaxed, hopeless, stopped)
