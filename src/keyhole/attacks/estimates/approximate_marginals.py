"""What a record can be under private conditions, and how likely each of it is, where no posterior is computed whole.

A log that asks WHERE pay > 50000 tells of each record in which cell it lies, not the number. With every cell cut into
parts the column has finitely many values, and what a guess is worth is an average over the posterior of these.

Of a log too large for that posterior each record's own is taken from a linear fit and its errors: the linear-Gaussian
posterior of a record's shares, with the prior divided out, is what the answers say of it; with the base rates of what a
record can really be that gives its chances, one step of expectation propagation (minka2001).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keyhole.attacks.base import Floats
from keyhole.attacks.estimates.posterior import DeclaredValues, build_units, compute_features
from keyhole.attacks.estimates.standard_errors import compute_prior_deviation, find_midpoint
from keyhole.attacks.problem.decoding_problem import BETWEEN, NoiseLaw, Problem
from keyhole.model.cells import Piece
from keyhole.solve.decode.posterior.compute import estimate_chances

PARTS = 24  # parts of the range where sums are asked; where the log only counts, a piece of a cell is one
GRID = 100_000  # values of a grid that are looked at one by one
FINEST = 24  # values of a grid that are looked at one by one; a finer one is taken as parts of a range


@dataclass(frozen=True, slots=True, eq=False)
class NumberParts:
    """Parts of a column's range: the mean and variance of a value in each, and how likely each is beforehand."""

    values: Floats
    variances: Floats
    rates: Floats


def cut_range(problem: Problem) -> NumberParts | None:
    """The parts, even over the range (or by the base rates of a grid); None where the range is open or no number.

    A single value that a condition names (x = 50) has no width: it is as likely as an average cell.
    """
    target = problem.target
    if target.categories is not None or not target.bounded or not problem.cells:
        return None
    grid = np.array(target.grid) if target.grid is not None and (target.levels or 0) <= GRID else None
    found: list[tuple[float, float, float]] = []
    for cell in problem.cells:
        alone = all(piece.point is not None for piece in cell.pieces)
        for piece in cell.pieces:
            try:
                found += _cut(piece, problem, grid, 1 if is_only_counted(problem) else PARTS, alone)
            except (TypeError, ValueError):
                return None  # dates and text
    if not found:
        return None
    values, variances, weights = np.array(found).T
    single = weights < 0  # points of a range without a grid
    wide = max(float(weights[~single].sum()), 1e-300)
    weights = np.where(single, wide / max(1, len(weights) - int(single.sum())), weights)
    return NumberParts(values, variances, weights / weights.sum())


def _cut(
    piece: Piece, problem: Problem, grid: Floats | None, parts: int, alone: bool
) -> list[tuple[float, float, float]]:
    """(mean, variance, weight) of the parts of a piece; the weight of a point without a grid is -1."""
    target = problem.target
    lo = target.lower if piece.lo is None else max(target.lower, float(str(piece.lo)))
    hi = target.upper if piece.hi is None else min(target.upper, float(str(piece.hi)))
    near = 1e-9 * (1 + abs(lo) + abs(hi))
    if grid is not None:
        inside = (np.abs(grid - lo) <= near) if piece.point is not None else (grid > lo - near) & (grid < hi + near)
        if piece.point is None:  # an open interval: its ends belong to others, those of the range to it
            inside &= (grid > lo + near) | (piece.lo is None) | (lo > float(str(piece.lo or lo)) + near)
            inside &= (grid < hi - near) | (piece.hi is None) | (hi < float(str(piece.hi or hi)) - near)
        at = np.flatnonzero(inside)
        count = max(1, round(parts * len(at) / len(grid)))
        return [
            (float(grid[p].mean()), float(grid[p].var()), float(target.rates[p].sum()))
            for p in np.array_split(at, count)
            if len(p)
        ]
    if piece.point is not None:
        return [(lo, 0.0, -1.0)] if alone and target.lower <= lo <= target.upper else []
    if hi - lo <= near:
        return []
    count = max(1, round(parts * (hi - lo) / (target.upper - target.lower)))
    width = (hi - lo) / count
    return [(lo + (k + 0.5) * width, width**2 / 12, width) for k in range(count)]


def declare_parts(problem: Problem, parts: NumberParts) -> DeclaredValues:
    """The middles of parts as the values of the column; a fact leaves the parts that it cuts."""
    least = np.full(problem.K, -np.inf) if problem.least is None else problem.least
    most = np.full(problem.K, np.inf) if problem.most is None else problem.most
    half = np.sqrt(3 * parts.variances)  # a part reaches this far from its middle
    near = 1e-9 * (1 + np.abs(parts.values))
    open_to = (parts.values + half >= least[:, None] - near) & (parts.values - half <= most[:, None] + near)
    open_to |= ~open_to.any(axis=1, keepdims=True)
    listed = np.empty(len(parts.values), dtype=object)
    listed[:] = parts.values.tolist()
    return DeclaredValues(listed, parts.rates, open_to)


