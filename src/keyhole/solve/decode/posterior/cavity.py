"""Expectation propagation: each unit sees the others as one Gaussian cloud. For what is too large to sample.

The answers are linear, so with a Gaussian in place of every other unit what they say of one unit is a Gaussian in its
features (its cavity); times its prior that gives the chances of its states, whose moments give the next Gaussian
(Minka 2001; Opper and Winther 2000). An answer whose law is not Gaussian is treated the same way (`sites.py`). The
first round is the best linear estimate; where the rounds do not settle, the chances are those of the first.
"""

from __future__ import annotations

import numpy as np

from keyhole.solve.decode.posterior.sites import RowSites
from keyhole.solve.decode.posterior.units import Floats, Units

LARGEST = 3_000  # units times features


def cavity_chances(units: Units) -> Floats:
    """P(state), flat like `Units.features`. Cost: (units F)^3 a round, at most a dozen rounds.

    >>> one = Units.of_columns([np.array([0]), np.array([0])], [np.zeros(2)] * 2, 1)
    >>> bool((cavity_chances(one)[[0, 2]] > 0.9).all())
    True
    """
    sites = RowSites.of(units)
    B, F, count = units.dense(), units.F, units.count
    H, b = sites.normal(B)
    chances = np.exp(units.log_prior)
    if not count:
        return chances
    mean, spread = _moments(units, chances)
    wide = spread + 1e-9 * np.eye(F) * (1 + np.trace(spread, axis1=1, axis2=2)[:, None, None])
    precision = np.linalg.inv(wide)
    pull = np.einsum("ufg,ug->uf", precision, mean)
    rounds = 12 if count * F <= 400 else 5 if count * F <= 1200 else 1
    first, before, every = chances, chances, np.arange(count)
    for turn in range(rounds):
        Q = H.copy()
        Q.reshape(count, F, count, F)[every, :, every, :] += precision
        S = np.linalg.inv(Q)
        centre = (S @ (b + pull.ravel())).reshape(count, F)
        inner = np.linalg.inv(S.reshape(count, F, count, F)[every, :, every, :])
        cavity, drift = inner - precision, np.einsum("ufg,ug->uf", inner, centre) - pull
        chances = _tilted(units, cavity, drift)
        if turn == 0:
            first = chances
        change = float(np.sqrt(np.mean((chances - before) ** 2)))
        if turn and change < 1e-4:
            return chances
        before = chances
        if rounds > 1 and len(sites.curved):
            sites = sites.refined(B @ centre.ravel(), np.einsum("jp,jp->j", B @ S, B))
            H, b = sites.normal(B)
        mean, spread = _moments(units, chances)
        wide_now = spread + 1e-4 * wide
        target = np.linalg.inv(wide_now)
        fresh = target - cavity
        ok = np.linalg.eigvalsh(fresh)[:, 0] > 0
        moved = np.einsum("ufg,ug->uf", target, mean) - drift
        precision = np.where(ok[:, None, None], 0.5 * precision + 0.5 * fresh, precision)
        pull = np.where(ok[:, None], 0.5 * pull + 0.5 * moved, pull)
    return chances if rounds > 1 and change < 0.02 else first


def _moments(units: Units, chances: Floats) -> tuple[Floats, Floats]:
    """Mean (units, F) and covariance (units, F, F) of the features under these chances."""
    first = units.states[:-1]
    weighted = units.features * chances[:, None]
    mean = np.add.reduceat(weighted, first, axis=0)
    second = np.add.reduceat(units.features[:, :, None] * weighted[:, None, :], first, axis=0)
    return mean, second - mean[:, :, None] * mean[:, None, :]


def _tilted(units: Units, cavity: Floats, drift: Floats) -> Floats:
    """Chances of the states: prior times the cavity's Gaussian."""
    of = np.repeat(np.arange(units.count), np.diff(units.states))
    x = units.features
    logs = units.log_prior + np.einsum("sf,sf->s", x, drift[of]) - 0.5 * np.einsum("sf,sfg,sg->s", x, cavity[of], x)
    top = np.maximum.reduceat(logs, units.states[:-1])
    weight = np.exp(logs - top[of])
    return np.asarray(weight / np.add.reduceat(weight, units.states[:-1])[of])
