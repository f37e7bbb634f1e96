"""Answers that no values of a column add up to: a sum of whole numbers is no half.

With records base + step * m, m whole, a row of integers a over atoms of sizes c is sum a c base + g * m for some whole
m, g the greatest common divisor of the a * step. An answer whose interval holds none of these cannot be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor, gcd, lcm

import numpy as np

from keyhole.audit.bounded import BoundedSystem
from keyhole.evidence import Contradiction


def off_grid(made: BoundedSystem) -> Iterator[Contradiction]:
    """The answers that the steps of their columns cannot meet. Cost: a pass over the entries of the rows."""
    P, grids = made.question.polytope, made.question.grids
    stepped = np.array([grid.step is not None for grid in grids], dtype=np.bool_)
    for i, c in enumerate(made.constraints):
        if not stepped[P.columns[P.start[i] : P.start[i + 1]]].all():
            continue
        columns, entries = (list(each) for each in P.row(i))
        steps = [grids[k].step for k in columns]
        (lo, hi), known = P.rows[i], [step for step in steps if step is not None]
        if lo is None or hi is None or len(known) < len(steps) or not known:
            continue
        shift = sum((int(a) * P.sizes[k] * grids[k].base for k, a in zip(columns, entries, strict=True)), Fraction(0))
        unit = _divisor([abs(int(a)) * step for a, step in zip(entries, known, strict=True)])
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
