"""What ties private cells together: shares add up to at most one, and a sum lies within what its cells can hold.

A log with private conditions has unknowns per cell (`Feature`): the share of an atom's records in a group of cells, and
the mean of x * 1[x in cells]. A record of group g contributes to such a mean between low_g and high_g, so

    sum_g low_g share_g  <=  mean  <=  sum_g high_g share_g

where the group without an indicator has the share 1 - the others. These rows, per atom, make the relaxed unknowns those
of real records.
"""

from __future__ import annotations

import numpy as np

from keyhole.attacks.base import Floats, Target
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.model.cells import Cell
from keyhole.model.forms import Feature


def build_cell_rows(problem: Problem) -> tuple[Floats, Floats, Floats]:
    """Rows (over means) with their ends; none for logs without private conditions."""
    K, features, target = problem.K, problem.features, problem.target
    none = np.zeros((0, problem.p)), np.zeros(0), np.zeros(0)
    if len(features) < 2:
        return none
    found: list[tuple[dict[int, float], float | Floats, float | Floats]] = []
    every = [f for f, feature in enumerate(features) if feature.column is None]
    for names in dict.fromkeys(features[f].conditioned for f in every):
        together = [f for f in every if features[f].conditioned == names]
        if len(together) > 1:
            found.append((dict.fromkeys(together, 1.0), -np.inf, 1.0))
    shares = [f for f in every if target.column in features[f].conditioned]
    summed = [f for f, x in enumerate(features) if x.column == target.column and x.power == 1]
    guarded = any(feature.guard is not None for feature in features)  # NULLs: whose share is whose is not one sum
    if shares and problem.cells and not guarded:
        groups = {f: _cells(features[f], problem) for f in shares}
        alone = all(len(joint) == 1 for f in shares for joint in features[f].cells)
        rest = frozenset(problem.cells) - frozenset().union(*groups.values()) if alone else frozenset(problem.cells)
        for f in summed:
            inside = _cells(features[f], problem)
            low, high = _contribution(target, rest, inside, alone)
            for end, side, pick in ((high, 1.0, 1), (low, -1.0, 0)):
                if not np.isfinite(end):
                    continue
                ends = {g: _contribution(target, cells, inside, alone)[pick] for g, cells in groups.items()}
                if all(np.isfinite(e) for e in ends.values()):
                    row = {f: side, **{g: -side * (e - end) for g, e in ends.items() if e != end}}
                    found.append((row, -np.inf, side * end))
    if len(summed) > 1 and problem.least is not None and problem.most is not None:
        found.append((dict.fromkeys(summed, 1.0), problem.least, problem.most))
    if not found:
        return none
    A = np.zeros((len(found) * K, problem.p))
    lows, highs = np.zeros(len(A)), np.zeros(len(A))
    at = np.arange(K)
    for r, (coefficients, low_end, high_end) in enumerate(found):
        for f, c in coefficients.items():
            A[r * K + at, f * K + at] = c
        lows[r * K : (r + 1) * K], highs[r * K : (r + 1) * K] = low_end, high_end
    return A, lows, highs


def _cells(feature: Feature, problem: Problem) -> frozenset[Cell]:
    """The target's cells that a feature covers."""
    if not feature.cells:
        return frozenset(problem.cells)
    return frozenset(c for joint in feature.cells for c in joint if c.column == problem.target.column)


def _contribution(target: Target, group: frozenset[Cell], inside: frozenset[Cell], alone: bool) -> tuple[float, float]:
    """Least and most that a record of a group adds to a sum over the cells `inside`."""
    both = group & inside
    if not both:
        return 0.0, 0.0
    ends = [_range(target, cell) for cell in both]
    low, high = min(e[0] for e in ends), max(e[1] for e in ends)
    # Part of the group outside, or conditions on other columns: the record may also add nothing.
    return (low, high) if alone and group <= inside else (min(low, 0.0), max(high, 0.0))


def _range(target: Target, cell: Cell) -> tuple[float, float]:
    """Range of the values of a cell, within the prior."""
    ends = [
        (
            target.lower if piece.lo is None or piece.other else max(target.lower, float(str(piece.lo))),
            target.upper if piece.hi is None or piece.other else min(target.upper, float(str(piece.hi))),
        )
        for piece in cell.pieces
    ]
    return min(e[0] for e in ends), max(e[1] for e in ends)
