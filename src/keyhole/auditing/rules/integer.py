"""Grids, 0/1 and categories: what is the same in every table that gives the answers, and who is shown to be open.

Everybody is in one of finitely many states (`encode.states`); all tables that give all answers are looked at, with
those merged that have the same totals (`keyhole.solve.tables`). What no table has is ruled out: one value left is
exposed, a category or a side of a private constant that is gone is inferred, and with `--within` so is a narrow range;
any other range that is narrower than before is told of who stays open. If every answer was put in exactly, everybody
else has each of his cells, and two values, in some table: the verdict is complete.

Of people with several records, or rows in other tables, all that is private of a person is one state. Somebody is open
if no form on his values, on the conditions that were asked of his records and on what he adds to each answer is the
same in all tables, but for what is listed of single values.
Sound always; complete for small systems; beyond the limits nothing is claimed, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Proof, Status, query_order
from keyhole.auditing.exchange.people import MOST_QUERIES, answers_truly
from keyhole.auditing.known import Claim, Known, Rule, ShownOpen
from keyhole.auditing.numbers import Within
from keyhole.auditing.rules.counts import left_of_cells
from keyhole.datasets import Source
from keyhole.encode.answer_tests import OrderTest
from keyhole.encode.encode import NOT_PUT_IN
from keyhole.encode.states import (
    Alternative,
    Asked,
    PeopleAlike,
    State,
    StateModel,
    TooLarge,
    asked_of_people,
    scalar,
    state_model,
)
from keyhole.errors import UnsupportedQuery
from keyhole.gather.evidence import Contradiction, System
from keyhole.model.cells import Cell
from keyhole.model.prior import Prior
from keyhole.model.query import FINER
from keyhole.solve.certify import common_denominator
from keyhole.solve.rowspace.null_vectors import PRIME, null_space
from keyhole.solve.tables import Alike, Condition, OptionsLeft, TooManyCases, possible

IN_EVERY_TABLE = "in every table{grid} that gives these answers it is so"
LISTED = 12  # values that are listed one by one
OTHER_DATA = "the answers are not those of the data"
CLASH = "some answers contradict each other or the data"
TOGETHER = "something is known of one person's private columns or records together, of which no single value is"
ROWS_KNOWN = "somebody is known to have rows of another table, or to have none, by all answers together"
UNSURE = "some answer is rounded, a quotient known as far as printed, or compared where floating point decides"


def integer(within: Within | None = None) -> Rule:
    """The rule; a range of at most `within` counts as inferred."""

    def rule(system: System, known: Known) -> Iterator[Claim | Contradiction | ShownOpen]:
        number = known.number(system)
        if number in known.split or known.decided(system) or _is_told_nothing(system, known):
            return  # it looks at answers and knowledge alone, and they do not change
        if system.order and known.encoded.get(number, NOT_PUT_IN) != NOT_PUT_IN:
            known.split[number] = known.encoded[number]
            return  # order statistics were judged with everything else
        known.split[number] = ""
        if known.roster is None:
            return
        try:
            model = state_model(Asked.of_system(system, known.evidence, known.schema), known.evidence, known.roster)
        except TooLarge as large:
            if number in known.shown:
                return
            known.limits.add(number)
            known.split[number] = f"the tables{_grid(known, system.columns)} are too many to look at ({large})"
            return
        if model is not None:
            decided = _Decided(model, known, number, within)
            yield from decided.claims()
            known.split[number] = decided.missing
            if not decided.missing:
                yield ShownOpen(number)

    return rule


def _is_told_nothing(system: System, known: Known) -> bool:
    """Is everybody shown open in every cell where nothing is declared, so that there is no range to tell?"""
    return known.number(system) in known.shown and all(known.evidence.prior(n) == Prior() for n in system.columns)


@dataclass(slots=True)
class PeopleDecided:
    """What follows of people with all their records: claims, and why not everybody else is shown open (else empty)."""

    claims: list[Claim | Contradiction]
    missing: str


def decide_people(known: Known, source: Source | None) -> PeopleDecided:
    """What is the same of people with several records, or rows in other tables, in every table with these answers."""
    found = PeopleDecided([], "")
    assert known.roster is not None
    for asked in asked_of_people(known.evidence, known.roster):
        try:
            model = state_model(asked, known.evidence, known.roster)
        except (TooLarge, UnsupportedQuery) as large:
            found.missing = (
                found.missing or f"the tables{_grid(known, asked.columns)} are too many to look at ({large})"
            )
            continue
        if model is None:
            found.missing = found.missing or NOT_PUT_IN
            continue
        decided = _Decided(model, known, -1, None, by_person=True)
        found.claims += decided.claims()
        found.missing = found.missing or decided.missing
    entries, computed = known.evidence.transcript.entries, known.evidence.computed
    told = [e for e in entries if e.number not in computed and e.answer is not None]
    if source is not None and not found.missing:
        true = len(told) <= MOST_QUERIES and all(answers_truly(source, e.query, e.answer) for e in told if e.answer)
        found.missing = "" if true else OTHER_DATA
    return found


def _grid(known: Known, columns: Sequence[str]) -> str:
    """Which tables are looked at, where something is declared of their values."""
    priors = [known.evidence.prior(name) for name in columns]
    if any(prior.is_assumed for prior in priors):
        return " of the values assumed possible"
    return " on the declared grid" if any(prior != Prior() for prior in priors) else ""


@dataclass(slots=True)
class _Decided:
    """What is asked together, component by component; `missing`: why not everybody else is shown to be open."""

    model: StateModel
    known: Known
    number: int
    within: Within | None
    by_person: bool = False  # each with all his records
    missing: str = ""

    def claims(self) -> Iterator[Claim | Contradiction]:
        """What follows, and what cannot be true."""
        moved = [{k for k, p in enumerate(self.model.people) if _moves(p.kind, c)} for c in self.model.conditions]
        missing = self.model.missing
        for part in components(moved):
            kinds = sorted(set().union(*(moved[i] for i in part)))
            if not kinds:
                self.known.put_in.update(self._names(part))
                continue  # it says nothing of anybody
            try:
                found = self._search(kinds, part)
                if not found.feasible:
                    yield from self._clash(kinds, part)
                    self.missing = CLASH
                    return
                strict = found if found.sure else self._search(kinds, part, strict=True)
                same = all((a == b).all() for a, b in zip(found.options, strict.options, strict=True))
                missing = missing or ("" if same else UNSURE)
                used = part if all(each.all() for each in found.options) else self._used(kinds, part, found)
            except TooManyCases:
                if self.number in self.known.shown and not self.by_person:
                    continue
                if not self.by_person:
                    self.known.limits.add(self.number)
                missing = f"the tables{self._grid} are too many to look at"
                continue
            self.known.put_in.update(self._names(part))
            yield from self._narrowed(kinds, found, self._proof(used), tight=same and not self.model.missing)
            for k, options in zip(kinds, found.options, strict=True):
                missing = missing or _determined(self.model, self.model.people[k], options)
        self.missing = missing

    @property
    def _grid(self) -> str:
        return _grid(self.known, self.model.columns)

    def _search(self, kinds: Sequence[int], part: Sequence[int], *, strict: bool = False) -> OptionsLeft:
        """The tables of one component: the totals that its answers look at, with constants from everybody else."""
        model = self.model
        told = [model.conditions[i] for i in part]
        mine = [model.people[k].kind for k in kinds]
        rest = [p.kind for k, p in enumerate(model.people) if k not in set(kinds)]
        at = sorted({a for c in told for a in c.at})
        place = {a: i for i, a in enumerate(at)}
        moved = [
            Condition(tuple(place[a] for a in c.at), c.judge, {place[a]: e for a, e in c.ends.items()}) for c in told
        ]
        alike = [Alike(k.people, k.options[:, at]) for k in mine]
        alike += [Alike(1, sum((k.people * k.options[:1, at] for k in rest), np.zeros((1, len(at)), dtype=np.int64)))]
        found = possible(alike, moved, [place[a] for a in model.flags if a in place], strict=strict)
        return OptionsLeft(found.options[:-1], found.sure)

    def _used(self, kinds: Sequence[int], part: Sequence[int], found: OptionsLeft) -> Sequence[int]:
        """Answers enough for the same; first without those that are no plain sums."""
        kept = sorted(part, key=lambda i: self.model.tests[i].additive)
        for i in tuple(kept):
            fewer = [j for j in kept if j != i]
            if fewer and all(
                (a == b).all() for a, b in zip(self._search(kinds, fewer).options, found.options, strict=True)
            ):
                kept = fewer
        return kept

    def _names(self, part: Sequence[int]) -> tuple[str, ...]:
        return tuple(sorted((self.model.tests[i].entry.number for i in part), key=query_order))

    def _proof(self, part: Sequence[int]) -> Proof:
        plain = all(self.model.tests[i].additive for i in part)
        facts = (f"fact {n}" for n in self.model.facts)
        weights = dict.fromkeys((*self._names(part), *facts), Fraction(1))
        rule = IN_EVERY_TABLE.format(grid=self._grid)
        if self.by_person:
            return Proof(-1, weights, rule=rule, counted={"people": True})
        return Proof(self.number, weights, rule=rule, tables="sums" if plain else "other")

    def _clash(self, kinds: Sequence[int], part: Sequence[int]) -> Iterator[Contradiction]:
        """That no table gives these answers, where nothing was said of them yet; none of them can be left out."""
        if any(set(c.queries) <= set(self._names(part)) for c in self.known.contradictions):
            return
        kept = list(part)
        for i in part:
            fewer = [j for j in kept if j != i]
            if fewer and self._refuted(kinds, fewer):
                kept = fewer
        names = (*self._names(kept), *(f"fact {n}" for n in self.model.facts))
        listed = ", ".join(name if name.startswith("fact") else "Q" + name for name in names)
        told = "cannot be true" if len(names) == 1 else "cannot all be true"
        yield Contradiction(names, f"{listed} {told}: no table{self._grid} gives {'it' if len(names) == 1 else 'them'}")

    def _refuted(self, kinds: Sequence[int], part: Sequence[int]) -> bool:
        """Does no table give some of the answers? Not said where there are too many."""
        try:
            return not self._search(kinds, part).feasible
        except TooManyCases:
            return False

    # -- what is left -------------------------------------------------------------------------------------------------

    def _narrowed(self, kinds: Sequence[int], found: OptionsLeft, proof: Proof, *, tight: bool) -> Iterator[Claim]:
        for k, options in zip(kinds, found.options, strict=True):
            people = self.model.people[k]
            for (r, rows), (j, name) in product(enumerate(people.rows.T), enumerate(self.model.columns)):
                claim = self._claim(name, _seen(people, r, j), _seen(people, r, j, options), proof)
                if claim is not None:
                    reached = tight or claim.status is Status.EXPOSED
                    yield from (replace(claim, row=int(row), tight=reached) for row in rows)

    def _claim(self, name: str, was: list[Alternative], still: list[Alternative], proof: Proof) -> Claim | None:
        """What is news of one column; None if nothing is."""
        if len(was) == len(still):
            return None
        values = sorted(a.value for a in still if a.value is not None)
        if len(was) > 1 and len(values) == 1 == len(still):
            end = Decimal(scalar(values[0]))  # type: ignore[arg-type]
            return Claim(-1, name, Status.EXPOSED, end, end, end, proof)
        kept, lost = _cells(still), [c for c in _cells(was) if c not in _cells(still)]
        part = next((p for p in self.model.partitions if p.column.name == name), None)
        claim = None
        if part is not None and lost:
            claim = left_of_cells(-1, part.column, kept, lost, proof, self.known.evidence.prior(name))
        if len(values) < 2:
            return claim
        low, high = Decimal(scalar(values[0])), Decimal(scalar(values[-1]))  # type: ignore[arg-type]
        if claim is not None:
            allowed = tuple(map(scalar, values)) if len(values) <= LISTED else ()
            return replace(claim, lo=low, hi=high, allowed=allowed)
        before = sorted(a.value for a in was if a.value is not None)
        if (before[0], before[-1]) == (values[0], values[-1]):
            return None
        narrow = self.within is not None and self.within.holds(values[0], values[-1])
        return Claim(-1, name, Status.INFERRED if narrow else Status.OPEN, None, low, high, proof)


def components(groups: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Which groups are tied by somebody who is in both, directly or through others.

    >>> components([{1, 2}, {3}, {2, 4}])
    [(0, 2), (1,)]
    """
    found: list[tuple[set[int], list[int]]] = []
    for i, group in enumerate(groups):
        tied = [each for each in found if each[0] & group]
        merged = (set(group).union(*(rows for rows, _ in tied)), sorted([i, *(n for _, at in tied for n in at)]))
        found = [each for each in found if each not in tied] + [merged]
    return sorted(tuple(at) for _, at in found)


