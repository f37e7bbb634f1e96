"""One list of questions that gives away as many people as possible, with as few questions as we find.

For values that may be any numbers: whoever is in the row space of all allowed questions is a target, and every list
that gives d targets away has at least d questions (rank). More exactly: restrict each question to those who are no
targets (its *remainder*). A list that spans all targets has d + r questions, where r is the rank of its remainders, so
the fewest is d plus the least rank of remainders whose questions span the targets. On small tables these ranks are gone
through. On large ones the list is greedy, and then cut down to as many questions as its rank.

For values on a grid or of categories: a list tells two tables apart or it does not. Every pair that differs in a target
must be told apart by some question, so the fewest is a smallest hitting set; and m questions have only so many
different answers (the information bound).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import comb, lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.plan.allowed_questions import ExhaustiveSearch
from keyhole.attacks.plan.closure import Closure, Conjunctions, Weighted
from keyhole.attacks.plan.planner import Planner
from keyhole.attacks.plan.profiles import Bools, Ints, Profiles
from keyhole.attacks.plan.question import Question
from keyhole.attacks.plan.reach import rows_over
from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace.residues import ranks, reduced_by
from keyhole.solve.rowspace.sparse import SparseRowSpace

PRIME = 2**31 - 1
EXACT = 20  # unknowns up to which a rank modulo PRIME is the rank: no minor of 0/1 is as large (Hadamard)
SMALL = 40  # unknowns up to which remainders are gone through
FLATS = 20_000  # ranks looked at
PAIRS = 20_000_000  # pairs of tables, times questions
TRIED = 6  # cells that give somebody, the cheapest first
BATCHES = 20  # in which whoever no graph reaches is entered
FEWEST = 20  # people in a batch
CHUNK = 1000  # questions whose people are looked at together
NODES = 300_000  # of the search for the fewest questions that tell tables apart


@dataclass(frozen=True, slots=True)
class Domain:
    """What a value may be: one of `levels` + 1 steps, or (`categories` > 0) one of so many categories."""

    levels: int
    categories: int = 0

    def answers(self, people: int) -> int:
        """How many answers a question about so many people may have."""
        return comb(people + self.categories - 1, people) if self.categories else self.levels * people + 1


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """A profile's total: weights on answers (by the number of the question, from 0) and on profiles before it."""

    answers: Mapping[int, Fraction]
    before: Mapping[int, Fraction]


@dataclass(frozen=True, slots=True, eq=False)
class JointPlan:
    """`targets` are found out by `questions`; each has a formula, unless it follows from the domain alone.

    `bound`: no list gives all targets away with fewer questions, proved. `complete` is False if the search was stopped:
    then more people may follow.
    """

    questions: tuple[Question, ...]
    formulas: Mapping[int, Formula]  # in an order in which each rests on earlier ones
    targets: tuple[int, ...]
    bound: int
    complete: bool = True
    domain: Domain | None = None  # where values that are not in the row space follow, too
    limited: bool = False  # the bound is about a domain of few values

    @property
    def fewest(self) -> bool:
        """Is it shown that no fewer questions do it?"""
        return self.complete and self.bound == len(self.questions)

    def decode(self, profiles: Profiles, answers: Sequence[int]) -> dict[int, int]:
        """The totals of the targets, in steps of the domain, that all tables with these answers share; by looking at
        all tables. Empty if none has them.
        """
        if self.domain is None or not self.questions:
            return {}
        valued = np.flatnonzero(profiles.unknowns > 0)
        reach = (range(self.domain.levels * int(u) + 1) for u in profiles.unknowns[valued])
        tables = np.array(list(product(*reach)), dtype=np.int64)
        rows = np.array([profiles.mask(q)[valued] for q in self.questions], dtype=np.int64)
        fits = tables[(tables @ rows.T == np.array(answers)).all(axis=1)]
        places = {int(p): k for k, p in enumerate(valued)}
        return {p: int(fits[0, places[p]]) for p in self.targets if len(fits) and np.ptp(fits[:, places[p]]) == 0}


def plan_jointly(planner: Planner, domain: Domain | None, stop: Callable[[], bool]) -> JointPlan:
    """The plan for everybody, each formula multiplied out. Cost: seconds on small tables, minutes for 30,000 people."""
    small = planner.small
    if small is not None and domain is not None:
        found = _tell_apart(small, planner.profiles, domain)
        if found is not None:
            return found
    if small is not None and small.whole and len(small.valued) <= SMALL:
        found = _least_rank(small, planner.profiles, domain)
    else:
        found = _by_closure(planner, domain, stop)
    _check(found, planner.profiles, planner.ways.least)
    return found


