"""Errors of any guess under noise: its distance from the truth, averaged over the posterior."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np

from keyhole.attack.base import Floats
from keyhole.attack.decoding_problem import NOISY, Problem
from keyhole.attack.posterior import discrete
from keyhole.solve.decode.posterior.cavity import cavity_chances

LARGEST = 600  # groups up to which the posterior is approximated for errors
FINEST = 24  # values of a grid that stands for a range


def guess_errors(problem: Problem, u: Floats, formula: Floats) -> Floats:
    """sqrt E[(u - x)^2 | answers] of one record behind every unknown, whatever method made the guess u.

    The posterior (by expectation propagation) knows the box and the grid, and the guess need not be its mean: box least
    squares and L1 put more values at corners than the truth has there. Where nothing is noisy or the range is open, or
    above `LARGEST` groups, the linear formula stands.
    """
    spans = problem.upper - problem.lower
    if not np.isin(problem.law, NOISY).any() or not problem.plain or problem.K > LARGEST:
        return formula
    if not (np.isfinite(spans).all() and problem.target.bounded and problem.target.upper > problem.target.lower):
        return formula
    model, step = problem, 0.0
    if problem.target.levels is None or problem.target.levels > FINEST:
        if (spans < problem.target.upper - problem.target.lower).any():
            return formula  # facts may leave no value of a coarse grid
        prior = problem.target.prior
        assert prior.lo is not None
        assert prior.hi is not None
        width = (prior.hi - prior.lo) / Decimal(FINEST)
        # the middles of equal parts, so that the variance of the range is kept with that inside a part
        inner = replace(prior, lo=prior.lo + width / 2, hi=prior.hi - width / 2, step=width, rates=())
        model = replace(problem, target=replace(problem.target, prior=inner), least=None, most=None)
        step = float(width)
    made = discrete(model)
    chances = made.chances(model, cavity_chances(made.units))
    grid = np.array(model.target.grid)
    error = (chances * (grid[None, :] - u[:, None]) ** 2).sum(axis=1) + step**2 / 12
    return np.asarray(np.sqrt(error))
