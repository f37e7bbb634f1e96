"""Worlds: all tables that answers and declarations leave possible, as counts above thresholds and totals.

The numbers that occur in answers and declarations cut the line into spans: points, and what lies between them. Of each
class of people (a `Slot`: people whom no statement tells apart, by one column) the unknowns are how many lie in each
span or above it, and their total. A table is possible iff every row holds: sums are rows over totals, order statistics
are rows over counts; a quantile between two values (`Middle`) is a choice of the two people in the middle.
All numbers are whole: multiples of the unit of their column. Those of a slot that is not `whole` are bounds of reals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

End = int | None  # None: without end


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from lo to hi, in units (None: without end); `open`: all between the ends, which are outside."""

    lo: End
    hi: End
    open: bool = False

    @property
    def point(self) -> int | None:
        """The number, if it is one."""
        return self.lo if self.lo is not None and self.lo == self.hi else None


@dataclass(frozen=True, slots=True)
class Slot:
    """People whom no statement tells apart, by one column: `spans` are ordered, and each person is in one of them.

    `total` is the unknown that is their sum; `counts[t]`, t >= 1, how many of them are in span t or above.
    `gaps` are the spans below which there is no number that would join them to the one before.
    """

    people: int
    spans: tuple[Span, ...]
    total: int
    counts: tuple[int, ...]
    whole: bool
    gaps: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    """lo <= sum of coefficient * unknown <= hi. `edge`: a table surely has the answer only inside the ends by more.

    `edge` None: on the ends too.
    """

    terms: tuple[tuple[int, int], ...]
    lo: End
    hi: End
    name: str
    edge: int | None = None


@dataclass(frozen=True, slots=True)
class Middle:
    """Of people who are alone in their slots: lo <= low * (j-th least) + high * (the next one) <= hi."""

    slots: tuple[int, ...]
    j: int
    low: int
    high: int
    lo: End
    hi: End
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Worlds:
    """Slots, rows over their unknowns, and choices of middles; `unknowns` says how many unknowns there are."""

    slots: tuple[Slot, ...]
    rows: tuple[Row, ...]
    middles: tuple[Middle, ...]
    unknowns: int
    slot_of: dict[int, int] = field(init=False)  # unknown -> its slot
    totals: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        of = {u: s for s, slot in enumerate(self.slots) for u in (slot.total, *slot.counts[1:])}
        object.__setattr__(self, "slot_of", of)
        object.__setattr__(self, "totals", frozenset(slot.total for slot in self.slots))

    def only(self, names: frozenset[str]) -> Worlds:
        """The same with what some answers say, and nothing else."""
        rows = tuple(r for r in self.rows if r.name in names)
        return Worlds(self.slots, rows, tuple(m for m in self.middles if m.name in names), self.unknowns)

    def split(self, s: int) -> Worlds:
        """The same with one person of a slot in a slot of his own, which is the last one."""
        slot, new = self.slots[s], self.unknowns
        others = Slot(slot.people - 1, slot.spans, slot.total, slot.counts, slot.whole, slot.gaps)
        own = tuple(range(new, new + len(slot.counts)))
        alone = Slot(1, slot.spans, new + len(own), own, slot.whole, slot.gaps)
        twin = {slot.total: alone.total} | dict(zip(slot.counts[1:], own[1:], strict=True))
        rows = [
            Row((*r.terms, *((twin[u], c) for u, c in r.terms if u in twin)), r.lo, r.hi, r.name, r.edge)
            for r in self.rows
        ]
        slots = (*self.slots[:s], others, *self.slots[s + 1 :], alone)
        return Worlds(slots, tuple(rows), self.middles, alone.total + 1)

    def parts(self, fixed: Sequence[bool]) -> list[tuple[list[int], frozenset[str]]]:
        """(slots, names of answers) of the parts that have nothing to do with each other; fixed slots tie nothing."""
        ties = [({self.slot_of[u] for u, _ in row.terms}, row.name) for row in self.rows]
        ties += [(set(m.slots), m.name) for m in self.middles]
        merged: list[tuple[set[int], set[str]]] = []
        for slots, name in ties:
            free = {s for s in slots if not fixed[s]}
            near = [each for each in merged if each[0] & free]
            merged = [each for each in merged if not each[0] & free]
            merged.append((free.union(*(e[0] for e in near)), {name}.union(*(e[1] for e in near))))
        return [(sorted(slots), frozenset(names)) for slots, names in merged if slots]
