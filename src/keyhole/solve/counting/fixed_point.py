"""Counts of people to a fixed point: forced first, then differences, then small components exactly; again."""

from __future__ import annotations

from keyhole.model.people import Counting
from keyhole.solve.counting.components import Truth, components, decide, simple
from keyhole.solve.counting.propagate import Forced
from keyhole.solve.counting.rank import settle_by_rank


def solve(counting: Counting, state: Forced, truth: Truth | None) -> bool:
    """To a fixed point; True if every component was decided exactly. Raises `Conflict` where nothing is possible."""
    while True:
        state.run()
        if settle_by_rank(state):
            continue
        decided = True
        for part in components(counting, state):
            if not simple(counting, state, part):
                decided &= decide(counting, state, part, truth)
        if not state.changed:
            return decided
