"""Expectation propagation for numbers in ranges: what linear answers say of each, where its prior is even on a box.

As in `cavity.py` each unknown sees the others as a Gaussian cloud; here its prior is a density on [lower, upper]: even
for one record, the normal one with the same mean and variance for the mean of several. Reference: minka2001.
"""

from __future__ import annotations

import numpy as np

from keyhole.solve.decode.posterior.sites import RowSites
from keyhole.solve.decode.posterior.units import Floats

ROUNDS = 40
_X, _WEIGHT = np.polynomial.legendre.leggauss(48)


def box_moments(B: Floats, sites: RowSites, lower: Floats, upper: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of every unknown (a mean over `sizes` records) given the answers B u.

    Cost: p^3 a round, at most `ROUNDS` rounds. Where the rounds do not settle, the last ones stand.

    >>> rows = RowSites.exact(np.array([1.2, 0.4]))
    >>> mean, variance = box_moments(np.array([[1.0, 1], [1, -1]]), rows, np.zeros(2), np.ones(2), np.ones(2))
    >>> mean.round(2).tolist(), variance.round(2).tolist()
    ([0.8, 0.4], [0.0, 0.0])
    """
    middle, prior = (lower + upper) / 2, np.maximum((upper - lower) ** 2 / 12, 1e-300)
    even = np.where(sizes > 1, sizes / prior, 0.0)  # precision of the prior inside its box
    precision, pull = sizes / prior, middle * sizes / prior
    mean, variance = middle.copy(), prior / sizes
    for turn in range(ROUNDS):
        H, b = sites.normal(B)
        H[np.diag_indices(len(H))] += precision
        S = np.linalg.inv(H)
        centre, own = S @ (b + pull), np.maximum(np.diag(S), 1e-300)
        cavity = np.maximum(1 / own - precision, 1e-9 / prior)
        drift = centre / own - pull
        before = variance
        mean, variance = _inside(lower, upper, cavity + even, drift + even * middle)
        variance = np.maximum(variance, 1e-12 * prior)
        keep = 0.0 if turn == 0 else 0.5
        fresh = np.maximum(1 / variance - cavity, 1e-9 / prior)
        precision = keep * precision + (1 - keep) * fresh
        pull = keep * pull + (1 - keep) * (mean / variance - drift)
        if turn > 4 and float(np.max(np.abs(np.sqrt(variance) - np.sqrt(before)) / np.sqrt(prior), initial=0.0)) < 1e-3:
            break
        if len(sites.curved):
            sites = sites.refined(B @ centre, np.einsum("jp,jp->j", B @ S, B))
    return mean, variance


def _inside(lower: Floats, upper: Floats, precision: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the normal density with this precision on [lower, upper], by Gauss-Legendre."""
    s = 1 / np.sqrt(precision)
    m = pull / precision
    c = np.clip(m, lower, upper)
    reach = np.minimum(8 * s, 40 * s**2 / np.maximum(np.abs(m - c), 1e-300))
    lo, hi = np.maximum(lower, c - reach), np.minimum(upper, c + reach)
    x = (lo + hi)[:, None] / 2 + (hi - lo)[:, None] / 2 * _X
    logs = -0.5 * ((x - m[:, None]) / s[:, None]) ** 2
    weight = np.exp(logs - logs.max(axis=1, keepdims=True)) * _WEIGHT
    weight /= weight.sum(axis=1, keepdims=True)
    mean = (weight * x).sum(axis=1)
    return mean, (weight * (x - mean[:, None]) ** 2).sum(axis=1)