class _Remainders:
    """The remainders of all questions of a small table, and which lists of them span the targets."""

    def __init__(self, rows: Ints, targets: Ints) -> None:
        self.rows = rows
        self.goal = len(targets)
        rest = np.delete(rows, targets, axis=1)
        self.distinct, self.of = np.unique(rest, axis=0, return_inverse=True)
        self.of = self.of.ravel()

    def spanned(self, chosen: Sequence[int]) -> Bools:
        """The remainders in the span of the chosen ones."""
        if not self.distinct.shape[1]:
            return np.ones(len(self.distinct), dtype=np.bool_)
        left = reduced_by(self.distinct, self.distinct[list(chosen)], PRIME)
        return np.asarray(~left.any(axis=1), dtype=np.bool_)

    def gain(self, inside: Bools, rank: int) -> int:
        """How many dimensions of targets the questions with these remainders span."""
        rows = self.rows[inside[self.of]]
        return int(ranks(rows.T[None], PRIME)[0]) - rank if len(rows) > rank else 0

    def greedy(self) -> list[int]:
        """Remainders that span the targets: those with most gain first; then two for one, and one for none."""
        chosen: list[int] = []
        inside = self.spanned(chosen)
        have = self.gain(inside, 0)
        while have < self.goal:
            options = []
            for r in np.flatnonzero(~inside).tolist():
                wider = self.spanned([*chosen, r])
                options.append((self.gain(wider, len(chosen) + 1), r))
            have, r = max(options)
            chosen.append(r)
            inside = self.spanned(chosen)
        return self._exchanged(chosen)

    def _exchanged(self, chosen: list[int]) -> list[int]:
        while True:
            fewer = next(self._smaller(chosen), None)
            if fewer is None:
                return chosen
            chosen = fewer

    def _smaller(self, chosen: list[int]) -> Iterator[list[int]]:
        for r in chosen:
            left = [c for c in chosen if c != r]
            if self.gain(self.spanned(left), len(left)) == self.goal:
                yield left
        for i, a in enumerate(chosen):
            for b in chosen[i + 1 :]:
                left = [c for c in chosen if c not in (a, b)]
                inside = self.spanned(left)
                for r in np.flatnonzero(~inside).tolist():
                    if self.gain(self.spanned([*left, r]), len(left) + 1) == self.goal:
                        yield [*left, r]

    def least(self, below: int) -> tuple[list[int] | None, int]:
        """Remainders of rank under `below` that span the targets; and a rank that no such list goes under."""
        level: dict[bytes, list[int]] = {self.spanned(()).tobytes(): []}
        looked = 0
        for rank in range(below):
            for key, chosen in level.items():
                if self.gain(np.frombuffer(key, dtype=np.bool_), rank) == self.goal:
                    return chosen, rank
            if rank + 1 == below:
                break
            wider: dict[bytes, list[int]] = {}
            for key, chosen in level.items():
                for r in np.flatnonzero(~np.frombuffer(key, dtype=np.bool_)).tolist():
                    looked += 1
                    if looked > FLATS:
                        return None, rank + 1
                    wider.setdefault(self.spanned([*chosen, r]).tobytes(), [*chosen, r])
            level = wider
        return None, below


def _least_rank(small: ExhaustiveSearch, profiles: Profiles, domain: Domain | None) -> JointPlan:
    """The targets, and the fewest questions that span them."""
    questions = list(small.by_mask.values())
    rows = np.array([profiles.mask(q)[small.valued] for q in questions], dtype=np.int64)
    rows = rows.reshape(len(questions), len(small.valued))
    space = RowSpace(RowMatrix.from_dense(rows), rng=np.random.default_rng(0))
    alone = profiles.unknowns[small.valued] == 1
    targets = np.array([k for k in space.determined().tolist() if alone[k]], dtype=np.int64)
    found = _Remainders(rows, targets)
    chosen = found.greedy()
    better, least = found.least(len(chosen))
    chosen = chosen if better is None else better
    kept = _independent(rows, np.flatnonzero(found.spanned(chosen)[found.of])) if len(targets) else []
    listed = RowSpace(RowMatrix.from_dense(rows[kept]), rng=np.random.default_rng(0)) if kept else None
    formulas = {}
    for k in targets.tolist():
        weights = None if listed is None else listed.weights(k)
        if weights is None:
            raise ArithmeticError("questions that span everybody do not; please report this")
        formulas[int(small.valued[k])] = Formula(weights, {})
    bound = len(targets) + (least if len(small.valued) <= EXACT else 0)
    at = tuple(map(int, small.valued[targets]))
    plan = JointPlan(tuple(questions[i] for i in kept), formulas, at, bound)
    return plan if domain is None else _with_domain(plan, profiles, domain, questions)


