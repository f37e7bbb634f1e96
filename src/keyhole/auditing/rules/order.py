"""Order statistics: MIN, MAX, MEDIAN and quantiles under public conditions.

Everybody under a MAX of 9 has at most 9, and somebody has it: if all others there are known to be lower, the one who is
left has 9. In general bounds of single people are narrowed by ranks until nothing changes (`keyhole.solve.ranks`), with
what is declared and what other rules found as a start. Complete for MAX alone and MIN alone, duplicates allowed; where
both are asked, a second table is looked for (`everybody_open`). Reference: [nabar2008].

Who is open where the least and the greatest values of groups are told: a second table with the same answers.

MAX alone: put everybody at his upper bound; who is not the only one to reach some answer may be lower. MIN alone the
other way round. Both: every MAX needs somebody at his upper bound (a witness), every MIN somebody at his lower bound,
and nobody is at both. Such a choice of witnesses is a table; who is no witness may have any value between his bounds,
and who is one is open if another choice does without him. Finding a choice is hard in general (it is satisfiability);
the search is greedy, and where it finds none nothing is promised.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import OrderSteps, Proof, RankUsed, Status, query_order
from keyhole.auditing.known import Claim, Known, Rule, ShownOpen
from keyhole.auditing.numbers import Within, outward, written
from keyhole.basis.bits import Words
from keyhole.encode.order import sharpened
from keyhole.gather.evidence import Contradiction, OrderFact, System
from keyhole.model.meaning import find_ranks
from keyhole.model.numbers import shorten_fraction
from keyhole.model.query import ORDERED
from keyhole.solve.ranks import Narrowing, RankBounds, Ranked

LARGEST = "it is the largest of a group in which nobody else can reach it"
SMALLEST = "it is the smallest of a group in which nobody else can be so low"
BY_RANK = "what is known of the others of a group leaves one value"
ALONE = "it is about one person alone"
WITHIN = "nobody of a group is above its greatest value, nor below its least"
RANKED = "a median or quantile tells how many of a group are at most so much, and how many at least"
SEARCHED = 60  # classes up to which all tables are searched (`rules.worlds`): of more, witnesses are chosen here


@dataclass(frozen=True, slots=True)
class RankedFact:
    """An order statistic of n records as ranks: its (1 - share) j-th and share k-th value; lo and hi on the grid."""

    fact: OrderFact
    bits: Words
    n: int
    j: int
    k: int
    share: Fraction
    lo: Fraction | None
    hi: Fraction | None

    @property
    def used(self) -> RankUsed:
        """What a proof says of it."""
        assert self.fact.where is not None
        return RankUsed(self.fact.number, self.fact.where, self.j, self.k, self.share)


def unused(fact: OrderFact) -> str:
    """Why an order statistic is not judged; empty if it is."""
    name = str(fact.query.aggregate)
    if fact.where is None:
        few = "unless its column has few values, declared by min, max and step"
        return f"{name} under a condition on private values is not judged {few}"
    if fact.answer is None:
        return f"{name} without its answer is not judged"
    if fact.answer.noise is not None and not fact.answer.noise.bounded:
        return f"a noisy {name} is not judged"
    return "" if fact.answer.null or fact.lo is not None or fact.hi is not None else f"this {name} says nothing"


def within_order(within: Within | None) -> Rule:
    """The rule, with ranges of at most that width inferred; who is open has two values further apart."""

    def rule(system: System, known: Known) -> Iterator[Claim | Contradiction | ShownOpen]:
        return order(system, known, within)

    return rule


def order(system: System, known: Known, within: Within | None = None) -> Iterator[Claim | Contradiction | ShownOpen]:
    """Records whose value follows from order statistics; cost: some passes over facts times atoms."""
    facts = [f for f in system.order if f.query.aggregate in ORDERED]
    if not facts:
        return
    opened = _alone(system) and len(facts) == len(system.order) and not any(map(unused, facts))
    opened = opened and not any(known.evidence.prior(name).numbers for name in system.columns)
    for column in system.columns:
        mine = [f for f in facts if f.query.terms[0].column == column and not unused(f)]
        if not mine:
            continue
        judged = _Ordered(system, known, column, mine, within)
        yield from judged.claims()
        opened = opened and judged.open
    if opened:
        yield ShownOpen(known.number(system))


def _alone(system: System) -> bool:
    """Is there nothing else said of the values?"""
    return not (system.partitions or system.constraints or system.equal)


class _Ordered:
    """The order statistics of one column, with all that is known of its values."""

    def __init__(
        self, system: System, known: Known, column: str, facts: Sequence[OrderFact], within: Within | None
    ) -> None:
        self.system, self.known, self.column, self.within = system, known, column, within
        self.number, self.grid = known.number(system), known.grid(column)
        self.troubles: list[Contradiction] = []
        self.placed = [p for fact in facts if (p := self._placed(fact)) is not None]
        self.held = [c for c in known.claims(column) if (c.lo is not None or c.hi is not None) and not _ours(c)]
        self.stated = [b for b in system.bounds if b.column == column]
        self.open = False

    def _placed(self, fact: OrderFact) -> RankedFact | None:
        """A fact as ranks, on the grid; None if it is about nobody, or cannot be true."""
        answer = fact.answer
        assert fact.where is not None
        assert answer is not None
        atoms = self.system.atoms
        bits = atoms.bits(fact.where)
        n = int(atoms.sizes[atoms.mask(fact.where)].sum())
        if n == 0 and fact.query.test is not None:
            return None  # a comparison with NULL is NULL, and hides a group as "no" does
        if (n == 0) is not answer.null:
            said = f"{n} records match it" if n else "nobody matches it"
            answered = "NULL" if answer.null else str(answer.value)
            self._clash((fact.number,), f"Q{fact.number} was answered {answered}, but {said}")
            return None
        if n == 0:
            return None
        j, k, share = find_ranks(fact.query, n)
        column = self.known.schema.find(self.column)
        fact = sharpened(fact, column) if j == k and column is not None else fact
        inside = self.grid.between(fact.lo, fact.hi) if j == k else (fact.lo, fact.hi)
        low, high = self.grid.between(fact.lo, None), self.grid.between(None, fact.hi)
        if inside is None or low is None or high is None:
            self._clash((fact.number,), f"Q{fact.number} was answered {answer.value}, which its column cannot hold")
            return None
        lo, hi = inside if j == k else (low[0], high[1])
        return RankedFact(fact, bits, n, j, k, share, lo, hi)

    def _clash(self, names: tuple[str, ...], reason: str) -> None:
        self.troubles.append(Contradiction(names, reason))

    # -- judging ------------------------------------------------------------------------------------------------------

    def claims(self) -> Iterator[Claim | Contradiction]:
        """What follows, and what cannot be true."""
        yield from self.troubles
        if self.troubles or not self.placed:
            self.open = not self.troubles
            return
        self._start()
        empty = np.flatnonzero(self.bounds.low > self.bounds.high)
        if len(empty):
            by = {int(self.bounds.low_by[empty[0]]), int(self.bounds.high_by[empty[0]])}
            yield self._contradiction(by)
            return
        clash = self.bounds.narrow(self.facts)
        if clash is not None:
            yield self._contradiction(clash.after, clash.fact)
            return
        yield from self._determined()
        yield from self._ranges()
        ours = all(c.proof.order is not None for c in self.held)
        large = len(self.bounds.sizes) > SEARCHED
        if (
            large
            and ours
            and self.known.evidence.prior(self.column).values is None
            and all(p.fact.exact for p in self.placed)
        ):
            self.open = everybody_open(self.bounds, self.facts)
        yield from self._narrowed(tight=self.open and _alone(self.system))

    def _value(self, code: np.int64) -> Fraction | None:
        return self.values[int(code) - 1] if 0 < code <= len(self.values) else None

    def _code(self, value: Fraction | None, none: int) -> int:
        return none if value is None else bisect_left(self.values, value) + 1

    def _start(self) -> None:
        """Numbers as places in a sorted list, and what is known before any order statistic, class by class."""
        atoms = self.system.atoms
        sources = [(np.array([c.row]), *self._ends(c)) for c in self.held]
        for bound in self.stated:
            lo, hi = self.grid.between(bound.lo, bound.hi) or (bound.lo, bound.hi)
            sources.append((atoms.records(bound.where), lo, hi))
        ends = [self.grid.lo, self.grid.hi, *(e for p in self.placed for e in (p.lo, p.hi))]
        ends += [e for _, lo, hi in sources for e in (lo, hi)]
        self.values = sorted({e for e in ends if e is not None})
        last = len(self.values) + 1
        self.facts = [Ranked(p.bits, p.n, p.j, p.k, self._code(p.lo, 0), self._code(p.hi, last)) for p in self.placed]
        start = np.full((4, len(atoms.of)), -1, dtype=np.int64)  # low, high, and which source says so
        start[0], start[1] = self._code(self.grid.lo, 0), self._code(self.grid.hi, last)
        for i, (rows, lo, hi) in enumerate(sources):
            hit = rows[start[0, rows] < self._code(lo, 0)]
            start[0, hit], start[2, hit] = self._code(lo, 0), i
            hit = rows[start[1, rows] > self._code(hi, last)]
            start[1, hit], start[3, hit] = self._code(hi, last), i
        self.of, self.bounds = classes(atoms.of, start)
        self.bounds.made = [Narrowing(len(self.facts) + i) for i in range(len(sources))]

    def _ends(self, claim: Claim) -> tuple[Fraction | None, Fraction | None]:
        """What is known of a person; of an identity of DOUBLE sums with all its dust, though it is shown without."""
        if claim.proof.sides:
            ends = {side.side: side.end for side in claim.proof.sides}
            return ends.get("lo"), ends.get("hi")
        lo, hi = (None if end is None else Fraction(end) for end in (claim.lo, claim.hi))
        if not claim.proof.rule and not self.known.exact(self.column) and claim.proof.system == self.number:
            told = claim.proof.ends(self.known.solved(self.system).by_number)
            # of an identity about a private cell these are how many are in it, and not the value
            if told is not None and lo is not None and hi is not None and told[0] <= lo <= hi <= told[1]:
                return told
        return lo, hi

    # -- what follows -------------------------------------------------------------------------------------------------

    def _determined(self) -> Iterator[Claim]:
        """Everybody between whose bounds one value is left."""
        b = self.bounds
        found = np.flatnonzero((b.low == b.high) & ((b.low_by >= 0) | (b.high_by >= 0)))
        if not len(found):
            return
        members = _members(self.of, found)
        for c in found.tolist():
            by = (int(b.low_by[c]), int(b.high_by[c]))
            if all(b.made[e].fact >= len(self.facts) for e in by if e >= 0):
                continue  # known before
            value = shorten_fraction(self.values[int(b.low[c]) - 1])
            proof = self._proof(by, self._words(by))
            for row in members[c]:
                yield Claim(row, self.column, Status.EXPOSED, value, value, value, proof)

    def _ranges(self) -> Iterator[Claim]:
        """One person alone under a rounded or compared statistic: a range, beyond what is declared."""
        for i, p in enumerate(self.placed):
            if p.n > 1 or p.lo == p.hi:
                continue
            (row,) = np.flatnonzero(self.bounds.inside(self.facts[i])[self.of]).tolist()
            lo, hi = (None if end is None else outward(end, end)[k] for k, end in enumerate((p.lo, p.hi)))
            if (p.lo, p.hi) != self.grid.between(None, None):
                yield Claim(row, self.column, Status.INFERRED, None, lo, hi, self._proof((), ALONE, also=(i,)))

    def _narrowed(self, *, tight: bool) -> Iterator[Claim]:
        """Everybody whose bounds order statistics narrowed, and who has several values left: open, in that range."""
        b = self.bounds
        told = np.array([*(made.fact < len(self.facts) for made in b.made), False])  # -1: by nothing
        found = np.flatnonzero((b.low < b.high) & (told[b.low_by] | told[b.high_by]))
        members = _members(self.of, found)
        proofs: dict[tuple[int, int], Proof] = {}
        for c in found.tolist():
            by = (int(b.low_by[c]), int(b.high_by[c]))
            proofs[by] = proof = proofs.get(by) or self._proof(by, WITHIN)
            lo, hi = self._value(b.low[c]), self._value(b.high[c])
            narrow = self.within is not None and self.within.holds(lo, hi)
            status = Status.INFERRED if narrow else Status.OPEN
            claim = Claim(-1, self.column, status, None, *written(lo, hi), proof, tight=tight)
            yield from (replace(claim, row=row) for row in members[c])

    def _words(self, by: Sequence[int]) -> str:
        """Why one value is left, by the last fact that said so."""
        fact = self.bounds.made[max(by)].fact
        if fact >= len(self.facts):
            return BY_RANK
        p = self.placed[fact]
        return (
            LARGEST if p.j == p.n and p.n > 1 else SMALLEST if p.k == 1 and p.n > 1 else BY_RANK if p.n > 1 else ALONE
        )

    def _proof(self, by: Sequence[int], words: str, also: Sequence[int] = ()) -> Proof:
        """A proof that cites all facts behind some narrowings, and what was known before."""
        behind = sorted({*self.bounds.behind(by), *also})
        used = [self.placed[i] for i in behind if i < len(self.facts)]
        extra = [i - len(self.facts) for i in behind if i >= len(self.facts)]
        held = [self.held[i] for i in extra if i < len(self.held)]
        stated = [self.stated[i - len(self.held)] for i in extra if i >= len(self.held)]
        numbers = {p.fact.number for p in used} | {q for c in held for q in c.proof.weights}
        numbers |= {f"fact {b.fact}" for b in stated}
        weights = dict.fromkeys(sorted(numbers, key=query_order), Fraction(1))
        steps = OrderSteps(tuple(p.used for p in used), tuple((c.row, c.lo, c.hi, c.proof) for c in held))
        extremes = all(p.j == p.k and p.k in (1, p.n) for p in used)
        return Proof(self.number, weights, rule=RANKED if words == WITHIN and not extremes else words, order=steps)

    def _contradiction(self, after: Iterable[int], fact: int | None = None) -> Contradiction:
        also = () if fact is None or fact >= len(self.facts) else (fact,)
        names = tuple(self._proof(tuple(after), "", also).weights)
        listed = ", ".join(n if n.startswith("fact") else f"Q{n}" for n in names)
        if len(names) == 1:
            reason = f"{listed} cannot be true: nobody it is about can have what it was answered"
        else:
            reason = f"{listed} cannot all be true: nobody is left who can have what one was answered"
        return Contradiction(names, reason, reducible=True)


def _ours(claim: Claim) -> bool:
    """A range that follows from these very statistics, and is found again; or one of all tables, which say it all."""
    whole = bool(claim.proof.tables) and claim.status is Status.OPEN
    return whole or (claim.proof.order is not None and claim.proof.rule in (WITHIN, RANKED, ALONE))


def classes(of: NDArray[np.int32], start: NDArray[np.int64]) -> tuple[NDArray[np.int64], RankBounds]:
    """(class of each record, bounds of the classes): records of one atom of whom the same is known before."""
    if (start == start[:, :1]).all():
        _, first, inverse, sizes = np.unique(of, return_index=True, return_inverse=True, return_counts=True)
    else:
        keys = np.vstack([of.astype(np.int64)[None, :], start])
        _, first, inverse, sizes = np.unique(keys, axis=1, return_index=True, return_inverse=True, return_counts=True)
    low, high, low_by, high_by = (part[first].copy() for part in start)
    found = RankBounds(of[first].astype(np.int64), sizes.astype(np.int64), low, high, low_by, high_by)
    return inverse.ravel().astype(np.int64), found


def _members(of: NDArray[np.int64], wanted: NDArray[np.int64]) -> dict[int, list[int]]:
    """The records of some classes."""
    found: dict[int, list[int]] = {int(c): [] for c in wanted}
    for row in np.flatnonzero(np.isin(of, wanted)).tolist():
        found[int(of[row])].append(row)
    return found


MOST = 64  # people who are looked at as witnesses of one answer
CRITICAL = 500  # people for whom another choice of witnesses is looked for

Choice = dict[int, int]  # class -> how many of it are witnesses


@dataclass(frozen=True, slots=True)
class Need:
    """An answer that needs a witness, among these classes: at the upper end, or at the lower."""

    top: bool
    among: tuple[int, ...]


def everybody_open(bounds: RankBounds, facts: Sequence[Ranked]) -> bool:
    """Has everybody with more than one value left another value in a second table?

    Guarantee: True only if it is shown. For MAX alone, or MIN alone, it always is.
    """
    if any(f.j != f.k or f.k not in (1, f.n) for f in facts):
        return False
    needs = [need for f in facts if f.n > 1 and (need := _need(bounds, f)) is not None]
    if len({n.top for n in needs}) < 2:
        return True
    cover = Cover(bounds.sizes, bounds.low < bounds.high, needs)
    first = cover.chosen()
    if first is None:
        return False
    critical = [c for c in sorted({*first[0], *first[1]}) if bounds.sizes[c] == 1]
    critical = [c for c in critical if bounds.low[c] < bounds.high[c] and cover.sole(first, c)]
    return len(critical) <= CRITICAL and all(cover.chosen(without=c, top=c in first[1]) for c in critical)


def _need(bounds: RankBounds, fact: Ranked) -> Need | None:
    """Who can be the witness of an answer; None if somebody surely is one."""
    inside, top = bounds.inside(fact), fact.k == fact.n
    can = bounds.reaching(fact, inside) if top else bounds.below(fact, inside)
    if (can & (bounds.low == bounds.high)).any():
        return None
    return Need(top, tuple(np.flatnonzero(can)[:MOST].tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Chooses witnesses: (of the least, of the greatest), for each class how many; a record is one or the other."""

    sizes: NDArray[np.int64]
    free: NDArray[np.bool_]
    needs: Sequence[Need]

    def chosen(self, without: int | None = None, *, top: bool = True) -> tuple[Choice, Choice] | None:
        """A choice in which class `without` is no witness of that end; None if the search finds none."""
        found: tuple[Choice, Choice] = ({}, {})
        for need in sorted(self.needs, key=lambda n: len(n.among)):
            mine, other = found[need.top], found[not need.top]
            barred = without if need.top is top else None
            if any(c in mine for c in need.among):
                continue
            room = [c for c in need.among if c != barred and other.get(c, 0) < self.sizes[c]]
            if not room:
                return None
            best = min(room, key=lambda c: (self._wanted(c, not need.top, found), -self._wanted(c, need.top, found)))
            mine[best] = 1
        return found

    def _wanted(self, c: int, top: bool, found: tuple[Choice, Choice]) -> int:
        """For how many answers that still need one a class could be the witness."""
        mine = found[top]
        return sum(
            need.top is top and c in need.among and not any(other in mine for other in need.among)
            for need in self.needs
            if len(need.among) <= MOST
        )

    def sole(self, chosen: tuple[Choice, Choice], c: int) -> bool:
        """Is a class the only witness of some answer?"""
        return any(
            c in need.among and c in chosen[need.top] and sum(o in chosen[need.top] for o in need.among) == 1
            for need in self.needs
        )