def _moves(kind: Alike, condition: Condition) -> bool:
    at = list(condition.at)
    return bool((kind.options[:, at] != kind.options[:1, at]).any())


def _seen(people: PeopleAlike, r: int, j: int, options: NDArray[np.bool_] | None = None) -> list[Alternative]:
    """The alternatives of column j of their r-th record in the states that are possible, in their order."""
    held = (
        people.states
        if options is None
        else (state for state, o in zip(people.states, people.option, strict=True) if options[o])
    )
    return list(dict.fromkeys(state.held[r][j] for state in held))


def _determined(model: StateModel, people: PeopleAlike, options: NDArray[np.bool_]) -> str:
    """Why something of these people's records together may be known that is listed of none of them; else empty.

    Their states are vectors: the values, the conditions that hold, what is added to each total. What is constant on
    those that are left, and was not before, must be made of single values and cells, which are listed.
    """
    kept = options[people.option]
    if kept.all() or (people.rows.shape[1] == 1 and len(model.partitions) < 2 and not model.leaves):
        return ""
    listed = [[*_features(model, state)] for state in people.states]
    own = np.array(listed, dtype=object).reshape(len(listed), -1)
    every = np.concatenate([own, _added(model, people).astype(object)], axis=1)
    fixed = np.flatnonzero((own[kept] == own[kept][:1]).all(axis=0) & ~(own == own[:1]).all(axis=0))
    rows_known = fixed >= own.shape[1] - len(model.leaves) * people.rows.shape[1]
    if rows_known.any():
        return ROWS_KNOWN
    ranks = _rank(every), _rank(every[kept]), _rank(own[:, fixed])
    if None in ranks:
        return UNSURE
    whole, left, single = (rank or 0 for rank in ranks)
    return TOGETHER if whole - left > single else ""


