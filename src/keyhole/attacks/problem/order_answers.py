"""MIN, MAX, MEDIAN and quantiles of a column with finitely many values, as counts that the posterior can read.

The j-th smallest of n values is at most t iff at least j of them are, so an order statistic bounds a count of the
indicators 1[x <= t]. One that interpolates between the j-th and the k-th has a case for each two values that give what
was answered; the case is one more unknown, and count(x <= t) - n 1[j-th <= t] in [j - n, j - 1] ties it to the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Target
from keyhole.gather.evidence import OrderFact, System
from keyhole.model.meaning import find_ranks
from keyhole.model.query import ORDERED

FINEST = 200  # values up to which they are looked for
CASES = 400  # pairs of values up to which an interpolated statistic is told apart by cases
_NEAR = 1e-9

Rows = list[tuple[Floats, float, float]]  # indicator of the values that count, and the ends of the count


@dataclass(frozen=True, slots=True, eq=False)
class OrderAnswer:
    """(1 - share) times the j-th and share times the k-th smallest value of some groups lies in [lo, hi]."""

    number: str
    members: NDArray[np.bool_]
    n: int
    j: int
    k: int
    share: float
    lo: float
    hi: float

    def over(self, parent: NDArray[Any]) -> OrderAnswer:
        """The same over finer groups: group i is a part of `parent[i]`."""
        return replace(self, members=self.members[parent])

    def missed(self, values: Floats, sizes: Floats) -> float:
        """How far the statistic of these values (one a group) lies from what was answered."""
        held = np.sort(np.repeat(values[self.members], sizes[self.members].astype(np.int64)))
        found = (1 - self.share) * held[self.j - 1] + self.share * held[self.k - 1]
        return float(max(self.lo - found, found - self.hi, 0.0))

    def counts(self, values: Floats) -> Rows:
        """What is true of counts of its members, whatever values an interpolation lies between.

        >>> greatest = OrderAnswer("1", np.ones(2, dtype=bool), 2, 2, 2, 0.0, 1.0, 1.0)
        >>> [(held.tolist(), lo, hi) for held, lo, hi in greatest.counts(np.array([0.0, 1.0, 2.0]))]
        [([1.0, 1.0, 0.0], 2.0, inf), ([0.0, 1.0, 1.0], 1.0, inf)]
        """
        near, found = _NEAR * (1 + np.abs(values)), []
        if np.isfinite(self.hi):
            found.append(((values <= self.hi + near).astype(np.float64), float(self.j), np.inf))
        if np.isfinite(self.lo):
            found.append(((values >= self.lo - near).astype(np.float64), float(self.n - self.k + 1), np.inf))
        return found

    def cases(self, values: Floats) -> NDArray[np.int64] | None:
        """Places (in sorted `values`) of the j-th and the k-th that give the answer; None: no cases, or too many."""
        if self.j == self.k or len(values) > FINEST:
            return None
        a, b = np.meshgrid(np.arange(len(values)), np.arange(len(values)), indexing="ij")
        between = (1 - self.share) * values[a] + self.share * values[b]
        near = _NEAR * (1 + np.abs(between))
        met = (a <= b) & (between >= self.lo - near) & (between <= self.hi + near)
        pairs = np.stack([a[met], b[met]], axis=1).astype(np.int64)
        return pairs if len(pairs) <= CASES else None


def read_order_answers(target: Target, system: System) -> tuple[tuple[OrderAnswer, ...], tuple[str, ...]]:
    """The order statistics of a column, and the numbers of those that say more than is read here."""
    found, unread = [], []
    for fact in system.order:
        if fact.query.terms[0].column != target.column or (fact.answer is not None and fact.answer.null):
            continue
        read = _read(fact, system)
        if read is None:
            unread.append(fact.number)
        else:
            found.append(read)
    return tuple(found), tuple(unread)


def _read(fact: OrderFact, system: System) -> OrderAnswer | None:
    """One of them; None under a private condition, with noise, or of a variance."""
    noisy = fact.answer is None or (fact.answer.noise is not None and fact.answer.noise.kind != "rounded")
    if fact.where is None or noisy or fact.query.aggregate not in ORDERED or (fact.lo is None and fact.hi is None):
        return None
    members = system.atoms.mask(fact.where)
    n = int(system.atoms.sizes[members].sum())
    if not n:
        return None
    j, k, share = find_ranks(fact.query, n)
    lo, hi = -np.inf if fact.lo is None else float(fact.lo), np.inf if fact.hi is None else float(fact.hi)
    return OrderAnswer(fact.number, members, n, j, k, float(share), lo, hi)


@dataclass(frozen=True, slots=True, eq=False)
class BetweenCase:
    """Which two values an interpolated statistic lies between: one more unknown, with a state for each pair.

    `rows` are the places of its rows among those of `CountRows`, `features` (states, rows) what each state adds there.
    """

    rows: NDArray[np.int64]
    features: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CountRows:
    """Hard rows over indicators of values: sum over members of indicator[feature] (and its case) lies in [lo, hi]."""

    indicators: Floats  # (features, values)
    feature: NDArray[np.int64]
    members: NDArray[np.bool_]
    lo: Floats
    hi: Floats
    numbers: tuple[str, ...]
    cases: tuple[BetweenCase, ...]
    partly: tuple[str, ...] = ()  # answers that say more than these rows


class _CountRowsMade:
    """Collects rows."""

    def __init__(self) -> None:
        self.kept: list[Floats] = []
        self.rows: list[tuple[int, OrderAnswer, float, float]] = []
        self._place: dict[bytes, int] = {}

    def add(self, held: Floats, answer: OrderAnswer, lo: float, hi: float) -> int:
        """One row; its number."""
        place = self._place.setdefault(held.tobytes(), len(self.kept))
        if place == len(self.kept):
            self.kept.append(held)
        self.rows.append((place, answer, lo, hi))
        return len(self.rows) - 1

    def case(self, answer: OrderAnswer, pairs: NDArray[np.int64], count: int) -> BetweenCase:
        """The rows that tie an interpolated statistic to the values it lies between."""
        places, states, n = [], [], float(answer.n)
        for rank, end in ((answer.j, pairs[:, 0]), (answer.k, pairs[:, 1])):
            for t in range(max(int(end.min()) - 1, 0), min(int(end.max()), count - 2) + 1):
                below = (np.arange(count) <= t).astype(np.float64)
                places.append(self.add(below, answer, rank - n, float(rank - 1)))
                states.append(-n * (end <= t))
        made = np.array(states, dtype=np.float64).reshape(len(places), len(pairs)).T
        return BetweenCase(np.array(places, dtype=np.int64), made)


def build_count_rows(answers: Sequence[OrderAnswer], values: Floats) -> CountRows:
    """All order statistics as rows; `values` are those of the column, sorted."""
    made, cases, partly = _CountRowsMade(), [], []
    for answer in answers:
        for held, lo, hi in answer.counts(values):
            made.add(held, answer, lo, hi)
        pairs = answer.cases(values)
        if pairs is None:
            partly += [answer.number] if answer.j < answer.k else []
        elif not len(pairs):  # no two values give it
            made.add(np.ones(len(values)), answer, answer.n + 1.0, np.inf)
        elif len((case := made.case(answer, pairs, len(values))).rows):
            cases.append(case)
    rows, kept = made.rows, made.kept
    return CountRows(
        np.array(kept).reshape(len(kept), len(values)), np.array([r[0] for r in rows], dtype=np.int64),
        np.array([r[1].members for r in rows]).reshape(len(rows), -1), np.array([r[2] for r in rows]),
        np.array([r[3] for r in rows]), tuple(r[1].number for r in rows), tuple(cases), tuple(partly),
    )  # fmt: skip