def _independent(rows: Ints, among: Ints) -> list[int]:
    """The first rows that are independent, fewest conditions first."""
    kept: list[int] = []
    for i in among.tolist():
        if reduced_by(rows[i], rows[kept], PRIME).any():
            kept.append(i)
    return kept


def _with_domain(plan: JointPlan, profiles: Profiles, domain: Domain, questions: Sequence[Question]) -> JointPlan:
    bound = information_bound(domain, len(plan.targets), (_valued(profiles, q) for q in questions))
    return replace(plan, bound=bound, limited=True)


def _valued(profiles: Profiles, question: Question) -> int:
    return int(profiles.unknowns[profiles.mask(question)].sum())


def information_bound(domain: Domain, targets: int, sizes: Iterator[int] | Sequence[int]) -> int:
    """How many questions about groups of these sizes have as many answers as there are values of the targets.

    >>> information_bound(Domain(1), 8, [8] * 20)  # 9^3 answers for 2^8 tables
    3
    """
    need = (domain.categories or domain.levels + 1) ** targets
    have, count = 1, 0
    for size in sorted(sizes, reverse=True):
        if have >= need:
            break
        have *= domain.answers(size)
        count += 1
    return count


def _tell_apart(small: ExhaustiveSearch, profiles: Profiles, domain: Domain) -> JointPlan | None:
    """The fewest questions that tell any two tables apart that differ in a target; None: too many tables."""
    reach = [domain.levels * int(u) for u in profiles.unknowns[small.valued]]
    questions = list(small.by_mask.values())
    pairs = prod(2 * r + 1 for r in reach)
    if not small.whole or pairs * max(1, len(questions)) > PAIRS:
        return None
    change = np.array(list(product(*(range(-r, r + 1) for r in reach))), dtype=np.int64).reshape(pairs, len(reach))
    change = change[: pairs // 2]  # the rest are these with other signs
    rows = np.array([profiles.mask(q)[small.valued] for q in questions], dtype=np.int64).reshape(-1, len(reach))
    notice = change @ rows.T != 0
    unseen = ~notice.any(axis=1)
    alone = profiles.unknowns[small.valued] == 1
    targets = np.flatnonzero(alone & ~(change[unseen] != 0).any(axis=0))
    needed = _minimal(notice[(change[:, targets] != 0).any(axis=1)])
    bound = information_bound(domain, len(targets), rows.sum(axis=1).tolist())
    kept, bound = _fewest_that_meet(needed, bound)
    listed = RowSpace(RowMatrix.from_dense(rows[kept]), rng=np.random.default_rng(0)) if kept else None
    weights = {int(small.valued[k]): None if listed is None else listed.weights(k) for k in targets.tolist()}
    formulas = {p: Formula(each, {}) for p, each in weights.items() if each is not None}
    chosen = tuple(questions[i] for i in kept)
    plan = JointPlan(chosen, formulas, tuple(weights), bound, domain=domain, limited=True)
    _check(plan, profiles, small.ways.least)
    return plan


def _minimal(rows: Bools) -> Bools:
    """The sets that contain no other one, each once."""
    rows = np.unique(rows, axis=0)
    rows = rows[np.argsort(rows.sum(axis=1), kind="stable")]
    kept = []
    while len(rows):
        kept.append(rows[0])
        rows = rows[1:][~(rows[1:] | ~rows[0]).all(axis=1)]
    return np.array(kept, dtype=np.bool_)


def _fewest_that_meet(sets: Bools, bound: int) -> tuple[list[int], int]:
    """Columns, as few as possible, of which each row has one; and how many there must be. `bound` is known already."""
    if not len(sets):
        return [], 0
    whole = (1 << len(sets)) - 1
    meets: dict[int, int] = {}
    for column, each in enumerate(sets.T):
        meets.setdefault(int.from_bytes(np.packbits(each, bitorder="little").tobytes(), "little"), column)
    useful = sorted(
        (m for m in meets if not any(m != o and m & o == m for o in meets)), key=int.bit_count, reverse=True
    )
    of_set = [[m for m in useful if m >> k & 1] for k in range(len(sets))]
    best = _exchanged(_greedily(useful, whole), useful, whole)
    nodes = 0

    def search(left: int, count: int, without: frozenset[int]) -> list[int] | None:
        nonlocal nodes
        nodes += 1
        if not left:
            return []
        if (
            nodes > NODES
            or count == 0
            or sum(sorted((m & left).bit_count() for m in useful)[-count:]) < left.bit_count()
        ):
            return None
        for m in of_set[(left & -left).bit_length() - 1]:
            if m not in without:
                rest = search(left & ~m, count - 1, without)
                if rest is not None:
                    return [m, *rest]
                without |= {m}
        return None

    while bound < len(best):
        fewer = search(whole, bound, frozenset())
        if nodes > NODES and fewer is None:
            break
        if fewer is not None:
            best = fewer
        else:
            bound += 1
    return sorted(meets[m] for m in best), bound


def _greedily(useful: Sequence[int], left: int) -> list[int]:
    chosen = []
    while left:
        chosen.append(max(useful, key=lambda m: (m & left).bit_count()))
        left &= ~chosen[-1]
    return chosen


def _exchanged(chosen: list[int], useful: Sequence[int], whole: int) -> list[int]:
    """Without any that is not needed, and two replaced by one as long as one does it."""
    for size in (1, 2):
        for gone in combinations(chosen, size):
            left = whole
            for m in chosen:
                left &= ~m if m not in gone else left
            new = [] if not left else next(([m] for m in useful if m & left == left), None) if size == 2 else None
            if new is not None:
                return _exchanged([*(m for m in chosen if m not in gone), *new], useful, whole)
    return chosen


def _by_closure(planner: Planner, domain: Domain | None, stop: Callable[[], bool]) -> JointPlan:
    """Greedy on a large table; whoever its graphs miss follows from cells, as in a plan of his own."""
    profiles = planner.profiles
    reached = [profiles.unknowns[p] == 1 and planner.how(p).exposed for p in range(profiles.count)]
    targets = np.array(reached, dtype=np.bool_)
    closure = Closure(Conjunctions(planner.cells, planner.ways), targets, stop)
    closure.run()
    _enter_plans(closure, planner, stop)
    formulas, used = _drop_dependent(*_formulas(closure.found, profiles, targets), profiles)
    complete = not len(closure.missing) and planner.allowed.complete
    at = tuple(p for p in formulas if targets[p])
    plan = JointPlan(used, formulas, at, len(at), complete)
    if domain is None:
        return plan
    return replace(plan, bound=information_bound(domain, len(at), [profiles.n] * len(at)), limited=True)


def _enter_plans(closure: Closure, planner: Planner, stop: Callable[[], bool]) -> None:
    """Whoever no graph reaches, by a cell in which nobody else is unknown, or by the row space of those who are.

    Those with the fewest new questions first, some at a time: what they ask may lead into more graphs.
    """
    while len(closure.missing) and not stop():
        plans = _plans_by_cells(closure, planner) or _plans_by_rows(closure, planner, stop)
        if not plans:
            return
        new = {p: sum(q not in closure.asked for q in weights) for p, weights in plans.items()}
        for p in sorted(plans, key=lambda p: (new[p], p))[: max(FEWEST, len(closure.missing) // BATCHES)]:
            closure.find(p, plans[p])
        closure.run()


def _plans_by_cells(closure: Closure, planner: Planner) -> dict[int, Weighted]:
    """For each target that is alone unknown in a cell: the questions of the cell with the fewest new ones."""
    cells = planner.cells
    unknown = np.bincount(cells.cell[:, closure.open].ravel(), minlength=cells.count)
    found: dict[int, Weighted] = {}
    for p in closure.missing.tolist():
        at = cells.cell[:, p]
        cheapest = sorted((planner.cost(c), c) for c in at[unknown[at] == 1].tolist() if planner.cost(c))[:TRIED]
        ways = [planner.questions({c: Fraction(1)}) for _, c in cheapest]
        if ways:
            found[p] = min(ways, key=lambda way: sum(q not in closure.asked for q in way))
    return found


def _plans_by_rows(closure: Closure, planner: Planner, stop: Callable[[], bool]) -> dict[int, Weighted]:
    """For each target in the row space of cells, restricted to those who are unknown: the questions of these cells."""
    rows = rows_over(planner.cells, np.flatnonzero(closure.open), planner.cost)
    space = SparseRowSpace(list(rows), stop)
    cells = list(rows.values())
    found = {}
    for p in closure.missing.tolist():
        weights = None if stop() else space.express(p)
        if weights is not None:
            found[p] = planner.questions({cells[i]: w for i, w in weights.items()})
    return found


class _Masks:
    """Whom questions are about, of those who have a value: computed once, eight to a byte."""

    def __init__(self, profiles: Profiles) -> None:
        self.profiles = profiles
        self.packed: dict[Question, NDArray[np.uint8]] = {}

    def __getitem__(self, question: Question) -> NDArray[np.uint8]:
        if question not in self.packed:
            self.packed[question] = np.packbits(self.profiles.mask(question) & (self.profiles.unknowns > 0))
        return np.unpackbits(self.packed[question], count=self.profiles.count)

    def add(self, weights: Mapping[Question, Fraction]) -> dict[int, Fraction]:
        """The weighted sum of questions, by profile; in whole numbers."""
        scale = lcm(*(w.denominator for w in weights.values()))
        amounts = {q: int(w * scale) for q, w in weights.items()}
        wide = sum(map(abs, amounts.values())) >= 1 << 62
        total = np.zeros(self.profiles.count, dtype=object if wide else np.int64)
        for question, amount in amounts.items():
            total[self[question] == 1] += amount
        return {int(p): Fraction(int(total[p]), scale) for p in np.flatnonzero(total)}


def _formulas(
    found: Mapping[int, Weighted], profiles: Profiles, targets: Bools
) -> tuple[dict[int, Formula], tuple[Question, ...]]:
    """Each target, and whoever it rests on, as answers less those found before; and the questions that occur."""
    masks, totals = _Masks(profiles), dict[int, dict[int, Fraction]]()
    needed = {p for p in found if targets[p]}
    for p in reversed(list(found)):
        if p in needed:
            totals[p] = masks.add(found[p])
            totals[p].pop(p)
            needed |= totals[p].keys()
    used: dict[Question, int] = {}
    formulas = {}
    for p, weights in found.items():
        if p in needed:
            answers = {used.setdefault(q, len(used)): w for q, w in weights.items()}
            formulas[p] = Formula(answers, {o: -w for o, w in totals[p].items()})
    return formulas, tuple(used)


def _drop_dependent(
    formulas: Mapping[int, Formula], questions: tuple[Question, ...], profiles: Profiles
) -> tuple[dict[int, Formula], tuple[Question, ...]]:
    """The same without questions whose answers follow from those of others: as many are left as their rank.

    A sum of questions that is nothing for those who are not found out is a sum of people who are; their formulas turn
    it into a sum of questions again. Where that is another one, the difference is a relation between questions, and one
    of them can go. Relations are found modulo PRIME, at random, and used once multiplied out in whole numbers. Cost:
    that of the remainders' rank, which is about questions less people.
    """
    masks, rng = _Masks(profiles), np.random.default_rng(0)
    relations = _find_relations(formulas, questions, masks, rng)
    times = np.zeros(len(questions), dtype=np.int64)
    for formula in formulas.values():
        times[list(formula.answers)] += 1
    order = np.argsort(times, kind="stable")
    reduced, pivots = _reduce_rows(relations[:, order])
    instead: dict[int, dict[int, Fraction]] = {}
    for row, pivot in zip(reduced, pivots, strict=True):
        weights = {int(order[j]): _rational(int(row[j])) for j in np.flatnonzero(row)}
        if not masks.add({questions[i]: w for i, w in weights.items()}):
            gone = int(order[pivot])
            instead[gone] = {i: -w for i, w in weights.items() if i != gone}
    if not instead:
        return dict(formulas), questions
    left: dict[int, int] = {}
    fewer = {}
    for p, formula in formulas.items():
        total: dict[int, Fraction] = {}
        for i, weight in formula.answers.items():
            for j, each in instead.get(i, {i: Fraction(1)}).items():
                total[j] = total.get(j, Fraction(0)) + weight * each
        answers = {left.setdefault(i, len(left)): w for i, w in total.items() if w}
        fewer[p] = Formula(answers, formula.before)
    return fewer, tuple(questions[i] for i in left)


def _find_relations(
    formulas: Mapping[int, Formula], questions: Sequence[Question], masks: _Masks, rng: np.random.Generator
) -> Ints:
    """Random weights modulo PRIME with which the questions cancel, a few more rows than are independent."""
    m, spare = len(questions), len(questions) - len(formulas)
    if not spare:
        return np.zeros((0, m), dtype=np.int64)
    rest = masks.profiles.unknowns > 0
    rest[list(formulas)] = False
    packed = np.array([np.packbits(masks[q][rest]) for q in questions])
    distinct, first, of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    remainders = np.unpackbits(distinct, axis=1, count=int(rest.sum())).astype(np.float64)
    # on as many random directions as their rank may have, and some; sums of so many residues are exact
    reduced, pivots = _reduce_rows((remainders @ rng.integers(PRIME, size=(remainders.shape[1], spare + 4))).T)
    count = spare - len(pivots)
    if not count:
        return np.zeros((0, m), dtype=np.int64)
    weights = rng.integers(PRIME, size=(count + 2, m))
    weights[:, first[pivots]] = 0
    by_remainder = np.zeros((len(distinct), count + 2), dtype=np.int64)
    np.add.at(by_remainder, of.ravel(), weights.T)
    for d, row in zip(pivots, reduced, strict=True):
        weights[:, first[d]] = -(by_remainder.T % PRIME * row % PRIME).sum(axis=1) % PRIME
    # what is left is about people who are found out: take their formulas away
    people = np.zeros((masks.profiles.count, count + 2), dtype=np.int64)
    for j in range(0, m, CHUNK):
        about = np.array([masks[q] for q in questions[j : j + CHUNK]], dtype=np.float64)
        people = (people + (about.T @ weights[:, j : j + CHUNK].T).astype(np.int64)) % PRIME
    weights = weights.T.copy()
    for p, formula in reversed(list(formulas.items())):
        for i, w in formula.answers.items():
            weights[i] = (weights[i] - people[p] * _residue(w)) % PRIME
        for o, w in formula.before.items():
            people[o] = (people[o] + people[p] * _residue(w)) % PRIME
    return np.asarray(weights.T)


def _residue(number: Fraction) -> int:
    return number.numerator * pow(number.denominator, -1, PRIME) % PRIME


def _rational(residue: int) -> Fraction:
    """The fraction of least terms that is this residue modulo PRIME (Wang's reconstruction)."""
    a, b, s, t = PRIME, residue, 0, 1
    while 2 * b * b > PRIME:
        a, b, s, t = b, a % b, t, s - a // b * t
    return Fraction(b, t)


def _reduce_rows(rows: NDArray[Any]) -> tuple[Ints, list[int]]:
    """The reduced echelon form modulo PRIME, without empty rows, and its pivot columns."""
    work, pivots = np.ascontiguousarray(rows % PRIME).astype(np.int64), list[int]()
    for column in range(work.shape[1]):
        done = len(pivots)
        below = np.flatnonzero(work[done:, column])
        if not len(below):
            continue
        work[[done, done + below[0]]] = work[[done + below[0], done]]
        work[done] = work[done] * pow(int(work[done, column]), -1, PRIME) % PRIME
        others = np.flatnonzero(work[:, column])
        others = others[others != done]
        factors = work[others, column, None]
        work[others, column:] = (work[others, column:] - factors * work[done, column:]) % PRIME
        pivots.append(column)
    return work[: len(pivots)], pivots


def _check(plan: JointPlan, profiles: Profiles, least: int) -> None:
    """Every question is large enough, and every formula, multiplied out, is its profile and nobody else."""
    if any(profiles.size(question) < least for question in plan.questions):
        raise ArithmeticError("a planned question is about too few people; please report this")
    masks, done = _Masks(profiles), set[int]()
    for profile, formula in plan.formulas.items():
        total = masks.add({plan.questions[i]: w for i, w in formula.answers.items()})
        for other, weight in formula.before.items():
            total[other] = total.get(other, Fraction(0)) + weight
        if {p: w for p, w in total.items() if w} != {profile: 1} or not done.issuperset(formula.before):
            raise ArithmeticError("a formula that was built exactly failed its verification; please report this")
        done.add(profile)
