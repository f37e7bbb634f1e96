"""Standard errors of decoded values: the linear-Gaussian posterior with the prior's spread."""

from __future__ import annotations

import numpy as np

from keyhole.attack.base import Floats
from keyhole.attack.problem import Law, Problem
from keyhole.solve.lstsq import posterior_deviation

_SURE = 1e8  # information of an exact answer in units of the prior's; errors below 1e-3 of the spread read 0
SPREAD_LIMIT = 3_000  # unknowns up to which standard errors come from one dense inverse


def information(problem: Problem, unit: float) -> Floats:
    """Fisher information of every answer about its row value; 0 for one-sided answers, large for exact ones."""
    noise = np.where(problem.scale > 0, problem.scale, np.inf)
    found = np.where(np.isin(problem.law, (Law.LAPLACE, Law.GAUSSIAN)), 1 / noise**2, 0.0)
    finite = (problem.law == Law.INTERVAL) & np.isfinite(problem.scale) & (problem.scale > 0)
    found = np.where(finite, 12 / np.where(finite, problem.scale, 1.0) ** 2, found)
    return np.asarray(np.where(problem.law == Law.EXACT, _SURE / (unit**2 * float(np.mean(problem.weights()))), found))


def standard_errors(problem: Problem, A: Floats) -> Floats:
    """A standard error per unknown, as that of one record behind it; inf where nothing bounds it.

    The linear-Gaussian posterior with the prior's spread; an unknown spread is taken as 100 times the largest known
    one, and what stays near it is called infinite.
    """
    weights, width = problem.weights(), problem.upper - problem.lower
    if problem.p > SPREAD_LIMIT:
        return np.full(problem.p, problem.target.deviation)
    deviation = np.where(np.isfinite(width), width / np.sqrt(12), np.inf)
    if np.isfinite(problem.target.deviation):
        deviation = np.minimum(deviation, problem.target.deviation)
    noisy = np.isin(problem.law, (Law.LAPLACE, Law.GAUSSIAN))
    known = np.isfinite(deviation)
    largest = max(float(np.max(deviation[known], initial=0.0)), float(np.max(problem.scale[noisy], initial=0.0)))
    spread = largest if known.all() and largest > 0 else 100 * (largest or 1.0)
    prior = np.where(known, np.maximum(deviation, 1e-4 * spread), spread)
    unit = float(prior.min())
    found = posterior_deviation(A, information(problem, unit), weights / prior**2)
    total = np.sqrt(found**2 + prior**2 * (1 - 1 / weights))  # a record varies about its atom's mean
    if not noisy.any():
        total = np.where(total < 10 * unit / np.sqrt(_SURE), 0.0, total)
    total = np.where(known, np.minimum(total, deviation), total)
    return np.asarray(np.where(~known & (total > 0.05 * spread), np.inf, total))
