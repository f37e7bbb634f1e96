"""Exact decisions on small parts of a log: people with the same possibilities are interchangeable.

A person's state is a truth value for each of his open atoms; it adds a vector to the counts of the component. How many
of a class are in which state does not matter beyond the sums that can be reached, so the reachable sums of all but one
person are computed class by class, and a state is possible iff what it leaves can be reached. Exact, both ways.
Cost: classes x reachable sums x states; components beyond the limits are left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Vector = tuple[int, ...]
Top = tuple[tuple[int | None, int], ...]  # of each count: its upper end, else what is enough
MOST_SUMS = 20_000  # reachable vectors
MOST_STEPS = 150_000


class TooManyStates(Exception):
    """A component that is not decided here."""


@dataclass(frozen=True, slots=True)
class Interchangeable:
    """People of one class: how many, and what each of their possible states adds to the counts."""

    size: int
    states: tuple[Vector, ...]


def possible_states(
    classes: Sequence[Interchangeable], lo: Sequence[int | None], hi: Sequence[int | None]
) -> list[frozenset[int]]:
    """For each class the states in which somebody of it can be: all counts of everybody within [lo, hi].

    >>> two = Interchangeable(2, ((0,), (1,)))
    >>> [sorted(s) for s in possible_states([two], [2], [2])], [sorted(s) for s in possible_states([two], [1], [1])]
    ([[1]], [[0, 1]])
    """
    top = tuple((end, 0) if end is not None else (None, low or 0) for end, low in zip(hi, lo, strict=True))
    work = _Work()
    empty = (0,) * len(top)
    before = [{empty}]
    for each in classes:
        before.append(_spread(before[-1], each, each.size, top, work))
    after = [{empty}]
    for each in reversed(classes):
        after.append(_spread(after[-1], each, each.size, top, work))
    after.reverse()
    found = []
    for k, each in enumerate(classes):
        rest = _spread(before[k], each, each.size - 1, top, work)
        rest = _sums(rest, after[k + 1], top, work)
        options: dict[Vector, bool] = {}
        for vector in dict.fromkeys(each.states):
            options[vector] = any(_inside(r, vector, lo, hi) for r in rest)
        found.append(frozenset(i for i, vector in enumerate(each.states) if options[vector]))
    return found


class _Work:
    def __init__(self) -> None:
        self.steps = 0

    def done(self, steps: int, size: int) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS or size > MOST_SUMS:
            raise TooManyStates


def _capped(a: Vector, b: Vector, top: Top) -> Vector | None:
    """The sum, if it stays below every upper end; without one, what lies beyond the lower end is all the same."""
    made = []
    for x, y, (most, enough) in zip(a, b, top, strict=True):
        total = x + y
        if most is None:
            total = min(total, enough)
        elif total > most:
            return None
        made.append(total)
    return tuple(made)


def _spread(start: set[Vector], each: Interchangeable, size: int, top: Top, work: _Work) -> set[Vector]:
    """Sums that are reached when so many people of a class are added."""
    vectors = tuple(dict.fromkeys(each.states))
    found = start
    for _ in range(size):
        work.done(len(found) * len(vectors), len(found))
        grown = {made for a in found for v in vectors if (made := _capped(a, v, top)) is not None}
        if grown == found:
            break  # one more person changes nothing
        found = grown
    return found


def _sums(left: set[Vector], right: set[Vector], top: Top, work: _Work) -> set[Vector]:
    work.done(len(left) * len(right), max(len(left), len(right)))
    return {made for a in left for b in right if (made := _capped(a, b, top)) is not None}


def _inside(rest: Vector, mine: Vector, lo: Sequence[int | None], hi: Sequence[int | None]) -> bool:
    for r, m, low, high in zip(rest, mine, lo, hi, strict=True):
        if (low is not None and r + m < low) or (high is not None and r + m > high):
            return False
    return True
