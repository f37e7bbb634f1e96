"""What sums of 0/1 formulas force: a count that is reached leaves nobody else, one that needs all takes all.

AND, OR, implications and "at most one" are used both ways. Sound, not complete. Every value knows the set of answers
that it follows from; the same answers, propagated alone, give it again. Cost: a pass over the gates for each round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.solve.counting.network import AndGate, Network, OrGate, SumGate

Ints: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.int8]
OPEN = -1
NOTHING = 0  # the number of the empty set of answers


class Conflict(Exception):
    """Answers that cannot all be true; `counts` are those that were used."""

    def __init__(self, counts: frozenset[int]) -> None:
        super().__init__("these answers cannot all be true")
        self.counts = counts


class Forced:
    """`value[v]` is 0, 1 or OPEN; `why[v]` the number of the set of answers that it follows from."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.value: Values = np.full(net.size, OPEN, dtype=np.int8)
        self.value[0] = 0
        self.why: Ints = np.zeros(net.size, dtype=np.int64)
        self.sets: list[frozenset[int]] = [frozenset()]
        self._number: dict[frozenset[int], int] = {frozenset(): NOTHING}
        self._joined: dict[tuple[int, int], int] = {}
        self.changed = False

    def run(self) -> None:
        """Until nothing changes."""
        self.changed = True
        while self.changed:
            self.changed = False
            for count in self.net.sums:
                self.sum(count)
            for conjunction in self.net.ands:
                self.both(conjunction)
            for disjunction in self.net.ors:
                self.some(disjunction)
            for left, right in self.net.implied:
                self.implies(left, right)
            for literals in self.net.exclusive:
                self.at_most_one(literals)

    def of(self, literals: Ints) -> Values:
        """The values of literals."""
        found = self.value[literals >> 1]
        return np.where(found == OPEN, OPEN, found ^ (literals & 1).astype(np.int8)).astype(np.int8)

    def reasons(self, literals: Ints) -> Ints:
        """The sets of answers that the values of literals follow from, by number."""
        found: Ints = self.why[literals >> 1]
        return found

    def numbered(self, answers: frozenset[int]) -> int:
        """The number of a set of answers."""
        if answers not in self._number:
            self._number[answers] = len(self.sets)
            self.sets.append(answers)
        return self._number[answers]

    def union(self, left: Ints, right: Ints) -> Ints:
        """Pair by pair."""
        if not len(left):
            return left
        pairs, where = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
        made = [self._union(int(a), int(b)) for a, b in pairs.T]
        return np.array(made, dtype=np.int64)[where.ravel()]

    def _union(self, a: int, b: int) -> int:
        if a == b or b == NOTHING:
            return a
        if (a, b) not in self._joined:
            self._joined[a, b] = self.numbered(self.sets[a] | self.sets[b])
        return self._joined[a, b]

    def all_of(self, numbers: Iterable[int], *more: int) -> int:
        """The union of many."""
        found: frozenset[int] = frozenset(more)
        for number in set(numbers):
            found |= self.sets[number]
        return self.numbered(found)

    def set(self, literals: Ints, holds: int, why: Ints | int) -> None:
        """Literals that hold (1) or fail (0) from now on; Conflict if one is known to be otherwise."""
        if not len(literals):
            return
        reasons = np.full(len(literals), why, dtype=np.int64) if isinstance(why, int) else why
        known = self.of(literals)
        against = np.flatnonzero((known != OPEN) & (known != holds))
        if len(against):
            at = against[0]
            other = int(self.reasons(literals[at : at + 1])[0])
            raise Conflict(self.sets[self._union(int(reasons[at]), other)])
        fresh = known == OPEN
        if not fresh.any():
            return
        at, reasons = literals[fresh], reasons[fresh]
        self.value[at >> 1] = (holds ^ (at & 1)).astype(np.int8)
        self.why[at >> 1] = reasons
        self.changed = True
        if (self.of(at) != holds).any():  # a literal and its negation were set at once
            raise Conflict(self.sets[self.all_of(reasons.tolist())])

    def sum(self, gate: SumGate) -> None:
        """Bounds of a sum: what would take it beyond an end is impossible."""
        values = self.of(gate.literals)
        if gate.weights is not None:
            self._weighted(gate, values)
            return
        ones, open_ = int((values == 1).sum()), values == OPEN
        most = ones + int(open_.sum())
        reasons = self.reasons(gate.literals)
        if gate.hi is not None and ones >= gate.hi:
            why = self.all_of(reasons[values == 1].tolist(), gate.count)
            if ones > gate.hi:
                raise Conflict(self.sets[why])
            self.set(gate.literals[open_], 0, why)
        if gate.lo is not None and most <= gate.lo:
            why = self.all_of(reasons[values == 0].tolist(), gate.count)
            if most < gate.lo:
                raise Conflict(self.sets[why])
            self.set(gate.literals[open_], 1, why)

    def _weighted(self, gate: SumGate, values: Values) -> None:
        weights = gate.weights
        assert weights is not None
        known = values != OPEN
        fixed = int(weights[values == 1].sum()) if (values == 1).any() else 0
        loose = weights[~known]
        least = fixed + sum(int(w) for w in loose if w < 0)
        most = fixed + sum(int(w) for w in loose if w > 0)
        why = self.all_of(self.reasons(gate.literals)[known].tolist(), gate.count)
        if (gate.hi is not None and least > gate.hi) or (gate.lo is not None and most < gate.lo):
            raise Conflict(self.sets[why])
        for sign in (1, -1):
            over = gate.hi - least if gate.hi is not None else None
            under = most - gate.lo if gate.lo is not None else None
            up, down = (over, under) if sign > 0 else (under, over)
            mine = ~known & np.array([w * sign > 0 for w in weights], dtype=np.bool_)
            size = np.array([abs(int(w)) for w in weights], dtype=object)
            if up is not None:  # taking it would be too much
                self.set(gate.literals[mine & (size > up).astype(np.bool_)], 0, why)
            if down is not None:  # leaving it would be too little
                self.set(gate.literals[mine & (size > down).astype(np.bool_)], 1, why)
        # both signs were judged by the bounds before either was set: what changed is looked at in the next round

    def both(self, gate: AndGate) -> None:
        """A conjunction, forwards and backwards."""
        inputs, out = self.of(gate.inputs.ravel()).reshape(gate.inputs.shape), self.of(gate.out)
        why = self.reasons(gate.inputs.ravel()).reshape(gate.inputs.shape)
        columns = np.arange(len(out))
        fails = np.flatnonzero((inputs == 0).any(axis=0) & (out == OPEN))
        self.set(gate.out[fails], 0, why[(inputs == 0).argmax(axis=0)[fails], fails])
        holds = np.flatnonzero((inputs == 1).all(axis=0) & (out == OPEN))
        self.set(gate.out[holds], 1, self._over(why[:, holds]))
        told = np.flatnonzero((out == 1) & (inputs != 1).any(axis=0))
        for row in gate.inputs:
            self.set(row[told], 1, self.reasons(gate.out[told]))
        last = np.flatnonzero(
            (out == 0) & ((inputs == 1).sum(axis=0) == len(inputs) - 1) & (inputs == OPEN).any(axis=0)
        )
        if len(last):
            at = (inputs == OPEN).argmax(axis=0)[last]
            others = np.where(inputs[:, last] == 1, why[:, last], NOTHING)
            reasons = self.union(self._over(others), self.reasons(gate.out[last]))
            self.set(gate.inputs[at, columns[last]], 0, reasons)

    def _over(self, why: Ints) -> Ints:
        """The unions of the columns."""
        found: Ints = why[0]
        for row in why[1:]:
            found = self.union(found, row)
        return found

    def some(self, gate: OrGate) -> None:
        """A disjunction, forwards and backwards."""
        inputs, out = self.of(gate.inputs), self.of(gate.out)
        why, k = self.reasons(gate.inputs), len(gate.out)
        ones = np.flatnonzero(inputs == 1)
        if len(ones):
            first = np.unique(gate.segment[ones], return_index=True)[1]
            at = gate.segment[ones[first]]
            news = out[at] == OPEN
            self.set(gate.out[at[news]], 1, why[ones[first[news]]])
        open_ = np.bincount(gate.segment, weights=inputs == OPEN, minlength=k).astype(np.int64)
        true = np.bincount(gate.segment, weights=inputs == 1, minlength=k).astype(np.int64)
        for j in np.flatnonzero((open_ == 0) & (true == 0) & (out == OPEN)).tolist():
            mine = gate.segment == j
            self.set(gate.out[j : j + 1], 0, self.all_of(why[mine].tolist()))
        gone = np.flatnonzero((out[gate.segment] == 0) & (inputs == OPEN))
        self.set(gate.inputs[gone], 0, self.reasons(gate.out[gate.segment[gone]]))
        for j in np.flatnonzero((out == 1) & (true == 0) & (open_ == 1)).tolist():
            mine = np.flatnonzero(gate.segment == j)
            left = mine[inputs[mine] == OPEN]
            zeros = [*why[mine[inputs[mine] == 0]].tolist(), int(self.reasons(gate.out[j : j + 1])[0])]
            self.set(gate.inputs[left], 1, self.all_of(zeros))

    def implies(self, left: Ints, right: Ints) -> None:
        """Where the left literal holds the right one does; where the right fails the left does."""
        a, b = self.of(left), self.of(right)
        news = (a == 1) & (b != 1)
        self.set(right[news], 1, self.reasons(left[news]))
        news = (b == 0) & (a != 0)
        self.set(left[news], 0, self.reasons(right[news]))

    def at_most_one(self, literals: Ints) -> None:
        """Where one of a column holds, the others fail."""
        values = self.of(literals.ravel()).reshape(literals.shape)
        for i, j in zip(*np.nonzero(values == 1), strict=True):
            others = np.delete(literals[:, j], i)
            others = others[others > 1]
            if (self.of(others) != 0).any():
                self.set(others, 0, int(self.reasons(literals[i : i + 1, j])[0]))
