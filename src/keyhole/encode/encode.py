"""A system as worlds: people by class and column, sums as rows over totals, order statistics as rows over counts.

The numbers that occur in answers and declarations cut the line of a column into spans. Classes are the atoms of the
system; of a group whose two middle people are chosen everybody is alone. Numbers are multiples of a unit, so that all
rows are whole. What cannot be put in is named: nothing false follows then, and nobody is shown open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, gcd, lcm

import numpy as np

from keyhole.encode.order import Ranked, cut_ends, is_order
from keyhole.gather.evidence import GIVEN, Constraint, System
from keyhole.model.grid import Grid
from keyhole.model.schema import Column
from keyhole.solve.worlds.model import Middle, Row, Slot, Span, Worlds
from keyhole.solve.worlds.search import Table

SLOTS = 400  # classes of people, by column
UNKNOWNS = 30_000
FINER = 64  # parts of what occurs, to which ends of reals are rounded outwards

NOT_PUT_IN = (
    "some answer is no order statistic under a public condition and no sum, and all of them were not judged together"
)
LARGE_MIDDLE = "a median or quantile of many people lies between two of them, and who they are was not searched"
NOT_AT_HAND = "some answer is not at hand, and what is declared can give away more with it"


class TooManyPeople(Exception):
    """More classes, or more thresholds, than are looked at."""


@dataclass(frozen=True, slots=True)
class Line:
    """The numbers of a column as base + unit * n, cut into spans; `whole`: no number lies between two units."""

    base: Fraction
    unit: Fraction
    whole: bool
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, grid: Grid, cuts: Iterable[Fraction], numbers: Sequence[Fraction] | None, fine: int) -> Line:
        """Of what a column can hold; `numbers` are the only ones, `fine` a denominator of what answers add up to.

        >>> line = Line.of(Grid(Fraction(1), lo=Fraction(0), hi=Fraction(9)), [Fraction(5)], None, 1)
        >>> [(s.lo, s.hi, s.open) for s in line.spans], line.first_of(Fraction(5)), line.above(Fraction(5))
        ([(0, 4, False), (5, 5, False), (6, 9, False)], 1, 2)
        """
        points = sorted(set(cuts))
        if numbers is not None:
            unit = Fraction(1, lcm(*(n.denominator for n in numbers)))
            return cls(Fraction(0), unit, True, tuple(Span(int(n / unit), int(n / unit)) for n in sorted(set(numbers))))
        if grid.step is not None:
            base, unit = grid.base, grid.step
        else:
            ends = [e for e in (grid.lo, grid.hi) if e is not None]
            base, unit = Fraction(0), Fraction(1, FINER * lcm(fine, *(e.denominator for e in (*points, *ends))))

        def placed(end: Fraction | None) -> int | None:
            return None if end is None else int((end - base) / unit)

        spans: list[Span] = []
        for low, high in zip([None, *points], [*points, None], strict=True):
            inner = grid.between(low, high, open=True)
            if inner is not None:
                spans += _inner(grid, inner, low, high, *map(placed, inner))
            if high is not None and grid.between(high, high) is not None:
                spans.append(Span(placed(high), placed(high)))
        return cls(base, unit, grid.step is not None, tuple(spans))

    def inside(self, spans: Iterable[Span], lo: Fraction | None, hi: Fraction | None) -> tuple[Span, ...]:
        """The spans of numbers from lo to hi, which are cuts."""
        low, high = (None if end is None else (end - self.base) / self.unit for end in (lo, hi))
        return tuple(
            s
            for s in spans
            if (low is None or (s.lo is not None and s.lo >= low))
            and (high is None or (s.hi is not None and s.hi <= high))
        )

    def first_of(self, cut: Fraction, spans: Sequence[Span] | None = None) -> int:
        """The first span of numbers that are at least a cut; how many there are if none is."""
        at, listed = (cut - self.base) / self.unit, self.spans if spans is None else spans
        return next((t for t, s in enumerate(listed) if s.lo is not None and s.lo >= at), len(listed))

    def above(self, cut: Fraction, spans: Sequence[Span] | None = None) -> int:
        """The first span of numbers that are greater than a cut."""
        at, listed = (cut - self.base) / self.unit, self.spans if spans is None else spans
        found = (t for t, s in enumerate(listed) if s.lo is not None and (s.lo > at or (s.open and s.lo >= at)))
        return next(found, len(listed))

    def gaps(self, spans: Sequence[Span]) -> frozenset[int]:
        """The spans below which some number is missing."""
        pairs = enumerate(pairwise(spans), 1)
        if self.whole:
            return frozenset(t for t, (a, b) in pairs if a.hi is None or b.lo != a.hi + 1)
        return frozenset(t for t, (a, b) in pairs if a.hi != b.lo)


def _inner(
    grid: Grid,
    inner: tuple[Fraction | None, Fraction | None],
    low: Fraction | None,
    high: Fraction | None,
    lo: int | None,
    hi: int | None,
) -> list[Span]:
    """What lies between two cuts: on a grid one run; of reals an open interval, and declared ends as points."""
    if grid.step is not None:
        return [Span(lo, hi)]
    if lo is not None and lo == hi:
        return [Span(lo, hi)]
    ends = []
    if lo is not None and inner[0] != low:
        ends.append(Span(lo, lo))
    ends.append(Span(lo, hi, open=True))
    if hi is not None and inner[1] != high:
        ends.append(Span(hi, hi))
    return ends


@dataclass(frozen=True, slots=True)
class Held:
    """Whom a slot is about: a column, an atom, and the rows."""

    column: str
    atom: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A system as worlds; `missing` says what is not put in, `sure` whether the rows say all that answers say."""

    worlds: Worlds
    held: tuple[Held, ...]
    lines: Mapping[str, Line]
    ranked: Mapping[str, Ranked]
    sums: Mapping[str, tuple[Constraint, Mapping[int, Fraction]]]  # name -> answer, and the factor of each slot's total
    columns: Mapping[str, Column]
    missing: str
    sure: bool

    def value(self, slot: int, units: Fraction) -> Fraction:
        """A number of units as a value."""
        line = self.lines[self.held[slot].column]
        return line.base + line.unit * units

    def apart(self, slot: int) -> Encoded:
        """The same with one person of a slot in a slot of his own, which is the last one."""
        whole, one = self.held[slot], self.held[slot].rows[:1]
        held = (
            *self.held[:slot],
            replace(whole, rows=whole.rows[1:]),
            *self.held[slot + 1 :],
            replace(whole, rows=one),
        )
        sums = {
            name: (c, {**factors, len(self.held): factors[slot]} if slot in factors else factors)
            for name, (c, factors) in self.sums.items()
        }
        return replace(self, worlds=self.worlds.split(slot), held=held, sums=sums)

    def gives(self, table: Table, names: Iterable[str]) -> bool:
        """Does a table surely have these answers, and only values that can be? In fractions, whatever proposed it."""
        values = [[self.value(s, v) for v in each] for s, each in enumerate(table.values)]
        return all(self._given(name, values) for name in names)

    def _given(self, name: str, values: list[list[Fraction]]) -> bool:
        if name in self.ranked:
            fact = self.ranked[name]
            inside = (
                v
                for s, h in enumerate(self.held)
                if h.column == fact.column and h.atom in fact.atoms
                for v in values[s]
            )
            return fact.given_by(list(inside), self.columns[fact.column])
        row, factors = self.sums[name]
        total = sum((c * sum(values[s], Fraction(0)) for s, c in factors.items()), Fraction(0))
        edge = edge_of(row)
        if edge is None:
            return (row.lo is None or total >= row.lo) and (row.hi is None or total <= row.hi)
        return (row.lo is None or total > row.lo + edge) and (row.hi is None or total < row.hi - edge)


