"""Conditions to cells: exactly which cells of a domain a predicate selects, or which cell it cuts through."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from keyhole.defend.declared import FALSE, NULL, TRUE, Truths
from keyhole.defend.domain import Domain, can_say
from keyhole.defend.ranges import Range
from keyhole.errors import UnsupportedQuery
from keyhole.predicate import And, Constant, IsTrue, Not, Or, Predicate, to_sql

_VALUES = (FALSE, NULL, TRUE)  # Kleene's order: AND is the minimum, OR the maximum


def _lift(combine: str) -> Truths:
    """A Kleene operation on sets of truth values: what can come out if the parts can say these."""
    table = np.zeros((8, 8), dtype=np.uint8)
    pick = min if combine == "and" else max
    for a, b in product(range(8), repeat=2):
        for x, y in product(_VALUES, repeat=2):
            if a & x and b & y:
                table[a, b] |= pick(x, y)
    return table


_AND, _OR = _lift("and"), _lift("or")
_NOT = np.array(
    [sum(v for v, w in ((TRUE, FALSE), (NULL, NULL), (FALSE, TRUE)) if a & w) for a in range(8)], dtype=np.uint8
)
_IS_TRUE = np.array(
    [(TRUE if a & TRUE else 0) | (FALSE if a & (FALSE | NULL) else 0) for a in range(8)], dtype=np.uint8
)


def truths(predicate: Predicate, domain: Domain) -> Truths:
    """For each cell, the set of truth values its records can give: an array that broadcasts to `domain.shape`.

    Exact for conditions no bin is cut by; a superset of the truth otherwise, never a subset. Cost: one pass over the
    cells of the columns that are used.
    """
    if isinstance(predicate, Constant):
        bit = NULL if predicate.value is None else TRUE if predicate.value else FALSE
        return np.full((1,) * len(domain.columns), bit, dtype=np.uint8)
    if isinstance(predicate, And | Or):
        table = _AND if isinstance(predicate, And) else _OR
        found = truths(predicate.parts[0], domain)
        for part in predicate.parts[1:]:
            found = table[found, truths(part, domain)]
        return found
    if isinstance(predicate, Not):
        return _NOT[truths(predicate.part, domain)]
    if isinstance(predicate, IsTrue):
        return _IS_TRUE[truths(predicate.part, domain)]
    axis, said = can_say(predicate, domain)
    shape = [1] * len(domain.columns)
    shape[axis] = said.size
    return said.reshape(shape)


def select(predicate: Predicate, domain: Domain) -> NDArray[np.bool_]:
    """Which cells a WHERE condition keeps, over `domain.shape` (broadcastable); refused if it cuts through a cell.

    >>> from fractions import Fraction
    >>> from keyhole.defend.ranges import Range
    >>> from keyhole.predicate import Comparison
    >>> ages = Domain((Range("age", Fraction(0), Fraction(99), Fraction(10), Fraction(1)),))
    >>> select(Comparison("age", "<", 20), ages).tolist()[:3]
    [True, True, False]
    >>> select(Comparison("age", "<", 25), ages)
    Traceback (most recent call last):
    keyhole.errors.UnsupportedQuery: "age" < 25 cuts through the cell age [20, 30): use the edges of the bins
    """
    said = truths(predicate, domain)
    cut = (said & TRUE != 0) & (said != TRUE)
    if cut.any():
        where = np.unravel_index(int(np.flatnonzero(cut)[0]), cut.shape)
        used = [
            f"{c.name} {c.describe(int(i))}"
            for c, i, size in zip(domain.columns, where, cut.shape, strict=True)
            if size > 1
        ]
        binned = any(isinstance(c, Range) and s > 1 for c, s in zip(domain.columns, cut.shape, strict=True))
        cure = "use the edges of the bins" if binned else "name declared values with =, <> or IN"
        raise UnsupportedQuery(f"{to_sql(predicate)} cuts through the cell {', '.join(used)}: {cure}")
    kept: NDArray[np.bool_] = said == TRUE
    return kept
