"""Bounds of the unknowns of worlds, narrowed by rows until nothing changes.

One loop over all rows: a coefficient times an unknown is at most the upper end less the least of all others. Counts and
totals of one slot bound each other: so many above a threshold make the total at least so much. Bounds of reals are
rounded outwards to the unit, so that the loop ends and nothing possible is lost.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from keyhole.solve.worlds.model import End, Row, Slot, Worlds

PASSES = 60  # of one row or slot: totals of a large range may creep


class Impossible(Exception):
    """No table is left."""


@dataclass(slots=True)
class Bounds:
    """lo and hi of each unknown; None: without end."""

    lo: list[End]
    hi: list[End]

    @classmethod
    def of(cls, worlds: Worlds) -> Bounds:
        """What is known of them before any row."""
        lo: list[End] = [None] * worlds.unknowns
        hi: list[End] = [None] * worlds.unknowns
        for slot in worlds.slots:
            for u in slot.counts[1:]:
                lo[u], hi[u] = 0, slot.people
        return cls(lo, hi)

    def copy(self) -> Bounds:
        """The same, to be narrowed apart."""
        return Bounds(self.lo.copy(), self.hi.copy())

    def least(self, slot: Slot, t: int) -> int:
        """How many are surely in span t or above."""
        return slot.people if t == 0 else 0 if t >= len(slot.spans) else self.lo[slot.counts[t]] or 0

    def most(self, slot: Slot, t: int) -> int:
        """How many can be in span t or above."""
        if t == 0 or t >= len(slot.spans):
            return slot.people if t == 0 else 0
        found = self.hi[slot.counts[t]]
        return slot.people if found is None else found

    def first(self, slot: Slot, place: int) -> int:
        """The lowest span in which the one at a place can be; places count from 1, the greatest first."""
        return max(t for t in range(len(slot.spans)) if self.least(slot, t) >= place)

    def last(self, slot: Slot, place: int) -> int:
        """The highest span in which the one at a place can be."""
        return max(t for t in range(len(slot.spans)) if self.most(slot, t) >= place)

    def is_fixed(self, slot: Slot) -> bool:
        """Has everybody in a slot one value, by counts alone?"""
        if any(self.lo[u] != self.hi[u] for u in slot.counts[1:]):
            return False
        held = [s for t, s in enumerate(slot.spans) if self.least(slot, t) > self.least(slot, t + 1)]
        return all(s.point is not None for s in held)


class Fixpoint:
    """Narrows bounds by the rows of worlds."""

    def __init__(self, worlds: Worlds) -> None:
        self.worlds = worlds
        self.of: list[list[int]] = [[] for _ in range(worlds.unknowns)]  # unknown -> rows
        for i, row in enumerate(worlds.rows):
            for u, _ in row.terms:
                self.of[u].append(i)

    def narrow(self, bounds: Bounds, changed: set[int] | None = None) -> None:
        """Until nothing changes; raises Impossible. `changed`: unknowns that were narrowed (None: all are new)."""
        count, rows = len(self.worlds.rows), self.worlds.rows
        queue = deque(range(count + len(self.worlds.slots))) if changed is None else deque(self._touched(changed))
        waiting, passes = set(queue), [0] * (count + len(self.worlds.slots))
        while queue:
            at = queue.popleft()
            waiting.discard(at)
            passes[at] += 1
            if passes[at] > PASSES:
                continue
            if at < count:
                news = narrow_row(rows[at], bounds, self.worlds.slot_of, self.worlds)
            else:
                news = narrow_slot(self.worlds.slots[at - count], bounds)
            for each in self._touched(news):
                if each not in waiting:
                    waiting.add(each)
                    queue.append(each)

    def _touched(self, unknowns: set[int]) -> list[int]:
        count = len(self.worlds.rows)
        rows = {i for u in unknowns for i in self.of[u]}
        return [*sorted(rows), *sorted({count + self.worlds.slot_of[u] for u in unknowns})]


def reach(row: Row, bounds: Bounds) -> tuple[int, int, int, int]:
    """(finite part of the least, how many are without end, the same of the greatest) of a sum."""
    least = most = below = above = 0
    for u, c in row.terms:
        small, large = (bounds.lo[u], bounds.hi[u]) if c > 0 else (bounds.hi[u], bounds.lo[u])
        if small is None:
            below += 1
        else:
            least += c * small
        if large is None:
            above += 1
        else:
            most += c * large
    return least, below, most, above


def narrow_row(row: Row, bounds: Bounds, slot_of: dict[int, int], worlds: Worlds) -> set[int]:
    """The unknowns that a row narrows."""
    least, below, most, above = reach(row, bounds)
    if (row.hi is not None and not below and least > row.hi) or (row.lo is not None and not above and most < row.lo):
        raise Impossible
    found: set[int] = set()
    loose_hi = row.hi is None or below > 1 or (not above and most <= row.hi)
    loose_lo = row.lo is None or above > 1 or (not below and least >= row.lo)
    if loose_hi and loose_lo:
        return found
    for u, c in row.terms:
        lo, hi = bounds.lo[u], bounds.hi[u]
        real = u in worlds.totals and not worlds.slots[slot_of[u]].whole
        small, large = (lo, hi) if c > 0 else (hi, lo)
        top = bottom = None
        if not loose_hi and row.hi is not None and (not below or small is None):
            top = row.hi - (least - (0 if small is None else c * small))  # of c times the unknown
        if not loose_lo and row.lo is not None and (not above or large is None):
            bottom = row.lo - (most - (0 if large is None else c * large))
        if c < 0:
            top, bottom = bottom, top
        up = None if top is None else (-((-top) // c) if real else top // c)
        down = None if bottom is None else (bottom // c if real else -((-bottom) // c))
        if up is not None and (hi is None or up < hi):
            bounds.hi[u] = up
            found.add(u)
        if down is not None and (lo is None or down > lo):
            bounds.lo[u] = down
            found.add(u)
        lo, hi = bounds.lo[u], bounds.hi[u]
        if lo is not None and hi is not None and lo > hi:
            raise Impossible
    return found


def narrow_slot(slot: Slot, bounds: Bounds) -> set[int]:
    """The unknowns of a slot that its counts and its total narrow."""
    if slot.people == 1:
        return _narrow_one(slot, bounds)
    found: set[int] = set()
    for t in range(2, len(slot.spans)):  # who is above a span is above the ones before
        before, here = slot.counts[t - 1], slot.counts[t]
        if bounds.most(slot, t) > bounds.most(slot, t - 1):
            bounds.hi[here] = bounds.hi[before]
            found.add(here)
    for t in reversed(range(2, len(slot.spans))):
        before, here = slot.counts[t - 1], slot.counts[t]
        if bounds.least(slot, t - 1) < bounds.least(slot, t):
            bounds.lo[before] = bounds.lo[here]
            found.add(before)
    for u in slot.counts[1:]:
        if (bounds.lo[u] or 0) > (slot.people if bounds.hi[u] is None else bounds.hi[u]):  # type: ignore[operator]
            raise Impossible
    found |= _total_by_counts(slot, bounds)
    if bounds.hi[slot.total] is not None:
        found |= _counts_by_total(slot, bounds, top=True)
    if bounds.lo[slot.total] is not None:
        found |= _counts_by_total(slot, bounds, top=False)
    return found


def _narrow_one(slot: Slot, bounds: Bounds) -> set[int]:
    """The same of one person, who is in one span."""
    lo, hi, spans, counts = bounds.lo, bounds.hi, slot.spans, slot.counts
    first, last = 0, len(spans) - 1
    for t in range(1, len(spans)):
        if lo[counts[t]]:
            first = t
        if hi[counts[t]] == 0:
            last = min(last, t - 1)
    least, most = lo[slot.total], hi[slot.total]
    while first <= last and least is not None and (end := spans[first].hi) is not None and end < least:
        first += 1
    while first <= last and most is not None and (end := spans[last].lo) is not None and end > most:
        last -= 1
    if first > last:
        raise Impossible
    found: set[int] = set()
    for t in range(1, first + 1):
        if not lo[counts[t]]:
            lo[counts[t]] = 1
            found.add(counts[t])
    for t in range(last + 1, len(spans)):
        if hi[counts[t]]:
            hi[counts[t]] = 0
            found.add(counts[t])
    low, high = spans[first].lo, spans[last].hi
    if low is not None and (least is None or low > least):
        lo[slot.total] = low
        found.add(slot.total)
    if high is not None and (most is None or high < most):
        hi[slot.total] = high
        found.add(slot.total)
    least, most = lo[slot.total], hi[slot.total]
    if least is not None and most is not None and least > most:
        raise Impossible
    return found


def _total_by_counts(slot: Slot, bounds: Bounds) -> set[int]:
    least = added(slot, [bounds.least(slot, t) for t in range(len(slot.spans) + 1)], top=False)
    most = added(slot, [bounds.most(slot, t) for t in range(len(slot.spans) + 1)], top=True)
    found: set[int] = set()
    lo, hi = bounds.lo[slot.total], bounds.hi[slot.total]
    if least is not None and (lo is None or least > lo):
        bounds.lo[slot.total] = least
        found.add(slot.total)
    if most is not None and (hi is None or most < hi):
        bounds.hi[slot.total] = most
        found.add(slot.total)
    lo, hi = bounds.lo[slot.total], bounds.hi[slot.total]
    if lo is not None and hi is not None and lo > hi:
        raise Impossible
    return found


def added(slot: Slot, above: list[int], *, top: bool) -> End:
    """The least (or with `top` the greatest) total of so many in span t or above; None: without end."""
    total = 0
    for t, span in enumerate(slot.spans):
        people = above[t] - above[t + 1]
        if people:
            end = span.hi if top else span.lo
            if end is None:
                return None
            total += people * end
    return total


def _counts_by_total(slot: Slot, bounds: Bounds, *, top: bool) -> set[int]:
    """How many can be above a threshold if the total is at most so much (`top`), and must be if it is at least so."""
    found: set[int] = set()
    count = len(slot.spans)
    for t in range(1, count):
        u, above = slot.counts[t], [(bounds.least if top else bounds.most)(slot, s) for s in range(count + 1)]
        least, most = bounds.least(slot, t), bounds.most(slot, t)
        while least < most:
            if top:  # with `most` in t or above the total is too much
                tried = [max(n, most) if s <= t else n for s, n in enumerate(above)]
                total, end = added(slot, tried, top=False), bounds.hi[slot.total]
                if total is None or end is None or total <= end:
                    break
                most -= 1
            else:
                tried = [min(n, least) if s >= t else n for s, n in enumerate(above)]
                total, end = added(slot, tried, top=True), bounds.lo[slot.total]
                if total is None or end is None or total >= end:
                    break
                least += 1
        if top and most < bounds.most(slot, t):
            bounds.hi[u] = most
            found.add(u)
        elif not top and least > bounds.least(slot, t):
            bounds.lo[u] = least
            found.add(u)
    return found


def is_met(row: Row, bounds: Bounds) -> bool:
    """Does a row hold whatever is between the bounds?"""
    least, below, most, above = reach(row, bounds)
    return (row.hi is None or (not above and most <= row.hi)) and (row.lo is None or (not below and least >= row.lo))
