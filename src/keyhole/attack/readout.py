"""From unknowns (means over atoms) to one value per record."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attack.base import Floats, Measure
from keyhole.attack.problem import Problem
from keyhole.cells import Cell


def read_values(problem: Problem, u: Floats, deviation: Floats) -> tuple[NDArray[Any], Floats, Measure]:
    """Value and confidence of every record.

    A number is the sum of its column's features; where the log only counts (COUNT(x > 5)), it is the expected middle of
    its cells. A category is the most likely one, with its share as probability. Records whose value is NULL get NaN.
    """
    K, column = problem.K, problem.target.column
    shaped, spread = u.reshape(-1, K), deviation.reshape(-1, K)
    summed = [f for f, feature in enumerate(problem.features) if feature.column == column and feature.power == 1]
    if problem.target.categories is not None or not summed:
        return _read_cells(problem, shaped)
    values = shaped[summed].sum(axis=0)
    error = np.sqrt((spread[summed] ** 2).sum(axis=0))
    values = np.where(problem.absent, np.nan, values)
    return values[problem.of], error[problem.of], Measure.STANDARD_ERROR


def _read_cells(problem: Problem, shaped: Floats) -> tuple[NDArray[Any], Floats, Measure]:
    column, target = problem.target.column, problem.target
    share: dict[object, Floats] = {}
    left = np.ones(problem.K)
    for f, feature in enumerate(problem.features):
        if feature.column is not None or not feature.cells:
            continue
        cell = next((c for c in feature.cells[0] if c.column == column), None)
        label = _label(cell, problem)
        share[label] = share.get(label, np.zeros(problem.K)) + np.clip(shaped[f], 0, 1)
        left = left - np.clip(shaped[f], 0, 1)
    rest = [c for c in (target.categories or ()) if c not in share]
    others: list[object] = [*rest] or [target.mean if target.categories is None else None]
    for label in others:
        share[label] = share.get(label, np.zeros(problem.K)) + np.maximum(left, 0) / max(1, len(rest))
    labels = list(share)
    table = np.stack([share[label] for label in labels])
    if target.categories is None and all(isinstance(label, float) for label in labels):
        levels = np.array(labels, dtype=np.float64)
        mean = levels @ table / np.maximum(table.sum(axis=0), 1e-12)
        spread = np.sqrt(np.maximum((levels**2) @ table / np.maximum(table.sum(axis=0), 1e-12) - mean**2, 0))
        return np.where(problem.absent, np.nan, mean)[problem.of], spread[problem.of], Measure.STANDARD_ERROR
    best = table.argmax(axis=0)
    names = np.empty(len(labels), dtype=object)
    names[:] = labels
    sure = table.max(axis=0) / np.maximum(table.sum(axis=0), 1e-12)
    return names[best][problem.of], sure[problem.of], Measure.PROBABILITY


def _label(cell: Cell | None, problem: Problem) -> object:
    """The value a cell stands for: its point, or the middle of its range."""
    if cell is None:
        return problem.target.mean
    if problem.target.categories is not None or cell.point is not None:
        point = cell.point
        return point if problem.target.categories is not None or isinstance(point, str | bool) else float(str(point))
    ends = [
        (
            problem.target.lower if p.lo is None else float(str(p.lo)),
            problem.target.upper if p.hi is None else float(str(p.hi)),
        )
        for p in cell.pieces
        if not p.other
    ]
    lo, hi = min((e[0] for e in ends), default=-np.inf), max((e[1] for e in ends), default=np.inf)
    if not np.isfinite(lo) or not np.isfinite(hi):
        return lo if np.isfinite(lo) else hi if np.isfinite(hi) else problem.target.mean
    return (lo + hi) / 2
