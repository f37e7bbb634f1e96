"""Columns whose family is minmax: which MIN and MAX may be answered, decided from roster and past answers alone.

MAX before it is answered: could any answer that is still possible tell somebody's value?

mu_j is the least answer of the queries that contain j, E_k are those of query k who can have its answer a_k. A new
answer a over q is possible iff V0 <= a <= the largest mu in q, where V0 = max{a_k : nobody of E_k is outside q}: below
it nobody were left for that answer. Such an a takes q out of every E_k with a_k > a, and those who can have a are those
of q with mu >= a. So somebody may be told iff

    some E_k keeps one record outside q, and a_k > V0;  or the largest mu in q is held by one record.

With insiders = 1 "one" is "at most two": one of them may know that he is not it. With a declared least value lo an
answer of lo tells everybody in q, and is possible iff V0 is not above it. Nothing here depends on the answer to come:
the rule is simulatable. Equal to trying all 2 l + 1 candidates between and beside the answers so far, and the declared
ends. MIN is MAX of the negative values. People of whom a MIN was answered are not asked for a MAX, nor the other way:
with ties allowed it is hard to say which answers are still possible then. Cost of a decision: O(answered x n / 64) at
worst; mostly a look at some of each E_k is enough. References: [kenthapadi2005], [nabar2008].
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.online.admission import Permission
from keyhole.auditing.online.disclosed import People
from keyhole.basis.bits import Words, pack, unpack
from keyhole.model.forms import find_private_leaves
from keyhole.model.numbers import read_fraction
from keyhole.model.predicate import TRUE, IsNull, make_and, make_not
from keyhole.model.prior import Knowledge
from keyhole.model.query import Aggregate, Query, Statement

Ints: TypeAlias = NDArray[np.int64]

FAMILY = "minmax"
PARTLY = "MIN and MAX are decided where the condition holds for all of somebody's records or for none"
ANSWERED = (
    "MIN and MAX are decided from past answers; let `keyhole ask` answer them, or give each its answer, "
    'as a JSON line {"sql": ..., "answer": ...} (also in --load)'
)
ENDS = (Aggregate.MIN, Aggregate.MAX)


@dataclass(slots=True)
class _Asked:
    """What was answered of one column: its greatest values, and its least ones as the greatest negatives."""

    most: Extremes
    least: Extremes
    blind: bool = False  # an answer is missing, or cannot be true


@dataclass(slots=True)
class MinMax:
    """Decides MIN and MAX of the columns whose family is minmax; one number a statement.

    An answer that is recorded without its value, or that cannot be true, ends it for the column: nothing more can be
    decided then, and everything is refused.
    """

    people: People
    families: Mapping[str, str]
    knowledge: Knowledge = field(default_factory=Knowledge)
    insiders: int = 0
    owner: Ints | None = None  # whose each record is, where ids repeat: then the greatest value of each person counts
    _columns: dict[str, _Asked] = field(default_factory=dict)

    def concerns(self, statement: Statement) -> bool:
        """Does it ask for a MIN or MAX that is decided here?"""
        asked = (*statement.queries, *statement.tested)
        return any(q.aggregate in ENDS and self.families.get(_column(q)) == FAMILY for q in asked)

    def decide(self, statement: Statement) -> tuple[Permission, str]:
        """The verdict, with a reason that names nobody; the same whatever the answer will be."""
        why = self._objection(statement)
        if why:
            return Permission.REFUSED, why
        query = statement.queries[0]
        name, state = _column(query), self._state(_column(query))
        if state.blind:
            return (
                Permission.REFUSED,
                f"an earlier MIN or MAX of {name!r} has no answer here that can be true: {ANSWERED}",
            )
        mine, other = self._sides(query)
        q = self._people(query)
        if q is None:
            return Permission.REFUSED, f"it is about some records of a person and not about others: {PARTLY}"
        if (other.asked & q).any():
            return Permission.REFUSED, f"MIN and MAX of {name!r} over the same people cannot be decided together"
        if mine.tells(q):
            return Permission.DENY, "together with what was answered before, an answer to it could expose somebody"
        return Permission.ALLOW, "nobody is exposed, whatever the answer is"

    def group(self, statement: Statement) -> tuple[str, int]:
        """The column of a MIN or MAX, and how many people it is about."""
        query = statement.queries[0]
        people = self._people(query)
        return _column(query), 0 if people is None else int(np.bitwise_count(people).sum())

    def record(self, statement: Statement, answer: object) -> None:
        """It was answered: count it from now on."""
        query = statement.queries[0]
        state, q = self._state(_column(query)), self._people(query)
        if q is None:
            state.blind = True
            return
        if not q.any():
            return  # NULL, over nobody
        shown = number(answer)
        mine, other = self._sides(query)
        if shown is None or self._objection(statement) or (other.asked & q).any():
            state.blind = True
            return
        value = shown / query.terms[0].factor
        if not mine.commit(q, value if query.aggregate is Aggregate.MAX else -value):
            state.blind = True

    def _objection(self, statement: Statement) -> str:
        if len(statement.queries) != 1 or statement.keys or statement.having:
            return "MIN and MAX are decided one number at a time: no GROUP BY, no HAVING, one item"
        query = statement.queries[0]
        schema = self.people.roster.schema
        if query.test is not None or query.digits is not None:
            return "a MIN or MAX is decided as it is: not rounded, not compared"
        if find_private_leaves(query.terms[0].where, frozenset(c.name for c in schema.columns if c.secret)):
            return "it has a condition on a private column: an extreme answer cannot be foreseen"
        if self.knowledge.prior(_column(query)).values is not None:
            return f"{_column(query)!r} has few values: a MIN or MAX can tell everybody's"
        return ""

    def _state(self, name: str) -> _Asked:
        if name not in self._columns:
            prior = self.knowledge.prior(name)
            n = self.people.roster.n if self.owner is None else int(self.owner.max()) + 1
            low, high = (None if end is None else Fraction(end) for end in (prior.lo, prior.hi))
            least = Extremes(n, None if high is None else -high, None if low is None else -low, self.insiders)
            self._columns[name] = _Asked(Extremes(n, low, high, self.insiders), least)
        return self._columns[name]

    def _sides(self, query: Query) -> tuple[Extremes, Extremes]:
        state = self._state(_column(query))
        return (state.most, state.least) if query.aggregate is Aggregate.MAX else (state.least, state.most)

    def _people(self, query: Query) -> Words | None:
        """Those whom it is about who have a value; None if it takes some of a person's records that have one."""
        term = query.terms[0]
        column = self.people.roster.schema.find(term.column or "")
        nullable = column is not None and column.nullable
        where = make_and(term.where, make_not(IsNull(term.column or ""))) if nullable else term.where
        asked = self.people.records.bits(where)
        if self.owner is None:
            return asked
        whole = make_not(IsNull(term.column or "")) if nullable else TRUE
        mine, every = (
            np.bincount(self.owner[unpack(bits, len(self.owner))], minlength=int(self.owner.max()) + 1)
            for bits in (asked, self.people.records.bits(whole))
        )
        return pack(mine > 0) if ((mine == 0) | (mine == every)).all() else None


