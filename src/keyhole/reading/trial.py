"""A statement that is to be checked, with what is looked up in it again and again."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from keyhole.datasets import AsWritten
from keyhole.model.predicate import And, Comparison, Has, Leaf, Membership, Opaque, Predicate, Scalar, leaves
from keyhole.model.query import Query, Statement
from keyhole.model.schema import Schema
from keyhole.reading.heads import head

FEW = 16


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """`public` and `private`: its single conditions, each once; `masks`: where its public conditions are true."""

    statement: Statement
    public: tuple[Leaf, ...]
    private: tuple[Leaf, ...]
    asked: AsWritten
    masks: list[tuple[Predicate, NDArray[np.bool_] | None]] = field(default_factory=list)

    @classmethod
    def of(cls, statement: Statement, schema: Schema, secret: AbstractSet[str]) -> Trial:
        """Read the conditions once."""
        found = dict.fromkeys(chain.from_iterable(map(_leaves, conditions(statement))))
        private = tuple(leaf for leaf in found if looks_at(leaf, secret))
        public = tuple(leaf for leaf in found if leaf not in private) if private else tuple(found)
        start = "" if partly(statement) else head(statement.text, frozenset(c.name for c in schema.columns))
        return cls(statement, public, private, AsWritten(statement.text, statement.table, len(statement.shown), start))

    def private_constants(self) -> dict[str, list[Scalar]]:
        """What private columns are compared with, and where a rounded aggregate of them turns."""
        found: dict[str, list[Scalar]] = {}
        for query in (*self.statement.queries, *self.statement.tested):
            if query.test is not None and query.test.unit is not None:
                for name in query.columns:
                    found.setdefault(name, []).append(query.test.value)
        for leaf in self.private:
            if not isinstance(leaf, Opaque | Has):
                found.setdefault(leaf.column, []).extend(constants(leaf))
        return found


def _leaves(predicate: Predicate) -> tuple[Leaf, ...]:
    """Every leaf; most conditions are conjunctions of comparisons, which need no walk."""
    if type(predicate) is And and all(type(part) is Comparison for part in predicate.parts):
        return predicate.parts  # type: ignore[return-value]
    return leaves(predicate)


def secrets(schema: Schema) -> frozenset[str]:
    """The names of the private columns."""
    return frozenset(c.name for c in schema.columns if c.secret)


def looks_at(leaf: Leaf, names: AbstractSet[str]) -> bool:
    """Does a single condition look at one of these columns?"""
    if isinstance(leaf, Has):
        return True
    return bool(names & leaf.columns) if isinstance(leaf, Opaque) else leaf.column in names


def conditions(statement: Statement) -> list[Predicate]:
    """Every condition of a statement; once, if they are few."""
    found: list[Predicate] = [statement.where]
    for query in (*statement.queries, *statement.tested):
        for condition in query_conditions(query):
            if len(found) > FEW or condition not in found:
                found.append(condition)
    for key in statement.keys:
        found += [condition for _, condition in key.cases]
        if key.steps is not None:
            found += [key.steps.of(q) for q in (0, 3)]
    return found


def query_conditions(query: Query) -> Iterator[Predicate]:
    """Every condition of a query."""
    yield from (t.where for t in (*query.terms, *query.per))
    yield from query.needs


def constants(leaf: Leaf) -> tuple[Scalar, ...]:
    """What a single condition compares with."""
    if isinstance(leaf, Comparison):
        return (leaf.value,)
    return leaf.values if isinstance(leaf, Membership) else ()


def partly(statement: Statement) -> bool:
    """Can some of its numbers be over nobody while others are not?"""
    return bool(statement.keys or statement.having) or any(len(q.needs) > 1 for q in statement.queries)
