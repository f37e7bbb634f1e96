"""The parts of a log that have nothing to do with each other, and the exact decision of the small ones.

Atoms belong together if a count that still has open variables looks at both, or if one says something of the other
where both are open. One atom under one plain count is decided by propagation already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.model.people import Counting, Formula
from keyhole.solve.counting.network import SumGate, whole_end
from keyhole.solve.counting.propagate import OPEN, Conflict, Forced
from keyhole.solve.counting.rank import settle_by_rank

Truth: TypeAlias = Callable[[int], NDArray[np.int8]]  # an atom on each record: 1 where it is true
MOST_ATOMS, MOST_COUNTS, MOST_VARIABLES = 12, 8, 10


@dataclass(frozen=True, slots=True)
class AtomsTogether:
    """Atoms and counts that are decided together."""

    atoms: tuple[int, ...]
    counts: tuple[int, ...]


def components(counting: Counting, known: Forced) -> list[AtomsTogether]:
    """The components that have something open."""
    parent = list(range(len(counting.atoms)))

    def root(a: int) -> int:
        while parent[a] != a:
            parent[a] = a = parent[parent[a]]
        return a

    def join(atoms: Sequence[int]) -> None:
        for a in atoms[1:]:
            parent[root(a)] = root(atoms[0])

    asked: dict[int, list[int]] = {}
    for gate in known.net.sums:
        if (known.of(gate.literals) == OPEN).any():
            atoms = _looked_at(counting, gate.count)
            join(atoms)
            asked[gate.count] = atoms
    offsets = known.net.offsets
    for tie in counting.ties:
        left = known.value[offsets[tie.left[0]] + tie.pairs[0]]
        right = known.value[offsets[tie.right[0]] + tie.pairs[1]]
        if ((left == OPEN) & (right == OPEN)).any():
            join([tie.left[0], tie.right[0]])
    for group, literals in zip(counting.exclusive, known.net.exclusive, strict=True):
        open_ = known.of(literals.ravel()).reshape(literals.shape) == OPEN
        join([a for a, row in zip(group, open_, strict=True) if (row & (open_.sum(axis=0) > 1)).any()])
    found: dict[int, tuple[list[int], list[int]]] = {}
    for a in range(len(counting.atoms)):
        found.setdefault(root(a), ([], []))[0].append(a)
    for count, atoms in asked.items():
        found[root(atoms[0])][1].append(count)
    return [AtomsTogether(tuple(a), tuple(c)) for a, c in found.values() if c]


def _looked_at(counting: Counting, count: int) -> list[int]:
    formulas = (formula for formula, _ in counting.counts[count].formulas)
    return sorted({a for f in formulas for clause in f.clauses for a, _ in clause.literals})


def simple(counting: Counting, known: Forced, part: AtomsTogether) -> bool:
    """Is propagation exact? One atom, one count in which everybody counts 1, each by rows of his own."""
    if len(part.atoms) != 1 or len(part.counts) != 1:
        return False
    formulas = counting.counts[part.counts[0]].formulas
    plain = all(gate.weights is None for gate in known.net.sums if gate.count == part.counts[0])
    return plain and len(formulas) == 1 and formulas[0][1] is None and len(formulas[0][0].clauses) == 1


def decide(counting: Counting, known: Forced, part: AtomsTogether, truth: Truth | None = None) -> bool:
    """Set everything that a component determines; False if it is too large to be decided.

    `truth` gives an atom on each record, where the data are at hand. It only serves to see that something is open: if
    two people of one class differ in the true table, everybody of the class may be either.
    """
    if len(part.atoms) > MOST_ATOMS or len(part.counts) > MOST_COUNTS:
        return False
    try:
        people = _People(counting, known, part)
        if truth is not None and people.all_open(truth):
            return True
        ends = [_ends(counting, c) for c in part.counts]
        classes = [
            Interchangeable(len(who), tuple(vector for _, vector, _ in states)) for states, who in people.classes
        ]
        allowed = possible_states(classes, [lo for lo, _ in ends], [hi for _, hi in ends])
    except TooManyStates:
        return False
    why = known.all_of(people.reasons, *part.counts)
    for (states, who), kept in zip(people.classes, allowed, strict=True):
        if not kept:
            raise Conflict(known.sets[why])
        left = [states[i] for i in sorted(kept)]
        for k, literal in enumerate(zip(*(person for person in who), strict=True)):
            values = {state[2][k] for state in left}
            if len(values) == 1:
                open_ = np.array([x for x in literal if known.of(np.array([x]))[0] == OPEN], dtype=np.int64)
                known.set(open_, values.pop(), why)
        people.narrowed += len(who) if len(left) < len(states) else 0
    return True


def _ends(counting: Counting, count: int) -> tuple[int | None, int | None]:
    told = counting.counts[count]
    return whole_end(told.lo, up=True), whole_end(told.hi, up=False)


State = tuple[
    tuple[int, ...], tuple[int, ...], tuple[int, ...]
]  # atoms, what it adds to the counts, truths of literals


class _People:
    """People by their possibilities: `classes` are (states, for each person the literals that the truths are of)."""

    def __init__(self, counting: Counting, known: Forced, part: AtomsTogether) -> None:
        self.counting, self.known, self.part = counting, known, part
        self.reasons: set[int] = set()
        self.narrowed = 0
        gates: list[SumGate] = [g for g in known.net.sums if g.count in part.counts]
        for gate in gates:
            self.reasons |= set(known.reasons(gate.literals).tolist())
        self.formulas: list[Formula] = []
        for count in part.counts:
            (formula, coefficients), *more = counting.counts[count].formulas
            if more or coefficients is not None:
                raise TooManyStates
            self._check_owner(formula)
            self.formulas.append(formula)
        self.shared = _ShareCheck(counting, known.net.offsets)
        self.made: dict[tuple[object, ...], list[State]] = {}
        self.inside = [[frozenset(c.rows.tolist()) for c in f.clauses] for f in self.formulas]
        self.at = {a: counting.atoms[a].at.tolist() for a in part.atoms}
        formulas = known.net.formulas
        self.place = {id(f): dict(zip(*(x.tolist() for x in formulas[id(f)]), strict=True)) for f in self.formulas}
        found: dict[tuple[object, ...], tuple[list[State], list[tuple[int, ...]]]] = {}
        for rows in self._by_person():
            states, literals = self._states(rows)
            key = tuple((vector, truths) for _, vector, truths in states)
            found.setdefault(key, (states, []))[1].append(literals)
        self.classes = list(found.values())

    def all_open(self, truth: Truth) -> bool:
        """Do people of each class differ, in the true table, in everything that is open?"""
        held = {a: truth(a) for a in self.part.atoms}
        value: dict[int, int] = {}
        for a in self.part.atoms:
            at, offset = self.counting.atoms[a].at, self.known.net.offsets[a]
            there = np.flatnonzero(at >= 0)
            value |= dict(zip((offset + at[there]).tolist(), (held[a][there] == 1).astype(int).tolist(), strict=True))
        for states, who in self.classes:
            k = len(states[0][0])
            real = [tuple(value[x >> 1] for x in literals[:k]) for literals in who]
            by_atoms = {chosen: truths for chosen, _, truths in states}
            seen = [by_atoms.get(chosen) for chosen in real]
            if None in seen or any(len({t[i] for t in seen if t is not None}) < 2 for i in range(k)):
                return False
        return True

    def _check_owner(self, formula: Formula) -> None:
        """Is each owner one person's?"""
        rows = np.unique(np.concatenate([c.rows for c in formula.clauses]))
        rows = rows[formula.owner[rows] >= 0]
        pairs = np.unique(np.stack([formula.owner[rows], self.counting.person[rows]]), axis=1)
        if len(np.unique(pairs[0])) != pairs.shape[1]:
            raise TooManyStates

    def _by_person(self) -> Iterator[list[int]]:
        rows = np.unique(np.concatenate([c.rows for f in self.formulas for c in f.clauses]))
        order = rows[np.argsort(self.counting.person[rows], kind="stable")]
        person = self.counting.person[order]
        starts = np.flatnonzero(np.diff(person, prepend=-2))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            yield order[start:end].tolist()

    def _states(self, rows: list[int]) -> tuple[list[State], tuple[int, ...]]:
        """The states of one person, and the literals that their truths are of: his open atoms, then his formulas."""
        value, offsets = self.known.value, self.known.net.offsets
        variables: dict[int, int] = {}  # open variable -> its place; others by their value
        seen: list[tuple[int, ...]] = []  # of each record, each atom: ~place if it is open, else its value
        for r in rows:
            mine = []
            for a in self.part.atoms:
                instance = int(self.at[a][r])
                v = 0 if instance < 0 else offsets[a] + instance
                if v and value[v] == OPEN:
                    self.shared.check(a, instance, int(self.counting.person[r]))
                    mine.append(~variables.setdefault(v, len(variables)))
                else:
                    mine.append(int(value[v]))
            seen.append(tuple(mine))
        if len(variables) > MOST_VARIABLES:
            raise TooManyStates
        owners = [sorted({o for r in rows if (o := int(f.owner[r])) >= 0}) for f in self.formulas]
        ties = tuple((variables[a], x, variables[b], y) for a, x, b, y in self.shared.ties(self.part, variables))
        inside = tuple(tuple(tuple(r in c for r in rows) for c in clauses) for clauses in self.inside)
        whose = tuple(
            tuple(bisect_left(mine, int(f.owner[r])) if f.owner[r] >= 0 else -1 for r in rows)
            for f, mine in zip(self.formulas, owners, strict=True)
        )
        key = (len(variables), tuple(seen), inside, whose, ties)
        if key not in self.made:
            self.made[key] = self._enumerated(*key, [len(mine) for mine in owners])
        literals = [2 * v for v in variables]
        for f, mine in zip(self.formulas, owners, strict=True):
            literals += [self.place[id(f)].get(o, 0) for o in mine]
        return self.made[key], tuple(literals)

    def _enumerated(
        self,
        count: int,
        seen: tuple[tuple[int, ...], ...],
        inside: tuple[tuple[tuple[bool, ...], ...], ...],
        whose: tuple[tuple[int, ...], ...],
        ties: tuple[tuple[int, int, int, int], ...],
        owners: list[int],
    ) -> list[State]:
        """All truth values of the open atoms that fit together, with what they add to each count."""
        atoms = {a: i for i, a in enumerate(self.part.atoms)}
        states: list[State] = []
        for chosen in product((0, 1), repeat=count):
            if any(chosen[a] == x and chosen[b] == y for a, x, b, y in ties):
                continue
            vector, truths = [], list(chosen)
            for f, formula in enumerate(self.formulas):
                true = set()
                for clause, here in zip(formula.clauses, inside[f], strict=True):
                    for i, member in enumerate(here):
                        if (
                            member
                            and whose[f][i] >= 0
                            and all(
                                (chosen[~s] if (s := seen[i][atoms[a]]) < 0 else s) == int(w)
                                for a, w in clause.literals
                            )
                        ):
                            true.add(whose[f][i])
                vector.append(len(true))
                truths += [int(o in true) for o in range(owners[f])]
            states.append((chosen, tuple(vector), tuple(truths)))
        return states