def _column(query: Query) -> str:
    return query.terms[0].column or "" if query.terms else ""


def number(answer: object) -> Fraction | None:
    """A recorded answer as a number; None if it is none.

    >>> number(5), number("5.2"), number(None), number(True)
    (Fraction(5, 1), Fraction(26, 5), None, None)
    """
    if answer is None or isinstance(answer, bool) or not isinstance(answer, int | float | str | Decimal):
        return None
    try:
        return read_fraction(answer)
    except (ValueError, ArithmeticError):
        return None


SOME = 16  # members of each E_k that are looked at before it is counted


@dataclass(slots=True, eq=False)
class Extremes:
    """The MAX queries that were answered of one column: bit rows E_k with their answers, and mu of each record.

    `low` and `high` are declared ends; `insiders` as in `OnlineAuditor`.

    >>> from keyhole.basis.bits import pack
    >>> asked = Extremes(5)
    >>> def of(*people): return pack(np.isin(np.arange(5), people))
    >>> asked.tells(of(0, 1, 2)), asked.commit(of(0, 1, 2), Fraction(9))
    (False, True)
    >>> [asked.tells(of(*q)) for q in ([0, 1], [3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3], [0], [2, 3, 4])]
    [True, False, False, True, True, False]
    """

    n: int
    low: Fraction | None = None
    high: Fraction | None = None
    insiders: int = 0
    answers: list[Fraction] = field(default_factory=list)
    values: list[Fraction] = field(init=False)  # the different answers (and the greatest value), sorted
    mu: NDArray[np.int32] = field(init=False)  # place of mu in `values`, len(values) where there is none
    asked: Words = field(init=False)  # the people whom some answer was about
    _rows: NDArray[np.uint64] = field(init=False)  # E_k
    _some: NDArray[np.int64] = field(init=False)  # some of E_k, n where there are fewer

    def __post_init__(self) -> None:
        self.mu = np.zeros(self.n, dtype=np.int32)
        self.values = [] if self.high is None else [self.high]
        self.asked = pack(np.zeros(self.n, dtype=np.bool_))
        self._rows = np.zeros((0, (self.n + 63) // 64), dtype=np.uint64)
        self._some = np.zeros((0, SOME), dtype=np.int64)

    def tells(self, q: Words) -> bool:
        """Could an answer to MAX over q tell somebody's value (or, with an insider, somebody's to him)?"""
        inside = unpack(q, self.n)
        if not inside.any():
            return False
        left = self._left(q, inside)
        sure = max((self.answers[k] for k in np.flatnonzero(left == 0)), default=None)  # V0
        if self.low is not None and (sure is None or sure <= self.low):
            return True
        few = 1 + self.insiders
        if any(sure is None or self.answers[k] > sure for k in np.flatnonzero((left > 0) & (left <= few))):
            return True
        mu = self.mu[inside]
        return int((mu == mu.max()).sum()) <= few

    def commit(self, q: Words, answer: Fraction) -> bool:
        """Take an answer in; False if it cannot be true, and then nothing changes."""
        inside = unpack(q, self.n)
        if not inside.any() or not self._possible(q, inside, answer):
            return False
        place = bisect_left(self.values, answer)
        if place == len(self.values) or self.values[place] != answer:
            insort(self.values, answer)
            self.mu[self.mu >= place] += 1
        self.mu[inside & (self.mu > place)] = place
        padded = np.append(inside, False)  # at n: nobody
        for k, a in enumerate(self.answers):
            if a > answer:
                self._rows[k] &= ~q
                if padded[self._some[k]].any():
                    self._some[k] = _spread(unpack(self._rows[k], self.n))
        mine = inside & (self.mu == place)
        self._rows = np.vstack([self._rows, pack(mine)[None, :]])
        self._some = np.vstack([self._some, _spread(mine)[None, :]])
        self.answers.append(answer)
        self.asked = self.asked | q
        return True

    def _possible(self, q: Words, inside: NDArray[np.bool_], answer: Fraction) -> bool:
        if (self.low is not None and answer < self.low) or (self.high is not None and answer > self.high):
            return False
        largest = int(self.mu[inside].max())
        if largest < len(self.values) and self.values[largest] < answer:
            return False
        return not any(self.answers[k] > answer for k in np.flatnonzero(self._left(q, inside) == 0))

    def _left(self, q: Words, inside: NDArray[np.bool_]) -> NDArray[np.int64]:
        """|E_k without q| for each answer so far, counted up to one more than matters.

        Some of each E_k are looked at first: mostly enough of them are outside q.
        """
        enough = 2 + self.insiders
        outside = np.append(~inside, False)  # at n: nobody
        total = outside[self._some].sum(axis=1, dtype=np.int64)
        rest = np.flatnonzero(total < enough)
        if len(rest):
            total[rest] = np.bitwise_count(self._rows[rest] & ~q).sum(axis=1, dtype=np.int64)
        found: NDArray[np.int64] = np.minimum(total, enough)
        return found


def _spread(members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Some members, far apart; filled up with n, which is nobody."""
    found = np.flatnonzero(members)
    if len(found) > SOME:
        return found[np.linspace(0, len(found) - 1, SOME).astype(np.int64)]
    return np.append(found, np.full(SOME - len(found), len(members)))
