"""All tables that meet hard answers, listed by CP-SAT: exact shares where the search is hard and tables are few."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np

from keyhole.extras import is_installed
from keyhole.solve.decode.cpsat import solve_integers
from keyhole.solve.decode.posterior.enumeration import Enumerated
from keyhole.solve.decode.posterior.units import Floats, Ints, Units
from keyhole.solve.status import SolverStatus

MODEL_LIMIT = 2_000_000  # nonzeros CP-SAT is given


def listed_tables(units: Units, seconds: float) -> Enumerated | None:
    """The posterior over all tables that meet every answer; None if there are too many, or the search did not end.

    Each unit has a 0/1 unknown a state; no table at all: `tables` is 0.

    >>> two = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
    >>> found = listed_tables(two, 5.0)
    >>> found is None or found.chances.tolist() == [1.0, 0.0, 1.0, 0.0]
    True
    """
    if not is_installed("ortools"):
        return None
    S, count = len(units.features), units.count
    of = np.repeat(np.arange(count), np.diff(units.states))
    B = units.dense().reshape(units.m, count, units.F)
    C = np.einsum("jsf,sf->js", B[:, of], units.features)
    if np.count_nonzero(C) > MODEL_LIMIT:
        return None
    made = _integral(C, units)
    if made is None:
        return None
    each = np.zeros((count, S), dtype=np.int64)
    each[of, np.arange(S)] = 1
    one = np.ones(count, dtype=np.int64)
    rows = np.concatenate([made[0], each]), np.concatenate([made[1], one]), np.concatenate([made[2], one])
    found = solve_integers(*rows, np.ones(S, dtype=np.int64), seconds=seconds, samples=1)
    if found.status is SolverStatus.INFEASIBLE:
        return Enumerated(np.zeros(S), 0, True)
    if not found.complete:
        return None
    log = found.solutions @ units.log_prior
    weight = np.exp(log - log.max())
    return Enumerated(weight @ found.solutions / weight.sum(), len(found.solutions), True)


def _integral(C: Floats, units: Units) -> tuple[Ints, Ints, Ints] | None:
    """Rows with integer coefficients and ends, scaled by what makes each row integral; None: no such scale."""
    made = np.zeros(C.shape, dtype=np.int64)
    lo, hi = np.zeros(len(C), dtype=np.int64), np.zeros(len(C), dtype=np.int64)
    for j, row in enumerate(C):
        parts = [Fraction(float(c)).limit_denominator(10**6) for c in np.unique(row)]
        factor = lcm(*(p.denominator for p in parts))
        scaled = np.round(row * factor)
        if np.abs(scaled).max(initial=0.0) > 2**40 or np.abs(scaled - row * factor).max(initial=0.0) > 1e-6:
            return None
        divisor = int(np.gcd.reduce(scaled.astype(np.int64))) or 1
        made[j] = scaled.astype(np.int64) // divisor
        per, reach = factor / divisor, float(np.abs(made[j]).sum()) + 1
        lo[j] = int(max(np.ceil(units.lo[j] * per - 1e-6), -reach))
        hi[j] = int(min(np.floor(units.hi[j] * per + 1e-6), reach))
    return made, lo, hi
