"""Kleene's logic on sets of truth values: what the records of a cell can say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product

import numpy as np

from keyhole.basis.cells.declared import FALSE, NULL, TRUE, Truths
from keyhole.model.predicate import Kleene, Leaf, Truth

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


AND, OR = _lift("and"), _lift("or")
NOT = np.array(
    [sum(v for v, w in ((TRUE, FALSE), (NULL, NULL), (FALSE, TRUE)) if a & w) for a in range(8)], dtype=np.uint8
)
IS_TRUE = np.array([(TRUE if a & TRUE else 0) | (FALSE if a & (FALSE | NULL) else 0) for a in range(8)], dtype=np.uint8)


def lifted(leaf: Callable[[Leaf], Truths], dimensions: int) -> Kleene[Truths]:
    """The algebra over arrays of `dimensions` axes, given what the cells can say to a leaf.

    Exact for conditions no bin is cut by; a superset of the truth otherwise, never a subset.
    """

    def constant(value: Truth) -> Truths:
        bit = NULL if value is None else TRUE if value else FALSE
        return np.full((1,) * dimensions, bit, dtype=np.uint8)

    def joined(table: Truths) -> Callable[[Sequence[Truths]], Truths]:
        return lambda parts: reduce(lambda a, b: table[a, b], parts)

    return Kleene(constant, leaf, NOT.__getitem__, IS_TRUE.__getitem__, joined(AND), joined(OR))
