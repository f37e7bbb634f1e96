"""Is there a table with the same answers in which somebody has another value? Decided by branching on counts.

Bounds are narrowed by rows (`bounds`); where a count row neither surely holds nor surely fails, its unknowns are split;
once all hold, totals are a linear program (`Leaf`), and totals that must be whole are split too. A quantile between two
values is split by who the two in the middle are. Exact both ways: a table is one, and None means that there is none.
Cost: exponential in the worst case, so the number of branches is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import ceil, floor

from keyhole.solve.interval.polytope import Polytope, Side
from keyhole.solve.interval.simplex import Simplex
from keyhole.solve.worlds.bounds import Bounds, Fixpoint, Impossible, added, is_met, narrow_row
from keyhole.solve.worlds.model import Middle, Row, Slot, Worlds

BRANCHES = 400  # of one question
WORK = 2_000  # branches of all questions of one log
DEEP = 200  # splits one after the other
ROUNDS = 30  # of the rows of choices: ends without a limit may creep
REFUSED = 12  # leaves of which no table is accepted


class TooManyBranches(Exception):
    """The limit was reached: neither a table nor a refutation was found."""


@dataclass(slots=True)
class Work:
    """How many branches may still be looked at, by all searches that share it."""

    left: int = WORK

    def spend(self) -> None:
        """One branch; TooManyBranches where none is left."""
        self.left -= 1
        if self.left < 0:
            raise TooManyBranches


@dataclass(frozen=True, slots=True)
class Asked:
    """Ends between which the total of a slot is asked for; they are outside."""

    slot: int
    lo: Fraction | None = None
    hi: Fraction | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table: the values of the people of each slot, in units, the greatest first; `loose` slots have several here."""

    values: tuple[tuple[Fraction, ...], ...]
    loose: frozenset[int]
    ends: dict[int, tuple[Fraction | None, Fraction | None]]  # of the totals of some slots, between which all can be


Off = tuple[int, Fraction]  # a slot, and the number that its total may not reach


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
                found.append((s, Fraction(end)))
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


@dataclass(slots=True)
class _Node:
    bounds: Bounds
    extra: tuple[Row, ...] = ()  # of the choices made
    chosen: frozenset[str] = frozenset()  # middles whose people are chosen


