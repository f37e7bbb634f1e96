"""One list of questions for everybody on a large table: each new question should give one more person.

(G) = (G and c = v) + (G and c <> v): of such three any two give the third, and what is known of one person alone is his
value. Conjunctions that differ in known people alone are one node of a graph. Two nodes that differ in one more person
are joined by an edge: once one of them was asked about, the other gives that person for one question. So the people
cost one question each, and a graph costs one more to enter. Greedy: the graphs with most people first; known people
merge graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from keyhole.attacks.plan.allowed_questions import AllowedQuestions
from keyhole.attacks.plan.cells import TableCells
from keyhole.attacks.plan.profiles import Bools, Ints
from keyhole.attacks.plan.question import CodeCondition, Question

PACKED = 40  # bits of a sum of profile numbers, below the count of profiles
SLOW = 50  # a graph that gives less than one in so many of the missing is left for others
Weighted = dict[Question, Fraction]
Words = NDArray[np.uint64]


class Conjunctions:
    """Every conjunction of = and <> on the columns of a table of cells, numbered through, with the sums over each.

    Conjunction base[j] + t * n_j + i is about the columns of table j with the codes of its cell i; bit b of t turns =
    into <> in column b. `triples` are (G), (G and c = v), (G and c <> v): the first is the sum of the others.
    """

    def __init__(self, cells: TableCells, ways: AllowedQuestions) -> None:
        self.cells = cells
        at = {s: j for j, s in enumerate(cells.sets)}
        sizes = np.diff(cells.start)
        width = np.array([len(s) for s in cells.sets])
        self.base = np.concatenate([[0], np.cumsum(sizes << width)])
        self.count = int(self.base[-1])
        self._order = [np.argsort(row, kind="stable") for row in cells.cell]
        self._parents: list[Ints] = []
        triples = []
        for j, s in enumerate(cells.sets):
            own = cells.first[cells.start[j] : cells.start[j + 1]]
            subsets = [tuple(c for b, c in enumerate(s) if u >> b & 1) for u in range(1 << len(s))]
            self._parents.append(np.array([cells.cell[at[sub], own] for sub in subsets], dtype=np.int64))
            for b in range(len(s)):
                wider = at[s[:b] + s[b + 1 :]]
                local = cells.cell[wider, own].astype(np.int64) - cells.start[wider]
                for t in range(1 << len(s)):
                    if not t >> b & 1:
                        rest = (t & ((1 << b) - 1)) | (t >> (b + 1)) << b
                        Y = self.base[j] + t * sizes[j] + np.arange(sizes[j])
                        triples.append(
                            np.stack([self.base[wider] + rest * sizes[wider] + local, Y, Y + (sizes[j] << b)])
                        )
        self.triples = np.concatenate(triples, axis=1) if triples else np.zeros((3, 0), dtype=np.int64)
        self.allowed = self.sums(cells.profiles.people.astype(np.uint64)).astype(np.int64) >= ways.least
        for j, s in enumerate(cells.sets):
            for t in range(1 << len(s)):
                needs = {"<>"} if t else set()
                needs |= {"="} if t != (1 << len(s)) - 1 else set()
                if not needs <= ways.operators:
                    self.allowed[self.base[j] + t * sizes[j] : self.base[j] + (t + 1) * sizes[j]] = False

    def sums(self, of_profiles: Words) -> Words:
        """The sum over each conjunction of a number of each profile, modulo 2^64."""
        cells = self.cells
        by_cell = np.concatenate(
            [
                np.add.reduceat(of_profiles[order], np.searchsorted(cells.cell[j][order], np.arange(a, b)))
                for j, (order, a, b) in enumerate(zip(self._order, cells.start, cells.start[1:], strict=False))
            ]
        )
        found = np.empty(self.count, dtype=of_profiles.dtype)
        for j, parents in enumerate(self._parents):
            made = by_cell[parents]
            for b in range(len(cells.sets[j])):
                within = np.array([u for u in range(len(made)) if u >> b & 1])
                without = within ^ (1 << b)
                made[without], made[within] = made[within], made[without] - made[within]
            found[self.base[j] : self.base[j + 1]] = made.ravel()
        return found

    def question(self, number: int) -> Question:
        """A conjunction as a question."""
        j = int(np.searchsorted(self.base, number, side="right")) - 1
        t, i = divmod(int(number - self.base[j]), int(self.cells.start[j + 1] - self.cells.start[j]))
        one = self.cells.first[self.cells.start[j] + i]
        codes = self.cells.profiles.codes
        return (
            tuple(
                CodeCondition(c, "<>" if t >> b & 1 else "=", (int(codes[c, one]),))
                for b, c in enumerate(self.cells.sets[j])
            ),
        )


class Closure:
    """What follows from the questions asked so far, and which to ask next.

    `asked` has the questions in their order; `found` the profiles in theirs, each with the weights of questions that
    give its total plus totals of profiles before it.
    """

    def __init__(self, conjunctions: Conjunctions, targets: Bools, stop: Callable[[], bool]) -> None:
        self.conjunctions, self.targets, self.stop = conjunctions, targets, stop
        profiles = conjunctions.cells.profiles
        self.asked: dict[Question, int] = {}  # the number of its conjunction, -1 for another question
        self.found: dict[int, Weighted] = {}
        self.open = profiles.unknowns > 0  # has a total that is not known
        self.key = np.random.default_rng(0).integers(1 << 63, size=profiles.count, dtype=np.uint64)

    @property
    def missing(self) -> Ints:
        """The targets that are not found out."""
        return np.flatnonzero(self.targets & self.open)

    def find(self, profile: int, weights: Weighted) -> None:
        """Enter a profile that follows, and what it follows from."""
        for question in weights:
            self.asked.setdefault(question, -1)
        self.found[profile] = weights
        self.open[profile] = False

    def run(self) -> None:
        """Ask until no graph gives anybody more."""
        while len(self.missing) and not self.stop() and _Graph(self).play():
            continue


class _Graph:
    """The graph for those who are known now; it stays as it is while some more are found."""

    def __init__(self, closure: Closure) -> None:
        self.closure, C = closure, closure.conjunctions
        one = np.arange(len(closure.open)) + (1 << PACKED)
        hashes = C.sums(np.where(closure.open, closure.key, np.uint64(0)))
        counted = C.sums(np.where(closure.open, one, 0).astype(np.uint64))
        _, first, node = np.unique(np.append(np.uint64(0), hashes), return_index=True, return_inverse=True)
        self.node_of = node[1:]  # node 0 is the empty sum
        many, who = np.divmod(np.append(np.uint64(0), counted)[first].astype(np.int64), 1 << PACKED)
        self.single = np.where(many == 1, who, -1)
        self.number = np.full(len(first), -1, dtype=np.int64)  # an allowed conjunction of each node
        allowed = np.flatnonzero(C.allowed)
        self.number[self.node_of[allowed]] = allowed
        triples = self.node_of[C.triples]
        triples = triples[:, (triples != 0).all(axis=0)]
        # the first two of a triple say which is the third, so one number tells triples apart
        _, at = np.unique(triples[0] * len(first) + triples[1], return_index=True)
        self.triples = triples[:, at]
        self.known = np.zeros(len(first), dtype=np.bool_)
        self.rows: dict[int, Weighted] = {0: {}}  # of known nodes: as questions
        self.origin: dict[int, tuple[int, int, int]] = {}  # or: node a + sign * node b
        self.known[0] = True
        self.wanted = closure.targets & closure.open
        for question, number in closure.asked.items():
            self._enter(question, number, hashes)
        self._spread()

    def _enter(self, question: Question, number: int, hashes: Words) -> None:
        if number < 0:
            closure = self.closure
            mask = closure.conjunctions.cells.profiles.mask(question) & closure.open
            at = np.flatnonzero(hashes == closure.key[mask].sum(dtype=np.uint64))
            if not len(at):
                return
            number = int(at[0])
        node = int(self.node_of[number])
        if not self.known[node]:
            self.known[node] = True
            self.rows[node] = {question: Fraction(1)}

    def _ask(self, nodes: Ints) -> None:
        for node in nodes.tolist():
            question = self.closure.conjunctions.question(int(self.number[node]))
            self.closure.asked[question] = int(self.number[node])
            self.known[node] = True
            self.rows[node] = {question: Fraction(1)}
        self._spread()

    def _spread(self) -> None:
        """Of three nodes any two give the third."""
        while True:
            known = self.known[self.triples]
            ready = np.flatnonzero(known.sum(axis=0) == 2)
            if not len(ready):
                break
            X, Y, Z = self.triples[:, ready]
            for new, a, sign, b in ((X, Y, 1, Z), (Y, X, -1, Z), (Z, X, -1, Y)):
                fresh = np.flatnonzero(~self.known[new])
                _, at = np.unique(new[fresh], return_index=True)
                for i in fresh[at].tolist():
                    self.origin[int(new[i])] = (int(a[i]), sign, int(b[i]))
                self.known[new[fresh]] = True
        self.triples = self.triples[:, ~self.known[self.triples].all(axis=0)]
        nodes = np.flatnonzero(self.known & (self.single >= 0))
        for node in nodes[self.closure.open[self.single[nodes]]].tolist():
            self.closure.find(int(self.single[node]), self._row(node))

    def _row(self, node: int) -> Weighted:
        waiting = [node]
        while waiting:
            last = waiting[-1]
            if last in self.rows:
                waiting.pop()
                continue
            a, sign, b = self.origin[last]
            needed = [each for each in (a, b) if each not in self.rows]
            if needed:
                waiting += needed
                continue
            row = dict(self.rows[a])
            for question, weight in self.rows[b].items():
                row[question] = row.get(question, Fraction(0)) + sign * weight
            self.rows[last] = {q: w for q, w in row.items() if w}
        return self.rows[node]

    def play(self) -> bool:
        """Neighbours of what is known for one question each; else enter more graphs. False: nobody follows."""
        before, missing = len(self.closure.found), len(self.closure.missing)
        self._follow()
        if (len(self.closure.found) - before) * SLOW > missing:
            return True
        entrances = self._entrances()
        self._ask(entrances)
        self._follow()
        return len(entrances) > 0 or len(self.closure.found) > before

    def _follow(self) -> None:
        while not self.closure.stop() and self._ask_neighbours():
            continue

    def _ask_neighbours(self) -> bool:
        """The questions that give a person each, those that give most people first."""
        still = self.wanted & self.closure.open
        edges, who = self._edges(still)
        known = self.known[edges]
        ready = known.any(axis=0)
        next_, who = np.where(known[0], edges[1], edges[0])[ready], who[ready]
        alone = np.flatnonzero((self.single >= 0) & (self.number >= 0) & ~self.known)
        alone = alone[still[self.single[alone]]]
        next_, who = np.append(next_, alone), np.append(who, self.single[alone])
        possible = (self.number[next_] >= 0) & ~self.known[next_]
        next_, who = next_[possible], who[possible]
        if not len(next_):
            return False
        gives = np.bincount(next_, minlength=len(self.known))
        order = np.lexsort((next_, -gives[next_], who))
        _, at = np.unique(who[order], return_index=True)
        self._ask(np.unique(next_[order][at]))
        return True

    def _edges(self, still: Bools) -> tuple[Ints, Ints]:
        """Pairs of nodes that differ in one wanted person, and in whom."""
        pairs = []
        for one, a, b in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
            who = self.single[self.triples[one]]
            fits = (who >= 0) & still[who]
            pairs.append(np.stack([self.triples[a][fits], self.triples[b][fits], who[fits]]))
        found = np.concatenate(pairs, axis=1)
        return found[:2], found[2]

    def _entrances(self) -> Ints:
        """Nodes to ask about, one a graph: the graphs with the most people, as far as they are other people."""
        edges, who = self._edges(self.wanted & self.closure.open)
        fits = (self.number[edges] >= 0).all(axis=0)
        edges, who = edges[:, fits], who[fits]
        if not len(who):
            return np.zeros(0, dtype=np.int64)
        size = len(self.known)
        _, part = connected_components(coo_array((np.ones(len(who)), (edges[0], edges[1])), shape=(size, size)), False)
        pairs = np.unique(np.stack([part[edges[0]], who]), axis=1)
        degree = np.bincount(edges.ravel(), minlength=size)
        starts = np.flatnonzero(np.append(True, pairs[0, 1:] != pairs[0, :-1]))
        groups = np.split(pairs[1], starts[1:])
        most = max(map(len, groups))
        taken = np.zeros(len(self.wanted), dtype=np.bool_)
        chosen = []
        for i in sorted(range(len(groups)), key=lambda i: -len(groups[i])):
            if len(groups[i]) * 2 < most:
                break
            new = groups[i][~taken[groups[i]]]
            if 2 * len(new) >= most:
                taken[new] = True
                chosen.append(int(pairs[0, starts[i]]))
        members = np.flatnonzero(np.isin(part, chosen) & (degree > 0) & (self.number >= 0))
        best = members[np.lexsort((-degree[members], part[members]))]
        _, at = np.unique(part[best], return_index=True)
        return best[at]
