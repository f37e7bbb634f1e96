"""What a log says of people by counting them: yes-or-no atoms of records, and sums of formulas over them.

An atom is one condition on a private column of a record, or "some row of another table with its key satisfies this". A
formula of an owner (a person, or a record) is true if some clause holds of some record of his; a clause is a
conjunction of atoms, or of their negations, on the records that satisfy a public condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import (
    FALSE,
    TRUE,
    And,
    Constant,
    Has,
    IsNull,
    IsTrue,
    Leaf,
    Not,
    Opaque,
    Or,
    Predicate,
    PrivateLeaf,
    make_and,
    make_is_true,
    make_not,
)

Ints: TypeAlias = NDArray[np.int64]
Literals: TypeAlias = frozenset[tuple[PrivateLeaf, bool]]
MOST_CLAUSES = 64


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A public condition and what private conditions must hold (True) or fail (False) beside it."""

    public: Predicate
    literals: Literals


def list_conjuncts(where: Predicate, secret: frozenset[str]) -> tuple[Conjunct, ...]:
    """A condition as a disjunction: it is TRUE iff some conjunct holds. Being NULL is public.

    A private condition that is not TRUE has failed, or its column is NULL; so NOT of it asks that the column is not.

    >>> from keyhole.model.predicate import Comparison
    >>> ill, old = Comparison("ill", "=", "flu"), Comparison("age", ">", 60)
    >>> [(c.public, sorted(h for _, h in c.literals)) for c in list_conjuncts(And((Not(ill), old)), frozenset({"ill"}))]
    [(And(parts=(Not(part=IsNull(column='ill')), Comparison(column='age', op='>', value=60))), [False])]
    """
    merged: dict[Literals, list[Predicate]] = {}
    for each in _wanted(where, secret, truth=True, certain=True):
        merged.setdefault(each.literals, []).append(each.public)
    return tuple(Conjunct(_any(public), literals) for literals, public in merged.items() if _any(public) != FALSE)


def _any(public: Sequence[Predicate]) -> Predicate:
    from keyhole.model.predicate import make_or

    return make_or(*public)


def _wanted(p: Predicate, secret: frozenset[str], *, truth: bool, certain: bool) -> list[Conjunct]:
    """When a condition is TRUE or FALSE (`certain`), or is not the other of the two (it may be NULL)."""
    if isinstance(p, Not):
        return _wanted(p.part, secret, truth=not truth, certain=certain)
    if isinstance(p, IsTrue):
        return _wanted(p.part, secret, truth=truth, certain=truth)
    if isinstance(p, Constant):
        here = p.value is truth or (p.value is None and not certain)
        return [Conjunct(TRUE, frozenset())] if here else []
    if isinstance(p, And | Or):
        found = [_wanted(part, secret, truth=truth, certain=certain) for part in p.parts]
        return _product(found) if isinstance(p, And) is truth else [c for part in found for c in part]
    return _of_leaf(p, secret, truth=truth, certain=certain)


def _of_leaf(leaf: Leaf, secret: frozenset[str], *, truth: bool, certain: bool) -> list[Conjunct]:
    if isinstance(leaf, Has):
        return [Conjunct(TRUE, frozenset({(leaf, truth)}))]
    if isinstance(leaf, IsNull | Opaque) or leaf.column not in secret:
        said = leaf if truth else make_not(leaf)
        return [Conjunct(said if certain else make_not(make_is_true(make_not(said))), frozenset())]
    null = IsNull(leaf.column)
    if truth:
        return [Conjunct(TRUE, frozenset({(leaf, True)})), *([] if certain else [Conjunct(null, frozenset())])]
    return [Conjunct(make_not(null) if certain else TRUE, frozenset({(leaf, False)}))]


def _product(parts: Sequence[Sequence[Conjunct]]) -> list[Conjunct]:
    size = 1
    for part in parts:
        size *= len(part)
    if size > MOST_CLAUSES:
        raise UnsupportedQuery(f"the conditions combine to more than {MOST_CLAUSES} cases: ask for them apart")
    found = []
    for chosen in product(*parts):
        literals = frozenset(x for c in chosen for x in c.literals)
        if not any((leaf, not holds) in literals for leaf, holds in literals):
            found.append(Conjunct(make_and(*(c.public for c in chosen)), literals))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """A private condition. `at[r]` is the number of its instance that record r looks at, -1 where it is surely false.

    Records with one key look at one instance of a condition on rows with that key.
    """

    leaf: PrivateLeaf
    at: Ints
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """The atoms that must hold or fail, on these records."""

    rows: Ints
    literals: tuple[tuple[int, bool], ...]
    public: str = ""  # the condition as SQL; empty if it is no condition alone


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """For each owner: does some clause hold of a record of his? `owner[r]` is -1 for a record that is nobody's."""

    clauses: tuple[Clause, ...]
    owner: Ints
    owners: int
    by: str | None = None  # the owner as SQL, None for each record


@dataclass(frozen=True, slots=True, eq=False)
class BoundedCount:
    """lo <= sum of coefficients of those whose formula is true <= hi; without coefficients each counts 1."""

    number: str
    formulas: tuple[tuple[Formula, tuple[Fraction, ...] | None], ...]
    lo: Fraction | None
    hi: Fraction | None


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """Records on which one atom (holding or failing) implies another, as pairs of numbers of instances."""

    left: tuple[int, bool]
    right: tuple[int, bool]
    pairs: tuple[Ints, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """All counts of a log: `person[r]` is whose record r is; of each set of `exclusive` atoms at most one holds."""

    n: int
    person: Ints
    people: int
    atoms: tuple[Atom, ...]
    counts: tuple[BoundedCount, ...]
    ties: tuple[Tied, ...] = ()
    exclusive: tuple[tuple[int, ...], ...] = ()
    numbers: frozenset[str] = frozenset()  # of the queries that are judged here