@dataclass(slots=True)
class Search:
    """Searches the tables of worlds. `accept` has the last word on a table, where a row alone does not say all.

    >>> from keyhole.solve.worlds.model import Slot, Span
    >>> low, nine = Span(0, 8), Span(9, 9)
    >>> slots = [Slot(1, (low, nine), 2 * k, (0, 2 * k + 1), True) for k in range(2)]
    >>> top = Row(((1, 1), (3, 1)), 1, None, "1")  # MAX of two people is 9
    >>> search = Search(Worlds(tuple(slots), (top,), (), 4))
    >>> one, other = (Asked(k, hi=Fraction(9)) for k in range(2))
    >>> search.find([one]).values[1], search.find([one, other])
    ((Fraction(9, 1),), None)
    """

    worlds: Worlds
    accept: Callable[[Table], bool] = lambda _: True
    inside: bool = False
    work: Work = field(default_factory=Work)
    _narrowing: Fixpoint = field(init=False)
    _left: Work = field(default_factory=Work)
    _refused: int = 0
    _counting: list[Row] = field(init=False)
    _adding: list[Row] = field(init=False)
    _asked: Sequence[Asked] = ()
    _wanted: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._narrowing = Fixpoint(self.worlds)
        self._adding = [r for r in self.worlds.rows if all(u in self.worlds.totals for u, _ in r.terms)]
        self._counting = [r for r in self.worlds.rows if not all(u in self.worlds.totals for u, _ in r.terms)]

    def start(self) -> Bounds:
        """What rows leave of every unknown; raises Impossible."""
        bounds = Bounds.of(self.worlds)
        self._narrowing.narrow(bounds)
        return bounds

    def find(
        self, asked: Sequence[Asked] = (), start: Bounds | None = None, wanted: frozenset[int] = frozenset()
    ) -> Table | None:
        """A table with narrower totals; None: there is none. Of `wanted` slots it says what else they can have here."""
        self._left, self._refused, self._asked, self._wanted = Work(BRANCHES), 0, asked, wanted
        try:
            bounds = (self.start() if start is None else start).copy()
            changed: set[int] = set()
            for each in asked:
                slot = self.worlds.slots[each.slot]
                if each.lo is not None:  # of reals rounded outwards: the leaf has the end itself
                    changed |= _raise(bounds, slot.total, floor(each.lo) + (1 if slot.whole else 0))
                if each.hi is not None:
                    changed |= _lower(bounds, slot.total, ceil(each.hi) - (1 if slot.whole else 0))
            self._narrowing.narrow(bounds, changed)
        except Impossible:
            return None
        return self._search(_Node(bounds), 0)

    # --- branching ---------------------------------------------------------------------------------------------------

    def _search(self, node: _Node, depth: int) -> Table | None:
        self._spend()
        if depth > DEEP:
            raise TooManyBranches
        leaf: Leaf | None = None
        if len(self._adding) + len(node.extra) > 1:  # a relaxation, before counts are decided
            leaf = self._leaf(node)
            totals = leaf.table()
            if totals is None:
                return None
        split = self._unmet(node.bounds) or self._gap(node.bounds)
        if split is not None:
            return self._either(node, depth, *split)
        middle = next((m for m in self.worlds.middles if m.name not in node.chosen), None)
        if middle is not None:
            for made in self._choices(node, middle):
                found = self._search(made, depth + 1)
                if found is not None:
                    return found
            return None
        return self._at_leaf(node, leaf or self._leaf(node), depth)

    def _spend(self) -> None:
        self._left.spend()
        self.work.spend()

    def _either(self, node: _Node, depth: int, u: int, at: int, up: bool) -> Table | None:
        """First the unknown at `at` or above (or with not `up` below it), then the other half."""
        for above in (up, not up):
            bounds = node.bounds.copy()
            changed = _raise(bounds, u, at) if above else _lower(bounds, u, at - 1)
            if not self._narrowed(bounds, changed, node.extra):
                continue
            found = self._search(_Node(bounds, node.extra, node.chosen), depth + 1)
            if found is not None:
                return found
        return None

    def _narrowed(self, bounds: Bounds, changed: set[int], extra: Sequence[Row]) -> bool:
        try:
            for _ in range(ROUNDS):
                self._narrowing.narrow(bounds, changed)
                changed = set()
                for row in extra:
                    changed |= narrow_row(row, bounds, self.worlds.slot_of, self.worlds)
                if not changed:
                    break
        except Impossible:
            return False
        return True

    def _unmet(self, bounds: Bounds) -> tuple[int, int, bool] | None:
        """An unknown of a row of counts that does not surely hold, and where to split it."""
        best: tuple[int, int, bool] | None = None
        fewest = 0
        for row in self._counting:
            if is_met(row, bounds):
                continue
            free = [(u, c) for u, c in row.terms if bounds.lo[u] != bounds.hi[u]]
            if best is not None and len(free) >= fewest:
                continue
            least = sum(c * (bounds.lo[u] or 0) for u, c in row.terms)  # coefficients of counts are 1
            most = sum(c * (bounds.hi[u] or 0) for u, c in row.terms)
            fewest = len(free)
            if row.lo is not None and least < row.lo:
                u, _ = max(free, key=lambda each: bounds.hi[each[0]] or 0)
                best = (u, min(bounds.hi[u] or 0, (bounds.lo[u] or 0) + row.lo - least), True)
            elif row.hi is not None and most > row.hi:
                u, _ = min(free, key=lambda each: bounds.lo[each[0]] or 0)
                best = (u, max((bounds.lo[u] or 0) + 1, (bounds.hi[u] or 0) - (most - row.hi) + 1), False)
        return best

    def _gap(self, bounds: Bounds) -> tuple[int, int, bool] | None:
        """A count at a gap of the line that is not decided."""
        for slot in self.worlds.slots:
            for t in slot.gaps:
                if bounds.least(slot, t) < bounds.most(slot, t):
                    return slot.counts[t], bounds.least(slot, t) + 1, False
        return None

    def _choices(self, node: _Node, middle: Middle) -> Iterator[_Node]:
        """Who has the j-th value and who the next; everybody else is at most the one, or at least the other."""
        total = {s: self.worlds.slots[s].total for s in middle.slots}
        lo, hi = node.bounds.lo, node.bounds.hi

        def below(i: int, k: int) -> bool:
            """Can the one be at most as great as the other?"""
            least, most = lo[total[i]], hi[total[k]]
            return least is None or most is None or least <= most

        name = middle.name
        for p in middle.slots:
            for q in middle.slots:
                if p == q or not below(p, q):
                    continue
                others = [s for s in middle.slots if s not in (p, q)]
                free = [s for s in others if below(s, p) and below(q, s)]
                low = [s for s in others if below(s, p) and not below(q, s)]
                if len(low) + len(free) < middle.j - 1 or any(not below(s, p) and not below(q, s) for s in others):
                    continue
                if len(low) > middle.j - 1:
                    continue
                for more in combinations(free, middle.j - 1 - len(low)):
                    self._spend()
                    mine = {*low, *more}
                    between = ((total[p], middle.low), (total[q], middle.high))
                    rows = [
                        Row(between, middle.lo, middle.hi, name),
                        Row(((total[q], 1), (total[p], -1)), 0, None, name),
                    ]
                    rows += [
                        Row(((total[p if s in mine else s], 1), (total[s if s in mine else q], -1)), 0, None, name)
                        for s in others
                    ]
                    bounds, extra = node.bounds.copy(), (*node.extra, *rows)
                    if self._narrowed(bounds, set(), extra):
                        yield _Node(bounds, extra, node.chosen | {name})

    # --- leaves ------------------------------------------------------------------------------------------------------

    def _leaf(self, node: _Node) -> Leaf:
        above = [(a.slot, a.lo) for a in self._asked if a.lo is not None and not self.worlds.slots[a.slot].whole]
        below = [(a.slot, a.hi) for a in self._asked if a.hi is not None and not self.worlds.slots[a.slot].whole]
        return Leaf(self.worlds, node.bounds, (*self._adding, *node.extra), above, below, self.inside)

    def _at_leaf(self, node: _Node, leaf: Leaf, depth: int) -> Table | None:
        totals = leaf.table()
        if totals is None:
            return None
        for s, total in totals.items():
            slot = self.worlds.slots[s]
            if slot.whole and total.denominator != 1:
                return self._either(node, depth, slot.total, total.numerator // total.denominator + 1, True)
        table = self._table(node, leaf, totals)
        if not self.accept(table):
            self._refused += 1
            if self._refused > REFUSED:
                raise TooManyBranches
            return self._others(node, leaf)
        return self._loosened(table, leaf, totals)

    def _loosened(self, table: Table, leaf: Leaf, totals: dict[int, Fraction]) -> Table:
        """The same, with what else wanted totals can be where nothing else changes."""
        loose, ends = set(table.loose), dict(table.ends)
        for s in self._wanted & totals.keys():
            slot = self.worlds.slots[s]
            sides: list[Side] = ["lo", "hi"]
            reached = [leaf.far(s, side) for side in sides]
            ends[s] = (reached[0][0], reached[1][0])
            for end, made in reached:
                whole = all(t.denominator == 1 for n, t in made.items() if self.worlds.slots[n].whole)
                if end != totals[s] and (whole or not slot.whole):
                    loose.add(s)
        return Table(table.values, frozenset(loose), ends)

    def _others(self, node: _Node, leaf: Leaf) -> Table | None:
        """Other tables of a leaf, where the first is not accepted: those at the ends of totals."""
        for s in leaf.slots:
            sides: list[Side] = ["lo", "hi"]
            for side in sides:
                _, totals = leaf.far(s, side)
                if all(t.denominator == 1 for n, t in totals.items() if self.worlds.slots[n].whole):
                    table = self._table(node, leaf, totals)
                    if self.accept(table):
                        return table
        return None

    def _table(self, node: _Node, leaf: Leaf, totals: dict[int, Fraction]) -> Table:
        values: list[tuple[Fraction, ...]] = []
        loose: set[int] = set()
        ends: dict[int, tuple[Fraction | None, Fraction | None]] = {}
        for s, slot in enumerate(self.worlds.slots):
            lo, hi = node.bounds.lo[slot.total], node.bounds.hi[slot.total]
            if s in totals:
                total = totals[s]
            else:
                total = _between(lo, hi, whole=slot.whole)
                ends[s] = (None if lo is None else Fraction(lo), None if hi is None else Fraction(hi))
                if lo is None or hi is None or lo < hi:
                    loose.add(s)
            values.append(tuple(spread(slot, node.bounds, total)))
        return Table(tuple(values), frozenset(loose), ends)


def _between(lo: int | None, hi: int | None, *, whole: bool) -> Fraction:
    if lo is None or hi is None:
        return Fraction(lo + 1 if lo is not None else hi - 1 if hi is not None else 0)
    return Fraction(lo) if whole else Fraction(lo + hi, 2)


def _raise(bounds: Bounds, u: int, at: int) -> set[int]:
    before = bounds.lo[u]
    if before is not None and before >= at:
        return set()
    bounds.lo[u] = at
    return {u}


def _lower(bounds: Bounds, u: int, at: int) -> set[int]:
    before = bounds.hi[u]
    if before is not None and before <= at:
        return set()
    bounds.hi[u] = at
    return {u}
