"""Totals once all counts are decided: a linear program, in fractions, strict where a span is open.

What the counts leave is convex: each total lies between two ends, and rows are linear. Ends that are outside (of open
spans) are kept off by one more unknown, the room that all of them have at once; it has to be more than 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyhole.solve.interval.polytope import Polytope, Side
from keyhole.solve.interval.simplex import Simplex
from keyhole.solve.worlds.bounds import Bounds, added
from keyhole.solve.worlds.model import Row, Slot, Worlds

Off = tuple[int, int]  # a slot, and the number that its total may not reach


@dataclass(slots=True)
class Leaf:
    """The linear program of the slots that some row ties; `above` and `below` are what totals must lie off."""

    worlds: Worlds
    bounds: Bounds
    rows: Sequence[Row]
    above: Sequence[Off]
    below: Sequence[Off]
    inside: bool  # must rows be met by more than their edges?

    def __post_init__(self) -> None:
        tied = {self.worlds.slot_of[u] for row in self.rows for u, _ in row.terms}
        tied |= {s for s, _ in (*self.above, *self.below)}
        self.slots = sorted(tied)

    slots: list[int] = None  # type: ignore[assignment]
    _walk: Simplex | None = None

    def table(self) -> dict[int, Fraction] | None:
        """A total for each tied slot, off all open ends; None if there is none."""
        place = {s: k for k, s in enumerate(self.slots)}
        room = len(self.slots)  # the last column: how far off everybody is
        rows: list[tuple[dict[int, int], Fraction | None, Fraction | None]] = []
        strict = False
        for row in self.rows:
            line = {place[self.worlds.slot_of[u]]: c for u, c in row.terms}
            lo, hi = (None if end is None else Fraction(end) for end in (row.lo, row.hi))
            if self.inside and row.edge is not None:
                strict = True
                rows += [] if lo is None else [(line | {room: -1}, lo + row.edge, None)]
                rows += [] if hi is None else [(line | {room: 1}, None, hi - row.edge)]
            else:
                rows.append((line, lo, hi))
        ends = [self._ends(s) for s in self.slots]
        for s, v in self._off(top=False):
            strict = True
            rows.append(({place[s]: 1, room: -1}, Fraction(v), None))
        for s, v in self._off(top=True):
            strict = True
            rows.append(({place[s]: 1, room: 1}, None, Fraction(v)))
        if any(lo is not None and hi is not None and lo > hi for lo, hi in ends):
            return None
        self._walk = Simplex(Polytope.of(rows, [*ends, (Fraction(0), Fraction(1))]))
        if self._walk.infeasible() is not None:
            return None
        if strict and not (self._walk.reach(room, "hi") and self._walk.value(room) > 0):
            return None
        return self._values()

    def far(self, s: int, side: Side) -> tuple[Fraction | None, dict[int, Fraction]]:
        """How far a total can go (None: without end), and a table there: on open ends perhaps."""
        assert self._walk is not None
        if not self._walk.reach(self.slots.index(s), side):
            return None, self._values()
        return self._walk.value(self.slots.index(s)), self._values()

    def _values(self) -> dict[int, Fraction]:
        assert self._walk is not None
        return {s: self._walk.value(k) for k, s in enumerate(self.slots)}

    def _ends(self, s: int) -> tuple[Fraction | None, Fraction | None]:
        total = self.worlds.slots[s].total
        lo, hi = self.bounds.lo[total], self.bounds.hi[total]
        return (None if lo is None else Fraction(lo), None if hi is None else Fraction(hi))

    def _off(self, *, top: bool) -> list[Off]:
        """The numbers that totals may not reach: those asked for, and the ends of open spans."""
        found = list(self.below if top else self.above)
        for s in self.slots:
            end = open_end(self.worlds.slots[s], self.bounds, top=top)
            if end is not None:
                found.append((s, end))
        return found


def open_end(slot: Slot, bounds: Bounds, *, top: bool) -> int | None:
    """The total that a slot may not reach since somebody of it is in an open span; None: none, or without end."""
    place = bounds.last if top else bounds.first
    spans = {place(slot, n) for n in range(1, slot.people + 1)}
    if not any(slot.spans[t].open for t in spans):
        return None
    count = bounds.most if top else bounds.least
    return added(slot, [count(slot, t) for t in range(len(slot.spans) + 1)], top=top)


def spread(slot: Slot, bounds: Bounds, total: Fraction) -> list[Fraction]:
    """Values of the people of a slot with a total, each between the ends that counts leave him; the greatest first.

    Of an open span nobody is at its end where others have room: all are moved by the same share of their room.
    """
    ends = [
        (slot.spans[bounds.first(slot, n)].lo, slot.spans[bounds.last(slot, n)].hi) for n in range(1, slot.people + 1)
    ]
    if slot.people == 1:
        return [total]
    low = [Fraction(lo) if lo is not None else None for lo, _ in ends]
    high = [Fraction(hi) if hi is not None else None for _, hi in ends]
    if None in low or None in high:
        return _unbounded(low, high, total)
    least = sum((lo for lo in low if lo is not None), Fraction(0))
    most = sum((hi for hi in high if hi is not None), Fraction(0))
    if slot.whole:
        left, found = total - least, list[Fraction]()
        for lo, hi in zip(low, high, strict=True):
            assert lo is not None
            assert hi is not None
            step = min(left, hi - lo)
            found.append(lo + step)
            left -= step
        return found
    share = Fraction(0) if most == least else (total - least) / (most - least)
    return [lo + share * (hi - lo) for lo, hi in zip(low, high, strict=True) if lo is not None and hi is not None]


def _unbounded(low: list[Fraction | None], high: list[Fraction | None], total: Fraction) -> list[Fraction]:
    """The same where somebody's room has no end: all others stay inside theirs, and he takes the rest."""
    found: list[Fraction] = []
    for lo, hi in zip(low, high, strict=True):
        if lo is not None and hi is not None:
            found.append((lo + hi) / 2 if lo != hi else lo)
        else:
            found.append(lo + 1 if lo is not None else hi - 1 if hi is not None else Fraction(0))
    rest = total - sum(found)
    for i, (lo, hi) in enumerate(zip(low, high, strict=True)):
        if (rest > 0 and hi is None) or (rest < 0 and lo is None):
            found[i] += rest
            return found
    return found  # not the total: whoever takes it in checks it