def compute_part_chances(problem: Problem, parts: NumberParts) -> Floats:
    """P(part) of one record of every atom, (atoms, parts)."""
    made = build_units(_blurred(problem, parts), declare_parts(problem, parts))
    return made.chances(problem.K, estimate_chances(made.units))


def is_only_counted(problem: Problem) -> bool:
    """Does the log count people by conditions, and sum nothing?"""
    return all(feature.column is None for feature in problem.features)


def _blurred(problem: Problem, parts: NumberParts) -> Problem:
    """The problem whose sums are those of the middles of parts: they differ from the true ones as if by noise."""
    column, K = problem.target.column, problem.K
    summed = np.repeat([f.column == column and f.power == 1 for f in problem.features], K)
    odd = np.repeat([f.column == column and f.power != 1 for f in problem.features], K)
    totals = problem.totals()
    off = np.sqrt((totals**2 * problem.weights() * summed).sum(axis=1) * float(parts.rates @ parts.variances))
    law, scale = (
        problem.law.copy(),
        np.where(problem.law == NoiseLaw.GAUSSIAN, np.hypot(problem.scale, off), problem.scale),
    )
    exact, held = (off > 0) & (law == NoiseLaw.EXACT), (off > 0) & (law == NoiseLaw.INTERVAL)
    law[exact], law[held] = NoiseLaw.GAUSSIAN, BETWEEN[NoiseLaw.GAUSSIAN]
    law[(off > 0) & (law == NoiseLaw.GROSS)] = NoiseLaw.LAPLACE
    scale = np.where(exact | held | ((off > 0) & (problem.law == NoiseLaw.GROSS)), off, scale)
    squares = (totals * odd).any(axis=1)  # a sum of squares of middles is another's: left out
    law[squares], scale[squares] = NoiseLaw.GAUSSIAN, 1e12 * (1 + np.abs(problem.y[squares]))
    return replace(problem, law=law, scale=scale)


def has_few_values(problem: Problem) -> bool:
    """Has the column categories, or a grid that is looked at value by value?"""
    return problem.target.categories is not None or 0 < (problem.target.levels or 0) <= FINEST


def declare_values(problem: Problem) -> DeclaredValues | None:
    """What a record can be under private conditions: declared values, or parts of a range; None if that is open."""
    if has_few_values(problem):
        return DeclaredValues.of(problem)
    parts = cut_range(problem)
    return None if parts is None else declare_parts(problem, parts)


def compute_linear_prior(problem: Problem) -> tuple[Floats, Floats]:
    """Mean and deviation of one record behind every unknown beforehand; of a share by the base rates of its values."""
    middle, deviation = find_midpoint(problem), compute_prior_deviation(problem)
    declared = None if problem.plain else declare_values(problem)
    if declared is None:
        return middle, deviation
    phi, usable = compute_features(problem, declared.values)
    for f, feature in enumerate(problem.features):
        if usable[f] and feature.column is None:
            part, rate = (
                slice(f * problem.K, (f + 1) * problem.K),
                float(np.clip(phi[f] @ declared.rates, 1e-6, 1 - 1e-6)),
            )
            middle[part], deviation[part] = rate, np.sqrt(rate * (1 - rate))
    return middle, deviation


def approximate_marginals(problem: Problem, declared: DeclaredValues, mean: Floats, error: Floats) -> Floats:
    """P(value) of one record of every atom, (atoms, values), from the mean and error of its shares in a linear fit."""
    phi, usable = compute_features(problem, declared.values)
    counts = [f for f, feature in enumerate(problem.features) if usable[f] and feature.column is None]
    K, (middle, prior) = problem.K, compute_linear_prior(problem)
    with np.errstate(divide="ignore"):
        found = np.log(np.tile(declared.rates, (K, 1)) * declared.open_to)
    for f in counts:
        part = slice(f * K, (f + 1) * K)
        told = np.maximum(1 / np.maximum(error[part], 1e-9) ** 2 - 1 / prior[part] ** 2, 0.0)
        pull = mean[part] / np.maximum(error[part], 1e-9) ** 2 - middle[part] / prior[part] ** 2
        centre = np.where(told > 0, pull / np.where(told > 0, told, 1.0), 0.0)
        found -= 0.5 * told[:, None] * (phi[f][None, :] - centre[:, None]) ** 2
    found = np.exp(found - found.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
