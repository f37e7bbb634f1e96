"""Answers that no values of a column add up to: a sum of whole numbers is no half.

With records base + step * m, m whole, a row of integers a over atoms of sizes c is sum a c base + g * m for some whole
m, g the greatest common divisor of the a * step. An answer whose interval holds none of these cannot be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor, gcd, lcm

import numpy as np

from keyhole.auditing.bounded import BoundedSystem
from keyhole.gather.evidence import Contradiction


def off_grid(made: BoundedSystem) -> Iterator[Contradiction]:
    """The answers that the steps of their columns cannot meet. Cost: a pass over the entries of the rows."""
    P, grids = made.question.polytope, made.question.grids
    stepped = np.array([grid.step is not None for grid in grids], dtype=np.bool_)
    for i, c in enumerate(made.constraints):
        if not stepped[P.columns[P.start[i] : P.start[i + 1]]].all():
            continue
        (lo, hi), at = P.rows[i], slice(int(P.start[i]), int(P.start[i + 1]))
        columns, entries = P.columns[at].tolist(), P.entries[at].tolist()
        if lo is None or hi is None or not columns:
            continue
        people: dict[int, list[tuple[int, int]]] = {}  # by grid, which columns share: the entry and the size of each
        for k, a in zip(columns, entries, strict=True):
            people.setdefault(id(grids[k]), []).append((a, P.sizes[k]))
        held = {id(grids[k]): grids[k] for k in columns}
        shift = sum((grid.base * sum(a * c for a, c in people[g]) for g, grid in held.items()), Fraction(0))
        unit = _divisor([gcd(*(a for a, _ in people[g])) * grid.step for g, grid in held.items() if grid.step])
        if ceil((lo - shift) / unit) > floor((hi - shift) / unit):
            name = c.number if c.number.startswith("fact") else f"Q{c.number}"
            names = " and ".join(sorted({made.column(k) for k in columns}))
            yield Contradiction((c.number,), f"{name} cannot be true: no values of {names}, in its steps, add up to it")


def _divisor(parts: list[Fraction]) -> Fraction:
    """The greatest number of which all are multiples.

    >>> _divisor([Fraction(1, 2), Fraction(3, 4)])
    Fraction(1, 4)
    """
    over = lcm(*(part.denominator for part in parts))
    return Fraction(gcd(*(int(part * over) for part in parts)), over)
