"""Columns whose family is minmax: which MIN and MAX may be answered, decided from roster and past answers alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.online.admission import Permission
from keyhole.auditing.online.disclosed import People
from keyhole.auditing.online.extremes import Extremes
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
