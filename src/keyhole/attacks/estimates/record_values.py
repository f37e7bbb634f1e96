"""From unknowns (means over atoms) to one value per record."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Measure
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.model.cells import Cell, Piece

_GRID = 100_000  # grid values up to which a cell is read by those it holds


def read_values(problem: Problem, u: Floats, deviation: Floats) -> tuple[NDArray[Any], Floats, Measure]:
    """Value and confidence of every record.

    A number is the sum of its column's features; where the log only counts (COUNT(x > 5)), it is the expected middle of
    its cells; where it only squares, the middle of its bounds. A category is the most likely one, with its share as
    probability. Records whose value is NULL get NaN.
    """
    K, column = problem.K, problem.target.column
    shaped, spread = u.reshape(-1, K), deviation.reshape(-1, K)
    summed = [f for f, feature in enumerate(problem.features) if feature.column == column and feature.power == 1]
    if not summed and problem.target.categories is None and not problem.cells:
        return _read_bounds(problem)
    if problem.target.categories is not None or not summed:
        return _read_cells(problem, shaped)
    values = shaped[summed].sum(axis=0)
    error = np.sqrt((spread[summed] ** 2).sum(axis=0))
    values = np.where(problem.absent, np.nan, values)
    return values[problem.of], error[problem.of], Measure.STANDARD_ERROR


def _read_bounds(problem: Problem) -> tuple[NDArray[Any], Floats, Measure]:
    """The prior within the facts: sums of squares alone are read by `integer`, and by what is proved."""
    target = problem.target
    least = np.full(problem.K, target.lower) if problem.least is None else problem.least
    most = np.full(problem.K, target.upper) if problem.most is None else problem.most
    open_ = ~(np.isfinite(least) & np.isfinite(most))
    with np.errstate(invalid="ignore"):
        middle = np.where(open_, np.clip(target.mean, least, most), (least + most) / 2)
        spread = np.where(open_, np.inf, (most - least) / np.sqrt(12))
    same = (least == target.lower) & (most == target.upper)  # no fact: base rates and the grid have their say
    middle, spread = np.where(same, target.mean, middle), np.where(same, target.deviation, spread)
    return np.where(problem.absent, np.nan, middle)[problem.of], spread[problem.of], Measure.STANDARD_ERROR


def _read_cells(problem: Problem, shaped: Floats) -> tuple[NDArray[Any], Floats, Measure]:
    """Shares of the column's cells; the rest goes to uncounted cells.

    A feature over several cells is split evenly, over several declared categories as common as they are beforehand.
    """
    column, target = problem.target.column, problem.target
    every: list[object] = [label for cell in problem.cells for label in _labels(cell, problem)]
    share = {label: np.zeros(problem.K) for label in dict.fromkeys([*every, *(target.categories or ())])}
    common = dict(zip(target.categories or (), target.rates.tolist(), strict=False))
    left, counted = np.ones(problem.K), set()
    for f, feature in enumerate(problem.features):
        if feature.column is not None or column not in feature.conditioned:
            continue
        cells = {c for joint in feature.cells for c in joint if c.column == column and not c.null}
        labels = list(dict.fromkeys(label for cell in sorted(cells, key=str) for label in _labels(cell, problem)))
        part = np.clip(shaped[f], 0, 1)
        weights = [common.get(str(label), 1.0) or 1e-12 for label in labels]
        for label, weight in zip(labels, weights, strict=True):
            share[label] += part * (weight / sum(weights))
        counted.update(labels)
        left = left - part
    rest = [label for label in share if label not in counted] or list(share)
    weights = [common.get(str(label), 1.0) or 1e-12 for label in rest]
    for label, weight in zip(rest, weights, strict=True):
        share[label] += np.maximum(left, 0) * (weight / sum(weights))
    labels = list(share)
    table = np.stack([share[label] for label in labels])
    table += 1e-9 * np.array([[common.get(str(label), 0.0)] for label in labels])  # of two alike, the more common
    if target.categories is None and all(isinstance(label, float) for label in labels):
        levels = np.array(labels, dtype=np.float64)
        inside = dict.fromkeys(labels, 0.0)  # variance of a value within its cell
        for cell in problem.cells:
            label = _label(cell, problem)
            inside[label] = max(inside[label], _variance(cell, problem))
        within = np.array([inside[label] for label in labels])
        table = table / np.maximum(table.sum(axis=0), 1e-12)
        mean = levels @ table
        bounded = np.where(np.isfinite(within), within, 0.0)
        spread = np.sqrt(np.maximum((levels**2 + bounded) @ table - mean**2, 0))
        spread = np.where((table[~np.isfinite(within)] > 1e-9).any(axis=0), np.inf, spread)
        return np.where(problem.absent, np.nan, mean)[problem.of], spread[problem.of], Measure.STANDARD_ERROR
    names = np.empty(len(labels), dtype=object)
    names[:] = labels
    sure = table.max(axis=0) / np.maximum(table.sum(axis=0), 1e-12)
    chosen = names[table.argmax(axis=0)]
    chosen[problem.absent] = None
    return chosen[problem.of], sure[problem.of], Measure.PROBABILITY


def _labels(cell: Cell, problem: Problem) -> list[object]:
    """The values a cell stands for: every declared category that it holds, else its one label."""
    if problem.target.categories is None:
        return [_label(cell, problem)]
    named = {piece.point for other in problem.cells for piece in other.pieces if not piece.other}
    plain = replace(cell, pieces=tuple(piece for piece in cell.pieces if not piece.other))
    beyond = len(plain.pieces) < len(cell.pieces)
    words = {str(piece.point) for piece in plain.pieces if piece.point is not None}
    return [v for v in problem.target.categories if v in words or holds_value(plain, v) or (beyond and v not in named)]


def _label(cell: Cell, problem: Problem) -> object:
    """The value a cell stands for: its point, or the middle of its range; "other" for all text not named."""
    if any(piece.other for piece in cell.pieces):
        return "other"
    target, point = problem.target, cell.point
    if isinstance(point, str | bool):
        return point
    if point is not None:
        return float(point) if isinstance(point, int | Decimal) else str(point)
    ends = [(piece.lo, piece.hi) for piece in cell.pieces]
    if not all(e is None or (isinstance(e, int | Decimal)) for pair in ends for e in pair):
        return " or ".join(f"{lo}..{hi}" for lo, hi in ends)  # dates and text: the range itself
    lo, hi = _ends(cell, problem)
    held = _held(cell, problem)
    if len(held):
        return float(held.mean())
    if not np.isfinite(lo) or not np.isfinite(hi):
        return lo if np.isfinite(lo) else hi if np.isfinite(hi) else target.mean
    return (lo + hi) / 2


def _ends(cell: Cell, problem: Problem) -> tuple[float, float]:
    """Least and greatest value of a numeric cell, infinite where neither a condition nor the prior bounds it."""
    target = problem.target
    lo = min(target.lower if p.lo is None else float(str(p.lo)) for p in cell.pieces)
    hi = max(target.upper if p.hi is None else float(str(p.hi)) for p in cell.pieces)
    return lo, hi


def holds_value(cell: Cell, value: object) -> bool:
    """Is a declared value (text, or a number of the grid) in a cell?

    >>> from keyhole.model.cells import Piece
    >>> five_up = Cell("x", (Piece(Decimal(5), None),), (True,))
    >>> holds_value(five_up, 7.0), holds_value(five_up, 5.0)
    (True, False)
    """
    for piece in cell.pieces:
        if piece.other or isinstance(value, str):
            if piece.other or piece.point == value or (piece.point is None and _text_between(piece, value)):
                return True
            continue
        number = float(str(value))
        near = 1e-9 * (1 + abs(number))
        if piece.point is not None:
            met = abs(number - float(piece.point if isinstance(piece.point, bool) else str(piece.point))) <= near
        else:
            above = -np.inf if piece.lo is None else float(str(piece.lo))
            below = np.inf if piece.hi is None else float(str(piece.hi))
            met = above + near < number < below - near
        if met:
            return True
    return False


def _text_between(piece: Piece, value: object) -> bool:
    text = str(value)
    return (piece.lo is None or str(piece.lo) < text) and (piece.hi is None or text < str(piece.hi))


def _held(cell: Cell, problem: Problem) -> Floats:
    """The grid values in a cell; none where the column has no grid."""
    grid = np.array(problem.target.grid or () if (problem.target.levels or 0) <= _GRID else (), dtype=np.float64)
    near = 1e-9 * (1 + np.abs(grid))
    met = np.zeros(len(grid), dtype=bool)
    for piece in cell.pieces:  # a point, or an open interval
        if piece.point is not None:
            met |= np.abs(grid - float(str(piece.point))) <= near
            continue
        above = -np.inf if piece.lo is None else float(str(piece.lo))
        below = np.inf if piece.hi is None else float(str(piece.hi))
        met |= (grid > above + near) & (grid < below - near)
    return grid[met]


def _variance(cell: Cell, problem: Problem) -> float:
    """Variance of a value drawn evenly from a cell; inf where it has no end."""
    if cell.point is not None:
        return 0.0
    held = _held(cell, problem)
    if len(held):
        return float(held.var())
    lo, hi = _ends(cell, problem)
    return (hi - lo) ** 2 / 12
