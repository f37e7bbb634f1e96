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
    found: list[tuple[dict[int, float], float | Floats, float | Floats]] = []
    shares = {f: frozenset(feature.cells) for f, feature in enumerate(features) if feature.column is None}
    if len(shares) > 1:
        found.append((dict.fromkeys(shares, 1.0), -np.inf, 1.0))
    guarded = any(feature.guard is not None for feature in features)
    summed = [f for f, x in enumerate(features) if x.column == problem.target.column and x.power == 1]
    for f in summed if shares and not guarded else ():
        inside, (lo, hi) = frozenset(features[f].cells), _range(problem.target, features[f].cells)
        touching = {g: 1.0 for g, cells in shares.items() if cells & inside}
        within = {g: 1.0 for g, cells in shares.items() if cells <= inside}
        # The group without an indicator has the share 1 - the others: it may touch the cell, or lie within it.
        rest = frozenset(c for x in features for c in x.cells) - frozenset().union(*shares.values())
        at_most, at_least = (
            ({g: part.get(g, 0.0) - 1.0 for g in shares}, 1.0) if counts else (part, 0.0)
            for part, counts in ((touching, bool(rest & inside)), (within, bool(rest) and rest <= inside))
        )
        # lo * share <= sum <= hi * share, with the share between at_least and at_most
        for end, (share, constant), side in (
            (hi, at_most if hi >= 0 else at_least, 1.0),
            (lo, at_least if lo >= 0 else at_most, -1.0),
        ):
            if np.isfinite(end):
                row = {f: side, **{g: -side * end * c for g, c in share.items() if c}}
                found.append((row, -np.inf, side * end * constant))
    if len(summed) > 1 and problem.least is not None and problem.most is not None:
        found.append((dict.fromkeys(summed, 1.0), problem.least, problem.most))
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
