"""What a guess is worth under noise, whoever made it: its distance from the truth, averaged over the posterior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attack.base import Floats, Measure
from keyhole.attack.decoding_problem import BETWEEN, NOISY, NoiseLaw, Problem
from keyhole.attack.posterior import LAWS, discrete, values_of
from keyhole.attack.record_values import read_values
from keyhole.solve.decode.posterior.box import box_moments
from keyhole.solve.decode.posterior.compute import counted_chances, quick_chances
from keyhole.solve.decode.posterior.sites import RowSites

LARGEST = 600  # groups up to which the posterior is approximated for errors
FINEST = 24  # values of a grid that are looked at one by one; a finer one is taken as a range
TABULATED = 100_000  # values times records up to which tables of a finer grid are looked at
COUNTED = 1e7  # additions that this may take
_FIRM = 1e-4  # an exact answer about numbers in a range, in units of their spread
_SOFT = (*NOISY, *BETWEEN.values(), NoiseLaw.GROSS)


def guess_errors(problem: Problem, u: Floats, formula: Floats) -> Floats:
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
        made = discrete(problem)
        averaged = _averaged(problem, u, made.chances(problem, quick_chances(made.units)))
        return np.where(formula == 0, 0.0, averaged)  # what the answers prove is sure
    wide = np.where(formula == 0, 0.0, box_errors(problem, u)) if soft else formula
    if levels is None or levels * problem.target.n > TABULATED:
        return wide
    made = discrete(problem)
    counted = made.chances(problem, counted_chances(made.units, COUNTED))
    known = ~np.isnan(counted).any(axis=1) & (formula != 0)
    return np.where(known, _averaged(problem, u, np.where(np.isnan(counted), 0.0, counted)), wide)


def _averaged(problem: Problem, u: Floats, chances: Floats) -> Floats:
    """Root mean square distance of u from the values on the grid, under their chances."""
    grid = np.array(problem.target.grid)
    return np.asarray(np.sqrt((chances * (grid[None, :] - u[:, None]) ** 2).sum(axis=1)))


def box_errors(problem: Problem, u: Floats) -> Floats:
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
        mean[touched], variance[touched] = box_moments(*some)
    within = spread**2 * (1 - 1 / sizes)  # a record varies about its group's mean
    return np.asarray(np.sqrt(variance + (mean - u) ** 2 + within))


def read_guess(problem: Problem, u: Floats, formula: Floats) -> tuple[NDArray[Any], Floats, Measure]:
    """Value of every record, and what it is worth: a standard error, or the probability of a category.

    A method that solves for shares of categories puts most of them at 0 or 1: the probability of what it says is that
    of the posterior over categories, not the share.
    """
    values, confidence, measure = read_values(problem, u, guess_errors(problem, u, formula))
    finite = problem.target.categories is not None or 0 < (problem.target.levels or 0) <= FINEST
    if problem.plain or not finite or problem.K > LARGEST:
        return values, confidence, measure
    made = discrete(problem)
    chances = made.chances(problem, quick_chances(made.units))[problem.of]
    listed = values_of(problem)
    if measure is Measure.PROBABILITY:
        same = np.array([[v == x for x in listed] for v in values], dtype=np.float64).reshape(chances.shape)
        return values, (chances * same).sum(axis=1), measure
    off = listed.astype(np.float64)[None, :] - values.astype(np.float64)[:, None]
    return values, np.asarray(np.sqrt((chances * off**2).sum(axis=1))), measure
