"""What a guess is worth under noise, whoever made it: its distance from the truth, averaged over the posterior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Measure
from keyhole.attacks.estimates.approximate_marginals import (
    FINEST,
    NumberParts,
    approximate_marginals,
    compute_part_chances,
    cut_range,
    declare_parts,
    has_few_values,
    is_only_counted,
)
from keyhole.attacks.estimates.posterior import LAWS, DeclaredValues, build_units, list_declared_values
from keyhole.attacks.estimates.record_values import read_values
from keyhole.attacks.problem.decoding_problem import BETWEEN, NOISY, NoiseLaw, Problem
from keyhole.solve.decode.posterior.compute import count_chances, estimate_chances
from keyhole.solve.decode.posterior.expectation_propagation import RowSites, propagate_in_box

LARGEST = 600  # groups up to which the posterior is approximated for errors
LARGEST_OF_CELLS = 1_000  # the same where conditions are private, and no formula stands
TABULATED = 100_000  # values times records up to which tables of a finer grid are looked at
COUNTED = 1e7  # additions that this may take
_FIRM = 1e-4  # an exact answer about numbers in a range, in units of their spread
_SOFT = (*NOISY, *BETWEEN.values(), NoiseLaw.GROSS)


def average_guess_errors(problem: Problem, u: Floats, formula: Floats) -> Floats:
    """sqrt E[(u - x)^2 | answers] of one record behind every unknown, whatever method made the guess u.

    The posterior (table by table where exact answers leave few, by expectation propagation elsewhere, with the law of
    every answer) knows the box and the grid, and the guess need not be its mean: box least squares and L1 put more
    values at corners than the truth has there. Where the range is open, or above `LARGEST` groups, the linear formula
    stands; so it does for numbers in a range whose answers are all exact and leave too many tables to look at.
    """
    spans, levels = problem.upper - problem.lower, problem.target.levels
    if not problem.plain or problem.K > LARGEST:
        return formula
    if not (np.isfinite(spans).all() and problem.target.bounded and problem.target.upper > problem.target.lower):
        return formula
    blurred = (problem.law == NoiseLaw.INTERVAL) & np.isfinite(problem.scale) & (problem.scale > 0)
    soft = bool((np.isin(problem.law, _SOFT) | blurred).any())
    if levels is not None and levels <= FINEST:
        made = build_units(problem)
        averaged = _averaged(problem, u, made.chances(problem.K, estimate_chances(made.units)))
        return np.where(formula == 0, 0.0, averaged)  # what the answers prove is sure
    wide = np.where(formula == 0, 0.0, average_errors_in_box(problem, u)) if soft else formula
    if levels is None or levels * problem.target.n > TABULATED:
        return wide
    made = build_units(problem)
    counted = made.chances(problem.K, count_chances(made.units, COUNTED))
    known = ~np.isnan(counted).any(axis=1) & (formula != 0)
    return np.where(known, _averaged(problem, u, np.where(np.isnan(counted), 0.0, counted)), wide)


def _averaged(problem: Problem, u: Floats, chances: Floats) -> Floats:
    """Root mean square distance of u from the values on the grid, under their chances."""
    grid = np.array(problem.target.grid)
    return np.asarray(np.sqrt((chances * (grid[None, :] - u[:, None]) ** 2).sum(axis=1)))


def average_errors_in_box(problem: Problem, u: Floats) -> Floats:
    """The same for numbers in a range: even on their bounds beforehand."""
    lower, upper, sizes, A = problem.lower, problem.upper, problem.weights(), problem.design()
    spread = (upper - lower) / np.sqrt(12)
    law = np.array([LAWS[NoiseLaw(code)] for code in problem.law], dtype=np.int8)
    exact = np.isin(problem.law, (NoiseLaw.EXACT, NoiseLaw.GROSS))
    lo, hi = np.where(exact, problem.y, problem.lo), np.where(exact, problem.y, problem.hi)
    firm = np.full(problem.m, _FIRM * float(np.median(spread)))
    sites = RowSites.start(law, problem.y, lo, hi, np.where(problem.scale > 0, problem.scale, 1.0), firm)
    touched = A.any(axis=0) & (upper > lower)
    mean, variance = (lower + upper) / 2, spread**2 / sizes
    if touched.any():
        rest = A[:, ~touched] @ mean[~touched]
        shifted = replace(
            sites, y=sites.y - rest, lo=sites.lo - rest, hi=sites.hi - rest, pull=sites.pull - sites.W * rest
        )
        some = (A[:, touched], shifted, lower[touched], upper[touched], sizes[touched])
        mean[touched], variance[touched] = propagate_in_box(*some)
    within = spread**2 * (1 - 1 / sizes)  # a record varies about its group's mean
    return np.asarray(np.sqrt(variance + (mean - u) ** 2 + within))


def read_guess(problem: Problem, u: Floats, formula: Floats) -> tuple[NDArray[Any], Floats, Measure]:
    """Value of every record, and what it is worth: a standard error, or the probability of a category.

    A method that solves for shares of categories puts most of them at 0 or 1: the probability of what it says is that
    of the posterior over categories, not the share.
    """
    read = read_values(problem, u, average_guess_errors(problem, u, formula))
    if problem.plain:
        return read
    if problem.K > LARGEST_OF_CELLS:
        return read_approximate_guess(problem, read, u, formula)
    if not has_few_values(problem):
        return _of_parts(problem, read, formula)
    made = build_units(problem)
    return _weighed(
        read, list_declared_values(problem), made.chances(problem.K, estimate_chances(made.units))[problem.of]
    )


def read_approximate_guess(
    problem: Problem, read: tuple[NDArray[Any], Floats, Measure], mean: Floats, error: Floats
) -> tuple[NDArray[Any], Floats, Measure]:
    """The same under private conditions where the posterior is too large: from a linear fit of shares, and its errors.

    The category is then the most probable: the largest share of a fit need not be.
    """
    if problem.plain:
        return read
    if has_few_values(problem):
        declared = DeclaredValues.of(problem)
        chances = approximate_marginals(problem, declared, mean, error)[problem.of]
        if read[2] is Measure.STANDARD_ERROR:
            values, found, measure = _weighed(read, declared.values, chances)
            return values, np.minimum(found, problem.target.deviation), measure
        best = declared.values[chances.argmax(axis=1)]
        best[problem.absent[problem.of]] = None
        return best, chances.max(axis=1), Measure.PROBABILITY
    parts = cut_range(problem)
    if parts is None:
        return _of_parts(problem, read, error)
    return _averaged_parts(
        problem, read, parts, approximate_marginals(problem, declare_parts(problem, parts), mean, error)
    )


def _weighed(
    read: tuple[NDArray[Any], Floats, Measure], listed: NDArray[Any], chances: Floats
) -> tuple[NDArray[Any], Floats, Measure]:
    """What was read, with its probability, or its root mean square distance, under the chances of declared values."""
    values, _, measure = read
    if measure is Measure.PROBABILITY:
        same = np.array([[v == x for x in listed] for v in values], dtype=np.float64).reshape(chances.shape)
        return values, (chances * same).sum(axis=1), measure
    off = listed.astype(np.float64)[None, :] - values.astype(np.float64)[:, None]
    return values, np.asarray(np.sqrt((chances * off**2).sum(axis=1))), measure


def _of_parts(
    problem: Problem, read: tuple[NDArray[Any], Floats, Measure], formula: Floats
) -> tuple[NDArray[Any], Floats, Measure]:
    """Numbers under private conditions: their error over the posterior of parts of the range.

    In an open range nothing but answers that leave one share says how far a number is from the cell it is taken for.
    """
    values, confidence, measure = read
    if measure is Measure.PROBABILITY:
        return read
    if (parts := cut_range(problem)) is not None:
        return _averaged_parts(problem, read, parts, compute_part_chances(problem, parts))
    proved = (formula.reshape(-1, problem.K) == 0).all(axis=0)[problem.of]
    return values, np.where(proved | (not is_only_counted(problem)), confidence, np.inf), measure


def _averaged_parts(
    problem: Problem, read: tuple[NDArray[Any], Floats, Measure], parts: NumberParts, chances: Floats
) -> tuple[NDArray[Any], Floats, Measure]:
    """Where the log only counts, the value is the posterior's mean; else it stays, with a finer error of sums."""
    values, confidence, _ = read
    counts, chances = is_only_counted(problem), chances[problem.of]
    found = np.where(np.isnan(values), np.nan, chances @ parts.values) if counts else values
    off = (parts.values[None, :] - found[:, None]) ** 2 + parts.variances
    averaged = np.sqrt((chances * off).sum(axis=1))
    finer = confidence**2 < parts.rates @ parts.variances  # sums tell more than parts can
    return found, np.where(finer & (not counts), confidence, averaged), Measure.STANDARD_ERROR