class _ShareCheck:
    """Whose an instance is, and what instances say of each other."""

    def __init__(self, counting: Counting, offsets: Sequence[int]) -> None:
        self.counting, self.offsets = counting, offsets
        self._owner: dict[int, NDArray[np.int64]] = {}
        self._ties: dict[int, list[tuple[int, int, int, int]]] | None = None

    def check(self, atom: int, instance: int, person: int) -> None:
        """Refuse an instance that several people share."""
        if atom not in self._owner:
            made = self.counting.atoms[atom]
            there = made.at >= 0
            least, most = np.full(made.count, np.iinfo(np.int64).max), np.full(made.count, -1)
            np.minimum.at(least, made.at[there], self.counting.person[there])
            np.maximum.at(most, made.at[there], self.counting.person[there])
            self._owner[atom] = np.where(least == most, least, -1)
        if self._owner[atom][instance] != person:
            raise TooManyStates

    def ties(self, part: AtomsTogether, variables: Mapping[int, int]) -> Iterator[tuple[int, int, int, int]]:
        """Pairs of open variables and values that they cannot have together."""
        if self._ties is None:
            self._ties = {}
            atoms = set(part.atoms)
            for tie in self.counting.ties:
                if tie.left[0] in atoms and tie.right[0] in atoms:
                    first, second = (
                        self.offsets[side[0]] + at for side, at in zip((tie.left, tie.right), tie.pairs, strict=True)
                    )
                    bad = int(tie.left[1]), int(not tie.right[1])
                    for a, b in zip(first.tolist(), second.tolist(), strict=True):
                        self._ties.setdefault(a, []).append((a, bad[0], b, bad[1]))
            for group in self.counting.exclusive:
                for i, j in combinations([a for a in group if a in atoms], 2):
                    for r in np.flatnonzero(self.counting.atoms[i].at >= 0).tolist():
                        a, b = self.offsets[i] + r, self.offsets[j] + r
                        self._ties.setdefault(a, []).append((a, 1, b, 1))
        for v in variables:
            yield from (t for t in self._ties.get(v, ()) if t[2] in variables)


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


# --- fixed point ------------------------------------------------------------------------------------------------------
# Counts of people to a fixed point: forced first, then differences, then small components exactly; again.


def solve(counting: Counting, state: Forced, truth: Truth | None) -> bool:
    """To a fixed point; True if every component was decided exactly. Raises `Conflict` where nothing is possible."""
    while True:
        state.run()
        if settle_by_rank(state):
            continue
        decided = True
        for part in components(counting, state):
            if not simple(counting, state, part):
                decided &= decide(counting, state, part, truth)
        if not state.changed:
            return decided