def _features(model: StateModel, state: State) -> Iterator[Fraction]:
    """What a state says of each record: its values, the conditions on its columns, and those on rows of it."""
    for each in state.held:
        for name, a in zip(model.columns, each, strict=True):
            part = next((p for p in model.partitions if p.column.name == name), None)
            yield a.value or Fraction(0)
            yield from (
                Fraction(int(a.cell is not None and t is True)) for t in (() if a.cell is None else a.cell.truths)
            )
            if a.cell is None and part is not None:
                yield from (Fraction(0) for _ in part.leaves)
    for truths in state.rows:
        yield from (Fraction(int(t)) for t in truths)


def _added(model: StateModel, people: PeopleAlike) -> NDArray[np.int64]:
    """What each state adds to each sum and count that was asked, and whether some record of his counts at all.

    Of an order statistic it is how many records it is about. What stands in for a statement because it tells more was
    asked by nobody: it only leaves out states.
    """
    table = people.kind.options[people.option]
    columns = [np.zeros(len(table), np.int64)]
    for condition, test in zip(model.conditions, model.tests, strict=True):
        at = list(condition.at)
        if test.entry.certainty == FINER:
            continue
        counted = (
            [table[:, at].sum(axis=1)]
            if isinstance(test, OrderTest)
            else [table[:, i] for i in at if i in model.counts]
        )
        columns += [*counted, *((each > 0).astype(np.int64) for each in counted)]
        columns += [] if isinstance(test, OrderTest) else [table[:, i] for i in at if i not in model.counts]
    return np.stack(columns, axis=1)


def _rank(vectors: NDArray[Any]) -> int | None:
    """The dimension of the differences of some vectors, exactly; None if the prime was unlucky."""
    if not vectors.size:
        return 0
    distinct = list(dict.fromkeys(map(tuple, vectors.tolist())))
    scale = lcm(*(Fraction(v).denominator for row in distinct for v in row))
    whole = np.array([[int(v * scale) for v in row] for row in distinct], dtype=object)
    apart = whole[1:] - whole[:1]
    if not len(apart):
        return 0
    rank, basis = null_space(apart)
    for vector in basis.T.tolist():  # rank modulo a prime is no more than the rank; these show that it is no less
        below = common_denominator(vector, PRIME)
        if below is None:
            return None
        form = np.array([(v * below) % PRIME for v in vector], dtype=object)
        form = np.where(form > PRIME // 2, form - PRIME, form)
        if (apart @ form).any():
            return None
    return rank


def _cells(alternatives: Sequence[Alternative]) -> list[Cell]:
    return list(dict.fromkeys(a.cell for a in alternatives if a.cell is not None))
