"""What ties private cells together: shares add up to at most one, and a cell's sum lies within its share of its range.

A log with private conditions has unknowns per cell (`Feature`): the share of an atom's records in the cell, and the
mean of x * 1[x in cell]. These rows, per atom, make the relaxed unknowns those of real records.
"""

from __future__ import annotations

import numpy as np

from keyhole.attack.base import Floats, Target
from keyhole.attack.problem import Problem
from keyhole.cells import Cell


def cell_rows(problem: Problem) -> tuple[Floats, Floats, Floats]:
    """Rows (over means) with their ends; none for logs without private conditions."""
    K, features = problem.K, problem.features
    none = np.zeros((0, problem.p)), np.zeros(0), np.zeros(0)
    if len(features) < 2:
        return none
    found: list[tuple[dict[int, float], float, float]] = []
    shares = [f for f, feature in enumerate(features) if feature.column is None]
    if len(shares) > 1:
        found.append((dict.fromkeys(shares, 1.0), -np.inf, 1.0))
    same = {feature.cells: f for f, feature in enumerate(features) if feature.column is None}
    for f, feature in enumerate(features):
        if feature.column != problem.target.column or feature.power != 1:
            continue
        lo, hi = _range(problem.target, feature.cells)
        share = same.get(feature.cells)
        if share is not None:  # lo * share <= sum <= hi * share
            if np.isfinite(lo):
                found.append(({f: 1.0, share: -lo}, 0.0, np.inf))
            if np.isfinite(hi):
                found.append(({f: 1.0, share: -hi}, -np.inf, 0.0))
        elif shares:  # the cell that was left out: its share is one minus the others
            if np.isfinite(lo):
                found.append(({f: 1.0, **dict.fromkeys(shares, lo)}, lo, np.inf))
            if np.isfinite(hi):
                found.append(({f: 1.0, **dict.fromkeys(shares, hi)}, -np.inf, hi))
    if not found:
        return none
    A = np.zeros((len(found) * K, problem.p))
    lows, highs = np.zeros(len(A)), np.zeros(len(A))
    at = np.arange(K)
    for r, (coefficients, low, high) in enumerate(found):
        for f, c in coefficients.items():
            A[r * K + at, f * K + at] = c
        lows[r * K : (r + 1) * K], highs[r * K : (r + 1) * K] = low, high
    return A, lows, highs


def _range(target: Target, cells: tuple[tuple[Cell, ...], ...]) -> tuple[float, float]:
    """Range of the target's values in a set of joint cells, within the prior."""
    ends = []
    for joint in cells:
        for cell in joint:
            if cell.column != target.column:
                continue
            for piece in cell.pieces:
                lo = target.lower if piece.lo is None or piece.other else max(target.lower, float(str(piece.lo)))
                hi = target.upper if piece.hi is None or piece.other else min(target.upper, float(str(piece.hi)))
                ends.append((lo, hi))
    if not ends:
        return target.lower, target.upper
    return min(e[0] for e in ends), max(e[1] for e in ends)
