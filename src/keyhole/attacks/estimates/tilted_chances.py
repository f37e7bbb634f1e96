"""Categories and cells of a log too large for the posterior: each record's own, from a linear fit and its errors.

The linear-Gaussian posterior of a record's shares, with the prior divided out, is what the answers say of it; with the
base rates of what a record can really be that gives its chances: one step of expectation propagation (minka2001).
"""

from __future__ import annotations

import numpy as np

from keyhole.attacks.base import Floats
from keyhole.attacks.estimates.posterior import DeclaredValues, features_of
from keyhole.attacks.estimates.standard_errors import midpoint, prior_deviation
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.attacks.problem.number_parts import declared_parts, parts_of

FINEST = 24  # values of a grid that are looked at one by one; a finer one is taken as parts of a range


def few_values(problem: Problem) -> bool:
    """Has the column categories, or a grid that is looked at value by value?"""
    return problem.target.categories is not None or 0 < (problem.target.levels or 0) <= FINEST


def told_apart(problem: Problem) -> DeclaredValues | None:
    """What a record can be under private conditions: declared values, or parts of a range; None if that is open."""
    if few_values(problem):
        return DeclaredValues.of(problem)
    parts = parts_of(problem)
    return None if parts is None else declared_parts(problem, parts)


def linear_prior(problem: Problem) -> tuple[Floats, Floats]:
    """Mean and deviation of one record behind every unknown beforehand; of a share by the base rates of its values."""
    middle, deviation = midpoint(problem), prior_deviation(problem)
    declared = None if problem.plain else told_apart(problem)
    if declared is None:
        return middle, deviation
    phi, usable = features_of(problem, declared.values)
    for f, feature in enumerate(problem.features):
        if usable[f] and feature.column is None:
            part, rate = (
                slice(f * problem.K, (f + 1) * problem.K),
                float(np.clip(phi[f] @ declared.rates, 1e-6, 1 - 1e-6)),
            )
            middle[part], deviation[part] = rate, np.sqrt(rate * (1 - rate))
    return middle, deviation


def tilted_chances(problem: Problem, declared: DeclaredValues, mean: Floats, error: Floats) -> Floats:
    """P(value) of one record of every atom, (atoms, values), from the mean and error of its shares in a linear fit."""
    phi, usable = features_of(problem, declared.values)
    counts = [f for f, feature in enumerate(problem.features) if usable[f] and feature.column is None]
    K, (middle, prior) = problem.K, linear_prior(problem)
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
