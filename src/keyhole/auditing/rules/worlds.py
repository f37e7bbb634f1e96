"""Order statistics and sums together: what is the same in every table that gives the answers, and who is shown open.

The log is encoded as worlds (`keyhole.encode`), and each part of it that hangs together is searched: a person whose
value no table changes is exposed, one who has two or three values in all tables has a short list, everybody else is
open by a second table that gives all answers in fractions. Exact for few people; where there are too many tables the
verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from keyhole.auditing.base import SHORT_LIST, OrderSteps, Proof, RankUsed, Status, query_order
from keyhole.auditing.exchange.records import FEW_VALUES, LISTED
from keyhole.auditing.known import Claim, Known, Rule, ShownOpen
from keyhole.auditing.numbers import Within, written
from keyhole.auditing.rules.settle import settled
from keyhole.encode import Encoded, TooManyPeople, encode
from keyhole.gather.evidence import Contradiction, System
from keyhole.model.numbers import shorten_fraction
from keyhole.solve.worlds.bounds import Bounds, Impossible
from keyhole.solve.worlds.search import Asked, Search, Table, TooManyBranches, Work

IN_EVERY_TABLE = "in every table that gives these answers it is the same"
PAIR = "one of the two has the least value and the other the greatest"
MOST_PEOPLE = 60  # of a part that hangs together
FEW_PEOPLE = 14  # of a part whose ranges and lists are searched
DUST = 1000  # times the radii of floating-point sums: what is no difference between two values
TOO_MANY = "the tables that give the order statistics are too many to look at"
UNSURE = "some answer is rounded or compared, and no table was found that surely gives it"


def worlds(within: Within | None = None) -> Rule:
    """The rule; a range of at most `within` counts as inferred."""

    def rule(system: System, known: Known) -> Iterator[Claim | Contradiction | ShownOpen]:
        number = known.number(system)
        if number in known.encoded or not system.order or known.decided(system):
            return
        known.encoded[number] = ""
        columns = {c.name: c for c in known.schema.columns}
        numbers = {
            n: list(map(Fraction, p)) for n in system.columns if (p := known.evidence.prior(n).numbers) is not None
        }
        try:
            made = encode(system, known.grids(system), columns, numbers)
        except TooManyPeople:
            known.encoded[number] = TOO_MANY
            return
        yield from _Judged(made, known, number, within).claims()

    return rule


@dataclass(slots=True)
class _Part:
    """Slots that hang together, the answers that tie them, and what their people have in tables that were found."""

    made: Encoded
    slots: Sequence[int]
    names: frozenset[str]
    start: Bounds
    margin: dict[str, Fraction]
    work: Work
    seen: dict[int, set[Fraction]] = field(default_factory=dict)  # in tables that surely give the answers
    near: dict[int, set[Fraction]] = field(default_factory=dict)  # in tables that may give them
    loose: set[int] = field(default_factory=set)
    closed: Search = field(init=False)
    strict: Search = field(init=False)

    def __post_init__(self) -> None:
        narrow = self.made.worlds.only(self.names)
        self.closed = Search(narrow, work=self.work)
        self.strict = Search(narrow, lambda table: self.made.gives(table, self.names), inside=True, work=self.work)
        self.seen = {s: set() for s in self.slots}
        self.near = {s: set() for s in self.slots}

    def find(self, asked: Sequence[Asked] = ()) -> Table | None:
        """A table that may give the answers; None only if there is none at all."""
        found = self.closed.find(asked, self.start, frozenset(self.slots))
        if found is not None:
            self._take(found, self.near)
            if self.made.gives(found, self.names):
                self._take(found, self.seen)
        return found

    def find_sure(self, asked: Sequence[Asked]) -> None:
        """Look for a table that surely gives the answers, and take it in."""
        try:
            sure = None if self.made.sure else self.strict.find(asked, self.start)
        except TooManyBranches:
            return
        if sure is not None:
            self._take(sure, self.seen)

    def _take(self, found: Table, into: dict[int, set[Fraction]]) -> None:
        for s in self.slots:
            into[s] |= set(found.values[s])
            slot = self.made.worlds.slots[s]
            if not self.made.sure or s not in found.loose:
                continue
            if not slot.whole:
                self.loose.add(s)
            if slot.people == 1 and (slot.whole or into is self.near):
                into[s] |= {
                    e for e in found.ends.get(s, ()) if e is not None and (e.denominator == 1 or not slot.whole)
                }

    def is_open(self, s: int) -> bool:
        """Has somebody of a slot two values in tables that surely give the answers, further apart than dust?"""
        values = self.seen[s]
        return s in self.loose or (len(values) > 1 and max(values) - min(values) > self.between(s))

    def between(self, s: int) -> Fraction:
        """What is no difference between two values, in units."""
        column = self.made.held[s].column
        return self.margin[column] / self.made.lines[column].unit

    def values(self, s: int, most: int) -> list[Fraction] | None:
        """All values that the one person of a slot can have, if at most so many; None if there are more."""
        refuted: set[tuple[Fraction | None, Fraction | None]] = set()
        while True:
            held = self._apart(sorted(self.near[s]), self.between(s))
            if len(held) > most or s in self.loose:
                return None
            gaps = list(zip([None, *held], [*held, None], strict=True))
            gap = next((g for g in gaps if g not in refuted), None)
            if gap is None:
                return held
            if self.find([_asked(s, gap, self.between(s))]) is None:
                refuted.add(gap)

    def ends(self, s: int, is_wide: Callable[[Fraction, Fraction], bool]) -> tuple[Fraction, Fraction] | None:
        """Between what the one person of a slot lies in all tables; None once that is wide enough."""
        done: set[bool] = set()
        while len(done) < 2:
            if not self.near[s]:
                return None
            low, high = min(self.near[s]), max(self.near[s])
            if is_wide(low, high):
                return None
            top = True not in done
            if self.find([_asked(s, (high, None) if top else (None, low), self.between(s))]) is None:
                done.add(top)
        return min(self.near[s]), max(self.near[s])

    def open_up(self, s: int) -> bool:
        """Is the one person of a slot open? Second tables are looked for on both sides of those that are known."""
        if not self.seen[s]:
            self.find_sure(())
        for value in (min(self.seen[s], default=None), max(self.seen[s], default=None)):
            for gap in ((None, value), (value, None)):
                if self.is_open(s) or value is None:
                    return self.is_open(s)
                self.find_sure([_asked(s, gap, self.between(s))])
        return self.is_open(s)

    @staticmethod
    def _apart(values: list[Fraction], margin: Fraction) -> list[Fraction]:
        """Without those that are as good as the one before."""
        found: list[Fraction] = []
        for v in values:
            if not found or v - found[-1] > margin:
                found.append(v)
        return found


def _asked(s: int, gap: tuple[Fraction | None, Fraction | None], margin: Fraction) -> Asked:
    """Between two values, and further from them than the margin."""
    low, high = gap
    return Asked(s, None if low is None else low + margin, None if high is None else high - margin)


@dataclass(slots=True)
class _Judged:
    """The worlds of one system, part by part."""

    made: Encoded
    known: Known
    number: int
    within: Within | None
    work: Work = field(default_factory=Work)

    def claims(self) -> Iterator[Claim | Contradiction | ShownOpen]:
        """What follows, what cannot be true, and whether everybody else is shown to be open."""
        worlds, missing = self.made.worlds, self.made.missing
        try:
            start = Search(worlds).start()
        except Impossible:
            yield from self._clash(frozenset(r.name for r in worlds.rows))
            return
        fixed = [start.is_fixed(slot) for slot in worlds.slots]
        opened = self.number in self.known.shown  # by exchange, which says nothing of short lists
        for slots, names in (*worlds.parts(fixed), *self._settled(start, fixed)):
            if opened and sum(worlds.slots[s].people for s in slots) > FEW_PEOPLE:
                continue
            try:
                part = _Part(self.made, slots, names, start, self._margins(names), self.work)
                if sum(worlds.slots[s].people for s in slots) > MOST_PEOPLE:
                    raise TooManyBranches
                if part.find() is None:
                    yield from self._clash(names)
                    return
                for s in slots:
                    told = list(self._of_slot(part, s))
                    ranges = [] if told else list(self._narrow(part, s))
                    yield from (*told, *ranges)
                    told += [c for c in ranges if c.status is Status.INFERRED]
                    if not told and not self._is_given(s) and not self._is_shown_open(part, s):
                        missing = missing or UNSURE
            except TooManyBranches:
                missing = missing or TOO_MANY
                self.known.limits.add(self.number)
        self.known.encoded[self.number] = missing
        if not missing:
            yield ShownOpen(self.number)

    def _settled(self, start: Bounds, fixed: Sequence[bool]) -> Iterator[tuple[list[int], frozenset[str]]]:
        """Slots that are fixed by counts alone, with all answers that may have fixed them."""
        for slots, names in self.made.worlds.parts([False] * len(fixed)):
            mine = [s for s in slots if fixed[s]]
            if mine:
                yield mine, names

    def _margins(self, names: frozenset[str]) -> dict[str, Fraction]:
        """What is no difference between two values of a column: dust of sums, many times over."""
        radius = Fraction(0)
        for name in names & self.made.sums.keys():
            row, factors = self.made.sums[name]
            if row.exact and row.lo is not None and row.hi is not None:
                radius += (row.hi - row.lo) / min((abs(c) for c in factors.values()), default=Fraction(1))
        for name in names & self.made.ranked.keys():
            fact = self.made.ranked[name].fact
            if not fact.exact and fact.lo is not None and fact.hi is not None:
                width = fact.hi - fact.lo
                radius += width if width <= max(Fraction(1), abs(fact.hi)) / 10**9 else 0
        grids = {name: self.known.grid(name) for name in self.made.lines}
        return {name: Fraction(0) if grid.step is not None else DUST * radius for name, grid in grids.items()}

    # -- what follows -------------------------------------------------------------------------------------------------

    def _of_slot(self, part: _Part, s: int) -> Iterator[Claim]:
        """The only value of somebody, or a short list; nothing where he has more."""
        held = self.made.held[s]
        known = [self.known.of(row, held.column) for row in held.rows]
        if self._is_given(s):
            return
        if all(c is not None and c.status is Status.EXPOSED for c in known):
            yield from (c for c in known if c is not None)  # no news
            return
        few = sum(self.made.worlds.slots[k].people for k in part.slots) <= FEW_PEOPLE
        if part.is_open(s) and not few:
            return
        mine, at = self._alone(part, s)
        values = mine.values(at, LISTED if few else 1)
        part.seen[s] |= mine.seen[at]
        if mine.loose:
            part.loose.add(s)
        if values:
            for claim in self._told(mine, at, values):
                yield from (replace(claim, row=row) for row in held.rows)

    def _is_given(self, s: int) -> bool:
        """Were the people of a slot known before any answer?"""
        spans = self.made.worlds.slots[s].spans
        return len(spans) == 1 and spans[0].point is not None

    def _alone(self, part: _Part, s: int) -> tuple[_Part, int]:
        """The same with one person of a slot in a slot of his own."""
        if len(self.made.held[s].rows) == 1:
            return part, s
        apart = self.made.apart(s)
        at = len(apart.held) - 1
        return _Part(apart, [at], part.names, Search(apart.worlds).start(), part.margin, part.work), at

    def _narrow(self, part: _Part, s: int) -> Iterator[Claim]:
        """The range of one of few people in all tables; with `--within` whether it is narrow enough to tell."""
        few = sum(self.made.worlds.slots[k].people for k in part.slots) <= FEW_PEOPLE
        if self.within is None and not few:
            return
        mine, at = self._alone(part, s)
        if self.within is None:
            yield from self._range(mine, at, s)
            return
        left = mine.ends(at, lambda low, high: not self._is_narrow(mine, at, low, high))
        if left is not None and left[0] < left[1]:
            lo, hi = written(*(mine.made.value(at, e) for e in left))
            proof = self._proof(mine, at, list(left), IN_EVERY_TABLE)
            claim = Claim(-1, self.made.held[s].column, Status.INFERRED, None, lo, hi, proof)
            yield from (replace(claim, row=row) for row in self.made.held[s].rows)
        elif few:
            yield from self._range(mine, at, s)

    def _range(self, mine: _Part, at: int, s: int) -> Iterator[Claim]:
        """A range narrower than what was declared, where both ends are known beforehand or by propagation."""
        total, spans = mine.made.worlds.slots[at].total, mine.made.worlds.slots[at].spans
        if mine.start.lo[total] is None or mine.start.hi[total] is None:
            return
        left = mine.ends(at, lambda _low, _high: False)
        if left is None or left[0] == left[1] or (left[0] == spans[0].lo and left[1] == spans[-1].hi):
            return
        lo, hi = written(*(mine.made.value(at, e) for e in left))
        weights = dict.fromkeys(sorted(mine.names, key=query_order), Fraction(1))
        proof = Proof(self.number, weights, rule=IN_EVERY_TABLE, tables="other")
        claim = Claim(-1, self.made.held[s].column, Status.OPEN, None, lo, hi, proof, tight=self.made.sure)
        yield from (replace(claim, row=row) for row in self.made.held[s].rows)

    def _is_narrow(self, part: _Part, s: int, low: Fraction, high: Fraction) -> bool:
        return self.within is not None and self.within.holds(part.made.value(s, low), part.made.value(s, high))

    def _is_shown_open(self, part: _Part, s: int) -> bool:
        """Is everybody of a slot open, in tables that surely give the answers?"""
        if self.within is not None:
            seen = part.seen[s]
            return bool(seen) and not self._is_narrow(part, s, min(seen), max(seen))
        if part.is_open(s):
            return True
        mine, at = self._alone(part, s)
        return mine.open_up(at)

    def _told(self, part: _Part, s: int, values: list[Fraction]) -> Iterator[Claim]:
        """The only value, or a short list where more than ten values are possible."""
        column = part.made.held[s].column
        grid, margin = self.known.grid(column), part.margin[column]
        given = [part.made.value(s, v) for v in values]
        if len(given) == 1:
            proof = self._proof(part, s, values, IN_EVERY_TABLE)
            yield settled(-1, column, (given[0] - margin, given[0] + margin), proof, grid)
            return
        if self._possible(column) <= FEW_VALUES:
            return
        listed = tuple(shorten_fraction(v) for v in given)
        proof = self._proof(part, s, values, SHORT_LIST)
        yield Claim(-1, column, Status.INFERRED, None, listed[0], listed[-1], proof, allowed=listed)

    def _possible(self, column: str) -> float:
        numbers, grid = self.known.evidence.prior(column).numbers, self.known.grid(column)
        if numbers is not None:
            return len(numbers)
        if grid.step is None or grid.lo is None or grid.hi is None:
            return float("inf")
        return int((grid.hi - grid.lo) / grid.step) + 1

    def _proof(self, part: _Part, s: int, values: list[Fraction], rule: str) -> Proof:
        """Answers enough for the same; sums are left out first."""
        kept = sorted(part.names, key=lambda n: (n in self.made.ranked, query_order(n)))
        for name in tuple(kept):
            fewer = frozenset(kept) - {name}
            if fewer and self._follows(part, s, values, fewer):
                kept = [n for n in kept if n != name]
        ordered = sorted(kept, key=query_order)
        facts = {f"fact {b.fact}" for b in self.known.evidence.systems[self.number].bounds}
        weights = dict.fromkeys((*ordered, *sorted(facts, key=query_order)), Fraction(1))
        cited = [self.made.ranked[name] for name in ordered if name in self.made.ranked]
        if len(cited) < len(ordered) or any(r.j != r.k for r in cited):
            return Proof(self.number, weights, rule=rule, tables="other")
        ranks = tuple(
            RankUsed(r.fact.number, r.fact.where, r.j, r.k, r.share) for r in cited if r.fact.where is not None
        )
        if rule == SHORT_LIST and len(ordered) == len(values) == 2 and {r.k == 1 for r in cited} == {True, False}:
            return Proof(self.number, weights, rule=PAIR, order=OrderSteps(ranks))
        return Proof(self.number, weights, rule=rule, order=OrderSteps(ranks, cases=True))

    def _follows(self, part: _Part, s: int, values: list[Fraction], names: frozenset[str]) -> bool:
        """Do some answers leave these values alone?"""
        try:
            narrow = part.made.worlds.only(names)
            tried = Search(narrow, work=self.work)
            start = tried.start()
            for gap in zip([None, *values], [*values, None], strict=True):
                if tried.find([_asked(s, gap, part.between(s))], start) is not None:
                    return False
        except (TooManyBranches, Impossible):
            return False
        return True

    def _clash(self, names: frozenset[str]) -> Iterator[Contradiction]:
        """That no table gives these answers, where no other rule said so."""
        self.known.encoded[self.number] = "some answers contradict each other or the data"
        if self.known.contradictions:
            return
        kept = sorted(names, key=query_order)
        for name in tuple(kept):
            fewer = frozenset(kept) - {name}
            if fewer and self._impossible(fewer):
                kept = [n for n in kept if n != name]
        facts = {f"fact {b.fact}" for b in self.known.evidence.systems[self.number].bounds}
        cited = (*kept, *sorted(facts - set(kept), key=query_order))
        listed = ", ".join(n if n.startswith("fact") else f"Q{n}" for n in cited)
        those = "cannot be true: no table gives it" if len(cited) == 1 else "cannot all be true: no table gives them"
        yield Contradiction(cited, f"{listed} {those}", reducible=True)

    def _impossible(self, names: frozenset[str]) -> bool:
        try:
            return Search(self.made.worlds.only(names), work=self.work).find() is None
        except TooManyBranches:
            return False
