"""All tables that give some answers: a case split over people, in which cases with the same totals are one.

Everybody takes one of a few options, each of which adds integers to some totals; an answer is a condition on totals.
People are split one after the other. After each of them two cases that have the same totals so far have the same
future, so they are merged; a case is closed where an interval of a total cannot be reached any more, or where a
condition fails once nobody is left who adds to it. Walking back from the cases that are left says which options each
person has in some table. Exact and complete; cost: cases x options x totals, and beyond the limit nothing is said.
This is the transfer matrix of dynamic programming (Bellman 1957), kept to the states that are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIMIT = 100_000  # cases after one person
STEPS = 2_000_000  # cases times options of one search
WORK = 100_000_000  # the same times totals
WIDE = 2**62

Integers = NDArray[np.int64]
Verdicts = Sequence[bool | None]


class TooManyCases(Exception):
    """The limit was reached: neither a table nor a refutation was found."""


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """People with the same options: row o of `options` is what option o adds to each total."""

    people: int
    options: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """What an answer says of the totals `at`: `judge` gives for rows of them True, False, or None if it is not sure.

    `ends` are intervals in which a total surely lies (None: without end), to close cases early.
    """

    at: tuple[int, ...]
    judge: Callable[[list[tuple[int, ...]]], Verdicts]
    ends: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class OptionsLeft:
    """For each kind of people the options that some table has; empty everywhere if there is no table.

    `sure`: no condition was met only perhaps.
    """

    options: tuple[NDArray[np.bool_], ...]
    sure: bool

    @property
    def feasible(self) -> bool:
        """Is there a table at all?"""
        return all(each.any() for each in self.options)


def possible(
    kinds: Sequence[Alike], told: Sequence[Condition], flags: Sequence[int] = (), *, strict: bool = False
) -> OptionsLeft:
    """Which options occur in tables that meet all conditions; `strict`: what is met only perhaps is not met.

    `flags` are totals of which only matters whether they are 0 (what is added to them is 0 or 1).

    >>> xor = Condition((0,), lambda rows: [row == (1,) for row in rows])
    >>> two = [Alike(1, np.array([[0], [1]])), Alike(2, np.array([[1], [2]]))]
    >>> [each.tolist() for each in possible(two, [xor]).options]
    [[False, False], [False, False]]
    >>> three = Condition((0,), lambda rows: [row == (3,) for row in rows])
    >>> [each.tolist() for each in possible(two, [three]).options]
    [[True, True], [True, True]]
    """
    return _Layers(kinds, told, flags, strict).possible()


class _Layers:
    """The cases after each person, and which case comes of which by which option."""

    def __init__(self, kinds: Sequence[Alike], told: Sequence[Condition], flags: Sequence[int], strict: bool) -> None:
        self.kinds, self.told, self.flags, self.strict = kinds, told, list(flags), strict
        self.width = kinds[0].options.shape[1] if kinds else 0
        self.moves = [(k.options != k.options[:1]).any(axis=0) for k in kinds]
        self.order = self._ordered()
        self.sure = True
        self.steps = 0
        size = sum(
            (k.people * np.abs(k.options).max(axis=0).astype(object) for k in kinds), np.zeros(self.width, object)
        )
        if any(s >= WIDE for s in size):
            raise TooManyCases
        self.lo, self.hi = np.full(self.width, -WIDE), np.full(self.width, WIDE)
        for each in told:
            for at, (lo, hi) in each.ends.items():
                self.lo[at] = max(self.lo[at], -WIDE if lo is None else max(lo, -WIDE))
                self.hi[at] = min(self.hi[at], WIDE if hi is None else min(hi, WIDE))

    def _ordered(self) -> list[int]:
        """Kinds in an order in which the smallest answers are complete first."""
        found: dict[int, None] = {}
        touched = [[k for k in range(len(self.kinds)) if self.moves[k][list(c.at)].any()] for c in self.told]
        for ks in sorted(touched, key=lambda ks: sum(self.kinds[k].people for k in ks)):
            found |= dict.fromkeys(ks)
        return [*found, *(k for k in range(len(self.kinds)) if k not in found)]

    def _touching(self, condition: Condition) -> Iterator[int]:
        """The places in the order of kinds whose people can change what a condition is about."""
        at = list(condition.at)
        return (place for place, k in enumerate(self.order) if self.moves[k][at].any())

    def possible(self) -> OptionsLeft:
        """Forward over all people, then back from what is left."""
        cases = np.zeros((1, self.width), dtype=np.int64)
        waiting = list(self.told)
        least = sum((k.people * k.options.min(axis=0) for k in self.kinds), np.zeros(self.width, dtype=np.int64))
        most = sum((k.people * k.options.max(axis=0) for k in self.kinds), np.zeros(self.width, dtype=np.int64))
        layers: list[tuple[int, Integers]] = []
        last = {c: max(self._touching(c), default=-1) for c in waiting}
        for place, k in enumerate(self.order):
            kind = self.kinds[k]
            for member in range(kind.people):
                least, most = least - kind.options.min(axis=0), most - kind.options.max(axis=0)
                done: list[Condition] = []
                if member == kind.people - 1:
                    done = [c for c in waiting if last[c] <= place]
                    waiting = [c for c in waiting if last[c] > place]
                cases, child = self._step(cases, kind.options, least, most, done, waiting)
                layers.append((k, child))
        return OptionsLeft(tuple(self._back(layers, len(cases))), self.sure)

    def _step(
        self,
        cases: Integers,
        options: Integers,
        least: Integers,
        most: Integers,
        done: Sequence[Condition],
        waiting: Sequence[Condition],
    ) -> tuple[Integers, Integers]:
        """The cases after one more person, and where each (case, option) goes; -1: it is closed."""
        self.steps += len(cases) * len(options)
        if self.steps > STEPS or self.steps * self.width > WORK:
            raise TooManyCases
        after = (cases[:, None, :] + options[None, :, :]).reshape(-1, self.width)
        after[:, self.flags] = np.minimum(after[:, self.flags], 1)
        live = sorted({at for c in (*done, *waiting) for at in c.at})
        reach = (after + most >= self.lo) & (after + least <= self.hi)
        kept: NDArray[np.bool_] = np.asarray(reach[:, live].all(axis=1))
        for condition in done:
            kept &= self._met(condition, after + least, kept)
        used = {at for c in waiting for at in c.at}
        after[:, [at for at in range(self.width) if at not in used]] = 0
        distinct, where = distinct_rows(after[kept])
        if len(distinct) > LIMIT:
            raise TooManyCases
        child = np.full(len(after), -1, dtype=np.int64)
        child[kept] = where.ravel()
        return distinct, child.reshape(len(cases), len(options))

    def _met(self, condition: Condition, totals: Integers, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which cases meet a condition to which nobody adds any more but constants."""
        mine = totals[:, list(condition.at)]
        for n, at in enumerate(condition.at):
            if at in self.flags:
                mine[:, n] = np.minimum(mine[:, n], 1)
        rows, where = distinct_rows(mine[kept])
        said = condition.judge([tuple(row) for row in rows.tolist()])
        self.sure = self.sure and None not in said
        fine = np.array([v is True or (v is None and not self.strict) for v in said], dtype=np.bool_)
        found: NDArray[np.bool_] = np.zeros(len(kept), dtype=np.bool_)
        found[kept] = fine[where.ravel()] if len(rows) else False
        return found

    def _back(self, layers: Sequence[tuple[int, Integers]], last: int) -> list[NDArray[np.bool_]]:
        found: list[NDArray[Any]] = [np.zeros(len(k.options), dtype=np.bool_) for k in self.kinds]
        alive = np.ones(last, dtype=np.bool_)
        for k, child in reversed(layers):
            ok = (child >= 0) & np.append(alive, False)[child]
            found[k] |= ok.any(axis=0)
            alive = ok.any(axis=1)
        return found


MOST = 1 << 62  # a row as one number is below


def distinct_rows(rows: Integers) -> tuple[Integers, Integers]:
    """`np.unique(rows, axis=0, return_inverse=True)`, with the same order.

    A row r is the number sum_j (r_j - min_j) prod_{i>j} (max_i - min_i + 1), which orders as the rows do. Cost: one
    sort of numbers, where numpy sorts structures by comparing them field by field; that is done where the number would
    not fit into a word.

    >>> distinct, where = distinct_rows(np.array([[2, 0], [1, 5], [2, 0]]))
    >>> distinct.tolist(), where.tolist()
    ([[1, 5], [2, 0]], [1, 0, 1])
    """
    if rows.size == 0:
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        return distinct, inverse.ravel()
    low = rows.min(axis=0)
    spans = [int(hi) - int(lo) + 1 for lo, hi in zip(low, rows.max(axis=0), strict=True)]
    size, weights = 1, []
    for span in reversed(spans):
        weights.append(size)
        size *= span
    if size > MOST:
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        return distinct, inverse.ravel()
    keys = (rows - low) @ np.array(weights[::-1], dtype=np.int64)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], inverse.ravel()