def edge_of(row: Constraint) -> Fraction | None:
    """How far inside its ends a row surely gives its answer; None: on them too."""
    return None if row.exact or row.fact is not None or row.judged_as == GIVEN else row.edge


def encode(
    system: System, grids: Mapping[str, Grid], columns: Mapping[str, Column], numbers: Mapping[str, list[Fraction]]
) -> Encoded:
    """The worlds of a system; `numbers` are the only ones of some columns. Raises TooManyPeople."""
    return _Builder(system, grids, columns, numbers).encoded()


class _Builder:
    def __init__(
        self,
        system: System,
        grids: Mapping[str, Grid],
        columns: Mapping[str, Column],
        numbers: Mapping[str, list[Fraction]],
    ) -> None:
        self.system, self.grids, self.columns, self.numbers = system, grids, columns, numbers
        self.missing = ""
        self.plain = {f for f, x in enumerate(system.features) if self._is_plain(f) and x.column in grids}
        self.ranked = {r.fact.number: r for r in self._ranked()}
        self.sums = {c.number: c for c in self._sums()}
        self.slots: list[Slot] = []
        self.held: list[Held] = []
        self.at: dict[tuple[str, int], list[int]] = {}
        self.unknowns = 0

    def _is_plain(self, f: int) -> bool:
        feature = self.system.features[f]
        alone = sum(g.column == feature.column and g.power == 1 for g in self.system.features) == 1
        return feature.power == 1 and feature.guard is None and feature.column is not None and alone

    def _miss(self, why: str) -> None:
        self.missing = self.missing or why

    def _ranked(self) -> Iterator[Ranked]:
        atoms = self.system.atoms
        for fact in self.system.order:
            if not is_order(fact.query) or fact.where is None or fact.query.terms[0].column not in self.grids:
                self._miss(NOT_PUT_IN)
                continue
            inside = frozenset(np.flatnonzero(atoms.mask(fact.where)).tolist())
            inside = frozenset(k for k in inside if self._present(fact.query.terms[0].column or "", k))
            n = sum(int(atoms.sizes[k]) for k in inside)
            if fact.answer is None:
                self._miss(NOT_AT_HAND)
            elif n and not fact.answer.null and (fact.lo is not None or fact.hi is not None):
                name = fact.query.terms[0].column or ""
                yield Ranked.of(fact, self.columns[name], self.grids[name], inside, n)
            elif n:
                self._miss(NOT_PUT_IN)

    def _present(self, column: str, atom: int) -> bool:
        where = self.system.present.get(column)
        return where is None or self.system.atoms.holds(where, atom)

    def _sums(self) -> Iterator[Constraint]:
        for c in self.system.constraints:
            if not c.parts:
                continue
            if not all(p.feature in self.plain for p in c.parts):
                self._miss(NOT_PUT_IN)
            elif c.lo is None and c.hi is None:
                self._miss(NOT_AT_HAND)
            else:
                yield c

    # -- people -------------------------------------------------------------------------------------------------------

    def encoded(self) -> Encoded:
        """Everything, in the order: lines, slots, rows."""
        if self.system.partitions or self.system.equal:
            self._miss(NOT_PUT_IN)
        factors = {name: self.system.row(c).items() for name, c in self.sums.items()}
        lines = {name: self._line(name) for name in self.grids if name in self.system.columns}
        alone = {(r.column, k) for r in self.ranked.values() if r.chosen for k in r.atoms}
        for name, line in lines.items():
            touched = {k for r in self.ranked.values() if r.column == name for k in r.atoms}
            touched |= {u % self.system.atoms.K for f in factors.values() for u in f if self._of(u) == name}
            self._people(name, line, sorted(k for k in touched if self._present(name, k)), alone)
        sums = {name: (self.sums[name], self._by_slot(found)) for name, found in factors.items()}
        rows = [*self._sum_rows(sums, lines), *(row for r in self.ranked.values() for row in self._rank_rows(r, lines))]
        middles = [self._middle(r, lines[r.column]) for r in self.ranked.values() if r.chosen]
        if any(r.j != r.k and not r.chosen for r in self.ranked.values()):
            self._miss(LARGE_MIDDLE)
        sure = all(r.fact.exact for r in self.ranked.values()) and all(row.edge is None for row in rows)
        worlds = Worlds(tuple(self.slots), tuple(rows), tuple(middles), self.unknowns)
        return Encoded(worlds, tuple(self.held), lines, self.ranked, sums, self.columns, self.missing, sure)

    def _of(self, unknown: int) -> str:
        return self.system.features[unknown // self.system.atoms.K].column or ""

    def _line(self, name: str) -> Line:
        """The line of a column, cut at its answers and at what facts say of it."""
        cuts = [e for r in self.ranked.values() if r.column == name for e in (r.fact.lo, r.fact.hi) if e is not None]
        cuts += [e for b in self.system.bounds if b.column == name for e in (b.lo, b.hi) if e is not None]
        fine = [1]
        if self.grids[name].step is None:
            fine += [
                e.denominator
                for c in self.sums.values()
                for e in (c.lo, c.hi)
                if e is not None and e.denominator < 2**20
            ]
        return Line.of(self.grids[name], cuts, self.numbers.get(name), lcm(*fine))

    def _people(self, name: str, line: Line, atoms: list[int], alone: set[tuple[str, int]]) -> None:
        if not atoms:
            return
        of = self.system.atoms.of
        order = np.argsort(of, kind="stable")
        starts = np.searchsorted(of[order], np.arange(self.system.atoms.K + 1))
        for k in atoms:
            spans = line.spans
            for b in self.system.bounds:
                if b.column == name and self.system.atoms.holds(b.where, k):
                    spans = line.inside(spans, b.lo, b.hi)
            rows = tuple(order[starts[k] : starts[k + 1]].tolist())
            apart = [(r,) for r in rows] if (name, k) in alone else [rows]
            for each in apart:
                self._slot(Held(name, k, each), line, spans)

    def _slot(self, held: Held, line: Line, spans: tuple[Span, ...]) -> None:
        total, counts = self.unknowns, tuple(range(self.unknowns, self.unknowns + max(1, len(spans))))
        self.unknowns += len(counts) + 1
        self.at.setdefault((held.column, held.atom), []).append(len(self.slots))
        self.held.append(held)
        total = counts[-1] + 1
        self.slots.append(Slot(len(held.rows), spans, total, counts, line.whole, line.gaps(spans)))
        if len(self.slots) > SLOTS or self.unknowns > UNKNOWNS:
            raise TooManyPeople

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _by_slot(self, factors: Mapping[int, Fraction]) -> dict[int, Fraction]:
        """The factor of the total of each slot."""
        K = self.system.atoms.K
        return {s: c for u, c in factors.items() for s in self.at.get((self._of(u), u % K), ())}

    def _sum_rows(
        self, sums: Mapping[str, tuple[Constraint, Mapping[int, Fraction]]], lines: Mapping[str, Line]
    ) -> Iterator[Row]:
        for name, (c, factors) in sums.items():
            terms, gone = {}, Fraction(0)
            for s, factor in factors.items():
                line = lines[self.held[s].column]
                terms[self.slots[s].total] = factor * line.unit
                gone += factor * line.base * self.slots[s].people
            edge = edge_of(c)
            ends = [None if e is None else e - gone for e in (c.lo, c.hi)]
            scale = lcm(*(v.denominator for v in (*terms.values(), *(e for e in (*ends, edge) if e is not None))))
            lo, hi = (None if e is None else int(e * scale) for e in ends)
            whole = tuple((u, int(v * scale)) for u, v in terms.items())
            if all(self.slots[s].whole for s in factors):  # what is added up is whole
                step = gcd(*(v for _, v in whole))
                if step > 1 and edge is None:
                    lo = None if lo is None else -((-lo) // step)
                    hi = None if hi is None else hi // step
                    whole = tuple((u, v // step) for u, v in whole)
            yield Row(whole, lo, hi, name, None if edge is None else int(edge * scale))

    def _rank_rows(self, r: Ranked, lines: Mapping[str, Line]) -> Iterator[Row]:
        line, name = lines[r.column], r.fact.number
        inside = [s for k in sorted(r.atoms) for s in self.at[r.column, k]]
        lo, hi = r.fact.lo, r.fact.hi
        if hi is not None:
            yield self._counted(inside, line, None, r.n - r.j, name, above=hi)
        if lo is not None:
            yield self._counted(inside, line, r.n - r.k + 1, None, name, first=lo)

    def _counted(
        self,
        inside: list[int],
        line: Line,
        least: int | None,
        most: int | None,
        name: str,
        *,
        above: Fraction | None = None,
        first: Fraction | None = None,
    ) -> Row:
        """How many are above a number, or at least so much."""
        terms: list[tuple[int, int]] = []
        surely = 0
        for s in inside:
            slot = self.slots[s]
            t = line.above(above, slot.spans) if above is not None else line.first_of(first or Fraction(0), slot.spans)
            if t == 0:
                surely += slot.people
            elif t < len(slot.spans):
                terms.append((slot.counts[t], 1))
        ends = [None if e is None else e - surely for e in (least, most)]
        return Row(tuple(terms), ends[0], ends[1], name)

    def _middle(self, r: Ranked, line: Line) -> Middle:
        """The two in the middle: share by share of their units."""
        slots = tuple(s for k in sorted(r.atoms) for s in self.at[r.column, k])
        ends = [None if e is None else (e - line.base) / line.unit for e in (r.fact.lo, r.fact.hi)]
        scale = lcm(r.share.denominator, *(e.denominator for e in ends if e is not None))
        low, high = int((1 - r.share) * scale), int(r.share * scale)
        step = gcd(low, high) if line.whole else 1
        lo, hi = (None if e is None else e * scale / step for e in ends)
        least, most = None if lo is None else ceil(lo), None if hi is None else floor(hi)
        cut = cut_ends(r.fact, self.columns[r.column]) if line.whole else None
        if cut is not None:  # the far end is outside
            near, far = ((e - line.base) / line.unit * scale / step for e in cut)
            least = ceil(near) if near < far and cut[0] != -cut[1] else floor(min(near, far)) + 1
            most = ceil(max(near, far)) - 1 if near < far else floor(near)
        return Middle(slots, r.j, low // step, high // step, least, most, r.fact.number)
